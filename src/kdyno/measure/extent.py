# SPDX-License-Identifier: MIT
"""How large an experiment is and what a run of it will cost, before anything of it is built."""

from __future__ import annotations

import dataclasses
import math
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kdyno.experiment.model import Experiment
from kdyno.kernels import image
from kdyno.kernels.build import LEAST_FREE_BYTES
from kdyno.kernels.image import find
from kdyno.kernels.recipe import Recipe
from kdyno.kernels.source import KERNEL_TREE_BYTES
from kdyno.machines.kinds import KINDS
from kdyno.measure.builder import Recipes
from kdyno.measure.loop import CASE_S
from kdyno.reading.checked import values_in
from kdyno.stats.effect import FEWEST_BLOCKS

ASK_ABOVE = 64
"""Variants beyond which a run is asked about first."""
BUILD_S = 240.0
"""A whole kernel on two cores; one that shares most of its objects is quicker."""
BOOT_S = 0.3
"""Start and power-off of a guest."""
CASE_SHARE = 1.4
"""Calibration and warm-up on top of a case's measured seconds."""


@dataclass(frozen=True)
class Extent:
    variants: int
    kernels: int
    """Different images among them."""
    build_hours: float
    """If none of them is in the cache."""
    measure_hours: float
    """At least: a case that runs a program takes as long as the program does."""

    @property
    def text(self) -> str:
        return (
            f"{self.variants} variants ({self.kernels} kernels to build): up to "
            f"{self.build_hours:.1f} hours of building and {self.measure_hours:.1f} hours or more "
            "of measuring"
        )


def extent(experiment: Experiment) -> Extent:
    """The predicted extent of ``experiment``, overrides applied."""
    images = {
        dataclasses.replace(it, name="", levels=(), cmdline="", sysctl=(), cpus=None)
        for it in experiment.variants
    }
    variants = len(experiment.variants) + experiment.measure.calibrate
    measure_s = experiment.measure.max_boots * block_s(experiment)
    if experiment.measure.max_minutes is not None:
        measure_s = min(measure_s, 60 * experiment.measure.max_minutes)
    return Extent(variants, len(images), len(images) * BUILD_S / 3600, measure_s / 3600)


def block_s(experiment: Experiment, most_s: float = math.inf) -> float:
    """Predicted seconds of one boot of every variant; ``most_s``: of a case in it."""
    variants = len(experiment.variants) + experiment.measure.calibrate
    cases_s = sum(min(use.seconds, most_s) * len(use.cases) for use in experiment.suites)
    return variants * (BOOT_S + CASE_SHARE * cases_s)


def too_short(experiment: Experiment) -> str | None:
    """What to say before a run whose budget ends before anything has an interval; None: none."""
    measure = experiment.measure
    if measure.metric != "time" or len(experiment.variants) + measure.calibrate < 2:
        return None
    if measure.max_boots < FEWEST_BLOCKS:
        return (
            f"max_boots = {measure.max_boots} ends before the first interval, which takes "
            f"{FEWEST_BLOCKS} boots of each variant: every effect will be inconclusive"
        )
    most_s = math.inf if measure.interleave == "boots" else CASE_S
    minutes = FEWEST_BLOCKS * block_s(experiment, most_s) / 60
    if measure.max_minutes is None or minutes <= measure.max_minutes:
        return None
    cases = sum(len(use.cases) for use in experiment.suites)
    fewer = int(cases * measure.max_minutes / minutes)
    would = f"max_minutes = {math.ceil(minutes)}"
    would += f", or {fewer} cases instead of {cases} (--case)," if fewer else ""
    return (
        f"max_minutes = {measure.max_minutes:g} may end before the first interval: "
        f"{FEWEST_BLOCKS} boots of each variant take {minutes:.1f} minutes or more. {would} would "
        "do"
    )


def question(experiment: Experiment) -> str | None:
    """What to ask before a very large experiment; None for one that needs no asking."""
    found = extent(experiment)
    return f"{experiment.name} has {found.text}" if found.variants > ASK_ABOVE else None


IMAGE_BYTES = 60_000_000
"""Of a kernel with what is kept beside it, where none was built here yet."""
FETCH_BYTES = 160_000_000
"""Of a kernel source, packed."""


@dataclass(frozen=True)
class Cost:
    """What a run will need before and beside measuring."""

    kernels: int
    """Different images; a machine that boots nothing has none."""
    cached: int
    build_s: float
    builds: int
    """Builds of this cache that ``build_s`` is made from; 0: it is a guess."""
    disk_bytes: int
    """While it builds and afterwards."""
    free_bytes: int
    fetch: tuple[str, ...]
    """Sources that would come over the network."""


def cost(experiment: Experiment, recipes: Recipes, cache: Path) -> Cost:
    """Of ``experiment``, overrides applied, with what the cache holds now."""
    folder = next(it for it in (cache, *cache.parents) if it.exists())
    free_bytes = shutil.disk_usage(folder).free
    if not KINDS[experiment.machine.kind].builds:
        return Cost(0, 0, 0.0, 0, 0, free_bytes, recipes.absent)
    wanted = {recipe.digest: recipe for recipe in recipes.of.values()}
    missing = [recipe for recipe in wanted.values() if find(cache, recipe) is None]
    unseen = extent(experiment).kernels if recipes.absent else len(wanted)
    earlier = list(_earlier(cache, {recipe.arch.name for recipe in wanted.values()}))
    whole = [seconds for seconds, partly, _bytes in earlier if not partly]
    part = [seconds for seconds, partly, _bytes in earlier if partly]
    whole_s = statistics.median(whole) if whole else BUILD_S
    part_s = statistics.median(part) if part else whole_s
    # One that differs in flags or compiler shares no object with those before it.
    started = set()
    for recipe in wanted.values():
        start = image.choose(cache, recipe)
        if start.objects is not None and start.same_flags:
            started.add(_alike(recipe))
    build_s = 0.0
    for recipe in missing:
        build_s += part_s if _alike(recipe) in started else whole_s
        started.add(_alike(recipe))
    build_s += (unseen - len(wanted)) * whole_s
    image_bytes = statistics.median([it[2] for it in earlier]) if earlier else IMAGE_BYTES
    building = len(missing) + unseen - len(wanted)
    disk_bytes = building * image_bytes + (LEAST_FREE_BYTES if building else 0)
    disk_bytes += len(recipes.absent) * (KERNEL_TREE_BYTES + FETCH_BYTES)
    return Cost(
        kernels=unseen,
        cached=len(wanted) - len(missing),
        build_s=build_s,
        builds=len(earlier),
        disk_bytes=int(disk_bytes),
        free_bytes=free_bytes,
        fetch=recipes.absent,
    )


def _alike(recipe: Recipe) -> tuple[str, ...]:
    return recipe.arch.name, recipe.compiler.version, recipe.cflags, recipe.tree.digest


def _earlier(cache: Path, archs: set[str]) -> Iterator[tuple[float, bool, int]]:
    """(seconds, whether it began with another's objects, bytes) of each image of these."""
    for record in (cache / "images").glob("*/build.json"):
        try:
            data = values_in(record)
            if data["inputs"]["arch"] in archs or not archs:
                size_bytes = sum(file.stat().st_size for file in record.parent.iterdir())
                yield float(data["seconds"]), bool(data["from_trunk"]), size_bytes
        except (OSError, ValueError, KeyError, TypeError):
            continue
