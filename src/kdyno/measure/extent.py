# SPDX-License-Identifier: MIT
"""How large an experiment is and what a run of it will cost, before anything of it is built."""

from __future__ import annotations

import dataclasses
import math
import shutil
import statistics
from contextlib import suppress
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
        dataclasses.replace(variant, name="", levels=(), cmdline="", sysctl=(), cpus=None)
        for variant in experiment.variants
        if not variant.image
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
    size = extent(experiment)
    return f"{experiment.name} has {size.text}" if size.variants > ASK_ABOVE else None


IMAGE_BYTES = 60_000_000
"""Of a kernel with what is kept beside it, where none was built here yet."""
FETCH_BYTES = 160_000_000
"""Of a kernel source, packed."""
INSTALLED_BYTES = 600_000_000
"""Of a distribution's kernel with its modules, and its package."""


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
    folder = next(path for path in (cache, *cache.parents) if path.exists())
    free_bytes = shutil.disk_usage(folder).free
    if not KINDS[experiment.machine.kind].builds:
        return Cost(0, 0, 0.0, 0, 0, free_bytes, recipes.absent)
    wanted = {recipe.digest: recipe for recipe in recipes.of.values()}
    missing = [recipe for recipe in wanted.values() if find(cache, recipe) is None]
    unseen = extent(experiment).kernels - len(wanted) if recipes.absent else 0
    archs = {recipe.arch.name for recipe in wanted.values()}
    # Seconds and bytes of each image of these that was built here.
    whole, part, sizes = list[float](), list[float](), list[int]()
    for record in (cache / "images").glob("*/build.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            data = values_in(record)
            if data["inputs"]["arch"] in archs or not archs:
                size_bytes = sum(file.stat().st_size for file in record.parent.iterdir())
                (part if data["from_trunk"] else whole).append(float(data["seconds"]))
                sizes.append(size_bytes)
    whole_s = statistics.median(whole) if whole else BUILD_S
    part_s = statistics.median(part) if part else whole_s

    def alike(recipe: Recipe) -> tuple[str, ...]:
        """One that differs in flags or compiler shares no object with those before it."""
        return recipe.arch.name, recipe.compiler.version, recipe.cflags, recipe.tree.digest

    started = set()
    for recipe in wanted.values():
        start = image.choose(cache, recipe)
        if start.objects is not None and start.same_flags:
            started.add(alike(recipe))
    build_s = unseen * whole_s
    for recipe in missing:
        build_s += part_s if alike(recipe) in started else whole_s
        started.add(alike(recipe))
    building = len(missing) + unseen
    disk_bytes = building * (statistics.median(sizes) if sizes else IMAGE_BYTES)
    disk_bytes += LEAST_FREE_BYTES if building else 0
    images = {variant.image for variant in experiment.variants}
    for name in recipes.absent:
        disk_bytes += INSTALLED_BYTES if name in images else KERNEL_TREE_BYTES + FETCH_BYTES
    return Cost(
        kernels=len(wanted) + unseen,
        cached=len(wanted) - len(missing),
        build_s=build_s,
        builds=len(sizes),
        disk_bytes=int(disk_bytes),
        free_bytes=free_bytes,
        fetch=recipes.absent,
    )
