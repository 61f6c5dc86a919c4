# SPDX-License-Identifier: MIT
"""A verdict on screen, as JSON, with its scores, and as an exit status: what the verbs share that
measure, judge and report; and the end of `kdyno run`, with profiles and confirmation."""

from __future__ import annotations

import json as as_text
from collections.abc import Mapping
from dataclasses import replace

from kdyno.cli.run import Request
from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment
from kdyno.experiment.overrides import apply
from kdyno.labs.profile.boots import require as require_profile
from kdyno.labs.profile.counts import METHOD
from kdyno.labs.profile.verb import after_run, counted_after_run
from kdyno.machines.kinds import KINDS
from kdyno.measure.execution import Options
from kdyno.reading.checked import values
from kdyno.report import gate, scores
from kdyno.report.terminal import show as show_verdict
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Suite
from kdyno.suites.catalogue import load as load_suites
from kdyno.verbs.output import kept_status, say, show, write_json_text
from kdyno.verbs.watching import executed, say_where

FORMATS = ("markdown", "json")
"""Of exports that have a place for scores."""


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
    levels = [*(it.levels for it in experiment.variants), *(it.levels for it in experiment.suites)]
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
    asked: Experiment,
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
    request: Request,
    json: str | None,
) -> tuple[Run, int]:
    """Shows what was measured; the run that counts, and the exit status. ``asked``: the experiment
    with the options' overrides."""
    method = asked.measure.profile
    if method == METHOD:
        verdict = counted_after_run(run, verdict, asked, suites, options)
    fail_on = tuple(request.fail_on or ())
    status = gate.exit_status(verdict, fail_on)
    if request.confirm and gate.exit_status(verdict, fail_on or ("slower",)) == gate.SLOWER:
        say(f"{run.name}: slower, so it is measured once more (--confirm)")
        seed = None if asked.measure.seed is None else asked.measure.seed + 1
        again = replace(options.overrides, confirms=run.name, seed=seed)
        options = replace(options, overrides=again)
        run, verdict = executed(apply(again, experiment), suites, options)
        status = gate.exit_status(gate.with_first(run, verdict), fail_on)
    show_outcome(verdict, json, status, run, request.scoring)
    say_where(run)
    if method not in ("none", METHOD):
        after_run(run, asked, suites, options, shown=json != "-")
    return run, status


def show_outcome(
    verdict: Verdict,
    json: str | None,
    status: int,
    run: Run | None = None,
    scoring: str | None = None,
) -> None:
    """As a table, and as JSON where it is wanted. ``run``: also its scores, all of them or a line a
    suite."""
    with kept_status(status):
        if json is not None:
            write_json_text(with_scores(run, verdict.to_json(), scoring, "json"), json)
        if json != "-":
            show_verdict(verdict)
            if run is not None:
                show(_after_table(run, verdict, scoring), end="")


def check_scoring(scoring: str | None, format: str | None) -> None:
    """UsageError for a word that is none, or where the export has no place for scores."""
    if scoring is not None:
        scores.check_word(scoring)
        if format is not None and format not in FORMATS:
            raise UsageError(
                f"--scoring goes with the table, {' and '.join(FORMATS)}, not {format}"
            )


def with_scores(
    run: Run | None, exported: str | bytes, scoring: str | None, format: str
) -> str | bytes:
    """An export with the scores at its end; a verdict's JSON with one more key, ``scores``."""
    if run is None or scoring is None or isinstance(exported, bytes):
        return exported
    tables = scores.tables_in(run, scoring, load_suites())
    if format == "markdown":
        return f"{exported}\nScores ({scores.EXPLAINED[scoring]}):\n\n{scores.markdown(tables)}\n"
    data = values(exported) | {"scores": scores.as_json(tables, scoring)}
    return as_text.dumps(data, indent=1, ensure_ascii=False)


def _after_table(run: Run, verdict: Verdict, scoring: str | None) -> str:
    suites = load_suites()
    if scoring is not None:
        text = scores.text(scores.tables_in(run, scoring, suites))
        return f"\nScores ({scores.EXPLAINED[scoring]})\n\n{text}\n"
    line = scores.summary(scores.tables(scores.values_of(verdict), suites, verdict.baseline))
    return f"\n{line}\n" if line else ""
