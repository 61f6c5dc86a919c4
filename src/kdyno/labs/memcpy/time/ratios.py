# SPDX-License-Identifier: MIT
"""What a bench says: ratios of times with intervals, shares of the ceiling, the best by size.

Every ratio is a time divided by another, so below 1 is faster, and comes from the blocks: each
block gives one ratio, and their Hodges-Lehmann centre and signed-rank interval are told
(stats/effect.py). "The rival" of a load is whichever of memcpy_orig and rep movsb is faster there
by its median.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from kdyno.labs.memcpy.time import ratios as judging
from kdyno.labs.memcpy.time.loads import LEVELS, Load
from kdyno.labs.memcpy.time.results import Bench
from kdyno.stats.effect import PairedEffect, effect_of_differences, paired_effect

BANDS = ((1, 16), (17, 64), (65, 256), (257, 1024), (1025, 4096), (4097, 65536))
"""Size ranges for which a best routine is named."""


@dataclass(frozen=True)
class Timing:
    """One contender with one load."""

    name: str
    load: Load
    ns: float
    """Per call, median over blocks."""
    bytes_per_cycle: float
    share: float | None
    """Of the level's ceiling; None where that was not measured."""
    rival: str | None
    ratio: PairedEffect | None
    """Time ÷ time of the rival; None where there is no rival."""


@dataclass(frozen=True)
class Best:
    """The contender with the least time over a band of sizes."""

    least: int
    most: int
    name: str
    ratio: PairedEffect | None
    """Time ÷ time of the rival, the geometric mean over the band's loads."""
    others: tuple[str, ...]
    """Those whose time cannot be told from the best one's: the interval of the ratio holds 1."""


@dataclass(frozen=True)
class Worst:
    """A contender's greatest ratio against the rival."""

    name: str
    ratio: PairedEffect
    load: Load


def ns(bench: Bench, name: str, load: Load) -> float:
    """Median over the blocks, ns per call."""
    return median(bench.ns[name][load.id])


def bytes_per_cycle(bench: Bench, name: str, load: Load) -> float:
    """Mean bytes of a copy by the core's cycles that it took."""
    return load.mean / (ns(bench, name, load) * bench.ghz[load.id])


def ceiling_ns(bench: Bench, load: Load) -> float | None:
    """The least time that a copy of the load's mean size could take; None: not measured.

    A copy whose target and source do not both fit into a cache is held against the next one.
    """
    level = load.level
    while level in bench.caches and bench.caches[level] < 2 * load.most:
        level = LEVELS[LEVELS.index(level) + 1]
    ceiling = bench.ceilings.get(level)
    return None if ceiling is None else load.mean / ceiling.rate


def share(bench: Bench, name: str, load: Load) -> float | None:
    """Part of the ceiling that is reached: 1 is all of it."""
    least_ns = ceiling_ns(bench, load)
    return None if least_ns is None else least_ns / ns(bench, name, load)


def rival(bench: Bench, load: Load) -> str | None:
    """The faster of the rivals at a load. Its own ratio is 1."""
    names = [it.name for it in bench.timed if it.rank == "rival"]
    return min(names, key=lambda name: ns(bench, name, load), default=None)


def against(bench: Bench, name: str, other: str, load: Load) -> PairedEffect:
    """Time of ``name`` ÷ time of ``other``."""
    return paired_effect(bench.ns[other][load.id], bench.ns[name][load.id])


def rows(bench: Bench, loads: Iterable[Load] | None = None) -> list[Timing]:
    """All contenders with all loads, in the order of the file."""
    found = []
    for load in bench.loads if loads is None else loads:
        for it in bench.timed:
            beside = rival(bench, load)
            ratio = against(bench, it.name, beside, load) if beside is not None else None
            found.append(
                Timing(
                    it.name,
                    load,
                    ns(bench, it.name, load),
                    bytes_per_cycle(bench, it.name, load),
                    share(bench, it.name, load),
                    beside,
                    ratio,
                )
            )
    return found


def over(bench: Bench, name: str, others: Sequence[str], loads: Sequence[Load]) -> PairedEffect:
    """Time ÷ time of others (one for each load), the geometric mean over loads in each block."""
    differences = [
        np.log(bench.ns[name][load.id]) - np.log(bench.ns[other][load.id])
        for other, load in zip(others, loads, strict=True)
    ]
    return effect_of_differences(np.asarray(np.mean(differences, axis=0), dtype=np.float64))


def best(bench: Bench, loads: Sequence[Load], least: int, most: int) -> Best | None:
    """Who is fastest over these loads; None without loads or contenders that copy."""
    racing = [it.name for it in bench.timed if it.rank != "bound"]
    if not loads or not racing:
        return None

    def total(name: str) -> float:
        return math.fsum(math.log(ns(bench, name, load)) for load in loads)

    first = min(racing, key=total)
    equal = []
    for name in racing:
        if name != first:
            ratio = over(bench, name, [first] * len(loads), loads)
            if ratio.lo is None or ratio.lo <= 1.0:
                equal.append(name)
    beside = [rival(bench, load) for load in loads]
    found = [it for it in beside if it is not None]
    ratio_to = over(bench, first, found, loads) if len(found) == len(loads) else None
    return Best(least, most, first, ratio_to, tuple(sorted(equal, key=total)))


def bands(bench: Bench, level: str, mode: str, alignment: str) -> list[Best]:
    """The best for each band of sizes of one curve."""
    found = []
    whole = curve(bench, level, mode, alignment)
    if mode in ("distribution", "trace"):  # every size at once
        each = (best(bench, [it], it.least, it.most) for it in whole)
        return [it for it in each if it is not None]
    for least, most in BANDS:
        loads = [it for it in whole if least <= it.most <= most]
        winner = best(bench, loads, least, most)
        if winner is not None:
            found.append(winner)
    return found


def curve(bench: Bench, level: str, mode: str, alignment: str) -> list[Load]:
    """Loads that differ in size only, smallest first."""
    chosen = [
        it for it in bench.loads if (it.level, it.mode, it.alignment) == (level, mode, alignment)
    ]
    return sorted(chosen, key=lambda load: (load.mean, load.most))


def worst(bench: Bench, name: str, loads: Iterable[Load]) -> Worst | None:
    """The load at which ``name`` compares worst with the rival; None without a rival."""
    found: Worst | None = None
    for load in loads:
        beside = rival(bench, load)
        if beside is None:
            return None
        ratio = against(bench, name, beside, load)
        if ratio.ratio is not None and (found is None or ratio.ratio > (found.ratio.ratio or 0.0)):
            found = Worst(name, ratio, load)
    return found


def steadiest(bench: Bench, loads: Sequence[Load]) -> Worst | None:
    """Of the routines, the one whose worst ratio is the smallest."""
    each = [worst(bench, it.name, loads) for it in bench.timed if it.rank == "routine"]
    known = [it for it in each if it is not None]
    return min(known, key=lambda it: it.ratio.ratio or math.inf, default=None)


SIZE = 4096
"""Bytes at which the share of L1's ceiling is taken."""


@dataclass(frozen=True)
class Goal:
    """One figure with its target: ``most`` or ``least``. ``ends``: 95 % interval."""

    key: str
    """``worst``, ``ceiling``, ``glibc`` or ``rivals``."""
    name: str
    value: float
    ends: tuple[float, float] | None
    how: str
    most: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool:
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )


def goals(bench: Bench, name: str | None = None) -> list[Goal]:
    """The figures for ``name``; those that the bench has nothing for are left out."""
    near = [it for it in bench.loads if it.level == "L1" and it.mode in ("fixed", "random")]
    chosen = judging.worst(bench, name, near) if name else judging.steadiest(bench, near)
    if chosen is None or chosen.ratio.ratio is None:
        return []
    who = chosen.name
    found = [
        Goal(
            "worst",
            "worst time ÷ the faster of memcpy_orig and rep movsb, L1",
            chosen.ratio.ratio,
            _ends(chosen.ratio.lo, chosen.ratio.hi),
            f"{who}, at {chosen.load.id}",
            most=1.05,
        )
    ]
    for load in near:
        share = judging.share(bench, who, load)
        if (load.mode, load.least, load.alignment) == ("fixed", SIZE, "aligned") and share:
            how = f"{who}, both ends at 64 bytes"
            title = "share of L1's ceiling at 4 KiB"
            found.append(Goal("ceiling", title, share, None, how, least=0.8))
    for load in bench.loads:
        if load.mode != "distribution":
            continue
        beside = {"glibc": ("glibc", "glibc's memcpy", 1.0)}
        if (rival := judging.rival(bench, load)) is not None:
            words = f"the faster of memcpy_orig and rep movsb ({rival})"
            beside[rival] = ("rivals", words, 1.25)
        for other, (key, words, least) in beside.items():
            if other not in bench.ns:
                continue
            speed = judging.against(bench, other, who, load)
            if speed.ratio is not None:
                title = f"speed ÷ {words}, measured distribution"
                ends = _ends(speed.lo, speed.hi)
                found.append(Goal(key, title, speed.ratio, ends, who, least=least))
    return found


def _ends(low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (low, high)
