# SPDX-License-Identifier: MIT
"""Profiled boots of a run: extra boots of fixed work, in blocks, never those that are timed."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from kdyno import sandbox
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment
from kdyno.kernels.image import Image
from kdyno.labs.profile import counts, fixed_turns, perf, siblings
from kdyno.labs.profile.profiler import Profiler
from kdyno.labs.profile.record import FOLDER, Profile, stored_profiles, to_json
from kdyno.machines.cpus import measuring
from kdyno.machines.kinds import KINDS
from kdyno.measure.bench import Bench, bench_of, info, plan_of, tree_of
from kdyno.measure.boot import calibrated, fixed_jobs, key_of
from kdyno.measure.builder import Recipes, changed, check
from kdyno.measure.execution import Options, built_of, manifest_of, session
from kdyno.measure.loop import block_order, choose, draw_of, whole_cases
from kdyno.store.manifest import Manifest
from kdyno.store.run import Note, Run, RunWriter, create_run, file_name
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.job import CaseJob, cases_of

METHODS = ("perf", "gprof")
BOOTS = 6
"""Fewer carry no interval."""
SECONDS = 1.0
_ATTEMPTS = 3
_TURNS_NOTE = (
    "the kernels took turns of a few milliseconds at the same work, so their seconds differ by "
    "what the kernels do, and not by what the machine did meanwhile"
)
# Blocks of a profile are shuffled apart from those that were timed.
_ORDER_FROM = 10_000_000


@dataclass(frozen=True)
class Asked:
    """A profile to be made. seconds: of each case in the baseline, which fixes the work."""

    method: str = "perf"
    boots: int = BOOTS
    seconds: float = SECONDS
    stacks: bool = False
    """perf only: kernels of their own with frame pointers, which show who called whom."""
    replace: bool = False
    """Throw away a profile that the run has and that was made otherwise."""


@dataclass(frozen=True)
class Status:
    """How far the profile is: ``done`` of ``boots`` boots."""

    done: int
    boots: int
    variant: str
    elapsed_s: float

    @property
    def left_s(self) -> float | None:
        return self.elapsed_s / self.done * (self.boots - self.done) if self.done else None


def require(experiment: Experiment, method: str) -> None:
    """UsageError or ToolError where this profile cannot be made; before anything slow."""
    if method == counts.METHOD:
        counts.require(experiment)
        return
    if method not in METHODS:
        raise UsageError(f"--method {method}: there are {', '.join((*METHODS, counts.METHOD))}")
    kind = experiment.machine.kind
    if why_not := KINDS[kind].can.profile:
        raise UsageError(f"[machine] kind is {kind!r}: {why_not}")
    if method == "perf":
        perf.ability()
        return
    siblings.with_fragment(experiment, siblings.GPROF)


def profile(
    writer: RunWriter,
    manifest: Manifest,
    experiment: Experiment,
    suites: Catalogue,
    options: Options,
    asked: Asked,
    show: Callable[[Status], None] = lambda _status: None,
) -> dict[str, Profile]:
    """Make, or go on with, the profile of every variant of the run; variant → profile.

    Boots that an earlier call left are kept. Every file is written whole after each boot.
    """
    require(experiment, asked.method)
    sandbox.require(options.sandboxed)
    images, recipes, profiled = _images(manifest, experiment, options, asked)
    tree = tree_of(experiment, recipes)
    alone = dataclasses.replace(
        profiled, measure=dataclasses.replace(profiled.measure, calibrate=False)
    )
    told = options.listener.told
    bench = bench_of(alone, suites, images, tree, options.cache, options.sandboxed, told)
    with session(bench, f"the profile of {writer.run.name}", options):
        return _blocks(writer, manifest.seed, bench, asked, options, show)


def begin(experiment: Experiment, suites: Catalogue, options: Options) -> Run:
    """A new run that has boots of neither kind yet; `kdyno run --resume` would measure it."""
    sandbox.require(options.sandboxed)
    cases = cases_of(experiment, suites)
    if not options.wait:
        with measuring("the profile", wait=False):
            pass  # refused now, before there is a run, rather than with its folder made
    recipes = check(experiment, options.cache, options.listener.fetching, refresh=options.refresh)
    manifest = manifest_of(
        experiment,
        options.overrides,
        sandboxed=options.sandboxed,
        images={name: recipe.digest for name, recipe in recipes.of.items()},
        failed=recipes.skipped,
        cases=map(info, cases),
    ).model_copy(update={"state": "interrupted", "stopped": "profiled, not measured"})
    with create_run(options.runs, experiment.text, manifest) as writer:
        with suppress(ToolError):  # else this run is asked about as one of somebody else's
            Note(writer.run).write()
        return writer.run


def _images(
    manifest: Manifest, experiment: Experiment, options: Options, asked: Asked
) -> tuple[dict[str, Image], Recipes, Experiment]:
    """Images to profile: the run's own, or siblings of them that gprof or stacks need."""
    plain = check(experiment, options.cache, options.listener.fetching, refresh=options.refresh)
    if (name := changed(experiment, plain, manifest.images)) is not None:
        raise UsageError(
            f"variant {name!r} is not what it was when the run began (its source, patches, "
            "configuration or compiler changed); profile it in a new run: "
            "`kdyno profile EXPERIMENT`"
        )
    fragment = siblings.GPROF if asked.method == "gprof" else siblings.FRAMES
    chosen, recipes = experiment, plain
    if asked.method == "gprof" or asked.stacks:
        chosen = siblings.with_fragment(experiment, fragment)
        recipes = check(chosen, options.cache, options.listener.fetching)
    lost = {name: why for name, why in manifest.failed.items() if name in recipes.of}
    recipes = Recipes(
        {name: it for name, it in recipes.of.items() if name not in lost},
        {**recipes.skipped, **lost},
    )
    built = built_of(chosen, recipes, options)
    if experiment.baseline not in built.images:
        raise ToolError(f"the baseline {experiment.baseline!r} has no kernel to be profiled")
    return dict(built.images), recipes, chosen


def _blocks(
    writer: RunWriter,
    seed: int,
    bench: Bench,
    asked: Asked,
    options: Options,
    show: Callable[[Status], None],
) -> dict[str, Profile]:
    told = options.listener.told
    profiler = Profiler(asked.method, asked.stacks, options.sandboxed)
    found = _earlier(writer, bench, profiler, asked)
    operations = next((dict(it.operations) for it in found.values()), None)
    if operations is None:
        operations = calibrated(bench, asked.seconds, told)
    jobs = fixed_jobs(bench, operations, asked.seconds)
    together = choose(bench, bench.experiment.measure.interleave).way == "turns"
    notes = _turns_notes(bench) if together else ()
    for name in bench.variants:
        found.setdefault(
            name,
            profiler.empty(name, bench.machine.identity(name), operations, *notes),
        )
    order = list(bench.variants)
    blocks = [
        (block, left)
        for block in range(asked.boots)
        if (
            left := [
                name
                for name in block_order(seed, _ORDER_FROM + block, order)
                if block not in {boot.block for boot in found[name].boots}
            ]
        )
    ]
    todo = [
        (block, names)
        for block, left in blocks
        for names in ([left] if together else [[name] for name in left])
    ]
    began_s, done = time.monotonic(), 0
    of = sum(len(names) for _, names in todo)
    for block, names in todo:
        show(Status(done, of, ", ".join(names), time.monotonic() - began_s))
        made = _once(bench, names, jobs, profiler, found, block, seed, told)
        for name, profile_ in made.items():
            found[name] = profile_
            writer.save_file(file_name(name), to_json(profile_).encode(), FOLDER)
        done += len(names)
    return found


def _turns_notes(bench: Bench) -> tuple[str, ...]:
    """What is to be known of kernels that were profiled together."""
    whole = whole_cases(bench)
    if not whole:
        return (_TURNS_NOTE,)
    reasons = "; ".join(dict.fromkeys(whole.values()))
    return (
        *([_TURNS_NOTE] if len(whole) < len(bench.cases) else []),
        f"done whole, by one kernel after the other: {', '.join(whole)} ({reasons})",
    )


def _once(
    bench: Bench,
    names: list[str],
    jobs: tuple[CaseJob, ...],
    profiler: Profiler,
    so_far: dict[str, Profile],
    block: int,
    seed: int,
    told: Callable[[str], None],
) -> dict[str, Profile]:
    """One more boot of each of ``names``; what fails is tried again, at most twice."""
    machine = bench.machine
    whole = whole_cases(bench)

    def why_whole(job: CaseJob) -> str:
        return whole.get(key_of(job), "")

    who = ", ".join(repr(name) for name in names)
    draw = draw_of(seed, _ORDER_FROM + block)
    for attempt in range(_ATTEMPTS):
        try:
            if len(names) == 1:
                plan = plan_of(bench, names[0], jobs, draw=draw)
                return {names[0]: profiler.boot(machine, plan, so_far[names[0]], block)}
            plans = [plan_of(bench, name, jobs, turns=True, draw=draw) for name in names]
            return profiler.group(
                machine,
                plans,
                so_far,
                block,
                lambda watched: fixed_turns.run(machine, watched, f"{seed}:{block}", why_whole),
            )
        except ToolError as problem:
            if attempt + 1 == _ATTEMPTS:
                raise ToolError(
                    f"variant {who}: {_ATTEMPTS} profiled boots in a row failed: {problem}. "
                    "The boots so far are kept; the same command goes on with them"
                ) from None
            told(f"{who}: a profiled boot failed and is done again: {problem}")
    raise AssertionError("not reached")


def _earlier(
    writer: RunWriter, bench: Bench, profiler: Profiler, asked: Asked
) -> dict[str, Profile]:
    """What an earlier call left and still fits; UsageError where it does not."""
    wanted = {key_of(job) for job in bench.runnable}
    kept: dict[str, Profile] = {}
    for name, found in stored_profiles(writer.run).items():
        if name not in bench.variants:
            continue
        fits = (
            found.method == profiler.method
            and found.event == profiler.event
            and found.image == bench.machine.identity(name)
            and set(found.operations) <= wanted
        )
        if fits:
            kept[name] = found
        elif not asked.replace:
            raise UsageError(
                f"{writer.run.name} has a profile of {name!r} by {found.method} "
                f"({found.event}, {len(found.boots)} boots) of other work or another kernel: "
                "`--replace` throws it away, a new run keeps both"
            )
    if len({tuple(sorted(it.operations.items())) for it in kept.values()}) > 1:
        raise UsageError(f"{writer.run.name}: its profiles are of different work; use --replace")
    return {} if asked.replace else kept
