# SPDX-License-Identifier: MIT
"""Counters of the CPU and of the kernel: whether this machine has what an experiment asks for.

guest/counters.c counts. What is seen here costs nothing and is said before anything begins; a
guest's first word is whether it was right.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from kdyno.errors import ToolError
from kdyno.experiment.model import HARDWARE_COUNTERS
from kdyno.machines.machine import Outcome

_PMUS = ("cpu", "cpu_core")
"""The first is a CPU's, the second of one that has fast and slow cores."""
_MOST_PARANOID = 1
"""Up to this an ordinary user counts what happens in the kernel."""


def why_no_pmu(root: Path = Path("/")) -> str:
    """Empty where the CPU's own counters can be reached."""
    devices = root / "sys/bus/event_source/devices"
    if any((devices / name).exists() for name in _PMUS):
        return ""
    what = "this CPU, or the virtual machine that it belongs to, shows no hardware counters"
    return f"{what} (no {_PMUS[0]} in {devices})"


def why_paranoid(root: Path = Path("/")) -> str:
    """Empty where a case, which has no rights of root's, may count in the kernel."""
    try:
        level = int((root / "proc/sys/kernel/perf_event_paranoid").read_text())
    except OSError:
        return "this kernel is without CONFIG_PERF_EVENTS"
    if level <= _MOST_PARANOID:
        return ""
    what = f"kernel.perf_event_paranoid is {level}, and counting in the kernel takes"
    return f"{what} {_MOST_PARANOID} or less: sudo sysctl kernel.perf_event_paranoid=1"


def missing() -> str | None:
    """For doctor: None where all of them can be counted."""
    return why_no_pmu() or why_paranoid() or None


def check(names: Sequence[str], *, here: bool, sandboxed: bool = True) -> None:
    """ToolError where one of them cannot be. here: cases run under this machine's own kernel."""
    hardware = [name for name in names if name in HARDWARE_COUNTERS]
    why = why_no_pmu() if hardware else ""
    if why:
        raise refused(hardware, why)
    if names and here and (sandboxed or os.geteuid() != 0) and (why := why_paranoid()):
        raise refused(names, why)


def probed(names: Sequence[str], outcome: Outcome) -> None:
    """ToolError where a guest that did nothing could not count them."""
    if names and (why := outcome.transcript.fatal):
        raise refused(names, why)


def refused(names: Iterable[str], why: str) -> ToolError:
    return ToolError(f"[measure] counters, metric: {', '.join(names)}: {why}")
