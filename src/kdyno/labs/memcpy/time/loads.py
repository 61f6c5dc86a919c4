# SPDX-License-Identifier: MIT
"""What routines are timed with: sizes, alignments, cache levels and modes; and the presets.

A load is one cell of that grid. In mode ``fixed`` one size is copied again and again, between the
same two places in L1 and between places drawn anew beyond; in ``random`` sizes and offsets are
drawn; ``distribution`` and ``trace`` replay what a kernel copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

LEVELS = ("L1", "L2", "L3", "memory")
MOST = 65536
"""Bytes of the largest copy in the grid."""

ALIGNMENTS: dict[str, tuple[int, int]] = {
    "aligned": (0, 0),
    "source": (0, 13),
    "target": (13, 0),
    "both": (5, 23),
    "aliased": (0, 0),
    "behind": (0, 0),
}
"""Target and source modulo 64. ``aliased``: both at the same place of their 4 KiB pages.
``behind``: the source one byte before the target in its page, so that every load looks like it
reads what the store before it wrote. Then ``rep movsb`` takes 30 times as long on Zen 4."""

RANGES = ((1, 16), (1, 64), (1, 256), (64, 512), (1, 1024), (256, 4096), (1, MOST))
"""Sizes drawn in mode ``random``; the logarithm is drawn evenly."""

NEAR_BYTES = 256 << 10
"""Region in which everything of level L1 happens; a load touches a small part of it."""

_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Load:
    """One cell. ``least`` and ``most`` are equal where there is one size."""

    level: str
    mode: str
    least: int
    most: int
    alignment: str
    mean: float
    """Mean size in bytes: of the draws, where sizes are drawn."""

    @property
    def id(self) -> str:
        """One word, for keys and files: ``L1/fixed/64/aligned``."""
        size = str(self.least) if self.least == self.most else f"{self.least}-{self.most}"
        return f"{self.level}/{self.mode}/{size}/{self.alignment}"


def fixed(level: str, size: int, alignment: str) -> Load:
    return Load(level, "fixed", size, size, alignment, float(size))


def drawn(level: str, least: int, most: int) -> Load:
    """Sizes with evenly drawn logarithm."""
    from kdyno.labs.memcpy.time.replay import mean_of_range

    return Load(level, "random", least, most, "any", mean_of_range(least, most))


@dataclass(frozen=True)
class Plan:
    """What one bench does. Blocks end with the budget, but there are at least six."""

    name: str
    loads: tuple[Load, ...]
    seconds: float
    """Budget of timing."""
    repetitions: int = 5
    repetition_ns: int = 60_000
    fewest_blocks: int = 6
    most_blocks: int = 40
    calls: int = 0
    """Calls of each fixed size, where that is given instead of a time (``--paper``)."""
    only: tuple[str, ...] = field(default=())
    """Contenders, where only some are to be timed."""


def sizes(most: int = MOST, around: bool = True) -> list[int]:
    """Powers of two, what lies half way between them and, up to 1 KiB, one less and one more."""
    found = {1, 2, 3}
    power = 4
    while power <= most:
        found |= {power, power + power // 2}
        if around and power >= 8 and power <= 1024:
            found |= {power - 1, power + 1}
        power *= 2
    return sorted(size for size in found if size <= most)


def quick() -> Plan:
    """A first impression, in less than a minute."""
    loads = [fixed("L1", size, "aligned") for size in sizes()]
    loads += [fixed("L1", size, it) for it in ("both", "aliased", "behind") for size in _some()]
    loads += [drawn("L1", *it) for it in RANGES]
    loads += [fixed(it, size, "aligned") for it in LEVELS[1:] for size in (64, 512, 4096, MOST)]
    return Plan("quick", tuple(loads), 38.0, 3, 30_000)


def full() -> Plan:
    """The whole grid, about five minutes."""
    loads = [fixed("L1", size, it) for it in ALIGNMENTS for size in sizes()]
    loads += [drawn(level, *it) for level in LEVELS for it in RANGES]
    loads += [
        fixed(level, size, it)
        for level in LEVELS[1:]
        for it in ("aligned", "both")
        for size in sizes(around=False)
        if size >= 8
    ]
    return Plan("default", tuple(loads), 285.0, 5, 60_000)


def judged(seconds: float = 90.0) -> Plan:
    """L1 only, every size of the grid, for the figures that a best routine must reach."""
    loads = [fixed("L1", size, it) for it in ("aligned", "both") for size in sizes()]
    loads += [drawn("L1", *it) for it in RANGES]
    return Plan("figures", tuple(loads), seconds, 3, 60_000, 12)


PAPER_CALLS = 5_000_000
PAPER_SIZES = range(128, 2049, 64)


def paper(calls: int = PAPER_CALLS) -> Plan:
    """The published comparison: 128 to 2048 bytes, 5,000,000 calls of each size."""
    loads = tuple(fixed("L1", size, "aligned") for size in PAPER_SIZES)
    return Plan("paper", loads, 0.0, 1, 0, 6, 6, calls, ("orig", "saito-oikawa"))


def _some() -> Iterable[int]:
    return (8, 31, 64, 100, 128, 256, 512, 1024, 2048, 4096, 16384, MOST)


@dataclass(frozen=True)
class Caches:
    """Bytes of this machine's caches, as the kernel tells."""

    l1: int
    l2: int
    l3: int
    guessed: tuple[str, ...] = ()
    """Levels about which nothing was told."""

    def region(self, level: str) -> int:
        """Bytes of target and of source, each, for copies that come from ``level``.

        Both together fill half of L2, at most a quarter of L3 (which others share), and four
        times L3 for memory.
        """
        if level == "L1":
            return NEAR_BYTES
        if level == "L2":
            return max(self.l2 // 4, 2 * MOST)
        if level == "L3":
            return max(min(4 * self.l2, self.l3 // 8), 2 * MOST)
        return min(max(2 * self.l3, 32 << 20), 512 << 20)


@cache
def caches(folder: Path = _CACHE) -> Caches:
    """Level → size from /sys; sizes that are common stand in where nothing is told."""
    found = {"1": 32 << 10, "2": 1 << 20, "3": 16 << 20}
    told = set()
    for index in sorted(folder.glob("index*")):
        try:
            level = (index / "level").read_text().strip()
            kind = (index / "type").read_text().strip()
            text = (index / "size").read_text().strip()
            size = int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and level in found and 0 < size < 1 << 40:
            found[level] = size
            told.add(level)
    guessed = tuple(f"L{level}" for level in found if level not in told)
    return Caches(found["1"], found["2"], found["3"], guessed)
