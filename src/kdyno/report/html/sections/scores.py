# SPDX-License-Identifier: MIT
"""Indices and group scores of suites that have them, for people who know published ones."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kdyno.errors import KdynoError
from kdyno.report import figures, plain, scores
from kdyno.report.evidence import Evidence
from kdyno.report.html.markup import Html, join, name, tag
from kdyno.report.html.table import Cell, Row, table

if TYPE_CHECKING:
    from kdyno.suites.catalogue import Suite

ORDER = 16
TITLE = "Scores"
TIP = (
    "Medians on the suite’s own scale, for comparing with published scores, and with the baseline "
    "as 100. They have no interval: the verdicts above are made without them."
)


def section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    try:
        found = scores.tables(scores.values_of(verdict), _catalogue(), verdict.baseline)
    except (KdynoError, ValueError, ZeroDivisionError):
        return None  # cases of another catalogue; all that is certain stands in the verdicts
    by_suite: dict[str, list[scores.ScoreTable]] = {}
    for each in found:
        by_suite.setdefault(each.suite, []).append(each)
    parts = [_suite(suite, found) for suite, found in by_suite.items() if _combined(found)]
    return join(parts) if parts else None


@cache
def _catalogue() -> dict[str, Suite]:
    """Once for all pages of a site: reading the suites takes longer than the rest of a page."""
    from kdyno.suites.catalogue import load

    return load()


def _combined(found: list[scores.ScoreTable]) -> bool:
    """Whether there is any score of several cases: an index for one alone tells nothing new."""
    return any(
        row.kind != "case" and (row.reference.value is not None or row.own.value is not None)
        for each in found
        for row in each.rows
    )


def _suite(suite: str, found: list[scores.ScoreTable]) -> Html:
    """One table: a row for each case, group and the whole; two columns for each kernel."""
    names = list(dict.fromkeys((row.kind, row.name) for each in found for row in each.rows))
    rows_of = [{(row.kind, row.name): row for row in each.rows} for each in found]
    # The baseline is 100 on its own scale throughout.
    compared = [each.variant != each.baseline for each in found]
    heads = ["Case"]
    for each, other in zip(found, compared, strict=True):
        variant = plain.short(each.variant)
        heads += [variant, *([f"{variant}, {plain.short(each.baseline)} = 100"] if other else [])]
    rows = [
        Row(
            [
                Cell([name(of), tag("small", kind) if kind != "case" else None], plain.name(of)),
                *(
                    cell
                    for rows, other in zip(rows_of, compared, strict=True)
                    for cell in _cells(rows.get((kind, of)), other)
                ),
            ],
            {"kind": kind},
        )
        for kind, of in names
    ]
    lacks = list(dict.fromkeys(line for each in found for line in scores.lacking(each)))
    shown = table(f"scores-{plain.name(suite)}", f"Scores of {suite}", heads, rows, ("kind",))
    notes = [tag("li", plain.sentence(line)) for line in lacks]
    return join(
        [tag("h3", name(suite)), shown, tag("ul", notes, class_="legend") if notes else None]
    )


def _cells(row: scores.Row | None, compared: bool) -> list[Cell]:
    cells = [_cell(row.reference.value if row else None)]
    if compared:
        cells.append(_cell(row.own.value if row else None))
    return cells


def _cell(value: float | None) -> Cell:
    return Cell("–" if value is None else figures.amount(value), value, True)
