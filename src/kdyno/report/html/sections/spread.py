# SPDX-License-Identifier: MIT
"""How far boots of one and the same kernel lie apart."""

from __future__ import annotations

from functools import partial

from kdyno.report import effects, figures, plain
from kdyno.report.charts import boots as chart
from kdyno.report.evidence import Evidence
from kdyno.report.html.figure import drawings
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.html import table
from kdyno.report.show.markup import Html, join, tag

ORDER = 50
TITLE = "Spread"
SLOW = True
TIP = "Line: nine boots of ten. Bar: the middle half. Zero is the median of the same kernel."

WIDTHS_PX = {"wide": 1000, "narrow": 356}
_COLUMNS = (
    Column("Case", lambda it: effects.case(it.case, "beside"), "name"),
    Column("Kernel", lambda it: it.variant, "name"),
    Column("Boots", lambda it: it.boots, "number"),
    Column("Disturbed", lambda it: it.disturbed, "number"),
    Column("Median", lambda it: effects.amount(it.case, it.median), "number"),
    Column("Middle half", lambda it: it.middle_half, "number", figures.share),
    Column("Variation", lambda it: it.variation, "number", figures.share),
)


_OF_TURNS = (
    Column("Case", lambda it: effects.case(it, "beside"), "name"),
    Column("Kernel", lambda it: it.variant, "name"),
    Column("Rounds in a group", lambda it: it.spread.rounds, "number", "{:.0f}".format),
    Column("One round", lambda it: it.spread.within, "number", figures.share),
    Column("Between groups", lambda it: it.spread.between, "number", figures.share),
    Column("A group’s value", lambda it: it.spread.of_group, "number", figures.share),
)
_OF_TURNS_TIP = (
    "Standard deviations of the ratio to the baseline. One round: within its group, what the "
    "machine did meanwhile; more rounds help. Between groups: beyond what their rounds explain, "
    "because boots of one kernel differ; only more groups help. A group’s value: both together."
)


def section(evidence: Evidence) -> Html | None:
    """Of boots, and of rounds and groups where guests took turns."""
    parts = [_of_boots(evidence), _of_turns(evidence)]
    return join(parts) if any(parts) else None


def _of_turns(evidence: Evidence) -> Html | None:
    found = [it for it in evidence.verdict.effects if it.spread is not None]
    if not found:
        return None
    facets = {"kernel": lambda it: plain.short(it.variant)}
    title = "Spread of rounds and groups"
    grid = Grid(_OF_TURNS, found, title, id="turns-table", facets=facets)
    tip = tag("p", _OF_TURNS_TIP, class_="tip")
    return join([tag("h3", title), tip, table(grid)])


def _of_boots(evidence: Evidence) -> Html | None:
    found = chart.spreads(evidence)
    if not found:
        return None
    baseline = evidence.verdict.baseline
    facets = {"kernel": lambda it: plain.short(it.variant)}
    grid = Grid(_COLUMNS, found, "Spread of boots", id="spread-table", facets=facets)
    drawable = found
    if len(found) > chart.MOST_ROWS:  # the chart would be longer than anyone reads
        drawable = [it for it in found if it.variant == baseline][: chart.MOST_ROWS]
    figure = note = None
    if drawable:
        draw = partial(chart.spread_chart, drawable, baseline)
        figure = tag("figure", drawings(WIDTHS_PX, draw, chart.spread_summary(found)))
        if len(drawable) < len(found):
            said = f"The chart shows {len(drawable)} of {len(found)} rows."
            note = tag("p", said, class_="legend")
    details = tag("details", tag("summary", "The figures"), table(grid))
    return join([figure, note, details])
