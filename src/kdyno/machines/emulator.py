# SPDX-License-Identifier: MIT
"""The QEMU of this machine: which it is, what it can, and the plugins that count in it."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, Literal

from kdyno import sandbox, whole
from kdyno.command import capture, for_tools, require
from kdyno.errors import ToolError
from kdyno.kernels import cpu
from kdyno.kernels.compiler import identify
from kdyno.store.samples import APART
from kdyno.suites.protocol import CaseError, Result, Sample, Transcript
from kdyno.suites.score import steady

PROGRAM = "qemu-system-x86_64"
OLDEST = (7, 2)
"""Debian 12's; nothing older was tried."""
INSTALL = "apt-get install --no-install-recommends qemu-system-x86 seabios"
CPU = "qemu64"
"""The CPU model of every count. "max" makes the kernel take other ways: a pipe's is 62 % longer."""
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
    program: str
    version: str

    def described(self, way: Way) -> str:
        """What figures depend on beside the kernel; part of what makes runs comparable."""
        pace = f" of {1 << SHIFTS[way]} ns" if SHIFTS.get(way) else ""
        return f"QEMU {self.version}, {'host CPU' if way == 'kvm' else CPU}, {way}{pace}"


@functools.cache
def find() -> Emulator:
    """ToolError, with the command that helps, where there is none or it is too old."""
    if (program := shutil.which(PROGRAM)) is None:
        raise ToolError(f'[machine] kind = "qemu": no {PROGRAM} on PATH. On Debian: {INSTALL}')
    result = capture([program, "--version"])
    match = _VERSION.search(result.output)
    if result.status != 0 or match is None:
        raise ToolError(f"{program} does not tell its version: {result.output.strip()[-200:]}")
    version = ".".join(match.groups())
    if (int(match[1]), int(match[2])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ToolError(f"{program} is version {version}; kdyno needs {oldest} or later")
    return Emulator(program, version)


def missing() -> str | None:
    """For doctor: None where it is there."""
    try:
        find()
    except ToolError as problem:
        text = str(problem)
        return (text.partition(": ")[2] or text).partition(". ")[0]
    return None


def why_no_kvm() -> str:
    """What is seen without a boot; empty: a probe may tell more."""
    if not KVM.exists():
        return f"there is no {KVM} here"
    if not os.access(KVM, os.R_OK | os.W_OK):
        return f"{KVM} may not be opened by this user (its group is mostly called kvm)"
    if sandbox.drops_root() and sandbox.require() and KVM.stat().st_mode & 0o006 != 0o006:
        return f"root's sandbox is another user, to whom {KVM} is closed: be a user of its group"
    return ""


def accelerator(way: Way, seed: int, waits: bool = False, shift: int = 0) -> list[str]:
    """QEMU's words for the way, the clock and the CPU. Counting, ``sleep=off`` lets the guest's
    clock jump over idle time to the next timer, but where it waits for the host's files: there that
    may be a case's time limit. shift: beyond the way's own."""
    if way == "kvm":
        return ["-accel", "kvm", "-cpu", "host"]
    if way == "tcg":
        return ["-accel", "tcg", "-cpu", CPU]
    return [
        *("-accel", "tcg,thread=single", "-cpu", CPU),
        *("-rtc", "base=2026-01-01T00:00:00,clock=vm", "-seed", str(seed)),
        *("-icount", f"shift={SHIFTS[way] + shift},sleep={'on' if waits else 'off'}"),
    ]


def clock_words(way: Way, cpus: int = 1, ticks_khz: int = 0) -> list[str]:
    """The kernel's words for its clock. ticks_khz: of the host's time-stamp counter, which a CPU
    shows that is emulated by the host's clock. A kernel that has to find out by the emulated timer
    fails in one boot of three. Counting, it is one tick a nanosecond: calibrating that, or the
    local APIC, would spin for 20 s. Only one CPU can do without its APIC's timer: there is one
    other."""
    if way == "kvm":
        return []
    khz = 1_000_000 if way in SHIFTS else ticks_khz
    words = ["no_timer_check", *(["tsc=reliable", f"tsc_early_khz={khz}"] if khz else [])]
    if way in SHIFTS:
        words += ["nokaslr", "norandmaps", *(["nolapic_timer"] if cpus == 1 else [])]
    return words


def ticks_khz(program: Path) -> int:
    """How fast the time-stamp counter of this machine goes, by the guest program; 0 where its rate
    is not constant."""
    if not {"constant_tsc", "nonstop_tsc"} <= cpu.flags():
        return 0
    text = capture([str(program), "ticks"]).output.strip()
    return int(text) if text.isdigit() else 0


COUNTS = "counts"
"""Name of what a counted boot leaves: how often each instruction was executed, and by which calls.
It is given FUNCTIONS."""
FUNCTIONS = "functions"
"""Name of what it is given: lines of ``ADDRESS NUMBER ENTERS``, where functions begin."""
TALLY = "tally"
"""Name of the plugin that counts instructions of programs and of the kernel apart."""
PLUGINS = Path(__file__).with_name("plugin")
"""Folder of their sources: they see every instruction, and are built when needed."""
_SOURCES = {
    COUNTS: ("count.c", "calls.c", "code.c", "counters.c"),
    TALLY: ("tally.c", "code.c", "counters.c"),
}
_SINCE = (((9, 1), 3), ((9, 0), 2))
"""Version of QEMU → of its interface, where older ones are refused or have other arguments."""
_FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror"),
    *("-shared", "-fPIC", "-fvisibility=hidden"),
)


@dataclass(frozen=True)
class Plugin:
    """One to be loaded into a guest's QEMU."""

    library: Path
    output: BinaryIO
    """What it fills, in one boot."""
    input: bytes = b""
    """What it is given beforehand."""


def interface_of(version: str) -> int:
    """Of QEMU's plugins, as INTERFACE in interface.h."""
    own = tuple(map(int, version.split(".")[:2]))
    return next((number for since, number in _SINCE if own >= since), 1)


@functools.cache
def library(name: str, cache_root: Path, emulator: Emulator) -> Path:
    """The shared object of a plugin, for the interface of this QEMU. ToolError where it does not
    build."""
    flags = (*_FLAGS, f"-DINTERFACE={interface_of(emulator.version)}")
    compiler = require("gcc", "to build the plugin that counts by address")
    sources = [PLUGINS / file for file in _SOURCES[name]]
    total = hashlib.sha256(f"{identify('gcc').version} {flags}".encode())
    for file in (*sources, *sorted(PLUGINS.glob("*.h"))):
        total.update(file.read_bytes())
    folder = cache_root / "plugin" / total.hexdigest()[:32]
    if not folder.is_dir():
        with whole.locked(folder.parent / ".lock"), whole.folder(folder) as aside:
            argv = [compiler, *flags, "-o", str(aside / f"{name}.so"), *map(str, sources)]
            result = capture(argv, env=for_tools())
            if result.status != 0:
                raise ToolError(f"the plugin did not build: {result.output.strip()[-500:]}")
    return folder / f"{name}.so"


_PART = re.compile(rb"part ([0-9]{1,18}) ([0-9]{1,18})")
_PARTS_MOST_BYTES = 64 << 20
_LOST = "a case before it failed, so that its counts could not be told from the other's"
Tally = tuple[int, int]
"""Instructions of one timed part, of programs and of the kernel; a line of the plugin TALLY."""


def read_tallies(file: BinaryIO) -> list[Tally]:
    """The parts in their order, as far as they are whole: a guest may have been ended."""
    lines = map(_PART.fullmatch, file.read(_PARTS_MOST_BYTES).split(b"\n"))
    return [(int(line[1]), int(line[2])) for line in takewhile(bool, lines) if line]


def with_tallies(transcript: Transcript, parts: Sequence[Tally]) -> Transcript:
    """The transcript with figures of its samples: what an operation is made of."""

    def results() -> Iterator[Result]:
        at, lost = 0, False
        for result in transcript.results:
            if not isinstance(result, Sample):
                # One that failed half-way has left parts that are nobody's.
                lost = lost or isinstance(result, CaseError)
                yield result
                continue
            own = parts[at : at + len(result.reps)]
            at += len(result.reps)
            if lost or len(own) != len(result.reps):
                yield CaseError(result.case, _LOST if lost else "its counts are not whole")
                continue
            scored = steady(result.reps)
            figures = zip(("user", "kernel"), own[scored], strict=True)
            operations = result.reps[scored][0]
            extra = {f"{APART}{name}": repr(count / operations) for name, count in figures}
            yield replace(result, extra={**result.extra, **extra})

    return replace(transcript, results=tuple(results()))
