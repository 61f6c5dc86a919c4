# SPDX-License-Identifier: MIT
"""How far boots of one and the same kernel lie apart."""

from __future__ import annotations

from kdyno.report import figures, plain
from kdyno.report.charts import spread as chart
from kdyno.report.charts.vega import drawn
from kdyno.report.evidence import Evidence
from kdyno.report.html.markup import Html, join, short, tag
from kdyno.report.html.table import Cell, Row, table

ORDER = 50
TITLE = "Spread"
SLOW = True
TIP = "Line: nine boots of ten. Bar: the middle half. Zero is the median of the same kernel."

WIDTHS_PX = {"wide": 1000, "narrow": 356}
_HEADS = ["Case", "Kernel", "Boots", "Disturbed", "Median", "Middle half", "Variation"]


def section(evidence: Evidence) -> Html | None:
    found = [it for it in chart.spreads(evidence) if it.boots > 1]
    if not found:
        return None
    rows = [Row(_cells(it), {"kernel": plain.short(it.variant)}) for it in found]
    baseline = evidence.verdict.baseline
    shown = table("spread-table", "Spread of boots", _HEADS, rows, ("kernel",))
    drawable = found
    if len(found) > chart.MOST_ROWS:  # the chart would be longer than anyone reads
        drawable = [it for it in found if it.variant == baseline][: chart.MOST_ROWS]
    drawings = [
        tag(
            "div",
            Html(drawn(chart.spread_chart(drawable, baseline, width_px), chart.told(found))),
            class_=f"drawing {kind}",
        )
        for kind, width_px in WIDTHS_PX.items()
        if drawable
    ]
    note = None
    if drawings and len(drawable) < len(found):
        note = tag("p", f"The chart shows {len(drawable)} of {len(found)} rows.", class_="legend")
    figure = tag("figure", drawings) if drawings else None
    details = tag("details", tag("summary", "The figures"), shown)
    return join([figure, note, details])


def _cells(it: chart.Spread) -> list[Cell]:
    unit = plain.name(it.case.unit)
    suite, case = plain.name(it.case.suite), plain.name(it.case.case)
    return [
        Cell([short(it.case.case), tag("small", short(it.case.suite))], f"{suite}/{case}"),
        Cell(short(it.variant), plain.name(it.variant)),
        Cell(str(it.boots), it.boots, True),
        Cell(str(it.disturbed), it.disturbed, True),
        Cell(figures.quantity(it.median, unit), it.median, True),
        Cell(figures.percent(it.middle_half, signed=False), it.middle_half, True),
        Cell(figures.percent(it.variation, signed=False), it.variation, True),
    ]
