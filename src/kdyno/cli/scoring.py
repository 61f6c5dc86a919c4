# SPDX-License-Identifier: MIT
"""Indices and group scores, as `run` and `report` show them beside the verdict."""

from __future__ import annotations

import json

from kdyno.errors import UsageError
from kdyno.reading.checked import values
from kdyno.report import scores
from kdyno.report.scores import check, check_word
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import load

FORMATS = ("markdown", "json")


def check_format(scoring: str | None, format: str | None) -> None:
    """UsageError for a word that is none, or where the export has no place for scores."""
    if scoring is not None:
        check_word(scoring)
    if scoring is not None and format is not None and format not in FORMATS:
        raise UsageError(f"--scoring goes with the table, {' and '.join(FORMATS)}, not {format}")


def check_run(scoring: str | None, run: Run) -> None:
    """UsageError where no suite of the run has an index."""
    if scoring is not None:
        check(scoring, {case.suite for case in run.manifest().cases}, load())


def after_table(run: Run, verdict: Verdict, scoring: str | None) -> str:
    """What follows the table on a terminal: all scores if asked for, else a line a suite."""
    if scoring is not None:
        text = scores.text(scores.tables_in(run, scoring, load()))
        return f"\nScores ({scores.EXPLAINED[scoring]})\n\n{text}\n"
    found = scores.tables(scores.values_of(verdict), load(), verdict.baseline)
    line = scores.summary(found)
    return f"\n{line}\n" if line else ""


def with_scores(run: Run, exported: str | bytes, scoring: str | None, format: str) -> str | bytes:
    """An export with the scores at its end; a verdict's JSON with one more key, ``scores``."""
    if scoring is None or isinstance(exported, bytes):
        return exported
    found = scores.tables_in(run, scoring, load())
    if format == "markdown":
        return f"{exported}\nScores ({scores.EXPLAINED[scoring]}):\n\n{scores.markdown(found)}\n"
    data = values(exported) | {"scores": scores.as_json(found, scoring)}
    return json.dumps(data, indent=1, ensure_ascii=False)
