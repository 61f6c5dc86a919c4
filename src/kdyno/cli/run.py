# SPDX-License-Identifier: MIT
"""kdyno run and kdyno try: measure an experiment, each commit of a [matrix], or a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from kdyno.cli.build import examined
from kdyno.cli.scoring import after_table, with_scores
from kdyno.errors import KdynoError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.experiment.overrides import Overrides, apply
from kdyno.labs.profile.boots import require as require_profile
from kdyno.labs.profile.counts import METHOD
from kdyno.labs.profile.verb import after_run, counted_after_run
from kdyno.machines.kinds import KINDS
from kdyno.measure.commands import Trial, experiment_text, option_of
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.report import gate, scores
from kdyno.report.terminal import show as show_verdict
from kdyno.store.index import resolve
from kdyno.store.run import Run, open_run
from kdyno.suites.catalogue import Suite
from kdyno.suites.catalogue import load as load_suites
from kdyno.verbs import fleet
from kdyno.verbs.completion import run_names
from kdyno.verbs.matrix import each, matrix_of, refs_of
from kdyno.verbs.options import (
    Cases,
    ExactBoots,
    ExperimentFile,
    Extent,
    FailOn,
    Interleave,
    Layouts,
    Metric,
    On,
    Push,
    Ref,
    Refresh,
    Scoring,
    Variants,
    Working,
    Yes,
    consent,
    consent_to_build,
    load,
    load_stored,
    where,
)
from kdyno.verbs.output import kept_status, say, show, write_json_text
from kdyno.verbs.sharing import pushed, store_prepared
from kdyno.verbs.verb import Verb
from kdyno.verbs.watching import executed, say_where


def run(
    experiment: ExperimentFile = None,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="RUN",
            help="Go on with an interrupted run.",
            autocompletion=run_names,
        ),
    ] = None,
    *,
    extent: Extent,
    interleave: Interleave = None,
    metric: Metric = None,
    exact_boots: ExactBoots = None,
    layouts: Layouts = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Boot a copy of the baseline as well (A/A).")
    ] = False,
    variant: Variants = None,
    ref: Ref = None,
    case: Cases = None,
    fail_on: FailOn = None,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm",
            help="What is slower is measured again, and only counts for --fail-on if it is again.",
        ),
    ] = False,
    scoring: Scoring = None,
    refresh: Refresh = False,
    yes: Yes = False,
    push: Push = False,
    on: On = None,
    beside: Annotated[
        bool,
        typer.Option(
            "--beside", help="Others may measure meanwhile, on CPUs that this one was not given."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check, and say the cost, as `kdyno check`.")
    ] = False,
    working: Working,
) -> int:
    """Build, boot, measure and judge the kernels of an experiment."""
    overrides = extent.overrides(
        calibrate=calibrate,
        interleave=interleave,
        metric=metric,
        exact_boots=exact_boots,
        layouts=layouts,
        variants=tuple(variant or ()),
        cases=tuple(case or ()),
    )
    options = replace(working.options(overrides, refresh=refresh), beside=beside)

    def one(ref: str | None) -> int:
        asked, suites = load(experiment, ref)
        return measured(
            asked,
            suites,
            replace(options, ref=ref or ""),
            working.json,
            fail_on=tuple(fail_on or ()),
            yes=yes,
            scoring=scoring,
            push=push,
            on=on,
            dry_run=dry_run,
            confirm=confirm,
        )

    if confirm and (on is not None or resume is not None):
        raise UsageError(
            "--confirm begins a second run here: it goes with neither --on nor --resume"
        )
    if resume is None:
        found = matrix_of(experiment) if ref is None else None
        if found is None or experiment is None:
            return one(ref)
        if working.json is not None:
            raise UsageError("--json takes one verdict: a matrix has one for each commit (--ref)")
        text = loader.read(experiment)
        refs = refs_of(found, experiment, yes)
        return each(
            refs,
            lambda it: loader.at_ref(text, it),
            options.runs,
            overrides.to_json(),
            one,
            fail_on or (),
        )
    if experiment is not None or overrides.to_json() or ref is not None or dry_run:
        raise UsageError("--resume goes on with a run as it was begun; give nothing else")
    if on is not None:
        raise UsageError("--resume knows where the run was measured; leave out --on")
    resumed, asked, suites, overrides = _stored(resume, options, yes)
    return measured(
        asked,
        suites,
        replace(options, overrides=overrides),
        working.json,
        resumed=resumed,
        fail_on=tuple(fail_on or ()),
        yes=yes,
        scoring=scoring,
        push=push,
    )


def measured(
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
    json: str | None,
    *,
    resumed: Path | None = None,
    fail_on: tuple[str, ...] = (),
    yes: bool = False,
    scoring: str | None = None,
    push: bool = False,
    on: str | None = None,
    dry_run: bool = False,
    confirm: bool = False,
) -> int:
    """Execute or resume, with the overrides of the options, and show the verdict: exit status."""
    rules = gate.parse(fail_on)
    shared = store_prepared() if push else None
    asked = apply(options.overrides, experiment)
    consent(asked, yes or resumed is not None)
    gate.check(rules, *_watchable(asked))
    gate.check_compares(rules, KINDS[asked.machine.kind].builds or asked.measure.calibrate)
    scores.check(scoring, {use.name for use in asked.suites}, suites)
    profiled = asked.measure.profile != "none"
    if profiled:
        require_profile(asked, asked.measure.profile)
    if profiled and (on is not None or (resumed is not None and fleet.is_in_jobs(resumed))):
        raise UsageError("--on measures without profiles: `kdyno profile` takes one afterwards")
    if dry_run:
        return examined(asked, suites, json, fetching=False)
    if on is not None and asked.path is not None:
        run, verdict = fleet.begin(asked.path, asked, on, options)
    elif resumed is not None and fleet.is_in_jobs(resumed):
        run, verdict = fleet.go_on(resumed, options)
    else:
        run, verdict = executed(asked, suites, options, resumed)
    if profiled and asked.measure.profile == METHOD:
        verdict, profiled = counted_after_run(run, verdict, asked, suites, options), False
    status = gate.exit_status(verdict, fail_on)
    if confirm and gate.exit_status(verdict, fail_on or ("slower",)) == gate.SLOWER:
        say(f"{run.name}: slower, so it is measured once more (--confirm)")
        seed = None if asked.measure.seed is None else asked.measure.seed + 1
        again = replace(options.overrides, confirms=run.name, seed=seed)
        options = replace(options, overrides=again)
        run, verdict = executed(apply(again, experiment), suites, options)
        status = gate.exit_status(gate.with_first(run, verdict), fail_on)
    with kept_status(status):
        if json is not None:
            write_json_text(with_scores(run, verdict.to_json(), scoring, "json"), json)
        if json != "-":
            show_verdict(verdict)
            show(after_table(run, verdict, scoring), end="")
    say_where(run)
    if profiled:
        after_run(run, asked, suites, options, shown=json != "-")
    if shared is not None:
        try:
            pushed(shared, run)
        except KdynoError:
            say(f"measured, but not pushed: `kdyno push {run.name}` tries again")
            raise
    return status


def _watchable(asked: Experiment) -> tuple[set[tuple[str, str]], tuple[str, ...]]:
    """What --fail-on may name: (suite, case) pairs as the verdict has them, and factors."""
    cases = {
        pair
        for use in asked.suites
        for case in use.cases
        for pair in ((use.name, use.name_in_run(case)), (use.name, use.family or case))
    }
    levels = [*(it.levels for it in asked.variants), *(it.levels for it in asked.suites)]
    factors = tuple(dict.fromkeys(factor for each in levels for factor, _level in each))
    # A single factor has no table of its own: its levels are the variants or the cases.
    return cases, factors if len(factors) > 1 else ()


def _stored(
    text: str, options: Options, yes: bool
) -> tuple[Path, Experiment, Mapping[str, Suite], Overrides]:
    """An interrupted run: its folder, its experiment, the suites, what was overridden. Asks before
    one that somebody else began."""
    path = resolve(text, options.runs)
    run = open_run(path)
    manifest = run.manifest()
    if manifest.joined:
        raise UsageError(
            f"{path.name} was put together from others; `kdyno compare --join` does that again"
        )
    if manifest.state == "finished" and _has_verdict(run):
        raise UsageError(
            f"{path.name} is finished ({manifest.stopped}); "
            f"`kdyno report {path.name}{where(path.parent)}` shows it"
        )
    experiment, suites, overrides = load_stored(run, manifest)
    work = apply(overrides, experiment)
    consent_to_build(run, work, "to go on with it", yes=yes)
    return path, experiment, suites, overrides


def _has_verdict(run: Run) -> bool:
    """A run that was killed between its last boot and its verdict, or lost it, is judged again."""
    try:
        return run.verdict() is not None
    except KdynoError:
        return False


def try_(
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND",
            help="Any command line; it runs in this folder, which it sees read-only.",
        ),
    ],
    kernel: Annotated[
        list[str] | None,
        typer.Option(
            "-k",
            "--kernel",
            metavar="KERNEL",
            help="stock, memcpy=NAME, config=NAME, patch=FILE, cflags=FLAGS, cmdline=WORDS, "
            "compiler=NAME, sysctl=NAME=VALUE, cpus=N, source=SOURCE; several joined by commas. "
            "May be repeated; the first is the baseline. One alone is compared with stock.",
        ),
    ] = None,
    source: Annotated[
        str,
        typer.Option("--source", metavar="SOURCE", help="Kernel source, as in an experiment file."),
    ] = "debian:linux-source-7.3",
    figure: Annotated[
        str | None,
        typer.Option(
            "--figure",
            metavar="REGEX",
            help="The figure in what the command prints, one group; else its time is the figure.",
        ),
    ] = None,
    unit: Annotated[str, typer.Option("--unit", metavar="UNIT", help="Unit of the figure.")] = "",
    better: Annotated[
        str,
        typer.Option(
            "--better",
            metavar="higher|lower",
            help="Which figure is the good one; without it, lower.",
        ),
    ] = "",
    cpus: Annotated[int, typer.Option("--cpus", metavar="N", min=1, help="CPUs of the guest.")] = 1,
    memory: Annotated[
        str,
        typer.Option("--memory", metavar="SIZE", help="Memory of the guest [1G; 512M in QEMU]."),
    ] = "",
    machine: Annotated[
        str,
        typer.Option(
            "--machine", metavar="uml|qemu", help="User Mode Linux, or a native kernel in QEMU."
        ),
    ] = "uml",
    metric: Metric = None,
    push: Push = False,
    *,
    extent: Extent,
    working: Working,
) -> int:
    """Time a command of your own in several kernels. It needs no experiment file."""
    options = working.options(extent.overrides())
    if machine not in (kinds := [it.name for it in KINDS.values() if it.builds]):
        raise UsageError(
            f"--machine {machine!r}: a command is tried in several kernels; there are "
            f"{' and '.join(kinds)} for that"
        )
    trial = Trial(
        *(tuple(kernel or ()), tuple(command), source, figure, unit, better, cpus, memory),
        *(machine, metric or "time"),
    )
    suites = load_suites()
    text = experiment_text(trial, Path.cwd())
    experiment = loader.parse(text, "try", Path.cwd(), vocabulary(suites), option_of)
    return measured(experiment, suites, options, working.json, push=push)


VERBS = (
    Verb(
        "run",
        run,
        (
            "kdyno run experiments/simd-memcpy.toml --quick",
            "kdyno run mine.toml --calibrate --fail-on slower",
            "kdyno run mine.toml --calibrate --variant stock",
            "kdyno run --resume last",
        ),
    ),
    Verb(
        "try",
        try_,
        (
            "kdyno try --machine qemu --metric instructions -k patch=mine.patch -- ls -l",
            "kdyno try -k memcpy=avx2 -- sort -n numbers.txt",
            "kdyno try -k stock -k cflags=-O3 -k config=preempt -- tar cf /dev/null /usr/include",
            "kdyno try -k patch=mine.patch -- hackbench -g 2",
            "kdyno try -k cflags=-O3 --figure 'avg: +([0-9.]+)' --unit ms -- sysbench cpu run",
        ),
    ),
)
