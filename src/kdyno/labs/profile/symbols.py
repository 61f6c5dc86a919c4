# SPDX-License-Identifier: MIT
"""Which function an address of a program belongs to, by its symbol table (binutils' nm).

The User Mode Linux kernel and the guest program are linked to fixed addresses, so an address
needs no more than the file. perf cannot look itself: the sandbox shows the kernel under a path
that is gone when perf reads its samples."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from kdyno.command import capture, require
from kdyno.errors import ToolError
from kdyno.kernels.installed import SYMBOLS
from kdyno.sandbox import confined

_LINE = re.compile(r"^([0-9a-f]{1,16}) ([tTwWi]) (\S+)$")
_PLACE = re.compile(r"^([0-9a-f]{1,16}) [A-Za-z] (__binary_start|__syscall_stub_(?:start|end))$")
# Marks that linkers and assemblers leave in the text; no function begins there.
_MARK = re.compile(r"^(?:\.L|\$|_?etext$|_?stext$|_?text$|__.*_(?:start|end|begin)$)")
# What GCC puts elsewhere because it is seldom executed.
_COLD = re.compile(r"(?<=.)\.cold(?:\.\d+)?$")
# Parts of one routine: what a caller calls and what that jumps to.
_ONE_ROUTINE = {
    **dict.fromkeys(("__memcpy", "memcpy_orig"), "memcpy"),
    **dict.fromkeys(("__memset", "memset_orig"), "memset"),
    "__memmove": "memmove",
}
NAME_MOST = 200
"""Letters: more are cut, for a kernel may call its functions as it likes."""
_RANK = {"T": 0, "t": 1, "i": 2, "W": 3, "w": 3}


@dataclass(frozen=True)
class Symbols:
    """Functions by address; each goes up to the next one."""

    starts: tuple[int, ...]
    names: tuple[str, ...]
    base: int = 0
    """Address of the file's first byte, in a kernel: the page of __binary_start."""
    stub: range = range(0)
    """Addresses of the code that UML puts into every process of its guest."""

    @cached_property
    def end(self) -> int:
        """Beyond the last function's beginning an address is believed for this long."""
        return (self.starts[-1] + (1 << 16)) if self.starts else 0

    def name(self, address: int) -> str | None:
        """The function that the address lies in; None outside of the text."""
        at = bisect_right(self.starts, address) - 1
        if at < 0 or address >= self.end:
            return None
        return self.names[at]

    def within(self, low: int, high: int) -> Iterator[tuple[str, float]]:
        """(function, its share) of every function in [low, high); the shares add up to 1 where
        the whole stretch is known. So a bin of a histogram is divided."""
        length = high - low
        at = max(0, bisect_right(self.starts, low) - 1)
        last = bisect_left(self.starts, high)
        for index in range(at, last):
            start = max(low, self.starts[index])
            following = self.starts[index + 1] if index + 1 < len(self.starts) else self.end
            end = min(high, following)
            if end > start:
                yield self.names[index], (end - start) / length


def symbols_of(program: Path) -> Symbols:
    """The functions of an ELF file or a System.map; ToolError where nm is missing or finds none."""
    if program.name == SYMBOLS:
        return parse(program.read_text("utf-8", "replace").splitlines())
    nm = require("nm", "to name functions in profiles (apt-get install binutils)")
    result = capture(confined([nm, "-n", "--", str(program)], reads=[program]))
    symbols = parse(result.output.splitlines()) if result.status == 0 else Symbols((), ())
    if not symbols.starts:
        raise ToolError(f"{program}: nm finds no functions in it: {result.output.strip()[-200:]}")
    return symbols


def parse(lines: Iterable[str]) -> Symbols:
    """From what ``nm -n`` prints; lines that are no functions are passed over."""
    best: dict[int, tuple[tuple[int, int, str], str]] = {}
    places = {"__binary_start": 0, "__syscall_stub_start": 0, "__syscall_stub_end": 0}
    for line in lines:
        if place := _PLACE.match(line):
            places[place[2]] = int(place[1], 16)
        match = _LINE.match(line)
        if match is None or _MARK.match(match[3]):
            continue
        address, kind = int(match[1], 16), match[2]
        name = _COLD.sub("", match[3])[:NAME_MOST]
        name = _ONE_ROUTINE.get(name, name)
        # Of several names for one place: a global one, the one with fewest underscores before it.
        rank = (_RANK[kind], len(name) - len(name.lstrip("_")), name)
        if address not in best or rank < best[address][0]:
            best[address] = (rank, name)
    starts = tuple(sorted(best))
    return Symbols(
        starts,
        tuple(best[start][1] for start in starts),
        places["__binary_start"] & ~0xFFF,
        range(places["__syscall_stub_start"], places["__syscall_stub_end"]),
    )
