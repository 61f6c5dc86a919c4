# SPDX-License-Identifier: MIT
"""From a checked experiment to what all its boots have in common."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment
from kdyno.kernels.image import Image
from kdyno.kernels.source import Progress, fetch
from kdyno.kernels.source import parse as parse_source
from kdyno.machines.cpus import place
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Method, Setup
from kdyno.machines.process import ENVIRONMENT
from kdyno.machines.program import guest_program, programs_folder
from kdyno.measure import plan
from kdyno.measure.bench import Bench
from kdyno.measure.builder import Recipes
from kdyno.measure.equipment import equip, lacking_for
from kdyno.measure.undecided import refuse_undecided
from kdyno.suites.catalogue import Case, Catalogue, counted
from kdyno.suites.job import cases_of, jobs_of


def tree_of(experiment: Experiment, recipes: Recipes) -> Path | None:
    """The baseline's source, which cases that compile a kernel compile in every variant."""
    recipe = recipes.of.get(experiment.baseline)
    return recipe.tree.path if recipe is not None else None


def tree_for_cases(
    experiment: Experiment, suites: Catalogue, cache: Path, progress: Progress
) -> Path | None:
    """Where no kernel is built: the source that a case compiles, fetched only for that."""
    source = experiment.variants[0].source
    if not source or not any(case.tree for case in cases_of(experiment, suites)):
        return None
    return fetch(parse_source(source), cache, progress).path


def metric_of(experiment: Experiment) -> Method:
    """How it wants its figures, for the machine."""
    measure = experiment.measure
    return Method(measure.metric, experiment.machine.accel, experiment.cpus, measure.apart)


def check_machine(experiment: Experiment, cases: Sequence[Case] = ()) -> None:
    """UsageError or ToolError where the machine cannot measure what is asked, or where the metric
    does not decide it and nobody insists."""
    kind = KINDS[experiment.machine.kind]
    if experiment.measure.layouts and not kind.builds:
        raise UsageError(
            f"[layout] (--layouts) links kernels that kdyno builds; on {kind.label} it builds none"
        )
    kind.check(metric_of(experiment))
    refuse_undecided(experiment, cases)


MOST_SUITES = 1000


def check_cases(
    experiment: Experiment, suites: Catalogue, cache: Path, recipes: Recipes
) -> tuple[str, ...]:
    """Cases that cannot run on this machine, and why: a run leaves them out. UsageError for a
    command of the user's whose program is not there, ToolError when not one case can run."""
    mistakes = experiment.mistakes()
    commands = list(dict.fromkeys(use.command for use in experiment.suites if use.command))
    keys = [("suite", index, "command") for index in range(MOST_SUITES)]
    given = [key for key in keys if mistakes.positions.has(key)]
    for program, key in zip((it[0] for it in commands), given or keys, strict=False):
        bare = not {"/", "{"} & set(program)
        if bare and shutil.which(program, path=ENVIRONMENT["PATH"]) is None:
            mistakes.add(
                key,
                f"no program {program!r} in {ENVIRONMENT['PATH']}, where a case looks for it",
            )
    mistakes.raise_any()
    # A source that is not fetched yet will be.
    source = any(variant.source for variant in experiment.variants)
    tree = tree_of(experiment, recipes) or (Path("/") if source else None)
    programs = programs_folder(guest_program(cache, 64))
    cases = cases_of(experiment, suites)
    lacking = [(case, lacking_for(case, programs, tree)) for case in cases]
    if lacking and all(why for _case, why in lacking):
        raise ToolError(f"no case can run here: {'; '.join({why: 0 for _case, why in lacking})}")
    return tuple(f"{it.suite}/{it.name} cannot run here: {why}" for it, why in lacking if why)


def bench_of(
    experiment: Experiment,
    suites: Catalogue,
    images: Mapping[str, Image],
    tree: Path | None,
    cache: Path,
    sandboxed: bool,
    told: Callable[[str], None],
) -> Bench:
    """Ready to boot. The baseline's copy is added where it is to be booted.

    images: of every variant that was built; empty for a machine that boots nothing.
    """
    kind = KINDS[experiment.machine.kind]
    variants = {
        variant.name: variant
        for variant in experiment.variants
        if variant.name in images or not kind.builds
    }
    images = dict(images)
    if experiment.measure.calibrate:
        copy = plan.copy_name(experiment.baseline)
        variants[copy] = variants[experiment.baseline]
        if kind.builds:
            images[copy] = own = images[experiment.baseline]
            links, mine = own.links, experiment.measure.layouts
            images[experiment.baseline] = replace(own, links=links[:mine])
            images[copy] = replace(own, links=links[mine:])
    placement = place(experiment.cpus)
    machine = kind.make(
        Setup(
            variants=variants,
            images=images,
            placement=placement,
            memory_bytes=experiment.machine.memory_bytes,
            timeout_s=experiment.machine.timeout_s,
            cpus=experiment.machine.cpus,
            cache=cache,
            sandboxed=sandboxed,
            method=metric_of(experiment),
        )
    )
    cases = cases_of(experiment, suites)
    if experiment.measure.metric != "time":
        cases = tuple(map(counted, cases))
    return Bench(
        experiment=experiment,
        machine=machine,
        variants=variants,
        cases=cases,
        jobs=jobs_of(experiment, suites),
        placement=placement,
        equipment=equip(cases, guest_program(cache, 64), tree, cache, machine.places, told),
        images=images,
    )


def digests(bench: Bench) -> dict[str, str]:
    """Variant → digest of the kernel that it boots."""
    return {name: bench.machine.identity(name) for name in bench.variants}
