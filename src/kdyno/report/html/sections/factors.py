# SPDX-License-Identifier: MIT
"""Crossed factors: what each level does, and where it depends on another factor."""

from __future__ import annotations

from kdyno.report import factors, plain
from kdyno.report.charts.interaction import interaction_charts
from kdyno.report.charts.vega import drawn
from kdyno.report.evidence import Evidence
from kdyno.report.html.head import badge
from kdyno.report.html.markup import Html, join, tag
from kdyno.report.html.table import Cell, Row, table

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
    level = f"{100 * verdict.confidence:g} % interval"
    for number, found in enumerate(factors.sections(verdict.factors)):
        rows = [Row(_cells(row)) for row in found.rows]
        heads = ["Level", "Effect", level, "Verdict", "Blocks"]
        title = tag("h3", found.title)
        parts.append(join([title, table(f"factors-{number}", found.title, heads, rows)]))
    parts += [tag("p", plain.sentence(text)) for text in verdict.factors.missing]
    parts.append(tag("p", factors.note(verdict), class_="legend"))
    return join(parts)


def _charts(evidence: Evidence) -> Html | None:
    figures = []
    for drawing in interaction_charts(evidence.verdict):
        kinds = [
            tag("div", Html(drawn(drawing.chart(px), drawing.text)), class_=f"drawing {kind}")
            for kind, px in WIDTHS_PX.items()
        ]
        figures.append(tag("figure", tag("figcaption", drawing.title), kinds))
    return tag("div", figures, class_="pair") if figures else None


def _cells(row: factors.Row) -> list[Cell]:
    it = row.effect
    effect, interval, word, blocks = row.cells
    return [
        Cell(tag("span", row.name, class_=f"depth{row.depth}")),
        Cell(effect, it.ratio, True, f"effect {it.verdict}"),
        Cell(interval, it.ci[0] if it.ci else None, True),
        Cell(badge(it.verdict, word.removeprefix(it.verdict)), it.verdict),
        Cell(blocks, it.blocks, True),
    ]
