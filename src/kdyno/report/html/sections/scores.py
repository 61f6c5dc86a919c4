# SPDX-License-Identifier: MIT
"""Indices and group scores of suites that have them, for people who know published ones."""

from __future__ import annotations

from collections.abc import Mapping

from kdyno.errors import KdynoError
from kdyno.report import figures, plain, scores
from kdyno.report.evidence import Evidence
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.html import table
from kdyno.report.show.markup import Html, join, name, tag
from kdyno.suites.catalogue import load

ORDER = 16
TITLE = "Scores"
TIP = (
    "The baseline’s medians and those × the effect, on the suite’s own scale for comparing with "
    "published scores, and with the baseline as 100. They have no interval: the verdicts above are "
    "made without them."
)


def section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    try:
        found = scores.tables(scores.values_of(verdict), load(), verdict.baseline)
    except (KdynoError, ValueError, ZeroDivisionError):
        return None  # cases of another catalogue; all that is certain stands in the verdicts
    by_suite: dict[str, list[scores.ScoreTable]] = {}
    for each in found:
        by_suite.setdefault(each.suite, []).append(each)
    parts = [_suite(suite, found) for suite, found in by_suite.items() if _combined(found)]
    return join(parts) if parts else None


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
    # The baseline is 100 on its own scale throughout.
    compared = [each.variant != each.baseline for each in found]
    columns = [
        Column("Case", lambda of: Cell(of[1], notes=() if of[0] == "case" else (of[0],)), "name")
    ]
    for each, other in zip(found, compared, strict=True):
        rows = {(row.kind, row.name): row for row in each.rows}
        variant = plain.short(each.variant)
        columns.append(_column(variant, rows, "reference"))
        if other:
            columns.append(_column(f"{variant}, {plain.short(each.baseline)} = 100", rows, "own"))
    lacks = list(dict.fromkeys(line for each in found for line in scores.lacking(each)))
    facets = {"kind": lambda of: of[0]}
    grid = Grid(
        columns, names, f"Scores of {suite}", id=f"scores-{plain.name(suite)}", facets=facets
    )
    notes = [tag("li", plain.sentence(line)) for line in lacks]
    return join(
        [tag("h3", name(suite)), table(grid), tag("ul", notes, class_="legend") if notes else None]
    )


def _column(head: str, rows: Mapping[tuple[str, str], scores.ScoreRow], scale: str) -> Column:
    """A kernel's scores on one of the two scales."""

    def value(of: tuple[str, str]) -> float | None:
        found: scores.Score | None = getattr(rows.get(of), scale, None)
        return found.value if found is not None else None

    return Column(head, value, "number", figures.amount, absent="–")
