# SPDX-License-Identifier: MIT
"""The QEMU of this machine: which it is, what it can, and how it is asked for it."""

from __future__ import annotations

import functools
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kdyno.command import capture
from kdyno.errors import ToolError
from kdyno.kernels import cpu

PROGRAM = "qemu-system-x86_64"
OLDEST = (7, 2)
"""Debian 12's; nothing older was tried."""
INSTALL = "apt-get install --no-install-recommends qemu-system-x86 seabios"
CPU = "qemu64"
"""The CPU model of every count. "max" has more, and the kernel then takes other ways: a pipe's
path is 62 % longer with it."""
KVM = Path("/dev/kvm")

Way = Literal["count", "icount", "kvm", "tcg"]
"""count: emulated, and the guest's clock counts instructions. icount: so does it, as that of a slow
CPU, whose seconds are looked at. kvm: on the host's CPU. tcg: emulated, by the host's clock, which
says nothing of the kernel."""
SHIFTS = {"count": 0, "icount": 4}
"""Ways by which a clock counts → an instruction takes ``2**shift`` ns. What a scheduler decides it
decides in time, and a slow CPU shows it in fewer instructions."""

_VERSION = re.compile(r"version (\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Emulator:
    """QEMU as it is installed here."""

    program: str
    version: str

    def described(self, way: Way) -> str:
        """What figures depend on beside the kernel; part of what makes runs comparable."""
        return f"QEMU {self.version}, {'host CPU' if way == 'kvm' else CPU}, {way}" + (
            f" of {1 << SHIFTS[way]} ns" if SHIFTS.get(way) else ""
        )


@functools.cache
def find() -> Emulator:
    """ToolError, with the command that helps, where there is none or it is too old."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise ToolError(f'[machine] kind = "qemu": no {PROGRAM} on PATH. On Debian: {INSTALL}')
    said = capture([program, "--version"])
    found = _VERSION.search(said.output)
    if said.status != 0 or found is None:
        raise ToolError(f"{program} does not tell its version: {said.output.strip()[-200:]}")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise ToolError(
            f"{program} is version {'.'.join(found.groups())}; kdyno needs "
            f"{'.'.join(map(str, OLDEST))} or later"
        )
    return Emulator(program, ".".join(found.groups()))


def missing() -> str | None:
    """For doctor: None where it is there."""
    try:
        find()
    except ToolError as problem:
        return str(problem).partition(": ")[2].partition(". ")[0]
    return None


def why_no_kvm() -> str:
    """What is seen without a boot; empty: a probe may tell more."""
    if not KVM.exists():
        return f"there is no {KVM} here"
    if not os.access(KVM, os.R_OK | os.W_OK):
        return f"{KVM} may not be opened by this user (its group is mostly called kvm)"
    return ""


def accelerator(way: Way, seed: int, waits: bool = False) -> list[str]:
    """QEMU's words for the way, the clock and the CPU.

    Counting, the guest's clock goes on with every instruction, and ``sleep=off`` lets it jump over
    idle time to the next timer. Everything that chance could reach has a fixed seed. waits: for the
    host's files, while the only timer may be a case's time limit; there the clock is not to jump.
    """
    if way == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    if way == "tcg":
        return ["-accel", "tcg", "-cpu", CPU]
    return [
        *("-accel", "tcg,thread=single", "-cpu", CPU),
        *("-rtc", "base=2026-01-01T00:00:00,clock=vm", "-seed", str(seed)),
        *("-icount", f"shift={SHIFTS[way]},sleep={'on' if waits else 'off'}"),
    ]


def clock_words(way: Way, cpus: int = 1, ticks_khz: int = 0) -> list[str]:
    """The kernel's words for its clock.

    Emulated by the host's clock a CPU shows the host's time-stamp counter, and ``ticks_khz`` is how
    fast that goes. A kernel that has to find out by the emulated timer fails in one boot of three:
    its clock then goes on by 10 ms at a time, up to 3 % off.

    Counting, the clock is taken for what it is, one tick a nanosecond: calibrating it, or the
    local APIC, would spin for a tenth of a virtual second, 20 s of the host's. Only one CPU can do
    without its APIC's timer: there is one other.
    """
    if way == "kvm":
        return []
    khz = 1_000_000 if way in SHIFTS else ticks_khz
    words = ["no_timer_check", *(["tsc=reliable", f"tsc_early_khz={khz}"] if khz else [])]
    if way in SHIFTS:
        words += ["nokaslr", "norandmaps", *(["nolapic_timer"] if cpus == 1 else [])]
    return words


def ticks_khz(program: Path) -> int:
    """How fast the time-stamp counter of this machine goes, by the guest program; 0 where it does
    not always go alike."""
    if not {"constant_tsc", "nonstop_tsc"} <= cpu.flags():
        return 0
    said = capture([str(program), "ticks"])
    return int(said.output) if said.status == 0 and said.output.strip().isdigit() else 0
