# SPDX-License-Identifier: MIT
"""An experiment, executed: checked, built, measured, judged; a run, resumed; and what it will cost.

The set-up of a run stands here once: ``check`` its sources, ``built_of`` them, a bench, and a
``session`` in which the machine is ours. Profiles are made in the same steps.
"""

from __future__ import annotations

import math
import os
import secrets
import shutil
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kdyno import __version__, deferred, sandbox
from kdyno.errors import ToolError, UsageError, interruption
from kdyno.experiment.loader import Overrides
from kdyno.experiment.model import NATIVE_COPIES, Experiment, Variant
from kdyno.kernels.build import LEAST_FREE_BYTES, BuildProgress, final_config
from kdyno.kernels.image import find, stale_objects
from kdyno.kernels.source import fetch, parse as parse_source
from kdyno.kernels.sources.tree import KERNEL_TREE_BYTES
from kdyno.machines import facts
from kdyno.machines.cpus import measuring
from kdyno.machines.kinds import KINDS
from kdyno.measure.bench import (
    COPY_SUFFIX,
    Bench,
    bench_of,
    check_cases,
    check_machine,
    metric_of,
    same_kernels,
    ticks_of,
    tree_of,
)
from kdyno.measure.boot import with_fixed_work
from kdyno.measure.builder import Built, Recipes, build_all, changed, check
from kdyno.measure.loop import CASE_S, Loop, Past, Status, choose, whole_cases
from kdyno.reading.checked import values_in
from kdyno.stats.effect import FEWEST_BLOCKS
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import (
    CaseInfo,
    Criteria,
    MachineInfo,
    Manifest,
    VariantInfo,
    work_digest,
)
from kdyno.store.run import Note, Run, RunWriter, create_run, open_run, write_run
from kdyno.store.verdict import Flag, Verdict
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.job import cases_of

# Of a run's end.
_verdict_of: Callable[[Run, Manifest, str], Verdict] = deferred("kdyno.judge.judging:verdict_of")
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
    kind = KINDS[experiment.machine.kind]
    sandbox.require()
    kind.place(experiment.cpus)
    check_machine(experiment, cases_of(experiment, suites))
    kind.examine(experiment, metric_of(experiment).counted, options.cache)
    if short := too_short(experiment):
        notify(short)
    recipes, built = options.prepared or (Recipes({}, {}), Built({}))
    if kind.builds:
        if options.prepared is None:
            recipes = check(
                experiment,
                options.cache,
                options.listener.fetching,
                refresh=options.refresh,
                new=True,
                report=options.listener.building,
            )
        for note in recipes.notes:
            notify(note)
        for variant in experiment.variants:
            for function, why in variant.best if variant.name in recipes.of else ():
                notify(f"{variant.name}: {function} is {variant.all_routines[function]} ({why})")
        if not experiment.measure.calibrate and len(recipes.digests) < 2:
            skipped = "; ".join(f"{name}: {why}" for name, why in recipes.skipped.items())
            why = f"skipped ({skipped})" if skipped else "left out; --calibrate boots a copy of it"
            raise UsageError(f"nothing to compare: every variant but the baseline was {why}")
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
    listener, tree = options.listener, tree_of(experiment, recipes)
    source = experiment.variants[0].source
    builds = KINDS[experiment.machine.kind].builds
    if not builds and source and any(case.tree for case in cases_of(experiment, suites)):
        tree = fetch(parse_source(source), options.cache, listener.fetching).path
    words = (options.cache, listener.notify, listener.fetching)
    return bench_of(experiment, suites, built.images, tree, *words)


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
    way, why_boots = choose(bench, bench.experiment.measure.interleave)
    whole = whole_cases(bench) if way == "turns" else {}
    if why_boots:
        notify(f"one whole boot after the other, not by turns: {why_boots}")
    for name, why in whole.items():
        notify(f"{name} is measured whole, not by turns: {why}")
    return {"interleave": way, "why_boots": why_boots, "whole": whole}


def resume(
    path: Path, experiment: Experiment, suites: Catalogue, options: Options
) -> tuple[Run, Verdict]:
    """Go on with an interrupted run; ``experiment`` is its own, as stored."""
    sandbox.require()
    manifest = open_run(path).manifest()
    kind = KINDS[experiment.machine.kind]
    kind.examine(experiment, metric_of(experiment).counted, options.cache)
    recipes, built = Recipes({}, {}), Built({})
    if kind.builds:
        recipes = check(experiment, options.cache, options.listener.fetching)
        if (name := changed(experiment, recipes, manifest.images)) is not None:
            raise _changed(path, name)
        measured = {name: recipe for name, recipe in recipes.of.items() if name in manifest.images}
        built = built_of(experiment, replace(recipes, of=measured), options)
    bench = _bench(experiment, suites, recipes, built, options)
    if not kind.builds and manifest.images != bench.digests:
        raise UsageError(
            f"{path}: another kernel, or another command line, was running when the run "
            "began; start a new run and compare the two: `kdyno compare RUN RUN`"
        )
    for name, digest in bench.digests.items():
        if manifest.images.get(name, digest) != digest:
            raise _changed(path, name)
    began = {case.key: case for case in manifest.cases}
    for case, job in zip(bench.cases, bench.jobs, strict=True):
        old = began.get((case.suite, case.name))
        if old is None or old.work not in ("", work_digest(job.bench, old.operations, job.args)):
            raise UsageError(
                f"{path}: {case.suite}/{case.name} is not what it was when the run began (its "
                "command, settings or benchmark changed); start a new run"
            )
    with session(bench, f"the run {path.name}", options), write_run(path) as writer:
        past = Past(taken=writer.run.taken_indices())
        for boot in writer.run.boots():
            if isinstance(boot, BootRecord):
                past.add(boot)
        # One boot outside the sandbox is enough for the whole run to be called so.
        sandboxed = sandbox.require() and manifest.host.get("sandbox") is not False
        own, machine = asked_of(experiment), manifest.machine
        same = {"caveats": machine.caveats, "emulator": machine.emulator}
        own["machine"] = own["machine"].model_copy(update=same)
        own["host"] = {**manifest.host, "sandbox": sandboxed}
        manifest = manifest.model_copy(update={**own, "state": "running", "stopped": ""})
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
    routines = variant.all_routines
    return {"routines": routines, "best": dict(variant.best)} if routines else {}


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
    if bench.counts:
        bench = with_fixed_work(bench, manifest.cases, options.listener.notify)
        manifest = probed(manifest, ticks_of(bench.images, bench.jobs), bench.machine.emulator)
        manifest = manifest.model_copy(update={"cases": bench.infos})
    loop = Loop(bench, writer, manifest, options.listener.measuring, past)
    try:
        stopped = loop.run()
    except BaseException as problem:
        update = {"state": "interrupted", "stopped": interruption(problem)}
        with suppress(ToolError):  # the first problem is the one to report
            writer.save_manifest(loop.manifest.model_copy(update=update))
        raise
    return writer.run, judged(writer, loop.manifest, stopped)


def judged(writer: RunWriter, manifest: Manifest, stopped: str) -> Verdict:
    """The verdict of a run that has ended, and why; both are on disk."""
    verdict = _worded(_verdict_of(writer.run, manifest, stopped), manifest)
    # The verdict first: whoever reads "finished" finds it, whenever this process is killed.
    writer.save_verdict(verdict)
    state = "failed" if stopped.endswith("failed") else "finished"
    writer.save_manifest(manifest.model_copy(update={"state": state, "stopped": stopped}))
    return verdict


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
            copy_of_baseline=experiment.baseline + COPY_SUFFIX if measure.calibrate else None,
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


# What a run will cost, before anything of it is built.

ASK_ABOVE = 64
"""Variants beyond which a run is asked about first."""
BUILD_S = 240.0
"""A whole kernel on two cores; one that shares most of its objects is quicker."""
OBJECTS = 900
"""Of one."""
BOOT_S = 0.3
"""Start and power-off of a guest."""
CASE_SHARE = 1.4
"""Calibration and warm-up on top of a case's measured seconds."""
IMAGE_BYTES = 60_000_000
"""Of a kernel with what is kept beside it, where none was built here yet."""
FETCH_BYTES = 160_000_000
"""Of a kernel source, packed."""
INSTALLED_BYTES = 600_000_000
"""Of a distribution's kernel with its modules, and its package."""


def kernels_of(experiment: Experiment) -> int:
    """How many different images its variants take."""
    same: dict[str, Any] = {"name": "", "levels": (), "cmdline": "", "sysctl": (), "cpus": None}
    # A scheduler is a program of its own, and a native copy is chosen on the command line.
    same |= {"best": (), "scheduler": None, "program_bits": None}
    built = (variant for variant in experiment.variants if not variant.image)
    return len(
        {
            replace(own, **same, memcpy=None if own.memcpy in NATIVE_COPIES else own.memcpy)
            for own in built
        }
    )


def block_s(experiment: Experiment, most_s: float = math.inf) -> float:
    """Predicted seconds of one boot of every variant; ``most_s``: of a case in it."""
    variants = len(experiment.variants) + experiment.measure.calibrate
    cases_s = sum(min(use.seconds, most_s) * len(use.cases) for use in experiment.suites)
    return variants * (BOOT_S + CASE_SHARE * cases_s)


def measure_s(experiment: Experiment) -> float:
    """Of the whole run; a case that runs a program takes as long as the program does."""
    measure = experiment.measure
    limit_s = math.inf if measure.max_minutes is None else 60 * measure.max_minutes
    return min(measure.max_boots * block_s(experiment), limit_s)


def question(experiment: Experiment) -> str | None:
    """What to ask before a very large experiment; None for one that needs no asking."""
    variants = len(experiment.variants) + experiment.measure.calibrate
    kernels = kernels_of(experiment)
    if variants <= ASK_ABOVE:
        return None
    return (
        f"{experiment.name} has {variants} variants ({kernels} kernels to build): up to "
        f"{kernels * BUILD_S / 3600:.1f} hours of building and "
        f"{measure_s(experiment) / 3600:.1f} hours or more of measuring"
    )


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


_Build = tuple[float, int, bool]
"""(seconds, objects compiled, whether from a trunk)"""


def _build_s(builds: Sequence[_Build], objects: float = math.inf) -> float:
    """Of a build that compiles so many objects, by those of before; infinite: all."""
    whole = [(seconds, count) for seconds, count, from_trunk in builds if not from_trunk]
    whole = whole or [(BUILD_S, OBJECTS)]
    whole_s = statistics.median(seconds for seconds, _ in whole)
    all_objects = statistics.median(count for _, count in whole)
    links = [seconds for seconds, count, _ in builds if count < all_objects / 20]
    link_s = statistics.median(links or [whole_s / 20])
    return min(whole_s, link_s + whole_s * objects / max(all_objects, 1))


def cost(experiment: Experiment, recipes: Recipes, cache: Path) -> Cost:
    """Of ``experiment``, overrides applied, with what the cache holds now. A build takes what those
    of this cache for the same architecture did, by how many objects it compiles."""
    folder = next(path for path in (cache, *cache.parents) if path.exists())
    free_bytes = shutil.disk_usage(folder).free
    if not KINDS[experiment.machine.kind].builds:
        return Cost(0, 0, 0.0, 0, 0, free_bytes, recipes.absent)
    wanted = {recipe.digest: recipe for recipe in recipes.of.values()}
    missing = [recipe for recipe in wanted.values() if find(cache, recipe) is None]
    unseen = kernels_of(experiment) - len(wanted) if recipes.absent else 0
    archs = {recipe.arch.name for recipe in wanted.values()}
    builds = {arch: list[_Build]() for arch in archs}
    sizes = list[int]()
    for record in (cache / "images").glob("*/build.json"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            data = values_in(record)
            if (arch := data["inputs"]["arch"]) in archs or not archs:
                size_bytes = sum(file.stat().st_size for file in record.parent.iterdir())
                build = float(data["seconds"]), int(data["objects"]), bool(data["from_trunk"])
                builds.setdefault(arch, []).append(build)
                sizes.append(size_bytes)
    stale = stale_objects(cache, ((each, final_config(cache, each)) for each in missing))
    build_s = sum(
        _build_s(builds[recipe.arch.name], objects)
        for recipe, objects in zip(missing, stale, strict=True)
    )
    build_s += unseen * _build_s([each for of_arch in builds.values() for each in of_arch])
    building = len(missing) + unseen
    disk_bytes = building * statistics.median(sizes or [IMAGE_BYTES])
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
