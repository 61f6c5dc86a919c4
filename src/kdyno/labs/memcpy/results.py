# SPDX-License-Identifier: MIT
"""What a bench gave, as the JSON file ``memcpy/bench.json`` has it, and what that says.

Every ratio is a time divided by another, so below 1 is faster, and comes from the blocks: each
block gives one ratio, and their Hodges-Lehmann centre and signed-rank interval are shown
(stats/effect.py). "The rival" of a load: memcpy_orig or rep movsb, the faster by its median."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from kdyno.labs.memcpy.loads import LEVELS, Curve, Load, Whole
from kdyno.reading.checked import FromTool, check_json
from kdyno.stats.effect import PairedEffect, effect_of_differences, paired_effect
from kdyno.store.reading import content

KIND = "memcpy-bench"
MOST_FILE_BYTES = 256 << 20
BANDS = ((1, 16), (17, 64), (65, 256), (257, 1024), (1025, 4096), (4097, 65536))
"""Ranges of fixed sizes for which a best routine is named."""
GOAL_BYTES = 4096
"""Size at which the share of L1's ceiling is taken."""

Positive = Annotated[float, Field(gt=1e-9, lt=1e15)]
"""Such that the logarithm of any ratio of two of them can be undone."""


class Contender(FromTool):
    """One function that was timed; rank: see checking.Contender."""

    name: str
    rank: Literal["routine", "rival", "other", "bound"]


class Ceiling(FromTool):
    """The highest throughput measured for a level."""

    bytes_per_ns: Positive


class Clock(FromTool):
    """Of the core: the median over the blocks."""

    core_ghz: Positive


class Bench(FromTool):
    """One execution of `kdyno lab memcpy bench`. Blocks are numbered from 0; none is missing."""

    plan: str
    created: str
    cpu: str
    blocks: Annotated[Whole, Field(ge=1)]
    seconds: Positive
    clock: Clock
    ceilings: dict[str, Ceiling]
    """Level → ceiling."""
    caches: dict[Literal["L1", "L2", "L3"], Whole]
    """Level → bytes, but for memory."""
    contenders: list[Contender]
    failed: dict[str, str]
    left_out: dict[str, str]
    remarks: list[str]
    loads: list[Load]
    ns: dict[str, dict[str, list[Positive]]]
    """Contender → load → ns per call by block."""

    @model_validator(mode="after")
    def _times_are_of_contenders_and_loads(self) -> Bench:
        ids = {load.id for load in self.loads}
        names = {contender.name for contender in self.contenders}
        for name, rows in self.ns.items():
            if name not in names or set(rows) != ids:
                raise ValueError(f"ns of {name!r} do not belong to the contenders and loads")
            if any(len(values) != self.blocks for values in rows.values()):
                raise ValueError(f"ns of {name!r} do not have {self.blocks} blocks")
        return self

    @property
    def timed(self) -> list[Contender]:
        """Those that have a time for every load."""
        return [contender for contender in self.contenders if contender.name in self.ns]

    def ranked(self, *ranks: str) -> list[str]:
        """Names of those with a time that have one of these ranks."""
        return [contender.name for contender in self.timed if contender.rank in ranks]


def to_json(bench: Bench) -> dict[str, Any]:
    return {"schema": 1, "kind": KIND, **bench.model_dump()}


def read_bench(path: Path) -> Bench:
    """The bench in a file; UsageError names the file and what is wrong with it."""
    return parse_bench(content(path, MOST_FILE_BYTES, "result of a bench"), str(path))


def parse_bench(data: bytes, origin: str) -> Bench:
    """The bench that ``data`` holds; UsageError otherwise, with ``origin`` in it."""
    way = "`kdyno lab memcpy bench --json FILE` writes such files"
    return check_json(Bench, data, origin, KIND, way)


def ns(bench: Bench, name: str, load: Load) -> float:
    """Median over the blocks, ns per call."""
    return median(bench.ns[name][load.id])


def speed(bench: Bench, names: Iterable[str], loads: Sequence[Load]) -> list[str]:
    """The names, the one with the least time over all these loads first."""
    return sorted(names, key=lambda name: math.fsum(math.log(ns(bench, name, at)) for at in loads))


def ceiling_ns(bench: Bench, load: Load) -> float | None:
    """The least time that a copy of the load's mean size could take; None: not measured.

    A copy whose target and source do not both fit into a cache is held against the next one."""
    level: str = load.level
    while level in bench.caches and bench.caches[level] < 2 * load.most:
        level = LEVELS[LEVELS.index(level) + 1]
    ceiling = bench.ceilings.get(level)
    return None if ceiling is None else load.mean_bytes / ceiling.bytes_per_ns


def share(bench: Bench, name: str, load: Load) -> float | None:
    """Part of the ceiling that is reached: 1 is all of it."""
    least_ns = ceiling_ns(bench, load)
    return None if least_ns is None else least_ns / ns(bench, name, load)


def rival(bench: Bench, load: Load) -> str | None:
    """The faster of the rivals at a load. Its own ratio is 1."""
    return min(bench.ranked("rival"), key=lambda name: ns(bench, name, load), default=None)


def rivals(bench: Bench) -> str:
    """``the faster of orig and fsrm``: what times are held against here."""
    names = bench.ranked("rival")
    return f"the faster of {' and '.join(names)}" if len(names) > 1 else "".join(names)


def against(bench: Bench, name: str, other: str, load: Load) -> PairedEffect:
    """Time of ``name`` ÷ time of ``other``."""
    return paired_effect(bench.ns[other][load.id], bench.ns[name][load.id])


def over(bench: Bench, name: str, others: Sequence[str], loads: Sequence[Load]) -> PairedEffect:
    """Time ÷ time of others (one for each load), the geometric mean over loads in each block."""
    differences = [
        np.log(bench.ns[name][load.id]) - np.log(bench.ns[other][load.id])
        for other, load in zip(others, loads, strict=True)
    ]
    return effect_of_differences(np.asarray(np.mean(differences, axis=0), dtype=np.float64))


@dataclass(frozen=True)
class Best:
    """The contender with the least time over a band of sizes."""

    least: int
    most: int
    name: str
    ratio: PairedEffect | None
    """Time ÷ time of the rival, the geometric mean over the band's loads."""
    others: tuple[str, ...]
    """Not distinguishable from the best one: the ratio's interval holds 1. The fastest first."""


def best(bench: Bench, loads: Sequence[Load], least: int, most: int) -> Best | None:
    """The fastest over these loads; None without loads or contenders that copy."""
    names = bench.ranked("routine", "rival", "other")
    if not loads or not names:
        return None
    first, *others = speed(bench, names, loads)
    ratios = {name: over(bench, name, [first] * len(loads), loads) for name in others}
    equal = tuple(name for name, of in ratios.items() if of.ci is None or of.ci[0] <= 1.0)
    rivals = [other for load in loads if (other := rival(bench, load)) is not None]
    ratio = over(bench, first, rivals, loads) if len(rivals) == len(loads) else None
    return Best(least, most, first, ratio, equal)


def curves(bench: Bench) -> list[Curve]:
    """Every curve, in the order of the loads."""
    return list(dict.fromkeys(load.curve for load in bench.loads))


def curve(bench: Bench, key: Curve) -> list[Load]:
    """Loads that differ in size only, smallest first."""
    loads = [load for load in bench.loads if load.curve == key]
    return sorted(loads, key=lambda load: (load.mean_bytes, load.most))


def bands(bench: Bench, key: Curve) -> list[Best]:
    """The best for each band of sizes of one curve; draws of several sizes, whose ranges overlap,
    are a band each."""
    loads = curve(bench, key)
    bands = [(a, b, [load for load in loads if a <= load.most <= b]) for a, b in BANDS]
    if "fixed" not in key:
        bands = [(load.least, load.most, [load]) for load in loads]
    each = (best(bench, own, least, most) for least, most, own in bands)
    return [winner for winner in each if winner is not None]


@dataclass(frozen=True)
class Worst:
    """A contender's greatest ratio to the rival."""

    name: str
    value: float
    ratio: PairedEffect
    """The same with its interval."""
    load: Load


def worst(bench: Bench, name: str, loads: Iterable[Load]) -> Worst | None:
    """The load at which ``name`` compares worst with the rival; None without a rival."""
    rows = [
        Worst(name, ratio.ratio, ratio, load)
        for load in loads
        if (other := rival(bench, load)) is not None
        and (ratio := against(bench, name, other, load)).ratio is not None
    ]
    return max(rows, key=lambda row: row.value, default=None)


def steadiest(bench: Bench, loads: Sequence[Load]) -> Worst | None:
    """Of the routines, the one whose worst ratio is the smallest."""
    each = [worst(bench, name, loads) for name in bench.ranked("routine")]
    return min((row for row in each if row is not None), key=lambda row: row.value, default=None)


@dataclass(frozen=True)
class Goal:
    """One figure with its target. ``ends``: 95 % interval."""

    key: str
    """``worst``, ``ceiling``, ``glibc`` or ``rivals``."""
    name: str
    how: str
    value: float
    ends: tuple[float, float] | None
    target: str
    met: bool


def goals(bench: Bench, name: str | None = None) -> list[Goal]:
    """The figures for ``name``, by default the steadiest routine, as far as the bench has them."""
    near = [load for load in bench.loads if load.level == "L1" and load.mode != "distribution"]
    chosen = worst(bench, name, near) if name else steadiest(bench, near)
    if chosen is None:
        return []
    who, how = chosen.name, f"{chosen.name}, at {chosen.load.id}"
    title, met = f"worst time ÷ {rivals(bench)}, L1", chosen.value <= 1.05
    figures = [Goal("worst", title, how, chosen.value, chosen.ratio.ci, "≤ 1.05", met)]
    for load in near:
        if load.id == f"L1/fixed/{GOAL_BYTES}/aligned" and (part := share(bench, who, load)):
            title, how = "share of L1's ceiling at 4 KiB", f"{who}, both ends at 64 bytes"
            figures.append(Goal("ceiling", title, how, part, None, "≥ 0.8", part >= 0.8))
    for load in (load for load in bench.loads if load.mode == "distribution"):
        other = rival(bench, load) or ""
        for key, slower, words, least in (
            ("glibc", "glibc", "glibc's memcpy", 1.0),
            ("rivals", other, f"{rivals(bench)} ({other})", 1.25),
        ):
            speedup = against(bench, slower, who, load) if slower in bench.ns else None
            if speedup is not None and (value := speedup.ratio) is not None:
                title, met = f"speed ÷ {words}, measured distribution", value >= least
                figures.append(Goal(key, title, who, value, speedup.ci, f"≥ {least:g}", met))
    return figures
