# SPDX-License-Identifier: MIT
"""The figures of a run that compares nothing."""

from __future__ import annotations

from kdyno.report import figures, plain
from kdyno.report.evidence import Evidence
from kdyno.report.html.markup import Html, short, tag
from kdyno.report.html.table import Cell, Row, table
from kdyno.store.verdict import CaseValue

ORDER = 15
TITLE = "Values"
TIP = (
    "One boot of one kernel: the intervals tell how steady its repetitions were, not how another "
    "boot would come out."
)


def section(evidence: Evidence) -> Html | None:
    values = evidence.verdict.values
    if not values:
        return None
    heads = ["Case", "Median", "Interval", "Repetitions", "Better"]
    rows = [Row(_cells(it), {"suite": plain.short(it.suite)}) for it in values]
    return table("values-table", "Values", heads, rows, ("suite",))


def _cells(it: CaseValue) -> list[Cell]:
    unit = plain.name(it.unit)
    value = "" if it.value is None else figures.quantity(it.value, unit)
    why = tag("small", plain.sentence(it.reason)) if it.reason else None
    ends = "" if it.ci is None else " … ".join(figures.amount(end) for end in it.ci)
    return [
        Cell([short(it.case), tag("small", short(it.suite)), why], plain.name(it.case)),
        Cell(value, it.value, True),
        Cell(ends, it.ci[0] if it.ci else None, True),
        Cell(str(it.repetitions), it.repetitions, True),
        Cell(it.better),
    ]
