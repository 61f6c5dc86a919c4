# SPDX-License-Identifier: MIT
"""Crossed factors: what each level does, and where it depends on another factor."""

from __future__ import annotations

from kdyno.report import factors, plain
from kdyno.report.charts.effects import interactions
from kdyno.report.evidence import Evidence
from kdyno.report.html.figure import drawings
from kdyno.report.show.html import headed_table
from kdyno.report.show.markup import Html, join, tag

ORDER = 30
TITLE = "Factors"
SLOW = True

WIDTHS_PX = {"wide": 480, "narrow": 350}


def section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    if verdict.factors is None or not verdict.factors.effects:
        return None
    parts = [
        tag("ul", [tag("li", plain.sentence(line)) for line in verdict.factors.summary]),
        _charts(evidence),
    ]
    for grid in factors.grids(verdict):
        shown = headed_table(grid)
        parts.append(join([tag("h3", grid.title), shown]))
    parts += [tag("p", plain.sentence(text)) for text in verdict.factors.missing]
    parts.append(tag("p", factors.note(verdict), class_="legend"))
    return join(parts)


def _charts(evidence: Evidence) -> Html | None:
    figures = []
    for drawing in interactions(evidence.verdict):
        kinds = drawings(WIDTHS_PX, drawing.chart, drawing.text)
        figures.append(tag("figure", tag("figcaption", drawing.title), kinds))
    return tag("div", figures, class_="pair") if figures else None
