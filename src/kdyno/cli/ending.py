# SPDX-License-Identifier: MIT
"""What a run shall end with, checked before it begins; and its end: counts and profiles, a second
run that confirms the first, the verdict on screen, the exit status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kdyno.cli.outcome import show_outcome
from kdyno.cli.run import Request
from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment
from kdyno.experiment.overrides import apply
from kdyno.labs.profile.boots import require as require_profile
from kdyno.labs.profile.counts import METHOD
from kdyno.labs.profile.verb import after_run, counted_after_run
from kdyno.machines.kinds import KINDS
from kdyno.measure.execution import Options
from kdyno.report import gate, scores
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Suite
from kdyno.verbs.output import say
from kdyno.verbs.watching import executed, say_where


def check(
    experiment: Experiment, suites: Mapping[str, Suite], request: Request, *, in_jobs: bool
) -> None:
    """UsageError, before hours of measuring, for what the end of this run could not be."""
    rules = gate.parse(request.fail_on or ())
    cases = {
        pair
        for use in experiment.suites
        for case in use.cases
        for pair in ((use.name, use.name_in_run(case)), (use.name, use.family or case))
    }
    levels = [
        *(part.levels for part in experiment.variants),
        *(part.levels for part in experiment.suites),
    ]
    factors = tuple(dict.fromkeys(factor for each in levels for factor, _level in each))
    # A single factor has no table of its own: its levels are the variants or the cases.
    gate.check(rules, cases, factors if len(factors) > 1 else ())
    builds = KINDS[experiment.machine.kind].builds
    gate.check_compares(rules, builds or experiment.measure.calibrate)
    scores.check(request.scoring, {use.name for use in experiment.suites}, suites)
    if experiment.measure.profile != "none":
        require_profile(experiment, experiment.measure.profile)
        if in_jobs:
            raise UsageError("--on measures without profiles: `kdyno profile` takes one afterwards")


def end(
    run: Run,
    verdict: Verdict,
    plan: Experiment,
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
    request: Request,
    json: str | None,
) -> tuple[Run, int]:
    """Shows what was measured; the run that counts, and the exit status. ``asked``: the experiment
    with the options' overrides."""
    method = plan.measure.profile
    if method == METHOD:
        verdict = counted_after_run(run, verdict, plan, suites, options)
    fail_on = tuple(request.fail_on or ())
    status = gate.exit_status(verdict, fail_on)
    if request.confirm and gate.exit_status(verdict, fail_on or ("slower",)) == gate.SLOWER:
        say(f"{run.name}: slower, so it is measured once more (--confirm)")
        seed = None if plan.measure.seed is None else plan.measure.seed + 1
        again = replace(options.overrides, confirms=run.name, seed=seed)
        options = replace(options, overrides=again)
        run, verdict = executed(apply(again, experiment), suites, options)
        status = gate.exit_status(gate.with_first(run, verdict), fail_on)
    show_outcome(verdict, json, status, run, request.scoring)
    say_where(run)
    if method not in ("none", METHOD):
        after_run(run, plan, suites, options, printed=json != "-")
    return run, status
