# SPDX-License-Identifier: MIT
"""What a run ends with: wishes that are checked before it begins; counts, profiles, a second run
that confirms the first; a verdict on screen and as JSON, with its scores."""

from __future__ import annotations

import json as as_text
import sys
from collections.abc import Iterable
from dataclasses import replace
from types import ModuleType

from kdyno import deferred
from kdyno.cli.run import Request
from kdyno.errors import UsageError
from kdyno.experiment.loader import apply
from kdyno.experiment.model import Experiment
from kdyno.machines.kinds import KINDS
from kdyno.measure.execution import Options
from kdyno.reading.checked import values
from kdyno.report import gate, scores
from kdyno.report.exporters import Exporter, exporter, exporter_for
from kdyno.report.terminal import show as show_verdict
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites import catalogue
from kdyno.verbs.output import check_writable, kept_status, say, show, write_json_text
from kdyno.verbs.watching import executed, say_where

_require_profile = deferred("kdyno.labs.profile.boots:require")
_profile = deferred("kdyno.labs.profile.verb:after_run")
_count = deferred("kdyno.labs.profile.verb:counted_after_run")
SCORED = ("markdown", "json")
"""Exports that have a place for scores."""


def check(
    experiment: Experiment, suites: catalogue.Catalogue, request: Request, *, in_jobs: bool
) -> None:
    """UsageError, before hours of measuring, for what the end of this run could not be."""
    rules = gate.parse(request.fail_on or ())
    cases = {
        pair
        for use in experiment.suites
        for case in use.cases
        for pair in ((use.name, use.name_in_run(case)), (use.name, use.family or case))
    }
    levels = [part.levels for part in experiment.variants]
    levels += [part.levels for part in experiment.suites]
    factors = tuple(dict.fromkeys(factor for each in levels for factor, _level in each))
    # A single factor has no table of its own: its levels are the variants or the cases.
    gate.check(rules, cases, factors if len(factors) > 1 else ())
    builds = KINDS[experiment.machine.kind].builds
    gate.check_compares(rules, builds or experiment.measure.calibrate)
    names = {use.name for use in experiment.suites}
    scores.check(request.scoring, experiment.measure.metric, names, suites)
    if experiment.measure.profile != "none":
        _require_profile(experiment, experiment.measure.profile)
        if in_jobs:
            raise UsageError("--on measures without profiles: `kdyno profile` takes one afterwards")


def end(
    run: Run,
    verdict: Verdict,
    plan: Experiment,
    experiment: Experiment,
    suites: catalogue.Catalogue,
    options: Options,
    request: Request,
    json: str | None,
) -> tuple[Run, int]:
    """Shows the result; the run that counts, and exit status. ``plan``: with the overrides."""
    method = plan.measure.profile
    if method == "count":
        verdict = _count(run, verdict, plan, suites, options)
    fail_on = tuple(request.fail_on or ())
    if request.confirm and gate.exit_status(verdict, fail_on or ("slower",)) == gate.SLOWER:
        say(f"{run.name}: slower, so it is measured once more (--confirm)")
        seed = None if plan.measure.seed is None else plan.measure.seed + 1
        again = replace(options.overrides, confirms=run.name, seed=seed)
        options = replace(options, overrides=again)
        run, verdict = executed(apply(again, experiment), suites, options)
    show_outcome(verdict, json, run, request.scoring)
    say_where(run)
    if method not in ("none", "count"):
        _profile(run, plan, suites, options, printed=json != "-")
    # A run that confirms another may be one that was gone on with.
    judged = gate.with_first(run, verdict) if fail_on or request.confirm else verdict
    return run, gate.exit_status(judged, fail_on)


def export_of(
    format: str | None, output: str | None, json: str | None, more: Iterable[ModuleType] = ()
) -> Exporter | None:
    """What -f or the name of -o asks for; None: a table. UsageError where it has no place."""
    if json == "-" and format and not output:
        raise UsageError("--json - and --format both want stdout: add -o FILE for the export")
    check_writable(json, output)
    if not format and not output:
        return None
    chosen = exporter(format, more) if format else exporter_for(output or "", more)
    if output in (None, "-") and not chosen.is_text and sys.stdout.isatty():
        raise UsageError(f"{chosen.name} is not text for a terminal: add -o FILE{chosen.suffix}")
    return chosen


def show_outcome(
    verdict: Verdict, json: str | None, run: Run | None = None, scoring: str | None = None
) -> None:
    """As a table, and as JSON where wanted. ``run``: also its scores, all or a line a suite."""
    with kept_status():
        write_verdict(verdict, json, run, scoring)
        if json == "-":
            return
        show_verdict(verdict)
        if run is not None and scoring is not None:
            text = scores.text(scores.tables_in(run, verdict, scoring, catalogue.load()))
            show(f"\nScores ({scores.EXPLAINED[scoring]})\n\n{text}")
        elif run is not None and (
            line := scores.summary(scores.of_verdict(verdict, catalogue.load()))
        ):
            show(f"\n{line}")


def write_verdict(
    verdict: Verdict, json: str | None, run: Run | None = None, scoring: str | None = None
) -> None:
    """As JSON, with the run's scores, where it is wanted."""
    if json is not None:
        write_json_text(with_scores(run, verdict, verdict.to_json(), scoring, "json"), json)


def with_scores(
    run: Run | None, verdict: Verdict, exported: str | bytes, scoring: str | None, format: str
) -> str | bytes:
    """An export with the scores at its end; a verdict's JSON with one more key, ``scores``."""
    if run is None or scoring is None or isinstance(exported, bytes):
        return exported
    tables = scores.tables_in(run, verdict, scoring, catalogue.load())
    if format == "markdown":
        return f"{exported}\nScores ({scores.EXPLAINED[scoring]}):\n\n{scores.markdown(tables)}\n"
    data = values(exported) | {"scores": scores.as_json(tables, scoring)}
    return as_text.dumps(data, indent=1, ensure_ascii=False)
