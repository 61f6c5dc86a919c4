# SPDX-License-Identifier: MIT
"""kdyno doctor --kvm: how precisely kernels that take turns under KVM are compared on this machine.

A kernel and its copy take turns for a minute; there is no difference to find, so how wide the
intervals are is the machine's doing. It is a run as any other and stays, to be reported.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kdyno.errors import ToolError
from kdyno.experiment import loader
from kdyno.machines import emulator
from kdyno.measure.commands import DEFAULT_SOURCE
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root, runs_root
from kdyno.report import figures, plain
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import load
from kdyno.verbs.output import say, show, write_json
from kdyno.verbs.watching import executed, say_where

_EXPERIMENT = """\
name = "doctor-kvm"
question = "How far apart are a kernel and its copy that take turns here?"
baseline = "stock"

[kernel]
source = "{source}"
arch = "x86_64"
config = ["bench"]

[variant.stock]

[machine]
kind = "qemu"
accel = "{accel}"
memory = "256M"

[[suite]]
name = "unixbench"
cases = ["syscall", "pipe", "fscopy-1024", "context1", "spawn"]

[measure]
calibrate = true
interleave = "turns"
precision = "0.01%"
max_boots = {boots}
max_minutes = {minutes}
"""


@dataclass(frozen=True)
class Precision:
    """What is to be expected of a case."""

    case: str
    groups: int
    half_width: float | None
    """Of the interval of no difference; None: too few groups."""
    differs: bool
    """The interval excludes that a kernel is as fast as itself."""


def doctor_kvm(json: str | None) -> int:
    """Measure, show; 1 where KVM cannot be used, or a kernel differs from itself."""
    if why := emulator.missing() or emulator.why_no_kvm():
        raise ToolError(
            f"no kernel can be timed under KVM here: {why}. kdyno counts instructions without it "
            '(--metric instructions), and times [machine] kind = "uml" and "host"'
        )
    run, verdict = against_itself("kvm", Options(cache_root(), runs_root()))
    rows = precisions(verdict)
    good = bool(rows) and not any(row.differs or row.half_width is None for row in rows)
    if json is not None:
        write_json({"ok": good, "run": str(run.path), "cases": [vars(row) for row in rows]}, json)
    if json != "-":
        for row in rows:
            show(_line(row))
        show("\nA difference smaller than this is not seen in a minute; four minutes halve it.")
    for flag in verdict.flags:
        say(f"{plain.short(flag.kind)}: {plain.sentence(flag.text)}")
    say_where(run)
    return 0 if good else 1


def against_itself(
    accel: str, options: Options, *, minutes: float = 1.0, boots: int = 60
) -> tuple[Run, Verdict]:
    """The run. The kernel is built first, where it is not in the cache."""
    suites = load()
    text = _EXPERIMENT.format(source=DEFAULT_SOURCE, accel=accel, minutes=minutes, boots=boots)
    experiment = loader.parse(text, "doctor --kvm", cache_root(), vocabulary(suites))
    return executed(experiment, suites, options)


def precisions(verdict: Verdict) -> list[Precision]:
    """A row for each case, of the kernel's copy against the kernel."""
    rows = []
    for effect in verdict.effects:
        if effect.variant == verdict.copy_of_baseline:
            half_width, differs = None, False
            if effect.ci_raw is not None:
                low, high = effect.ci_raw
                half_width, differs = math.sqrt(high / low) - 1, not low <= 1 <= high
            rows.append(Precision(effect.case, effect.blocks, half_width, differs))
    return rows


def _line(row: Precision) -> str:
    if row.half_width is None:
        return (
            f"{row.case:12} no interval: {figures.count(row.groups, 'group')}, and six are needed"
        )
    text = f"{row.case:12} ±{figures.share(row.half_width)}, {figures.count(row.groups, 'group')}"
    return f"{text}; and DIFFERS from itself: do not trust this machine" if row.differs else text
