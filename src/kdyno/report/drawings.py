# SPDX-License-Identifier: MIT
"""The charts of a report, each as a picture of its own: ``kdyno report RUN --chart NAME``.

To add one: a function from Evidence to a Drawing, and its name in CHARTS."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kdyno.errors import UsageError
from kdyno.reading.mistakes import meant
from kdyno.report import plain
from kdyno.report.charts import panels, vega
from kdyno.report.charts.panels import Panel
from kdyno.report.charts.vega import Spec, grid, stack
from kdyno.report.evidence import Evidence
from kdyno.report.groups import cut_short, displayed, first_groups, groups
from kdyno.report.sentence import answer
from kdyno.store.verdict import Verdict

FORMATS = ("svg", "png")
WIDTH_PX, _PAIR_PX = 860, 350
_MOST_PANELS = 24

Drawing = tuple[Spec, str]
"""A chart and what it says to those who cannot see it."""


def effects_drawing(evidence: Evidence) -> Drawing | None:
    verdict = displayed(evidence.verdict)
    variants, left = first_groups(groups(verdict))
    charts = [panel for group in variants if (panel := panels.effects_panel(verdict, group))]
    if not charts:
        return None
    specs = [each.draw(WIDTH_PX, {"text": each.title, "color": "var(--ink)"}) for each in charts]
    cut = cut_short(evidence.verdict)
    more = f" {cut[0].upper()}{cut[1:]}." if cut else ""
    more += f" {left}" if left else ""
    text = " ".join(each.text for each in charts)
    return stack(specs, _heading(verdict, more), spacing_px=20), text


def boots_drawing(evidence: Evidence) -> Drawing | None:
    cells = [
        (case, variant)
        for case, variant, _ in evidence.cells
        if variant != evidence.verdict.baseline or len(evidence.variants) == 1
    ]
    charts = [panels.boots_chart(evidence, *cell, _PAIR_PX) for cell in cells[:_MOST_PANELS]]
    if not charts:
        return None
    left = len(cells) - _MOST_PANELS
    more = f" The first {_MOST_PANELS}; {left} more are in the HTML report." if left > 0 else ""
    text = f"Every boot as a point in time order.{more}"
    return grid(charts, 2, _heading(evidence.verdict, more)), text


def _spread(evidence: Evidence) -> Drawing | None:
    rows = panels.spreads(evidence)[: panels.MOST_ROWS]
    return _one(evidence, panels.spread_panel(evidence, rows) if rows else None)


def _rounds(evidence: Evidence) -> Drawing | None:
    turns = panels.turns(evidence)
    return _one(evidence, turns.panel if turns else None)


def _one(evidence: Evidence, panel: Panel | None) -> Drawing | None:
    if panel is None:
        return None
    spec = panel.draw(WIDTH_PX, panel.title)
    return {**spec, "title": _heading(evidence.verdict)}, panel.text


def _pairs(evidence: Evidence, charts: Sequence[Panel], width_px: int) -> Drawing | None:
    if not charts:
        return None
    specs = [each.draw(width_px, each.title) for each in charts]
    return grid(specs, 2, _heading(evidence.verdict)), " ".join(each.text for each in charts)


CHARTS: dict[str, Callable[[Evidence], Drawing | None]] = {
    "effects": effects_drawing,
    "boots": boots_drawing,
    "spread": _spread,
    "rounds": _rounds,
    "factors": lambda of: _pairs(of, panels.factor_panels(of.verdict), _PAIR_PX + 90),
    "load": lambda of: _pairs(of, panels.load_panels(of), _PAIR_PX),
}
"""Name → its drawing; None where the run has nothing of the kind."""


def check(chart: str, format: str | None) -> None:
    """UsageError for a chart that there is not, or a format that is not a picture."""
    if chart not in CHARTS:
        raise UsageError(f"--chart {chart!r}: there are {', '.join(CHARTS)}{meant(chart, CHARTS)}")
    if format not in FORMATS:
        raise UsageError(f"--chart goes with a picture: add -o {chart}.svg or -o {chart}.png")


def picture(chart: str, evidence: Evidence, format: str) -> str | bytes:
    """SVG as text or PNG as bytes, light, on a ground of its own.

    UsageError where the run has nothing to draw, except for the effects, for which a picture says
    that there are none."""
    drawing = CHARTS[chart](evidence)
    if drawing is None and chart == "effects":
        nothing = vega.filled("nothing.json", width=WIDTH_PX)
        drawing = stack([nothing], _heading(evidence.verdict)), ""
    if drawing is None:
        there = [name for name, draw in CHARTS.items() if draw(evidence) is not None]
        raise UsageError(
            f"--chart {chart}: {evidence.name} has nothing of the kind to draw; "
            f"it has {', '.join(there) or 'no chart'}"
        )
    spec, text = drawing
    svg = vega.alone(spec, f"{answer(evidence.verdict)} {text}")
    return vega.png(svg) if format == "png" else svg + "\n"


def _heading(verdict: Verdict, more: str = "") -> Spec:
    outside = " Measured without the sandbox." if verdict.outside else ""
    question = plain.sentence(verdict.question)[:140]
    return vega.heading(plain.short(verdict.experiment), f"{question}{more}{outside}")
