# SPDX-License-Identifier: MIT
"""A distribution in a few numbers: shares of sizes and alignments, and quantiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kdyno.labs.memcpy.count.distribution import Distribution

SMALLEST = 8


@dataclass(frozen=True)
class Share:
    """Copies of ``least`` to ``most`` bytes, as shares of all calls and of all bytes."""

    least: int
    most: int
    calls: float
    bytes: float

    @property
    def label(self) -> str:
        return f"{self.least}" if self.least == self.most else f"{self.least}-{self.most}"


def by_size(copies: Distribution) -> tuple[Share, ...]:
    """Classes that end at powers of two, from 1-8 to the largest copy; empty ones between stay.

    A class ends at a power because kernels copy whole pages and buffers: 512 is in 257-512. Copies
    of nothing are a class of their own when there are any.
    """
    calls: Counter[int] = Counter()
    for cell in copies.cells:
        calls[_class_of(cell.size)] += cell.calls
    volume: Counter[int] = Counter()
    for cell in copies.cells:
        volume[_class_of(cell.size)] += cell.bytes
    shares = [_share(0, 0, calls[0], 0, copies)] if calls[0] else []
    most, least = SMALLEST, 1
    while least <= max(calls, default=0):
        shares.append(_share(least, most, calls[most], volume[most], copies))
        least, most = most + 1, most * 2
    first = next((at for at, share in enumerate(shares) if share.calls), 0)
    return tuple(shares[first:])


def _class_of(size: int) -> int:
    return 0 if size == 0 else max(SMALLEST, 1 << (size - 1).bit_length())


def _share(least: int, most: int, calls: int, volume: int, copies: Distribution) -> Share:
    return Share(least, most, calls / copies.calls, volume / copies.bytes if copies.bytes else 0.0)


def size_quantile(copies: Distribution, part: float, *, of_bytes: bool = False) -> int:
    """The smallest size so that copies up to it make ``part`` of all calls, or of all bytes."""
    wanted = part * (copies.bytes if of_bytes else copies.calls)
    seen = 0
    for cell in copies.cells:
        seen += cell.bytes if of_bytes else cell.calls
        if seen >= wanted:
            return cell.size
    return copies.cells[-1].size


@dataclass(frozen=True)
class Alignment:
    """Shares of calls."""

    target: float
    """Target at a multiple of ``unit``."""
    source: float
    both: float
    alike: float
    """Target and source at the same distance from a multiple of ``unit``."""


def aligned(copies: Distribution, unit: int) -> Alignment:
    """How much of the calls is aligned to ``unit`` bytes, a power of two up to 64."""
    target = source = both = alike = 0
    for cell in copies.cells:
        target += cell.calls * (cell.dst % unit == 0)
        source += cell.calls * (cell.src % unit == 0)
        both += cell.calls * (cell.dst % unit == 0 == cell.src % unit)
        alike += cell.calls * (cell.dst % unit == cell.src % unit)
    return Alignment(*(it / copies.calls for it in (target, source, both, alike)))
