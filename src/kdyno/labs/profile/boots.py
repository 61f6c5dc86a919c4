# SPDX-License-Identifier: MIT
"""Profiled boots of a run: extra boots of fixed work, in blocks, never those that are timed.

perf or gprof stands around one boot, or around guests that are alive together and do the same work
in turns. gprof and whole stacks need kernels of their own, built with one more fragment."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from kdyno import sandbox, whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.cross import normal_line, option_of
from kdyno.experiment.model import ConfigFragment, Experiment
from kdyno.labs.profile import counts, gmon, perf
from kdyno.labs.profile.record import (
    FOLDER,
    FUNCTIONS_MOST,
    OUTSIDE,
    STACKS_MOST,
    FunctionTime,
    Method,
    Profile,
    ProfiledBoot,
    Stack,
    stored_profiles,
    to_json,
)
from kdyno.labs.profile.symbols import symbols_of
from kdyno.machines.cpus import measuring
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Machine, Plan, run_to_end
from kdyno.machines.process import Outcome
from kdyno.measure import turns
from kdyno.measure.bench import Bench, info, plan_of
from kdyno.measure.boot import calibrated, fixed_jobs, key_of
from kdyno.measure.builder import check
from kdyno.measure.execution import Options, manifest_of, session
from kdyno.measure.loop import block_order, choose, draw_of, whole_cases
from kdyno.paths import data_root
from kdyno.store.manifest import Manifest
from kdyno.store.run import Note, Run, RunWriter, create_run, file_name
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.job import CaseJob, cases_of
from kdyno.suites.protocol import Done, Sample

METHODS = ("perf", "gprof")
GPROF, FRAMES = "gprof", "frames"
"""Fragments of kernel/config/ for kernels that exist for profiling only."""
_SMP = "CONFIG_SMP"
_ATTEMPTS = 3
# Blocks of a profile are shuffled apart from those that were timed.
_ORDER_FROM = 10_000_000
_BOOT_MOST_S = 1e7
"""Of CPU time: no boot has as much, but a kernel may say so, or write it into its data."""
_FEW = 10
"""Operations in all, of a case of which a single one takes a tenth of a second or more."""
_GPROF_EVENT = "profil, 100 Hz"
_GMON, _PERF_DATA = "gmon.out", "perf.data"
_GPROF_NOTES = (
    "gprof counts the UML kernel's own code only: not the host's kernel, not the guest's programs",
    "the kernels are built with CONFIG_GPROF: every call of a function in C is counted as well, "
    "which costs time of its own; functions in assembly, memcpy among them, have no count",
)
_NO_FRAMES_NOTE = (
    "these kernels have no frame pointers: stacks show the host's kernel and the one function "
    "above it. --stacks builds kernels that have them"
)
_TURNS_NOTE = (
    "the kernels took turns of a few milliseconds at the same work, so their seconds differ by "
    "what the kernels do, and not by what the machine did meanwhile"
)


@dataclass(frozen=True)
class Request:
    """A profile to be made. seconds: of each case in the baseline, which fixes the work."""

    method: str = "perf"
    boots: int = 6
    """Fewer carry no interval."""
    seconds: float = 1.0
    stacks: bool = False
    """perf only: kernels of their own with frame pointers, which show who called whom."""
    replace: bool = False
    """Throw away a profile that the run has and that was made otherwise."""


Show = Callable[[int, int, str, float | None], None]
"""Is shown how far the profile is: (boots done, of how many, who is next, seconds left)."""


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
    else:
        with_fragment(experiment, GPROF)


def with_fragment(experiment: Experiment, name: str) -> Experiment:
    """The same experiment with the fragment ``name`` of kernel/config/ in every variant.

    UsageError where a variant wants what the fragment cannot have."""
    path = data_root() / "kernel" / "config" / f"{name}.config"
    raw = path.read_text(encoding="utf-8").splitlines()
    lines = tuple(filter(None, (normal_line(line.strip()) for line in raw)))
    fragment = ConfigFragment(f"{name}.config, for the profile", lines)
    smp = next((line for line in lines if option_of(line) == _SMP), None)
    for variant in experiment.variants:
        for own in variant.config:
            for line in own.lines:
                if smp is not None and option_of(line) == _SMP and line != smp:
                    raise UsageError(
                        f"variant {variant.name!r} has {line} (from {own.origin}), and gprof "
                        "cannot profile a kernel for several CPUs. Leave it out with --variant, "
                        "or take --method perf"
                    )
    variants = (
        replace(
            variant, config=(*variant.config, fragment), cpus=variant.cpus if smp is None else None
        )
        for variant in experiment.variants
    )
    return replace(experiment, variants=tuple(variants))


def begin(experiment: Experiment, suites: Catalogue, options: Options) -> Run:
    """A new run that has boots of neither kind yet; `kdyno run --resume` would measure it."""
    sandbox.require()
    cases = cases_of(experiment, suites)
    if not options.wait:
        with measuring("the profile", wait=False):
            pass  # refused now, before there is a run, rather than with its folder made
    recipes = check(experiment, options.cache, options.listener.fetching, refresh=options.refresh)
    manifest = manifest_of(
        experiment,
        options.overrides,
        images=recipes.digests,
        failed=recipes.skipped,
        cases=map(info, cases),
    ).model_copy(update={"state": "interrupted", "stopped": "profiled, not measured"})
    with create_run(options.runs, experiment.text, manifest) as writer:
        with suppress(ToolError):  # else this run is asked about as one of somebody else's
            Note(writer.run).write()
        return writer.run


def profile(
    writer: RunWriter,
    manifest: Manifest,
    experiment: Experiment,
    suites: Catalogue,
    options: Options,
    request: Request,
    show: Show = lambda *_: None,
) -> dict[str, Profile]:
    """Make, or go on with, the profile of every variant of the run; variant → profile.

    Boots that an earlier call left are kept. Every file is written whole after each boot."""
    require(experiment, request.method)
    sandbox.require()
    of_run = [each for each in experiment.variants if each.name not in manifest.failed]
    experiment = replace(experiment, variants=tuple(of_run))
    if request.method == "gprof" or request.stacks:
        progress = options.listener.fetching
        recipes = check(experiment, options.cache, progress, refresh=options.refresh)
        counts.refuse_changed(experiment, recipes, manifest)
        profiled = with_fragment(experiment, GPROF if request.method == "gprof" else FRAMES)
        # The sources are fetched: once is enough, and both have to be of the same.
        bench = counts.ready(profiled, suites, replace(options, refresh=False))
    else:
        bench = counts.ready(experiment, suites, options, manifest)
    with session(bench, f"the profile of {writer.run.name}", options):
        return _blocks(writer, manifest.seed, bench, request, options, show)


def _blocks(
    writer: RunWriter, seed: int, bench: Bench, request: Request, options: Options, show: Show
) -> dict[str, Profile]:
    log = options.listener.notify
    profiler = Profiler(request.method, request.stacks)
    profiles = _earlier(writer, bench, profiler, request)
    operations = next((dict(each.operations) for each in profiles.values()), None)
    if operations is None:
        operations = calibrated(bench, request.seconds, log)
    elif lacking := sorted({key_of(job) for job in bench.runnable} - operations.keys()):
        log(
            f"{', '.join(lacking)}: not in the profile that the run has, which is gone on with; "
            "`--replace` makes it anew"
        )
    jobs = fixed_jobs(bench, operations, request.seconds)
    in_turns = choose(bench, bench.experiment.measure.interleave)[0] == "turns"
    why_whole = whole_cases(bench)
    notes = [_TURNS_NOTE] if in_turns and len(why_whole) < len(bench.cases) else []
    if in_turns and why_whole:
        cases, reasons = ", ".join(why_whole), "; ".join(dict.fromkeys(why_whole.values()))
        notes.append(f"done whole, by one kernel after the other: {cases} ({reasons})")
    for name in bench.variants:
        if name not in profiles:
            image = bench.machine.identity(name)
            profiles[name] = profiler.empty(name, image, operations, *notes)
    todo: list[tuple[int, list[str]]] = []
    for block in range(request.boots):
        order = block_order(seed, _ORDER_FROM + block, list(bench.variants))
        left = [name for name in order if all(boot.block != block for boot in profiles[name].boots)]
        todo += [(block, left)] if in_turns and left else [(block, [name]) for name in left]
    began_s, done = time.monotonic(), 0
    boots = sum(len(names) for _, names in todo)
    for block, names in todo:
        left_s = (time.monotonic() - began_s) / done * (boots - done) if done else None
        show(done, boots, ", ".join(names), left_s)
        profiles |= _once(bench, names, jobs, profiler, profiles, block, seed, log)
        for name in names:
            writer.save_file(file_name(name), to_json(profiles[name]).encode(), FOLDER)
        done += len(names)
    return profiles


def _earlier(
    writer: RunWriter, bench: Bench, profiler: Profiler, request: Request
) -> dict[str, Profile]:
    """What an earlier call left and still fits; UsageError where it does not."""
    if request.replace:
        return {}
    wanted = {key_of(job) for job in bench.runnable}
    kept: dict[str, Profile] = {}
    for name, profile in stored_profiles(writer.run).items():
        if name not in bench.variants:
            continue
        image = bench.machine.identity(name)
        same = (profile.method, profile.event, profile.image)
        if same == (profiler.method, profiler.event, image) and set(profile.operations) <= wanted:
            kept[name] = profile
        else:
            raise UsageError(
                f"{writer.run.name} has a profile of {name!r} by {profile.method} "
                f"({profile.event}, {len(profile.boots)} boots) of other work or another kernel: "
                "`--replace` throws it away, a new run keeps both"
            )
    if len({tuple(sorted(each.operations.items())) for each in kept.values()}) > 1:
        raise UsageError(f"{writer.run.name}: its profiles are of different work; use --replace")
    return kept


def _once(
    bench: Bench,
    names: list[str],
    jobs: tuple[CaseJob, ...],
    profiler: Profiler,
    so_far: dict[str, Profile],
    block: int,
    seed: int,
    log: Callable[[str], None],
) -> dict[str, Profile]:
    """One more boot of each of ``names``; what fails is tried again, at most twice."""
    machine = bench.machine
    why_whole = whole_cases(bench)
    draw = draw_of(seed, _ORDER_FROM + block)
    several = len(names) > 1
    plans = [plan_of(bench, name, jobs, turns=several, draw=draw) for name in names]

    def work(plans: Sequence[Plan]) -> Mapping[str, Outcome]:
        if several:
            return in_turns(machine, plans, f"{seed}:{block}", why_whole)
        return {names[0]: run_to_end(machine.open(plans[0]), machine.clock)}

    who = ", ".join(repr(name) for name in names)
    for attempt in range(_ATTEMPTS):
        try:
            return profiler.boots(machine, plans, so_far, block, work)
        except ToolError as problem:
            if attempt + 1 == _ATTEMPTS:
                raise ToolError(
                    f"variant {who}: {_ATTEMPTS} profiled boots in a row failed: {problem}. "
                    "The boots so far are kept; the same command goes on with them"
                ) from None
            log(f"{who}: a profiled boot failed and is done again: {problem}")
    raise AssertionError("not reached")


def in_turns(
    machine: Machine, plans: Sequence[Plan], seed: str, why_whole: Mapping[str, str]
) -> Mapping[str, Outcome]:
    """Start the plans in this order, do every case's operations in turns; variant → outcome.

    All plans have the same cases, each with its number of operations. A case that takes no turns
    (``why_whole`` says why) is done whole, one guest after the other."""

    def work(members: Sequence[turns.Member]) -> None:
        for index, job in enumerate(plans[0].job.cases):
            _case(members, index, job, f"{seed}:{job.suite}/{job.case}", key_of(job) in why_whole)

    _, outcomes = turns.together(machine, plans, work)
    return {plan.variant: outcome for plan, outcome in zip(plans, outcomes, strict=True)}


def _case(
    members: Sequence[turns.Member], index: int, job: CaseJob, seed: str, whole: bool
) -> None:
    alive = turns.begin_case(members, index, job, seed, whole=whole)
    if not alive:
        return
    by_name = {member.name: member for member in alive}
    # One operation first, then as many as a turn's time holds at the speed of the last round.
    left, operations, each_s = job.operations or 1, 0, 0.0
    for order in turns.orders(f"{seed}:turns", sorted(by_name)):
        # What was timed at first may have been an interruption, or a clock's tick.
        wanted = int(turns.TURN_S / each_s) if each_s else 1
        operations = max(1, min(left, wanted, 10 * operations or 1))
        left -= operations
        present = [by_name[name] for name in order if by_name[name].ready]
        # How long the first one takes is not known; where there are few, they are long.
        long = each_s * operations > turns.LONGEST_S
        frozen = long if each_s else (job.operations or 1) <= _FEW
        size = turns.Size(operations, 0.0, job.timeout_s)
        took = turns.frozen_turns(present, size) if frozen else turns.turns(present, size)
        if not took or not left:
            break
        each_s = min(took.values()) / 1e9 / operations
    for member in alive:
        member.end(job.timeout_s)


class Profiler:
    """perf or gprof, for all boots of one profile."""

    def __init__(self, method: str, frame_pointers: bool) -> None:
        self.method: Method = "perf" if method == "perf" else "gprof"
        self.event = _GPROF_EVENT
        self.notes: tuple[str, ...] = _GPROF_NOTES
        self._frame_pointers = frame_pointers
        self._symbols_of = cache(symbols_of)
        if method == "perf":
            self.event, self.notes, self._sees_host = perf.ability()
            if not frame_pointers:
                self.notes += (_NO_FRAMES_NOTE,)

    def empty(
        self, variant: str, image: str, operations: Mapping[str, int], *notes: str
    ) -> Profile:
        return Profile(
            variant, self.method, self.event, image, dict(operations), (), (), (*self.notes, *notes)
        )

    def boots(
        self,
        machine: Machine,
        plans: Sequence[Plan],
        so_far: Mapping[str, Profile],
        block: int,
        work: Callable[[Sequence[Plan]], Mapping[str, Outcome]],
    ) -> dict[str, Profile]:
        """Variant → its profile with one more boot. ``work`` has the guests do their work.

        ToolError with the reason when one of them failed: their seconds are compared."""
        with whole.scratch("profile") as parent:
            folders: dict[str, Path] = {}
            watched = []
            for at, plan in enumerate(plans):
                folder = folders[plan.variant] = parent / str(at)
                folder.mkdir(0o700)
                if self.method == "gprof":
                    watched.append(replace(plan, left=((_GMON, folder / _GMON),)))
                else:
                    words = perf.record(folder / _PERF_DATA, self.event)
                    watched.append(replace(plan, beside=tuple(words)))
            more = {}
            for name, outcome in work(watched).items():
                try:
                    more[name] = self._read(machine, so_far[name], outcome, block, folders[name])
                except ToolError as problem:
                    raise ToolError(f"{name}: {problem}") from None
            return more

    def _read(
        self, machine: Machine, so_far: Profile, outcome: Outcome, block: int, folder: Path
    ) -> Profile:
        so_far = noted(so_far)
        cpu_s = _cpu_s(outcome)
        programs = machine.programs(so_far.variant)
        if self.method == "gprof":
            file = folder / _GMON
            data = file.read_bytes() if file.is_file() else b""
            if not data:
                lines = outcome.console.decode("utf-8", "replace").split("\n")
                last = [line.strip()[:200] for line in lines if line.strip()][-2:]
                raise ToolError(
                    "gmon.out is missing: the kernel did not reach its clean end, where it writes "
                    f"it. Its last words: {' / '.join(last) or 'none'}"
                )
            functions = gmon.functions(gmon.parse(data), self._symbols_of(programs.kernel))
            return _added(so_far, block, cpu_s, functions, ())
        samples = perf.script(folder / _PERF_DATA)
        weight = sum(sample.weight for sample in samples if isinstance(sample, perf.Sample))
        if not weight:
            raise ToolError("perf recorded no sample")
        each_s = 1e-9
        if self.event != perf.SOFTWARE:  # cycles, which tell a share of the seconds that they saw
            each_s = ((cpu_s if self._sees_host else outcome.host.user_s) or 0.0) / weight
        kernel, program = self._symbols_of(programs.kernel), self._symbols_of(programs.guest)
        reader = perf.Reader(kernel, program, self._frame_pointers)
        functions, stacks = perf.attribute(samples, reader, each_s)
        return _added(so_far, block, cpu_s, functions, stacks)


def noted(profile: Profile) -> Profile:
    """One boot outside of the sandbox is enough for the whole profile to say so."""
    if sandbox.require() or OUTSIDE in profile.notes:
        return profile
    return replace(profile, notes=(*profile.notes, OUTSIDE))


def _cpu_s(outcome: Outcome) -> float | None:
    """CPU seconds of a boot that did all of its work; ToolError for one that did not."""
    host = outcome.host
    if host.status != "ok":
        raise ToolError(f"{host.reason}: {host.text}")
    for result in outcome.transcript.results:
        if not isinstance(result, Sample | Done):
            raise ToolError(f"case {result.case} of the job did not do its work: {result.reason}")
    if host.user_s is None or host.sys_s is None:
        return None
    return host.user_s + host.sys_s


def _added(
    so_far: Profile,
    block: int,
    cpu_s: float | None,
    functions: tuple[FunctionTime, ...],
    stacks: tuple[Stack, ...],
) -> Profile:
    """With one more boot. Of very many functions the smallest become one; stacks are means over
    boots, the smallest of very many dropped. ToolError for more seconds than a boot can have."""
    total_s = sum(function.seconds for function in functions)
    if total_s > _BOOT_MOST_S:
        raise ToolError(f"the profile says {total_s:.3g} s of CPU for one boot: it is not believed")
    rest = functions[FUNCTIONS_MOST - 1 :]
    if len(rest) > 1:
        others = f"[{len(rest)} other functions]"
        other = FunctionTime("kernel", others, sum(function.seconds for function in rest))
        functions = (*functions[: FUNCTIONS_MOST - 1], other)
    boots = (*so_far.boots, ProfiledBoot(block, cpu_s, functions))
    sums = {
        (stack.where, stack.frames): stack.seconds * len(so_far.boots) for stack in so_far.stacks
    }
    for stack in stacks:
        sums[stack.where, stack.frames] = sums.get((stack.where, stack.frames), 0.0) + stack.seconds
    kept = sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:STACKS_MOST]
    return replace(
        so_far,
        boots=tuple(sorted(boots, key=lambda boot: boot.block)),
        stacks=tuple(Stack(where, frames, s / len(boots)) for (where, frames), s in kept),
    )
