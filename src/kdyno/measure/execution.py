# SPDX-License-Identifier: MIT
"""An experiment, executed: checked, built, measured, judged; and a run, taken up again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from kdyno import sandbox
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment, Variant
from kdyno.experiment.overrides import Overrides
from kdyno.judge.judging import verdict_of
from kdyno.judge.question import Question
from kdyno.kernels.image import Image
from kdyno.kernels.progress import BuildProgress
from kdyno.machines.cpus import measuring, place
from kdyno.machines.kinds import KINDS
from kdyno.measure.asking import asked_of, manifest_of
from kdyno.measure.bench import Bench, info
from kdyno.measure.benches import (
    bench_of,
    check_cases,
    check_machine,
    digests,
    tree_for_cases,
    tree_of,
)
from kdyno.measure.builder import Built, Recipes, build_all, changed, check
from kdyno.measure.counted_work import with_fixed_work
from kdyno.measure.extent import too_short
from kdyno.measure.interleaving import choose, whole_cases
from kdyno.measure.loop import Loop, Past, Status
from kdyno.report.wording import worded
from kdyno.store.begun import Note
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import Manifest
from kdyno.store.run import Run, RunWriter, create_run, open_run, write_run
from kdyno.store.verdict import Flag, Verdict
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.job import cases_of


def _nothing(_value: object) -> None:
    """A listener that shows nothing."""


@dataclass(frozen=True)
class Listener:
    """Who is told what goes on; every call returns quickly and none draws beside a guest."""

    fetching: Callable[[str, float | None], None] = lambda _text, _part: None
    building: Callable[[BuildProgress], None] = _nothing
    measuring: Callable[[Status], None] = _nothing
    told: Callable[[str], None] = _nothing
    started: Callable[[Path], None] = _nothing


@dataclass(frozen=True)
class Options:
    """How to execute, apart from what the experiment says."""

    cache: Path
    runs: Path
    sandboxed: bool = True
    wait: bool = True
    beside: bool = False
    """Others may measure meanwhile, on CPUs that this process may not use."""
    jobs: int | None = None
    refresh: bool = False
    ref: str = ""
    """Of an experiment with [matrix]: the commit, which is in the experiment already."""
    overrides: Overrides = field(default_factory=Overrides)
    """Already applied to the experiment; recorded for --resume."""
    listener: Listener = field(default_factory=Listener)


def execute(experiment: Experiment, suites: Catalogue, options: Options) -> tuple[Run, Verdict]:
    """Run ``experiment`` from its sources to its verdict."""
    sandbox.require(options.sandboxed)
    place(experiment.cpus)
    check_machine(experiment, cases_of(experiment, suites))
    if short := too_short(experiment):
        options.listener.told(short)
    if not KINDS[experiment.machine.kind].builds:
        return _start(_unbuilt(experiment, suites, options), {}, Recipes({}, {}), options)
    recipes = check(
        *(experiment, options.cache, options.listener.fetching),
        refresh=options.refresh,
        new=True,
        report=options.listener.building,
    )
    for note in recipes.notes:
        options.listener.told(note)
    for variant in experiment.variants:
        for function, why in variant.best if variant.name in recipes.of else ():
            name = variant.all_routines[function]
            options.listener.told(f"{variant.name}: {function} is {name} ({why})")
    if not experiment.measure.calibrate and len(recipes.of) < 2:
        raise UsageError(
            "nothing to compare: every variant but the baseline was skipped "
            f"({'; '.join(f'{name}: {why}' for name, why in recipes.skipped.items())})"
        )
    check_cases(experiment, suites, options.cache, recipes)
    built = built_of(experiment, recipes, options)
    bench = _bench(experiment, suites, built.images, tree_of(experiment, recipes), options)
    return _start(bench, built.failed, recipes, options)


def built_of(experiment: Experiment, recipes: Recipes, options: Options) -> Built:
    """The images of these recipes, from the cache or built now; the listener hears of it."""
    return build_all(
        experiment,
        recipes,
        options.cache,
        sandboxed=options.sandboxed,
        jobs=options.jobs,
        report=options.listener.building,
        told=options.listener.told,
    )


def _start(
    bench: Bench, failed: Mapping[str, str], recipes: Recipes, options: Options
) -> tuple[Run, Verdict]:
    """A new run, from its folder to its verdict."""
    experiment = bench.experiment
    manifest = manifest_of(
        experiment,
        options.overrides,
        sandboxed=options.sandboxed,
        images=digests(bench),
        failed=failed,
        cases=(info(case, job) for case, job in zip(bench.cases, bench.jobs, strict=True)),
    )
    manifest = manifest.model_copy(update=interleaved(bench, options.listener.told))
    # The machine first: a run that is refused, or given up while it waits, leaves no folder.
    with (
        _machine(f"the run of {experiment.name}", options),
        create_run(options.runs, experiment.text, manifest) as writer,
    ):
        with suppress(ToolError):  # else --resume asks
            Note(writer.run).write()
        options.listener.started(writer.run.path)
        _save_images(writer, recipes, bench)
        return _measure(bench, manifest, writer, Past(), options)


def interleaved(bench: Bench, told: Callable[[str], None]) -> dict[str, object]:
    """How the run's variants will alternate, for its manifest; people hear why not by turns."""
    choice = choose(bench, bench.experiment.measure.interleave)
    whole = whole_cases(bench) if choice.way == "turns" else {}
    if choice.why:
        told(f"one whole boot after the other, not by turns: {choice.why}")
    for name, why in whole.items():
        told(f"{name} is measured whole, not by turns: {why}")
    return {"interleave": choice.way, "why_boots": choice.why, "whole": whole}


def resume(
    path: Path, experiment: Experiment, suites: Catalogue, options: Options
) -> tuple[Run, Verdict]:
    """Go on with an interrupted run; ``experiment`` is its own, as stored."""
    sandbox.require(options.sandboxed)
    manifest = open_run(path).manifest()
    if not KINDS[experiment.machine.kind].builds:
        bench = _unbuilt(experiment, suites, options)
        if manifest.images != digests(bench):
            raise UsageError(
                f"{path}: another kernel, or another command line, was running when the run "
                "began; start a new run and compare the two: `kdyno compare RUN RUN`"
            )
        return _go_on(path, bench, manifest, options)
    recipes = check(experiment, options.cache, options.listener.fetching)
    _refuse_changed(path, changed(experiment, recipes, manifest.images))
    wanted = Recipes(
        {name: recipe for name, recipe in recipes.of.items() if name in manifest.images},
        recipes.skipped,
    )
    built = built_of(experiment, wanted, options)
    bench = _bench(experiment, suites, built.images, tree_of(experiment, recipes), options)
    now = digests(bench)
    other = (name for name, it in now.items() if manifest.images.get(name, it) != it)
    _refuse_changed(path, next(other, None))
    return _go_on(path, bench, manifest, options)


def _refuse_changed(path: Path, name: str | None) -> None:
    if name is not None:
        raise UsageError(
            f"{path}: variant {name!r} is not what it was when the run began (its source, "
            "patches, configuration, compiler or scheduler changed); start a new run"
        )


def _go_on(path: Path, bench: Bench, manifest: Manifest, options: Options) -> tuple[Run, Verdict]:
    with _machine(f"the run {path.name}", options), write_run(path) as writer:
        past = Past(taken=writer.run.taken_indices())
        for boot in writer.run.boots():
            if isinstance(boot, BootRecord):
                past.add(boot)
        seen = manifest.machine.caveats
        # One boot outside the sandbox is enough for the whole run to be called so.
        sandboxed = options.sandboxed and manifest.host.get("sandbox") is not False
        begun = {**asked_of(bench.experiment), "state": "running", "stopped": ""}
        begun["host"] = {**manifest.host, "sandbox": sandboxed}
        emulator = manifest.machine.emulator
        manifest = _probed(manifest.model_copy(update=begun), seen, emulator)
        writer.save_manifest(manifest)
        options.listener.started(path)
        return _measure(bench, manifest, writer, past, options)


def _bench(
    experiment: Experiment,
    suites: Catalogue,
    images: Mapping[str, Image],
    tree: Path | None,
    options: Options,
) -> Bench:
    told = options.listener.told
    return bench_of(experiment, suites, images, tree, options.cache, options.sandboxed, told)


def _unbuilt(experiment: Experiment, suites: Catalogue, options: Options) -> Bench:
    """For a machine that boots nothing."""
    tree = tree_for_cases(experiment, suites, options.cache, options.listener.fetching)
    return _bench(experiment, suites, {}, tree, options)


def _save_images(writer: RunWriter, recipes: Recipes, bench: Bench) -> None:
    variants = {variant.name: variant for variant in bench.experiment.variants}
    for name in bench.variants:
        described = bench.machine.described(name)
        if name in bench.images:
            source = name if name in recipes.of else bench.experiment.baseline
            variant = variants[source]
            described = {**routines_of(variant), **described}
            again = f"kdyno build {bench.experiment.path or 'experiment.toml'} --variant {source}"
            described = {"build_again": again, **described}
        writer.save_image(name, described)


def routines_of(variant: Variant) -> dict[str, object]:
    """What a kernel's record says of its memory routines: their names, and why where the best was
    asked for; nothing where it has its own."""
    if not variant.all_routines:
        return {}
    return {"routines": variant.all_routines, "best": dict(variant.best)}


def _measure(
    bench: Bench,
    manifest: Manifest,
    writer: RunWriter,
    past: Past,
    options: Options,
) -> tuple[Run, Verdict]:
    everything = os.sched_getaffinity(0)
    os.sched_setaffinity(0, bench.placement.own)
    try:
        bench.machine.probe(options.listener.told)
        manifest = _probed(manifest, bench.caveats(), bench.machine.emulator)
        bench, manifest = with_fixed_work(bench, manifest, options.listener.told)
        question = Question.of(manifest)
        loop = Loop(bench, question, writer, manifest, options.listener.measuring, past)
        try:
            stopped = loop.run()
        except BaseException as problem:
            _end(writer, loop.manifest, "interrupted", _why(problem))
            raise
    finally:
        os.sched_setaffinity(0, everything)
    verdict = worded(verdict_of(writer.run, question, stopped), loop.manifest)
    # The verdict first: whoever reads "finished" finds it, whenever this process is killed.
    writer.save_verdict(verdict)
    _end(writer, loop.manifest, "failed" if stopped.endswith("failed") else "finished", stopped)
    Note(writer.run).remove()
    return writer.run, verdict


def _probed(manifest: Manifest, flags: tuple[Flag, ...], emulator: str) -> Manifest:
    """With what the first boot told of the machine, beside what an earlier part of the run saw."""
    machine = manifest.machine
    caveats = tuple(dict.fromkeys((*machine.caveats, *flags)))
    if machine.emulator not in ("", emulator):
        raise UsageError(
            f"the run began with {machine.emulator}, and here is {emulator}: their figures differ; "
            "start a new run"
        )
    seen = {"caveats": caveats, "emulator": emulator}
    return manifest.model_copy(update={"machine": machine.model_copy(update=seen)})


def _machine(what: str, options: Options) -> AbstractContextManager[None]:
    """This machine, or these CPUs of it, for ``what`` alone; waits for it, or ToolError, as the
    options say."""
    cpus = frozenset(os.sched_getaffinity(0)) if options.beside else None
    return measuring(what, wait=options.wait, tell=options.listener.told, cpus=cpus)


def _why(problem: BaseException) -> str:
    """What ended the measuring, as the run's ``stopped`` says it."""
    if isinstance(problem, KeyboardInterrupt):
        return "interrupted by Ctrl-C"
    return f"interrupted: {str(problem) or type(problem).__name__}"


def _end(writer: RunWriter, manifest: Manifest, state: str, stopped: str) -> None:
    try:
        writer.save_manifest(manifest.model_copy(update={"state": state, "stopped": stopped}))
    except ToolError:
        if state != "interrupted":  # the first problem is the one to hear of
            raise
