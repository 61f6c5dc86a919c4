# SPDX-License-Identifier: MIT
"""A verdict on screen and as JSON, with its scores: what the verbs share that measure, judge and
report."""

from __future__ import annotations

import json as as_text

from kdyno.errors import UsageError
from kdyno.reading.checked import values
from kdyno.report import scores
from kdyno.report.terminal import show as show_verdict
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import load as load_suites
from kdyno.verbs.output import kept_status, show, write_json_text

FORMATS = ("markdown", "json")
"""Of exports that have a place for scores."""


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
