# SPDX-License-Identifier: MIT
"""The counts that a kernel with count-copies.patch leaves at power-off, read with distrust.

The file is one header, the used slots of a hash table, and the first copies in their order. Each
copy is one 64-bit key: from the top 27 bits of the return address's offset in the kernel, 25 bits
of size, 6 of the target and 6 of the source address modulo 64.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kdyno.errors import ToolError
from kdyno.labs.memcpy.count.distribution import Distribution, Site, distribution
from kdyno.labs.memcpy.count.trace import Copy
from kdyno.labs.profile.symbols import Symbols

FILE = "kdyno-copies"
"""Name of the file in the folder of the kernel's process."""
WORD = "kdyno_copies"
"""On the kernel's command line: WORD=N lists the first N copies in their order."""
MOST_LISTED = 1 << 20

_MAGIC = b"kdyno copies 1\n\0"
_HEADER = struct.Struct("<16s8Q")
_SLOT = struct.Struct("<QQ")
_MOST_SLOTS = 1 << 20
_MOST_CALLS = 1 << 62


@dataclass(frozen=True)
class Counted:
    """What one boot copied while its cases ran."""

    calls: Mapping[tuple[int, Copy], int]
    """(return address, copy) → how often."""
    order: tuple[tuple[int, Copy], ...] = ()
    """The first copies, in order."""
    lost: int = 0
    """Copies that found no slot in the table: their sizes and sites are not known."""
    oversize: int = 0
    """Copies of 32 MiB and more, or called from outside the kernel: they are not in ``calls``."""
    spans: int = 0
    """How often the counting was switched on: once for each case."""

    @property
    def total(self) -> int:
        return sum(self.calls.values())


def read_dump(content: bytes) -> Counted:
    """The counts in ``content``; ToolError with what is wrong when they cannot be believed."""
    if not content:
        raise ToolError("the kernel left no counts: it did not reach its power-off")
    if len(content) < _HEADER.size:
        raise _unbelievable("they end within the header")
    magic, base, slots, lost, oversize, listed, limit, spans, check = _HEADER.unpack_from(content)
    if magic != _MAGIC:
        raise _unbelievable("they begin with something else")
    kept = min(listed, limit)
    if slots > _MOST_SLOTS or limit > MOST_LISTED:
        raise _unbelievable(f"{slots} slots and a list of {limit} are more than there can be")
    wanted = _HEADER.size + slots * _SLOT.size + kept * 8
    if len(content) != wanted:
        raise _unbelievable(f"{len(content)} bytes are there, and {wanted} were announced")
    calls: dict[tuple[int, Copy], int] = {}
    total = 0
    middle = _HEADER.size + slots * _SLOT.size
    for key, count in _SLOT.iter_unpack(content[_HEADER.size : middle]):
        # A slot that was taken in the last moment may not have been counted up yet.
        if not key or count > _MOST_CALLS:
            raise _unbelievable(f"a slot says {count} calls of {key:#x}")
        copy = _copy(base, key)
        if copy in calls:
            raise _unbelievable(f"{key:#x} is there twice")
        total += count
        if count:
            calls[copy] = count
    if total % (1 << 64) != check:
        raise _unbelievable(f"the slots add up to {total}, and the sum is given as {check}")
    keys = struct.unpack(f"<{kept}Q", content[middle:])
    order = tuple(_copy(base, key) for key in keys if key)
    return Counted(calls, order, lost, oversize, spans)


def _copy(base: int, key: int) -> tuple[int, Copy]:
    return base + (key >> 37), Copy(key >> 12 & (1 << 25) - 1, key >> 6 & 63, key & 63)


def _unbelievable(why: str) -> ToolError:
    return ToolError(f"the counts that the kernel left make no sense: {why}")


UNKNOWN = "unknown"
# What GCC appends to a function that it made a version of.
_VERSION = re.compile(r"(?:\.(?:constprop|isra|part|cold)(?:\.\d+)?)+$")


def function_at(symbols: Symbols, address: int) -> str:
    """The function that a return address lies in."""
    return _VERSION.sub("", _place(symbols, address)[0])


def site_at(symbols: Symbols, address: int) -> str:
    """The same with the offset of the address within it: one line of the source or nearly so."""
    name, offset = _place(symbols, address)
    return f"{name}+{offset:#x}" if name != UNKNOWN else f"{UNKNOWN}:{address:#x}"


def _place(symbols: Symbols, address: int) -> tuple[str, int]:
    # A call may be the last instruction of a function: the address before belongs to it for sure.
    name = symbols.name(address - 1)
    if name is None:
        return UNKNOWN, 0
    return name, address - symbols.starts[bisect_right(symbols.starts, address - 1) - 1]


def sites_of(counted: Counted, name: Callable[[int], str]) -> tuple[Site, ...]:
    """Calls and bytes of every site; ``name`` says which addresses are one."""
    calls: Counter[str] = Counter()
    size: Counter[str] = Counter()
    names = {address: name(address) for address in {address for address, _ in counted.calls}}
    for (address, copy), count in counted.calls.items():
        calls[names[address]] += count
        size[names[address]] += count * copy.size
    return tuple(Site(site, calls[site], size[site]) for site in calls)


def distribution_of(counted: Counted, source: str, name: Callable[[int], str]) -> Distribution:
    """The distribution of what was counted."""
    cells: Counter[tuple[int, int, int]] = Counter()
    for (_, copy), count in counted.calls.items():
        cells[copy.size, copy.dst, copy.src] += count
    return distribution(cells, source, sites_of(counted, name))
