# SPDX-License-Identifier: MIT
"""Who copies: return addresses become call sites with a name, and their copies are added up."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable

from kdyno.labs.memcpy.count.distribution import Distribution, Site, distribution
from kdyno.labs.memcpy.count.dump import Counted
from kdyno.labs.profile.symbols import Symbols

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
