# SPDX-License-Identifier: MIT
"""An experiment, executed: checked, built, measured, judged; and a run, resumed.

The set-up of a run stands here once: ``check`` its sources, ``built_of`` them, a bench, and a
``session`` in which the machine is ours. Profiles are made in the same steps.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kdyno import __version__, deferred, sandbox
from kdyno.errors import ToolError, UsageError, interruption
from kdyno.experiment.model import Experiment, Variant
from kdyno.experiment.overrides import Overrides
from kdyno.judge.pairs import Question
from kdyno.kernels.build import BuildProgress
from kdyno.machines import facts
from kdyno.machines.cpus import measuring
from kdyno.machines.kinds import KINDS
from kdyno.measure.bench import (
    Bench,
    bench_of,
    check_cases,
    check_machine,
    copy_name,
    metric_of,
    same_kernels,
    ticks_of,
    tree_for_cases,
    tree_of,
)
from kdyno.measure.boot import with_fixed_work
from kdyno.measure.builder import Built, Recipes, build_all, changed, check
from kdyno.measure.extent import too_short
from kdyno.measure.loop import Loop, Past, Status, choose, whole_cases
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import CaseInfo, Criteria, MachineInfo, Manifest, VariantInfo
from kdyno.store.run import Note, Run, RunWriter, create_run, open_run, write_run
from kdyno.store.verdict import Flag, Verdict
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.job import cases_of

# Of a run's end.
_verdict_of: Callable[[Run, Question, str], Verdict] = deferred("kdyno.judge.judging:verdict_of")
_worded: Callable[[Verdict, Manifest], Verdict] = deferred("kdyno.report.sentence:worded")


@dataclass(frozen=True)
class Listener:
    """Callbacks for progress; each returns quickly and none draws beside a guest."""

    fetching: Callable[[str, float | None], None] = lambda _text, _part: None
    building: Callable[[BuildProgress], None] = lambda _value: None
    measuring: Callable[[Status], None] = lambda _value: None
    notify: Callable[[str], None] = lambda _value: None
    started: Callable[[Path], None] = lambda _value: None


@dataclass(frozen=True)
class Options:
    """How to execute, apart from what the experiment says."""

    cache: Path
    runs: Path
    wait: bool = True
    beside: bool = False
    """Others may measure meanwhile, on CPUs that this process may not use."""
    jobs: int | None = None
    refresh: bool = False
    ref: str = ""
    """Of an experiment with [matrix]: the commit, which is in the experiment already."""
    prepared: tuple[Recipes, Built] | None = None
    """What the caller made of this very experiment, where it had to look at its images first."""
    overrides: Overrides = field(default_factory=Overrides)
    """Already applied to the experiment; recorded for --resume."""
    listener: Listener = field(default_factory=Listener)


def execute(experiment: Experiment, suites: Catalogue, options: Options) -> tuple[Run, Verdict]:
    """Run ``experiment`` from its sources to its verdict."""
    notify = options.listener.notify
    sandbox.require()
    KINDS[experiment.machine.kind].place(experiment.cpus)
    check_machine(experiment, cases_of(experiment, suites))
    if short := too_short(experiment):
        notify(short)
    recipes, built = Recipes({}, {}), Built({})
    if KINDS[experiment.machine.kind].builds:
        recipes = (
            options.prepared[0]
            if options.prepared
            else check(
                experiment,
                options.cache,
                options.listener.fetching,
                refresh=options.refresh,
                new=True,
                report=options.listener.building,
            )
        )
        for note in recipes.notes:
            notify(note)
        for variant in experiment.variants:
            for function, why in variant.best if variant.name in recipes.of else ():
                notify(f"{variant.name}: {function} is {variant.all_routines[function]} ({why})")
        if not experiment.measure.calibrate and len(recipes.digests) < 2:
            raise UsageError(
                "nothing to compare: every variant but the baseline was skipped "
                f"({'; '.join(f'{name}: {why}' for name, why in recipes.skipped.items())})"
            )
        check_cases(experiment, suites, options.cache, recipes)
        built = built_of(experiment, recipes, options)
        for flag in same_kernels(built.images, experiment.baseline):
            notify(flag.text)
    bench = _bench(experiment, suites, recipes, built, options)
    manifest = manifest_of(
        experiment, options.overrides, images=bench.digests, failed=built.failed, cases=bench.infos
    ).model_copy(update=interleaved(bench, notify))
    # The machine first: a run that is refused, or given up while it waits, leaves no folder.
    with (
        session(bench, f"the run of {experiment.name}", options),
        create_run(options.runs, experiment.text, manifest) as writer,
    ):
        with suppress(ToolError):  # else --resume and `kdyno profile` ask
            Note(writer.run).write()
        options.listener.started(writer.run.path)
        variants = {variant.name: variant for variant in experiment.variants}
        for name in bench.variants:
            record = bench.machine.described(name)
            if name in bench.images:
                source = name if name in variants else experiment.baseline
                again = f"kdyno build {experiment.path or 'experiment.toml'} --variant {source}"
                record = {"build_again": again, **routines_of(variants[source]), **record}
            writer.save_image(name, record)
        return _measure(bench, manifest, writer, Past(), options)


def _bench(
    experiment: Experiment, suites: Catalogue, recipes: Recipes, built: Built, options: Options
) -> Bench:
    """The tree that cases compile is the baseline's, or fetched where no kernel is built."""
    if KINDS[experiment.machine.kind].builds:
        tree = tree_of(experiment, recipes)
    else:
        tree = tree_for_cases(experiment, suites, options.cache, options.listener.fetching)
    notify = options.listener.notify
    fetching = options.listener.fetching
    return bench_of(experiment, suites, built.images, tree, options.cache, notify, fetching)


def built_of(experiment: Experiment, recipes: Recipes, options: Options) -> Built:
    """The images of these recipes, from the cache or built now, shown to the listener."""
    if options.prepared:
        return options.prepared[1]
    return build_all(
        experiment,
        recipes,
        options.cache,
        jobs=options.jobs,
        report=options.listener.building,
        notify=options.listener.notify,
    )


@contextmanager
def session(bench: Bench, what: str, options: Options) -> Iterator[None]:
    """The bench's machine, or its CPUs of this one, for ``what`` alone, with kdyno on CPUs of its
    own; waits for it, or ToolError, as the options say. The machine is probed."""
    everything = os.sched_getaffinity(0)
    notify = options.listener.notify
    cpus = frozenset(everything) if options.beside else None
    remote = KINDS[bench.experiment.machine.kind].remote
    here = nullcontext() if remote else measuring(what, wait=options.wait, tell=notify, cpus=cpus)
    with here:
        os.sched_setaffinity(0, bench.placement.own)
        try:
            bench.machine.probe(notify)
            yield
        finally:
            bench.machine.close()
            os.sched_setaffinity(0, everything)


def interleaved(bench: Bench, notify: Callable[[str], None]) -> dict[str, object]:
    """How the run's variants will alternate, for its manifest; ``notify`` explains exceptions."""
    choice = choose(bench, bench.experiment.measure.interleave)
    whole = whole_cases(bench) if choice.way == "turns" else {}
    if choice.why:
        notify(f"one whole boot after the other, not by turns: {choice.why}")
    for name, why in whole.items():
        notify(f"{name} is measured whole, not by turns: {why}")
    return {"interleave": choice.way, "why_boots": choice.why, "whole": whole}


def resume(
    path: Path, experiment: Experiment, suites: Catalogue, options: Options
) -> tuple[Run, Verdict]:
    """Go on with an interrupted run; ``experiment`` is its own, as stored."""
    sandbox.require()
    manifest = open_run(path).manifest()
    recipes, built = Recipes({}, {}), Built({})
    if builds := KINDS[experiment.machine.kind].builds:
        recipes = check(experiment, options.cache, options.listener.fetching)
        if (name := changed(experiment, recipes, manifest.images)) is not None:
            raise _changed(path, name)
        measured = {name: recipe for name, recipe in recipes.of.items() if name in manifest.images}
        built = built_of(experiment, replace(recipes, of=measured), options)
    bench = _bench(experiment, suites, recipes, built, options)
    if not builds and manifest.images != bench.digests:
        raise UsageError(
            f"{path}: another kernel, or another command line, was running when the run "
            "began; start a new run and compare the two: `kdyno compare RUN RUN`"
        )
    for name, digest in bench.digests.items():
        if manifest.images.get(name, digest) != digest:
            raise _changed(path, name)
    with session(bench, f"the run {path.name}", options), write_run(path) as writer:
        past = Past(taken=writer.run.taken_indices())
        for boot in writer.run.boots():
            if isinstance(boot, BootRecord):
                past.add(boot)
        # One boot outside the sandbox is enough for the whole run to be called so.
        sandboxed = sandbox.require() and manifest.host.get("sandbox") is not False
        update = {**asked_of(experiment), "state": "running", "stopped": ""}
        update["host"] = {**manifest.host, "sandbox": sandboxed}
        probed = manifest.machine
        update["machine"] = update["machine"].model_copy(
            update={"caveats": probed.caveats, "emulator": probed.emulator}
        )
        manifest = manifest.model_copy(update=update)
        writer.save_manifest(manifest)
        options.listener.started(path)
        return _measure(bench, manifest, writer, past, options)


def _changed(path: Path, name: str) -> UsageError:
    return UsageError(
        f"{path}: variant {name!r} is not what it was when the run began (its source, patches, "
        "configuration, compiler or scheduler changed); start a new run"
    )


def routines_of(variant: Variant) -> dict[str, object]:
    """What a kernel's record says of its memory routines: their names, and why where the best was
    asked for; nothing where it has its own."""
    if not variant.all_routines:
        return {}
    return {"routines": variant.all_routines, "best": dict(variant.best)}


def _measure(
    bench: Bench, manifest: Manifest, writer: RunWriter, past: Past, options: Options
) -> tuple[Run, Verdict]:
    """Within a session: the loop, and the verdict."""
    manifest = probed(manifest, bench.caveats(), bench.machine.emulator)
    # What is not known of a machine elsewhere is not this one's.
    if own := bench.machine.host_facts():
        host = {**own, "sandbox": manifest.host.get("sandbox", True)}
        machines = {name: dict(facts) for name, facts in bench.machine.several().items()}
        manifest = manifest.model_copy(update={"host": host, "machines": machines})
    bench, manifest = with_fixed_work(bench, manifest, options.listener.notify)
    if bench.counts:
        ticks = ticks_of(bench.images, bench.jobs)
        manifest = probed(manifest, ticks, bench.machine.emulator)
    question = Question.of(manifest)
    loop = Loop(bench, question, writer, manifest, options.listener.measuring, past)

    def end(state: str, stopped: str) -> None:
        update = {"state": state, "stopped": stopped}
        writer.save_manifest(loop.manifest.model_copy(update=update))

    try:
        stopped = loop.run()
    except BaseException as problem:
        with suppress(ToolError):  # the first problem is the one to report
            end("interrupted", interruption(problem))
        raise
    verdict = _worded(_verdict_of(writer.run, question, stopped), loop.manifest)
    # The verdict first: whoever reads "finished" finds it, whenever this process is killed.
    writer.save_verdict(verdict)
    end("failed" if stopped.endswith("failed") else "finished", stopped)
    return writer.run, verdict


# What a manifest says, so that a run can be judged without its experiment.


def manifest_of(
    experiment: Experiment,
    overrides: Overrides,
    *,
    images: Mapping[str, str],
    failed: Mapping[str, str],
    cases: Iterable[CaseInfo],
) -> Manifest:
    """Of a run that begins now. images: variant → digest; failed: variant → why it has none."""
    seed = experiment.measure.seed
    # Of `try` there is no file; what it names lies in the folder that it was called in.
    origin = experiment.path.resolve() if experiment.path else Path.cwd() / "experiment.toml"
    return Manifest(
        tool=__version__,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        experiment=experiment.name,
        baseline=experiment.baseline,
        seed=secrets.randbelow(1 << 32) if seed is None else seed,
        host={**facts.machine(), "sandbox": sandbox.require()},
        images=dict(images),
        failed=dict(failed),
        origin=str(origin),
        overrides=overrides.to_json(),
        cases=tuple(cases),
        **asked_of(experiment),
    )


def asked_of(experiment: Experiment) -> dict[str, Any]:
    """The manifest's keys that follow from the experiment alone. What the machine says of itself
    once it was probed comes later."""
    measure, machine = experiment.measure, experiment.machine
    kind, metric = KINDS[machine.kind], metric_of(experiment).metric
    return {
        "machine": MachineInfo(
            kind=machine.kind,
            builds=kind.builds,
            memory_bytes=machine.memory_bytes,
            cpus=machine.cpus,
            scattered=metric == "time" and not kind.can.scatter,
        ),
        "variants": {
            variant.name: VariantInfo(
                arch=variant.arch, cpus=variant.cpus, levels=dict(variant.levels)
            )
            for variant in experiment.variants
        },
        "asked": Criteria(
            question=experiment.question,
            confidence=measure.confidence,
            equivalent=measure.equivalent,
            precision=measure.precision,
            metric=metric,  # type: ignore[arg-type]
            # In every link of a kernel, where it has several.
            exact_boots=max(measure.exact_boots, measure.layouts),
            copy_of_baseline=copy_name(experiment.baseline) if measure.calibrate else None,
        ),
    }


def probed(manifest: Manifest, flags: tuple[Flag, ...], emulator: str) -> Manifest:
    """With what the first boot told of the machine, beside what an earlier part of the run saw.
    UsageError for another emulator."""
    machine = manifest.machine
    if machine.emulator not in ("", emulator):
        raise UsageError(
            f"the run began with {machine.emulator}, and here is {emulator}: their figures differ; "
            "start a new run"
        )
    caveats = tuple(dict.fromkeys((*machine.caveats, *flags)))
    machine = machine.model_copy(update={"caveats": caveats, "emulator": emulator})
    return manifest.model_copy(update={"machine": machine})
