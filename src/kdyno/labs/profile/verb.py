# SPDX-License-Identifier: MIT
"""kdyno profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.experiment.limits import MOST_SECONDS
from kdyno.experiment.loader import Overrides, apply
from kdyno.experiment.model import Experiment
from kdyno.judge.judging import explained
from kdyno.labs.profile import annotate as annotating, boots as profiling, counts, report, tables
from kdyno.labs.profile.record import Profile, stored_profiles
from kdyno.measure.execution import Options
from kdyno.paths import cache_root
from kdyno.report.show import terminal
from kdyno.store.counts import FOLDER, Counted, stored_counts, to_json
from kdyno.store.run import Run, file_name, write_run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Suite
from kdyno.verbs.options import (
    RUN_NAMES,
    Cases,
    Jobs,
    Json,
    NoSandbox,
    NoWait,
    Refresh,
    Runs,
    Variants,
    Yes,
    argument,
    option,
    runs_folder,
    where,
)
from kdyno.verbs.output import Line, check_writable, say, write, write_json
from kdyno.verbs.subject import consent_to_build, load, load_stored, stored_run
from kdyno.verbs.watching import duration, watching


def profile_verb(
    what: str = argument(
        "EXPERIMENT|RUN", "An experiment file, or a run (path, name or last).", ..., RUN_NAMES
    ),
    method: str | None = option(
        "--method WORD", "perf, gprof, or count in QEMU [as the experiment says].", None
    ),
    boots: int = option("--boots N", "Profiled boots of each variant.", 6, min=1, max=1000),
    seconds: float = option(
        "--seconds SECONDS",
        "Work: what the baseline does in this time.",
        1.0,
        min=0.05,
        max=MOST_SECONDS,
    ),
    variant: Variants = None,
    case: Cases = None,
    stacks: bool = option(
        "--stacks", "perf: kernels with frame pointers, for whole stacks.", False
    ),
    again: bool = option(
        "--replace", "Replace the run's profile if it was made differently.", False
    ),
    show: bool = option("--show", "Boot nothing; show the profile that the run has.", False),
    top: int = option("--top N", "Functions in each table.", 15, min=1, max=100_000),
    folded: str | None = option("--folded FILE", "Folded stacks, for flame graphs.", None),
    annotate: str | None = option(
        "--annotate FUNCTION",
        "count: a function's instructions in both kernels, with their counts.",
        None,
    ),
    jobs: Jobs = None,
    refresh: Refresh = False,
    runs: Runs = None,
    no_sandbox: NoSandbox = False,
    no_wait: NoWait = False,
    yes: Yes = False,
    json: Json = None,
) -> int:
    """Show seconds per function of each kernel, and the differences. All did the same work.

    Examples:
      kdyno profile last
      kdyno profile experiments/simd-gprof.toml --method gprof
      kdyno profile last --annotate anon_pipe_write
      kdyno profile last --show --folded out.folded
    """
    check_writable(json, folded, "--folded")
    is_file = what.endswith(".toml") or Path(what).is_file()
    if show and is_file:
        raise UsageError("--show goes with a run that was profiled")
    if annotate and method not in (None, counts.METHOD):
        raise UsageError(f"--annotate counts: it excludes --method {method}")
    options = Options(
        cache=cache_root(), runs=runs_folder(runs), wait=not no_wait, jobs=jobs, refresh=refresh
    )
    run = None if is_file else stored_run(what, options.runs)
    counting = method == counts.METHOD or annotate is not None
    profiles: Mapping[str, Profile] = {}
    counted: Sequence[Counted] = ()
    if run is not None and (show or annotate):
        profiles = {} if counting else stored_profiles(run)
        if counting or (method is None and not profiles):
            counted = list(stored_counts(run).values())
        if show and counting and not counted:
            raise UsageError(f"{what} was not counted by function; without --show it is")
    if annotate or not show:
        if run is not None:
            experiment, suites, overrides = load_stored(run, run.manifest())
        else:
            experiment, suites = load(Path(what))
            wanted = method or experiment.measure.profile
            exact = annotate is not None or wanted == counts.METHOD
            overrides = Overrides(metric="instructions") if exact else Overrides()
        overrides = replace(
            overrides,
            variants=tuple(variant or overrides.variants),
            cases=tuple(case or overrides.cases),
        )
        experiment = apply(overrides, experiment)
        own = experiment.measure.profile
        method = method or (own if own != "none" else "perf")
        counting = counting or method == counts.METHOD
        if stacks and (counting or method != "perf"):
            raise UsageError("--stacks goes with --method perf: no other method sees stacks")
        if run is not None:
            what_for = "to annotate it" if annotate else "to profile it"
            consent_to_build(run, experiment, what_for, yes=yes)
        if counting:
            counted = counted or _count(run, experiment, suites, options)
        else:
            request = profiling.Request(method, boots, seconds, stacks, again)
            if run is None:
                profiling.require(experiment, method)
                with watching(experiment) as listener:
                    watched = replace(options, listener=listener, overrides=overrides)
                    run = profiling.begin(experiment, suites, watched)
                say(f"run: {run.path}")
            profiles = _profile(run, experiment, suites, options, request)
    parts: Iterable[terminal.Part]
    if annotate:
        functions = annotating.annotated(counted, annotate, experiment, options)
        data = annotating.as_json(functions)
        parts = annotating.parts(functions)
    elif counted:
        data = counts.as_json(counted)
        parts = counts.parts(counted, top)
    elif run is None or not profiles:
        name = run.name if run is not None else what
        place = where(run.path.parent) if run is not None else ""
        raise UsageError(f"{name} has no profile; `kdyno profile {name}{place}` makes one")
    else:
        baseline = run.manifest().baseline
        data = tables.as_json(profiles, baseline)
        parts = tables.parts(profiles, baseline, top)
    if folded:
        write(counts.folded(counted) if counted else report.folded(profiles), folded)
        if folded != "-":
            say(f"written: {folded}")
    write_json(data, json)
    if "-" not in (json, folded):
        terminal.show(lambda _: parts)
    if run is not None and not annotate:
        say(f"\nrun folder: {run.path}")
    return 0


def counted_after_run(
    run: Run,
    verdict: Verdict,
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
) -> Verdict:
    """What `profile = "count"` in an experiment adds: the verdict says which functions."""
    say("\ncounting by function, in a boot of each kernel of its own")
    _count(run, experiment, suites, options)
    return explained(verdict, stored_counts(run))


def after_run(
    run: Run,
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
    *,
    printed: bool,
) -> None:
    """What `profile = "perf"` in an experiment adds to a run that was measured. ``printed``: on
    stdout, which may be wanted for JSON alone."""
    method = experiment.measure.profile
    say(f"\nprofiling by {method}, in boots of its own")
    try:
        profiles = _profile(run, experiment, suites, options, profiling.Request(method))
    except KeyboardInterrupt:
        say(f"`kdyno profile {run.name}{where(run.path.parent)}` goes on with the profile")
        raise
    if printed:
        terminal.show(lambda _: ["", *tables.parts(profiles, run.manifest().baseline)])


def _profile(
    run: Run,
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
    request: profiling.Request,
) -> dict[str, Profile]:
    line = Line()

    def show(done: int, boots: int, names: str, left_s: float | None) -> None:
        left = f", about {duration(left_s)} left" if left_s is not None else ""
        line.show(f"profiling: boot {done + 1} of {boots}, {names}{left}", force=done == 0)

    with watching(experiment) as listener, write_run(run.path) as writer:
        watched, manifest = replace(options, listener=listener), run.manifest()
        try:
            return profiling.profile(writer, manifest, experiment, suites, watched, request, show)
        finally:
            line.end()


def _count(
    run: Run | None, experiment: Experiment, suites: Mapping[str, Suite], options: Options
) -> Sequence[Counted]:
    """Exact, so one boot of each kernel is enough. Kept with the run and its verdict."""
    earlier = run.manifest() if run is not None else None
    with watching(experiment) as listener:
        counted = counts.count(experiment, suites, replace(options, listener=listener), earlier)
    if run is not None:
        with write_run(run.path) as writer:
            for each in counted:
                writer.save_file(file_name(each.variant), to_json(each), FOLDER)
            if (verdict := run.verdict()) is not None:
                writer.save_explained(explained(verdict, stored_counts(run)))
    return counted


VERBS = {"profile": profile_verb}
