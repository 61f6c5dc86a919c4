# SPDX-License-Identifier: MIT
"""From an experiment's variants to images: everything cheap is checked before anything slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kdyno.errors import BuildError, UsageError
from kdyno.experiment.model import Experiment, Variant
from kdyno.kernels import cpu
from kdyno.kernels.build import build, configure
from kdyno.kernels.image import Image
from kdyno.kernels.progress import Report, silent
from kdyno.kernels.recipe import Recipe, recipe_of
from kdyno.kernels.routine import find_routine
from kdyno.kernels.source import Progress, Tree, fetch
from kdyno.kernels.source import parse as parse_source


@dataclass(frozen=True)
class Recipes:
    """What is to be built, and what was left out and why."""

    of: Mapping[str, Recipe]
    skipped: Mapping[str, str]


@dataclass(frozen=True)
class Built:
    """Images by variant; ``failed``: variant → why there is none."""

    images: Mapping[str, Image]
    failed: Mapping[str, str] = field(default_factory=dict)


def check(
    experiment: Experiment, cache: Path, progress: Progress, *, refresh: bool = False
) -> Recipes:
    """Fetch the sources and work out every recipe.

    Patches are applied to copies here, compilers looked up, CPU features compared: UsageError
    for what cannot be built, before anything is.
    """
    trees: dict[str, Tree] = {}
    recipes: dict[str, Recipe] = {}
    skipped: dict[str, str] = {}
    for variant in experiment.variants:
        if lacking := _lacking(variant):
            if not experiment.skip_unsupported or variant.name == experiment.baseline:
                raise UsageError(
                    f"variant {variant.name!r}: {lacking}. Leave it out, or set "
                    "`skip-unsupported = true` at the top of the experiment to have it skipped"
                )
            skipped[variant.name] = f"skipped: {lacking}"
            continue
        if variant.source not in trees:
            trees[variant.source] = fetch(
                parse_source(variant.source), cache, progress, refresh=refresh
            )
        recipes[variant.name] = recipe_of(variant, trees[variant.source])
    return Recipes(recipes, skipped)


def build_all(
    experiment: Experiment,
    recipes: Recipes,
    cache: Path,
    *,
    sandboxed: bool = True,
    jobs: int | None = None,
    report: Report = silent,
    told: Callable[[str], None] = lambda _text: None,
) -> Built:
    """Build every recipe, the baseline first: the others start from its object tree.

    A variant that does not build is in ``failed``; the others go on. Options that do not
    survive are a UsageError before the first compilation.
    """
    for name, recipe in recipes.of.items():
        configure(recipe, cache, name=name, sandboxed=sandboxed, report=report)
    images: dict[str, Image] = {}
    failed: dict[str, str] = dict(recipes.skipped)
    names = sorted(recipes.of, key=lambda name: name != experiment.baseline)
    for name in names:
        try:
            images[name] = build(
                recipes.of[name], cache, name=name, sandboxed=sandboxed, jobs=jobs, report=report
            )
        except BuildError as problem:
            if name == experiment.baseline:
                raise
            failed[name] = str(problem)
            told(str(problem))
    return Built(images, failed)


def _lacking(variant: Variant) -> str:
    if variant.memcpy is None:
        return ""
    missing = cpu.missing(find_routine(variant.memcpy).requires)
    if not missing:
        return ""
    return f"memcpy routine {variant.memcpy!r} needs {', '.join(missing)}, which this CPU lacks"
