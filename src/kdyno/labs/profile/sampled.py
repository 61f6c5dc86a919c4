# SPDX-License-Identifier: MIT
"""perf's samples of one boot, told apart: UML kernel, host kernel, the guest's user code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from kdyno.labs.profile.perf import Frame, Mapping, Sample
from kdyno.labs.profile.record import FunctionTime, Stack, Where
from kdyno.labs.profile.symbols import Symbols

KERNEL_PROCESS, GUEST_PROCESS, AROUND = "UML kernel", "guest process", "sandbox"
STUB = "[uml stub]"
"""UML's own few instructions inside every guest process."""
_PAGE_BITS = 12
_PAGES_MOST = 1 << 22
_HOST_ADDRESSES = 1 << 63
_KERNEL_COMM, _GUEST_COMM = "linux", "uml-userspace"
_UNKNOWN = "[unknown]"


@dataclass(frozen=True)
class Boot:
    """What one boot's samples say. ``stacks``: seconds by (where, frames), outermost first."""

    functions: tuple[FunctionTime, ...]
    stacks: tuple[Stack, ...]
    seconds: float


@dataclass(frozen=True)
class Place:
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

    def mapped(self, it: Mapping) -> None:
        """A guest process got pages of the guest's memory, which is a file on the host."""
        pages = it.length >> _PAGE_BITS
        if it.file.endswith("/linux") or len(self._pages) + pages > _PAGES_MOST:
            return
        offset, start = it.offset >> _PAGE_BITS, it.start >> _PAGE_BITS
        for number in range(pages):
            self._pages[it.pid, offset + number] = start + number

    def place(self, sample: Sample, frame: Frame) -> Place:
        """Where one address belongs."""
        if frame.address >= _HOST_ADDRESSES or frame.file.startswith("[kernel"):
            named = frame.symbol not in ("", _UNKNOWN)
            return Place("host", frame.symbol if named else "[host kernel]")
        if frame.file.endswith("/linux"):
            return Place("kernel", self._kernel_name(frame) or f"{_UNKNOWN} in linux")
        if sample.comm == _GUEST_COMM:
            return self._guest_place(sample, frame)
        if sample.comm == _KERNEL_COMM:
            named = frame.symbol not in ("", _UNKNOWN)
            library = frame.file.rpartition("/")[2].split(".so")[0].strip("[]") or "unknown"
            return Place("kernel", f"{frame.symbol} [{library}]" if named else f"[{library}]")
        return Place("host", f"[{sample.comm}]")

    def _kernel_name(self, frame: Frame) -> str | None:
        return self.kernel.name(frame.address) or self.kernel.name(frame.address + self.kernel.base)

    def _guest_place(self, sample: Sample, frame: Frame) -> Place:
        # The guest's memory begins with the kernel's image, and so does the file that it is.
        stub = frame.address + self.kernel.base in self.kernel.stub
        if stub or "uml-userspace" in frame.file:
            return Place("kernel", STUB)
        page = self._pages.get((sample.pid, frame.address >> _PAGE_BITS))
        inside = frame.address & ((1 << _PAGE_BITS) - 1)
        address = frame.address if page is None else (page << _PAGE_BITS) | inside
        return Place("user", self.program.name(address) or "[other programs]")

    def stack(self, sample: Sample) -> tuple[Place, ...]:
        """The believable frames, the innermost first; one at least.

        The host kernel walks its own stack. Of user code its first frame is what was
        interrupted; the others are found by following frame pointers, and where the code was
        compiled without them they are whatever lay there.
        """
        found: list[Place] = []
        for number, frame in enumerate(sample.frames):
            place = self.place(sample, frame)
            below_host = not found or found[-1].where == "host"
            if place.where != "host" and not below_host:
                believed = self.frame_pointers and frame.file.endswith("/linux")
                if not believed or self._kernel_name(frame) is None:
                    break
            elif place.where == "host" and number and found[-1].where != "host":
                break
            found.append(place)
        if not found:
            found.append(Place("host", f"[{sample.comm or 'unknown'}]"))
        return tuple(found)


def attribute(
    samples: Iterable[Sample | Mapping], reader: Reader, seconds_per_weight: float
) -> Boot:
    """Seconds per function and per stack, most seconds first."""
    functions: defaultdict[tuple[Where, str], float] = defaultdict(float)
    stacks: defaultdict[tuple[Where, tuple[str, ...]], float] = defaultdict(float)
    total_s = 0.0
    for sample in samples:
        if isinstance(sample, Mapping):
            reader.mapped(sample)
            continue
        seconds = sample.weight * seconds_per_weight
        places = reader.stack(sample)
        leaf = places[0]
        total_s += seconds
        functions[leaf.where, leaf.function[:200]] += seconds
        root = {_KERNEL_COMM: KERNEL_PROCESS, _GUEST_COMM: GUEST_PROCESS}.get(sample.comm, AROUND)
        frames = (root, *(place.function[:200] for place in reversed(places)))
        stacks[leaf.where, frames] += seconds
    return Boot(
        tuple(
            FunctionTime(where, function, seconds)
            for (where, function), seconds in sorted(
                functions.items(), key=lambda item: (-item[1], item[0])
            )
        ),
        tuple(
            Stack(where, frames, seconds)
            for (where, frames), seconds in sorted(
                stacks.items(), key=lambda item: (-item[1], item[0])
            )
        ),
        total_s,
    )
