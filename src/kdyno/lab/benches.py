# SPDX-License-Identifier: MIT
"""From a checked experiment to what all its boots have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kdyno.experiment.model import Experiment
from kdyno.experiment.running import HOST
from kdyno.kernels.image import Image
from kdyno.kernels.source import Progress, fetch
from kdyno.kernels.source import parse as parse_source
from kdyno.lab import plan
from kdyno.lab.booting import Bench
from kdyno.lab.builder import Recipes
from kdyno.lab.equipment import equip
from kdyno.machines.cpus import place
from kdyno.machines.host import HOST_PLACES, running
from kdyno.machines.program import guest_program
from kdyno.machines.uml import GUEST_PLACES
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.selection import cases_of, jobs_of


def tree_of(experiment: Experiment, recipes: Recipes) -> Path | None:
    """The baseline's source, which cases that compile a kernel compile in every variant."""
    recipe = recipes.of.get(experiment.baseline)
    return recipe.tree.path if recipe is not None else None


def host_bench(
    experiment: Experiment,
    suites: Catalogue,
    cache: Path,
    sandboxed: bool,
    progress: Progress,
    told: Callable[[str], None],
) -> Bench:
    """For the running kernel; fetches a source only when a case compiles one."""
    cases = cases_of(experiment, suites)
    variants = {variant.name: variant for variant in experiment.variants}
    if experiment.measure.calibrate:
        variants[plan.copy_name(experiment.baseline)] = variants[experiment.baseline]
    tree = None
    if any(case.tree for case in cases) and (source := experiment.variants[0].source):
        tree = fetch(parse_source(source), cache, progress).path
    places = HOST_PLACES if sandboxed else None
    return Bench(
        experiment=experiment,
        images={},
        variants=variants,
        cases=cases,
        jobs=jobs_of(experiment, suites),
        placement=place(experiment.cpus),
        cache=cache,
        sandboxed=sandboxed,
        mode=HOST,
        equipment=equip(cases, guest_program(cache, 64), tree, cache, places, told),
        running=running(),
    )


def digests(bench: Bench) -> dict[str, str]:
    """Variant → digest of the kernel that it boots."""
    if bench.running is not None:
        return dict.fromkeys(bench.variants, bench.running.digest)
    return {name: image.digest for name, image in bench.images.items()}


def uml_bench(
    experiment: Experiment,
    suites: Catalogue,
    images: dict[str, Image],
    tree: Path | None,
    cache: Path,
    sandboxed: bool,
    told: Callable[[str], None],
) -> Bench:
    """For kernels that were built; the baseline's copy is added where it is to be booted."""
    variants = {variant.name: variant for variant in experiment.variants if variant.name in images}
    if experiment.measure.calibrate:
        copy = plan.copy_name(experiment.baseline)
        variants[copy] = variants[experiment.baseline]
        images[copy] = images[experiment.baseline]
    for image in images.values():
        guest_program(cache, image.word_bits)
    cases = cases_of(experiment, suites)
    places = GUEST_PLACES if sandboxed else None
    return Bench(
        experiment=experiment,
        images=images,
        variants=variants,
        cases=cases,
        jobs=jobs_of(experiment, suites),
        placement=place(experiment.cpus),
        cache=cache,
        sandboxed=sandboxed,
        mode="seccomp",
        equipment=equip(cases, guest_program(cache, 64), tree, cache, places, told),
    )
