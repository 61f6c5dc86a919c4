# SPDX-License-Identifier: MIT
"""What routines are timed with: sizes, alignments, cache levels and modes; the presets; the pools.

A load is one cell of that grid. In mode ``fixed`` one size is copied again and again, between the
same two places in L1 and between random places beyond; in ``random`` sizes and offsets are random;
``distribution`` replays what a kernel copied. A pool is an array of copies, longer than what one
repetition uses: each starts elsewhere in it, so that no branch predictor learns it by heart."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from kdyno.errors import UsageError
from kdyno.labs.memcpy.copies import LINE, MOST_COPY_BYTES, Distribution
from kdyno.reading.checked import FromTool

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
"""Sizes in mode ``random``; the logarithm is evenly distributed."""
NEAR_BYTES = 256 << 10
"""Region in which everything of level L1 happens; a load touches a small part of it."""
MOST_REPLAYED = 64 << 20
"""Bytes of the largest recorded copy that is replayed."""
POOL = 65536
"""Copies of a pool. Predictors have been observed to keep a few thousand."""
DRAW = np.dtype([("size", "<u4"), ("dst", "<u4"), ("src", "<u4")])
"""As ``struct draw`` of native/timing.c."""
PAPER_CALLS = 5_000_000
PAPER_SIZES = range(128, 2049, 64)
_SOME = (8, 31, 64, 100, 128, 256, 512, 1024, 2048, 4096, 16384, MOST)
_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")

Draws = NDArray[np.void]
Numbers = NDArray[np.int64]
Dice = np.random.Generator
Whole = Annotated[int, Field(ge=0)]
Curve = tuple[str, str, str]
"""(level, mode, alignment): loads that differ in size only."""


class Load(FromTool):
    """One cell. ``least`` and ``most`` are equal where there is one size."""

    id: str
    """One word, for keys and files: ``L1/fixed/64/aligned``."""
    level: Literal["L1", "L2", "L3", "memory"]
    mode: Literal["fixed", "random", "distribution"]
    least: Annotated[int, Field(ge=0, le=MOST_COPY_BYTES)]
    most: Annotated[int, Field(ge=0, le=MOST_COPY_BYTES)]
    alignment: str
    mean_bytes: Annotated[float, Field(gt=0, le=MOST_COPY_BYTES)]
    """Mean size: of the draws, where sizes are random."""

    @property
    def curve(self) -> Curve:
        return self.level, self.mode, self.alignment

    @model_validator(mode="after")
    def _id_is_of_the_rest(self) -> Load:
        expected = _id(self.level, self.mode, self.least, self.most, self.alignment)
        if self.id != expected:
            raise ValueError(f"load {self.id!r} is {expected!r}")
        return self


def _id(level: str, mode: str, least: int, most: int, alignment: str) -> str:
    size = str(least) if least == most else f"{least}-{most}"
    return f"{level}/{mode}/{size}/{alignment}"


def load(level: str, mode: str, least: int, most: int, alignment: str, mean_bytes: float) -> Load:
    values = {"level": level, "mode": mode, "least": least, "most": most, "alignment": alignment}
    values |= {"id": _id(level, mode, least, most, alignment), "mean_bytes": round(mean_bytes, 4)}
    return Load.model_validate(values)


def fixed(level: str, size: int, alignment: str) -> Load:
    return load(level, "fixed", size, size, alignment, float(size))


def ranged(level: str, least: int, most: int) -> Load:
    """Random sizes with evenly distributed logarithm."""
    mean = (most + 1 - least) / math.log((most + 1) / least)
    return load(level, "random", least, most, "any", mean)


@dataclass(frozen=True)
class Plan:
    """What one bench does. Blocks end with the budget, but not before ``fewest_blocks``."""

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
    only: tuple[str, ...] = ()
    """Contenders, where only some are to be timed."""
    copies: Distribution | None = None
    """What loads of mode ``distribution`` replay."""

    def with_copies(self, copies: Distribution) -> Plan:
        least, most = copies.cells[0].size, copies.cells[-1].size
        if most > MOST_REPLAYED:
            raise UsageError(
                f"a recorded copy has {most} bytes; at most {MOST_REPLAYED >> 20} MiB are replayed"
            )
        # Copies of nothing have no size to divide by.
        mean = max(copies.bytes / copies.calls, 1e-3)
        recorded = load("L1", "distribution", least, most, "recorded", mean)
        return replace(self, loads=(*self.loads, recorded), copies=copies)


def sizes(around: bool = True) -> list[int]:
    """Powers of two, what lies half way between them and, up to 1 KiB, one less and one more."""
    values = {1, 2, 3}
    power = 4
    while power <= MOST:
        values |= {power, power + power // 2}
        if around and 8 <= power <= 1024:
            values |= {power - 1, power + 1}
        power *= 2
    return sorted(size for size in values if size <= MOST)


def quick() -> Plan:
    loads = [fixed("L1", size, "aligned") for size in sizes()]
    loads += [fixed("L1", size, at) for at in ("both", "aliased", "behind") for size in _SOME]
    loads += [ranged("L1", *each) for each in RANGES]
    loads += [fixed(at, size, "aligned") for at in LEVELS[1:] for size in (64, 512, 4096, MOST)]
    return Plan("quick", tuple(loads), 38.0, 3, 30_000)


def full() -> Plan:
    """The whole grid, about five minutes."""
    loads = [fixed("L1", size, at) for at in ALIGNMENTS for size in sizes()]
    loads += [ranged(level, *each) for level in LEVELS for each in RANGES]
    far = [size for size in sizes(around=False) if size >= 8]
    loads += [fixed(to, n, at) for to in LEVELS[1:] for at in ("aligned", "both") for n in far]
    return Plan("default", tuple(loads), 285.0)


def judged(seconds: float = 90.0) -> Plan:
    """L1 only, every size of the grid, for the figures that a best routine must reach."""
    loads = [fixed("L1", size, at) for at in ("aligned", "both") for size in sizes()]
    loads += [ranged("L1", *each) for each in RANGES]
    return Plan("figures", tuple(loads), seconds, 3, 60_000, 12)


def paper() -> Plan:
    """The published comparison: 128 to 2048 bytes, 5,000,000 calls of each size."""
    loads = tuple(fixed("L1", size, "aligned") for size in PAPER_SIZES)
    return Plan("paper", loads, 0.0, 1, 0, 6, 6, PAPER_CALLS, ("orig", "saito-oikawa"))


def draws(dice: Dice, load: Load, plan: Plan, room: int, count: int = POOL) -> Draws:
    """A pool of copies of ``load`` within ``room`` bytes, which hold the largest of them."""
    if load.mode == "random":
        # At any offset, not on lines.
        low, high = math.log(load.least), math.log(load.most + 1)
        random = np.exp(dice.uniform(low, high, count)).astype(np.int64)
        lengths = np.clip(random, load.least, load.most)
        return _pool(lengths, *(dice.integers(0, room - lengths + 1) for _ in range(2)))
    if load.mode == "distribution" and plan.copies is not None:
        cells = plan.copies.cells
        weights = np.array([cell.calls for cell in cells], dtype=np.float64)
        table = np.array([(cell.size, cell.dst, cell.src) for cell in cells], dtype=np.int64)
        chosen = table[dice.choice(len(table), size=count, p=weights / weights.sum())]
    else:
        chosen = np.tile(np.array([load.least, *ALIGNMENTS[load.alignment]]), (count, 1))
    lengths = chosen[:, 0]
    lines = (room - lengths - LINE) // LINE
    dst, src = (dice.integers(0, lines + 1) * LINE for _ in range(2))
    return _pool(lengths, dst + chosen[:, 1], src + chosen[:, 2])


def _pool(lengths: Numbers, dst: Numbers, src: Numbers) -> Draws:
    pool = np.empty(len(lengths), dtype=DRAW)
    pool["size"], pool["dst"], pool["src"] = lengths, dst, src
    return pool


def room_for(largest: int, region: int, level: str) -> int:
    """Bytes of the part of a region that is used: all, but little of it for L1."""
    if level != "L1":
        return region
    return min(region, max(8192, 1 << (2 * largest + 2 * LINE - 1).bit_length()))


@dataclass(frozen=True)
class Caches:
    """Bytes of this machine's caches, as the kernel reports them."""

    l1: int
    l2: int
    l3: int
    guessed: tuple[str, ...] = ()
    """Levels whose size is not known."""

    def region(self, level: str) -> int:
        """Bytes of target and of source, each, for copies that come from ``level``.

        Both together fill half of L2, at most a quarter of the shared L3, 4 × L3 for memory."""
        if level == "L1":
            return NEAR_BYTES
        if level == "L2":
            return max(self.l2 // 4, 2 * MOST)
        if level == "L3":
            return max(min(4 * self.l2, self.l3 // 8), 2 * MOST)
        return min(max(2 * self.l3, 32 << 20), 512 << 20)


@cache
def caches(folder: Path = _CACHE) -> Caches:
    """From /sys; common sizes stand in where nothing is known."""
    sizes = {"1": 32 << 10, "2": 1 << 20, "3": 16 << 20}
    guessed = set(sizes)
    for index in sorted(folder.glob("index*")):
        try:
            files = [index / name for name in ("level", "type", "size")]
            level, kind, text = (file.read_text().strip() for file in files)
            size = int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1:], 0)
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and level in sizes and 0 < size < 1 << 40:
            sizes[level] = size
            guessed.discard(level)
    levels = tuple(f"L{level}" for level in sorted(guessed))
    return Caches(sizes["1"], sizes["2"], sizes["3"], levels)
