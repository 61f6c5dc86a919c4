# SPDX-License-Identifier: MIT
"""perf on the host around one boot: whether it can, its command line, and what it printed.

perf runs outside of the sandbox and follows everything that is started inside it. Symbols of the
UML kernel and of the guest program are looked up here (symbols.py); perf names the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kdyno import whole
from kdyno.command import capture, dying_with_us, require, shown
from kdyno.errors import ToolError
from kdyno.sandbox import confined

RATE_HZ = 999
"""Not 1000: a sampler in step with the kernel's tick would see the tick's work or never see it."""
SOFTWARE = "cpu-clock"
# Names in these lines are a guest's to choose: what is matched is short, the rest is cut off.
_PID = re.compile(r"(?P<pid>-?\d{1,10})(?:/-?\d{1,10})?")
_WEIGHT = re.compile(r"(?P<weight>\d{1,20}):?")
_ADDRESS = re.compile(r"[0-9a-f]{1,16}")
_MAPPING = re.compile(
    r"PERF_RECORD_MMAP2? (?P<pid>\d{1,10})/-?\d+: \[(?P<start>0x[0-9a-f]{1,16})"
    r"\((?P<length>0x[0-9a-f]{1,16})\) @ (?P<offset>0x[0-9a-f]{1,16}|0) .*\]: \S+ (?P<file>.+)$"
)
_NUMBERS = ("start", "length", "offset")
_FRAMES_MOST = 128
_KALLSYMS = Path("/proc/kallsyms")
_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


@dataclass(frozen=True)
class Mapping:
    """A process mapped ``length`` bytes of a file, from ``offset`` on, to the address ``start``."""

    pid: int
    start: int
    length: int
    offset: int
    file: str


@dataclass(frozen=True)
class Frame:
    address: int
    """Of the host's kernel: as it is. Else the place in the file, as newer versions of perf print
    it, or the address itself (older ones)."""
    symbol: str
    """As perf names it; ``[unknown]`` where it cannot."""
    file: str


@dataclass(frozen=True)
class Sample:
    comm: str
    pid: int
    weight: int
    """The sampling period: nanoseconds for a clock, cycles for a counter."""
    frames: tuple[Frame, ...]
    """The innermost first; may be empty."""


@dataclass(frozen=True)
class Ability:
    """What perf can do on this machine for this user."""

    event: str
    """``cycles`` where the CPU's counter can be read, else ``cpu-clock``."""
    notes: tuple[str, ...] = ()


@cache
def ability() -> Ability:
    """Tried, not guessed. ToolError where perf is missing or forbidden, with the ways out."""
    perf = require("perf", "for profiles (apt-get install linux-perf)")
    notes = []
    event = "cycles" if _counts(perf) else SOFTWARE
    if event == SOFTWARE:
        notes.append("this machine has no hardware counters for perf: sampled by cpu-clock")
    with whole.scratch("perf") as folder:
        data = folder / "perf.data"
        done = capture([*record(data, event, perf=perf), "true"])
        if done.status != 0:
            raise ToolError(_refused(done.output))
        listed = capture([perf, "evlist", "-i", str(data)]).output.split()
    if listed and listed[0].partition(":")[2].startswith("u"):
        notes.append(
            "perf may not look into the host's kernel (kernel.perf_event_paranoid = "
            f"{_paranoid()}): its time is missing from this profile. "
            "sysctl kernel.perf_event_paranoid=1, or run as root"
        )
    return Ability(event, tuple(notes))


def record(data: Path, event: str, *, perf: str = "perf") -> list[str]:
    """The words before a command line that have it profiled into ``data``."""
    words = [
        # Nobody's settings: another kind of call graph, programs to be run.
        *("env", "PERF_CONFIG=/dev/null"),
        *(perf, "record", "--quiet", "--freq", str(RATE_HZ), "--event", event),
        # No build-ids: perf would copy every file it met into a folder of the user's.
        *("--call-graph", "fp", "--no-buildid", "--no-buildid-cache"),
        *("--output", str(data), "--"),
    ]
    # And with it what it watches, whose parent it is.
    return dying_with_us(words)


def script(data: Path) -> list[Sample | Mapping]:
    """What a data file holds, in the order of time; ToolError when perf cannot read it.

    It holds names that programs in the guest gave themselves, so it is read in the sandbox.
    """
    fields = "comm,pid,period,ip,sym,dso"
    argv = [require("perf", "for profiles"), "script", "--input", str(data), "--no-inline"]
    argv += ["--show-mmap-events"]
    argv += ["--fields", fields, "--max-stack", str(_FRAMES_MOST)]
    # Who has no rights reads zeros for the addresses of the host's kernel.
    names = data.with_name("kallsyms")
    names.write_bytes(_KALLSYMS.read_bytes())
    for file in (data, names):
        file.chmod(0o644)  # inside it is another user's; the folder is this one's alone
    argv += ["--kallsyms", str(names)]
    done = capture(confined(argv, reads=[data.parent]))
    if done.status != 0:
        last = done.output.strip().splitlines()[-1:] or [f"status {done.status}"]
        raise ToolError(f"perf cannot read what it recorded: {last[0]} (`{shown(argv)}`)")
    return list(parse(done.output.splitlines()))


def parse(lines: Iterable[str]) -> Iterator[Sample | Mapping]:
    """From the text of ``perf script``; lines that mean nothing here are passed over."""
    comm, pid, weight, frames = "", 0, 0, list[Frame]()
    for line in lines:
        if match := _MAPPING.search(line):
            start, length, offset = (int(match[name], 16) for name in _NUMBERS)
            found: Sample | Mapping = Mapping(
                int(match["pid"]), start, length, offset, match["file"]
            )
        elif sample := _sample(line):
            found = sample
        else:
            if weight and len(frames) < _FRAMES_MOST and (frame := _frame(line)):
                frames.append(frame)
            continue
        if weight:
            yield Sample(comm, pid, weight, tuple(frames))
            weight, frames = 0, []
        if isinstance(found, Mapping):
            yield found
        else:
            comm, pid, weight = found.comm, found.pid, found.weight
    if weight:
        yield Sample(comm, pid, weight, tuple(frames))


def _sample(line: str) -> Sample | None:
    """``linux  7/8  1001001:``"""
    words = line.rsplit(None, 2)
    if len(words) != 3 or line[0].isspace():
        return None
    pid, weight = _PID.fullmatch(words[1]), _WEIGHT.fullmatch(words[2])
    if pid is None or weight is None:
        return None
    return Sample(words[0], int(pid["pid"]), int(weight["weight"]), ())


def _frame(line: str) -> Frame | None:
    """``  40010 futex (/tmp/linux)``; there may be brackets in the file's name, too."""
    words = line.split(None, 1)
    text = words[1].rstrip() if len(words) == 2 and line[0].isspace() else ""
    if not text.endswith(")") or not _ADDRESS.fullmatch(words[0]):
        return None
    symbol, begin, file = text[:-1].partition("(" if text[0] == "(" else " (")
    return Frame(int(words[0], 16), symbol.rstrip(), file) if begin else None


def _counts(perf: str) -> bool:
    """Whether the CPU's cycle counter can be read. perf record would fall back in silence."""
    said = capture([perf, "stat", "-x,", "-e", "cycles", "true"])
    return said.status == 0 and any(
        line.split(",", 1)[0].isdigit() and "cycles" in line for line in said.output.splitlines()
    )


def _paranoid() -> str:
    try:
        return _PARANOID.read_text().strip()
    except OSError:
        return "unknown"


def _refused(output: str) -> str:
    last = [line.strip() for line in output.splitlines() if line.strip()][:2]
    return (
        f"perf is not allowed to sample here: {' '.join(last)[:300]} "
        f"(kernel.perf_event_paranoid = {_paranoid()}). "
        "sysctl kernel.perf_event_paranoid=1, run as root, or take --method gprof, "
        "which needs no permission"
    )
