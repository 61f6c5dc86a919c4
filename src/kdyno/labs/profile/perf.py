# SPDX-License-Identifier: MIT
"""perf on the host around one boot: whether it can, its command line, what it printed, and what of
that was the UML kernel, the host's kernel or the guest's user code.

perf runs outside of the sandbox and follows everything that is started inside it. Symbols of the
UML kernel and of the guest program are looked up here (symbols.py); perf names the rest."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kdyno import whole
from kdyno.command import capture, dying_with_us, require
from kdyno.errors import ToolError
from kdyno.labs.profile.record import FunctionTime, Stack, Where
from kdyno.labs.profile.symbols import NAME_MOST, Symbols
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


class Ability(NamedTuple):
    event: str
    """``cycles`` where the CPU's counter can be read, else ``cpu-clock``."""
    notes: tuple[str, ...]
    """What perf does not see on this machine for this user."""
    sees_host: bool
    """Samples of the host's kernel are there too."""


@cache
def ability() -> Ability:
    """Tried, not guessed. ToolError where perf is missing or forbidden, with the ways out."""
    perf = require("perf", "for profiles (apt-get install linux-perf)")
    notes = []
    # perf record would fall back in silence where the CPU's cycle counter cannot be read.
    counted = capture([perf, "stat", "-x,", "-e", "cycles", "true"])
    cycles = (line.split(",", 1)[0] for line in counted.output.splitlines() if "cycles" in line)
    readable = counted.status == 0 and any(value.isdigit() for value in cycles)
    event = "cycles" if readable else SOFTWARE
    if event == SOFTWARE:
        notes.append("this machine has no hardware counters for perf: sampled by cpu-clock")
    with whole.scratch("perf") as folder:
        data = folder / "perf.data"
        result = capture([*record(data, event, perf=perf), "true"])
        if result.status != 0:
            raise ToolError(_refused(result.output))
        listed = capture([perf, "evlist", "-i", str(data)]).output.split()
    sees_host = not (listed and listed[0].partition(":")[2].startswith("u"))
    if not sees_host:
        notes.append(
            "perf may not look into the host's kernel (kernel.perf_event_paranoid = "
            f"{_paranoid()}): its time is missing from this profile. "
            "sysctl kernel.perf_event_paranoid=1, or run as root"
        )
    return Ability(event, tuple(notes), sees_host)


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

    It holds names that programs in the guest gave themselves, so it is read in the sandbox."""
    fields = "comm,pid,period,ip,sym,dso"
    argv = [require("perf", "for profiles"), "script", "--input", str(data), "--no-inline"]
    argv += ["--show-mmap-events", "--fields", fields, "--max-stack", str(_FRAMES_MOST)]
    # Who has no rights reads zeros for the addresses of the host's kernel.
    names = data.with_name("kallsyms")
    names.write_bytes(_KALLSYMS.read_bytes())
    for file in (data, names):
        file.chmod(0o644)  # inside it is another user's; the folder is this one's alone
    argv += ["--kallsyms", str(names)]
    result = capture(confined(argv, reads=[data.parent]))
    if result.status != 0:
        last = result.output.strip().splitlines()[-1:] or [f"status {result.status}"]
        raise ToolError(f"perf cannot read what it recorded: {last[0]} (`{shlex.join(argv)}`)")
    return list(parse(result.output.splitlines()))


def parse(lines: Iterable[str]) -> Iterator[Sample | Mapping]:
    """From the text of ``perf script``; lines that mean nothing here are passed over."""
    sample: Sample | None = None
    frames: list[Frame] = []
    for line in lines:
        event = _event(line)
        if event is None:
            if sample and len(frames) < _FRAMES_MOST and (frame := _frame(line)):
                frames.append(frame)
            continue
        if sample:
            yield replace(sample, frames=tuple(frames))
        sample, frames = None, []
        if isinstance(event, Mapping):
            yield event
        elif event.weight:
            sample = event
    if sample:
        yield replace(sample, frames=tuple(frames))


def _event(line: str) -> Sample | Mapping | None:
    """``linux  7/8  1001001:``, or a mapping."""
    if match := _MAPPING.search(line):
        start, length, offset = (int(match[name], 16) for name in ("start", "length", "offset"))
        return Mapping(int(match["pid"]), start, length, offset, match["file"])
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


KERNEL_PROCESS, GUEST_PROCESS, AROUND = "UML kernel", "guest process", "sandbox"
STUB = "[uml stub]"
"""UML's own few instructions inside every guest process."""
_PAGE_BITS = 12
_PAGES_MOST = 1 << 22
_HOST_ADDRESSES = 1 << 63
_KERNEL_COMM, _GUEST_COMM = "linux", "uml-userspace"
_UNKNOWN = "[unknown]"


class Place(NamedTuple):
    where: Where
    function: str


@dataclass(frozen=True)
class Reader:
    """frame_pointers: the kernel was built with them, so frames below the first are real."""

    kernel: Symbols
    program: Symbols
    frame_pointers: bool = False
    _pages: dict[tuple[int, int], int] = field(default_factory=dict)
    """(process, page of the guest's memory) → page in its own address space, as of now."""

    def mapped(self, mapping: Mapping) -> None:
        """A guest process got pages of the guest's memory, which is a file on the host."""
        pages = mapping.length >> _PAGE_BITS
        if mapping.file.endswith("/linux") or len(self._pages) + pages > _PAGES_MOST:
            return
        offset, start = mapping.offset >> _PAGE_BITS, mapping.start >> _PAGE_BITS
        for number in range(pages):
            self._pages[mapping.pid, offset + number] = start + number

    def place(self, sample: Sample, frame: Frame) -> Place:
        """Where one address belongs."""
        named = frame.symbol not in ("", _UNKNOWN)
        if frame.address >= _HOST_ADDRESSES or frame.file.startswith("[kernel"):
            return Place("host", frame.symbol if named else "[host kernel]")
        if frame.file.endswith("/linux"):
            return Place("kernel", self._kernel_name(frame) or f"{_UNKNOWN} in linux")
        if sample.comm == _KERNEL_COMM:
            library = frame.file.rpartition("/")[2].split(".so")[0].strip("[]") or "unknown"
            return Place("kernel", f"{frame.symbol} [{library}]" if named else f"[{library}]")
        if sample.comm != _GUEST_COMM:
            return Place("host", f"[{sample.comm}]")
        # The guest's memory begins with the kernel's image, and so does the file that it is.
        if frame.address + self.kernel.base in self.kernel.stub or "uml-userspace" in frame.file:
            return Place("kernel", STUB)
        page = self._pages.get((sample.pid, frame.address >> _PAGE_BITS))
        inside = frame.address & ((1 << _PAGE_BITS) - 1)
        address = frame.address if page is None else (page << _PAGE_BITS) | inside
        return Place("user", self.program.name(address) or "[other programs]")

    def _kernel_name(self, frame: Frame) -> str | None:
        return self.kernel.name(frame.address) or self.kernel.name(frame.address + self.kernel.base)

    def stack(self, sample: Sample) -> tuple[Place, ...]:
        """The believable frames, the innermost first; one at least.

        The host kernel walks its own stack. Of user code its first frame is what was
        interrupted; the others are found by following frame pointers, and where the code was
        compiled without them they are whatever lay there."""
        places: list[Place] = []
        for number, frame in enumerate(sample.frames):
            place = self.place(sample, frame)
            below_host = not places or places[-1].where == "host"
            if place.where == "host":
                if number and not below_host:
                    break
            elif not below_host:
                believed = self.frame_pointers and frame.file.endswith("/linux")
                if not believed or self._kernel_name(frame) is None:
                    break
            places.append(place)
        return tuple(places) or (Place("host", f"[{sample.comm or 'unknown'}]"),)


def attribute(
    samples: Iterable[Sample | Mapping], reader: Reader, seconds_per_weight: float
) -> tuple[tuple[FunctionTime, ...], tuple[Stack, ...]]:
    """Seconds per function and per stack of one boot; both with most seconds first."""
    functions: defaultdict[Place, float] = defaultdict(float)
    stacks: defaultdict[tuple[Where, tuple[str, ...]], float] = defaultdict(float)
    for sample in samples:
        if isinstance(sample, Mapping):
            reader.mapped(sample)
            continue
        seconds = sample.weight * seconds_per_weight
        places = [Place(where, function[:NAME_MOST]) for where, function in reader.stack(sample)]
        root = {_KERNEL_COMM: KERNEL_PROCESS, _GUEST_COMM: GUEST_PROCESS}.get(sample.comm, AROUND)
        names = tuple(function for _where, function in reversed(places))
        functions[places[0]] += seconds
        stacks[places[0].where, (root, *names)] += seconds

    def largest_first(sums: dict[Any, float]) -> list[tuple[Any, float]]:
        return sorted(sums.items(), key=lambda item: (-item[1], item[0]))

    return (
        tuple(FunctionTime(where, name, s) for (where, name), s in largest_first(functions)),
        tuple(Stack(where, frames, s) for (where, frames), s in largest_first(stacks)),
    )
