# SPDX-License-Identifier: MIT
"""From an experiment's variants to images: everything cheap is checked before anything slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from kdyno.errors import BuildError, UsageError
from kdyno.experiment.model import Experiment, Variant
from kdyno.kernels import cpu, scheduler
from kdyno.kernels.build import build, configure
from kdyno.kernels.image import Image
from kdyno.kernels.progress import Report, silent
from kdyno.kernels.recipe import Recipe, recipe_of
from kdyno.kernels.routines.checking import require_correct
from kdyno.kernels.routines.routine import Routine, of_variant
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
        routines = of_variant(variant.memcpy, variant.routines)
        if lacking := _lacking(routines) or _lacking_for(variant):
            if not experiment.skip_unsupported or variant.name == experiment.baseline:
                raise UsageError(
                    f"variant {variant.name!r}: {lacking}. Leave it out, or set "
                    "`skip-unsupported = true` at the top of the experiment to have it skipped"
                )
            skipped[variant.name] = f"skipped: {lacking}"
            continue
        # A routine that copies wrong is not worth a kernel, let alone a measurement.
        require_correct(routines, cache)
        if variant.source not in trees:
            trees[variant.source] = fetch(
                parse_source(variant.source), cache, progress, refresh=refresh
            )
        recipes[variant.name] = recipe_of(variant, trees[variant.source])
        _refuse_small_xstate(variant, recipes[variant.name])
    return Recipes(recipes, skipped)


def changed(experiment: Experiment, recipes: Recipes, before: Mapping[str, str]) -> str | None:
    """A variant that is not what it was, before anything is built; None: none is known to be.

    before: variant → identity. That of a variant with a scheduler is known when this is built too.
    """
    loaded = {variant.name for variant in experiment.variants if variant.scheduler is not None}
    for name, recipe in recipes.of.items():
        if name not in loaded and before.get(name, recipe.digest) != recipe.digest:
            return name
    return None


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
    images: dict[str, Image] = {}
    schedulers = {variant.name: variant.scheduler for variant in experiment.variants}
    failed: dict[str, str] = dict(recipes.skipped)

    def attempt(step: Callable[[str], None]) -> None:
        for name in sorted(recipes.of, key=lambda name: name != experiment.baseline):
            if name in failed:
                continue
            try:
                step(name)
            except BuildError as problem:
                if name == experiment.baseline:
                    raise
                failed[name] = str(problem)
                told(str(problem))

    def settle(name: str) -> None:
        configure(recipes.of[name], cache, name=name, sandboxed=sandboxed, report=report)

    def make(name: str) -> None:
        images[name] = build(
            recipes.of[name], cache, name=name, sandboxed=sandboxed, jobs=jobs, report=report
        )
        if asked := schedulers.get(name):
            image, tree = images.pop(name), recipes.of[name].tree
            made = scheduler.build(asked, tree, image.kernel, image.digest, cache, sandboxed)
            images[name] = replace(image, scheduler=made)

    attempt(settle)
    attempt(make)
    return Built(images, failed)


def _refuse_small_xstate(variant: Variant, recipe: Recipe) -> None:
    """UML before 6.13 has a fixed place for a process's registers; AMX's do not fit.

    Its first user process would panic with "ptrace set fp regs failed". Later kernels ask the
    host for the size.
    """
    path = "arch/x86/um/user-offsets.c"
    changed = recipe.changes.files.get(path)
    original = recipe.tree.path / path
    if changed is None and not original.is_file():
        return
    text = changed if changed is not None else original.read_bytes()
    if cpu.has_amx() and b"HOST_FP_SIZE, 2696" in text:
        raise UsageError(
            f"variant {variant.name!r}: User Mode Linux {recipe.tree.version} cannot run on a CPU "
            "with AMX: it keeps 2696 bytes of registers a process, AMX needs 11008. "
            'Add patches = ["um-6.12-xstate.patch"] to [kernel], or take a later kernel'
        )


def _lacking_for(variant: Variant) -> str:
    flags = [variant.cflags, *(flags for _file, flags in variant.file_cflags)]
    missing = dict.fromkeys(cpu.missing(cpu.needed_by(" ".join(flags))))
    return f"its cflags need {', '.join(missing)}, which this CPU lacks" if missing else ""


def _lacking(routines: Iterable[Routine]) -> str:
    for routine in routines:
        if missing := cpu.missing(routine.requires):
            return (
                f"{routine.function} routine {routine.name!r} needs {', '.join(missing)}, "
                "which this CPU lacks"
            )
    return ""
