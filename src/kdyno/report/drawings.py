# SPDX-License-Identifier: MIT
"""The charts of a report, each as a picture of its own: ``kdyno report RUN --chart NAME``.

To add one: a function from Evidence to a Drawing, and its name in CHARTS.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kdyno.errors import UsageError
from kdyno.reading.mistakes import meant
from kdyno.report import plain
from kdyno.report.charts import boots, effects, time, vega
from kdyno.report.charts.vega import Spec, grid, heading, stack
from kdyno.report.evidence import Evidence
from kdyno.report.groups import cut_short, drawn_first, groups, shown
from kdyno.report.sentence import answer
from kdyno.store.verdict import Verdict

FORMATS = ("svg", "png")
IN_CHARACTERS = "effects"
"""The chart that a terminal can show as well."""
WIDTH_PX, FIGURES_PX = 860, 150
_PAIR_PX = 350
_MOST_PANELS = 24


@dataclass(frozen=True)
class Drawing:
    """A chart and what it says to those who cannot see it."""

    spec: Spec
    text: str


def effects_drawing(evidence: Evidence) -> Drawing | None:
    verdict = shown(evidence.verdict)
    drawable, left = drawn_first(groups(verdict))
    panels = []
    for group in drawable:
        title = f"{plain.short(group.variant)} ÷ {plain.short(verdict.baseline)}"
        head = {"text": title, "color": "var(--ink)"}
        chart = effects.effects_chart(verdict, group, WIDTH_PX, FIGURES_PX, head)
        if chart is not None:
            panels.append(chart)
    if not panels:
        return None
    text = " ".join(effects.summary(verdict, group) for group in drawable)
    cut = cut_short(evidence.verdict)
    more = f" {cut[0].upper()}{cut[1:]}." if cut else ""
    more += f" {left}" if left else ""
    return Drawing(stack(panels, _heading(verdict, more), spacing_px=20), text)


def boots_drawing(evidence: Evidence) -> Drawing | None:
    cells = [
        (case, variant)
        for case, variant, _ in evidence.cells
        if variant != evidence.verdict.baseline or len(evidence.variants) == 1
    ]
    panels = [boots.boots_chart(evidence, *cell, _PAIR_PX) for cell in cells[:_MOST_PANELS]]
    return _pairs(evidence, panels, len(cells), "Every boot as a point in time order.")


def spread_drawing(evidence: Evidence) -> Drawing | None:
    rows = boots.spreads(evidence)[: boots.MOST_ROWS]
    if not rows:
        return None
    chart = boots.spread_chart(rows, evidence.verdict.baseline, WIDTH_PX)
    return Drawing({**chart, "title": _heading(evidence.verdict)}, boots.spread_summary(rows))


def rounds_drawing(evidence: Evidence) -> Drawing | None:
    turns = time.turns(evidence)
    if turns is None:
        return None
    chart = turns.chart(WIDTH_PX, turns.title)
    return Drawing({**chart, "title": _heading(evidence.verdict)}, turns.text)


def factors_drawing(evidence: Evidence) -> Drawing | None:
    lines = effects.interactions(evidence.verdict)
    panels = [line.chart(_PAIR_PX + 90, line.title) for line in lines]
    return _pairs(evidence, panels, len(lines), " ".join(line.text for line in lines))


def load_drawing(evidence: Evidence) -> Drawing | None:
    loads = time.loads(evidence)
    top = max((load.highest for load in loads), default=0.0)
    panels = [load.chart(_PAIR_PX, load.title, top) for load in loads]
    return _pairs(evidence, panels, len(loads), " ".join(load.text for load in loads))


CHARTS: dict[str, Callable[[Evidence], Drawing | None]] = {
    "effects": effects_drawing,
    "boots": boots_drawing,
    "spread": spread_drawing,
    "rounds": rounds_drawing,
    "factors": factors_drawing,
    "load": load_drawing,
}
"""Name → its drawing; None where the run has nothing of the kind."""


def check(chart: str, format: str | None) -> None:
    """UsageError for a chart that there is not, or a format that is not a picture."""
    if chart not in CHARTS:
        raise UsageError(f"--chart {chart!r}: there are {', '.join(CHARTS)}{meant(chart, CHARTS)}")
    if format is None and chart == IN_CHARACTERS:
        return
    if format not in FORMATS:
        raise UsageError(f"--chart goes with a picture: add -o {chart}.svg or -o {chart}.png")


def picture(chart: str, evidence: Evidence, format: str) -> str | bytes:
    """SVG as text or PNG as bytes, light, on a ground of its own.

    UsageError where the run has nothing to draw, except for the effects, of which the words that
    there are none are drawn.
    """
    drawing = CHARTS[chart](evidence)
    if drawing is None and chart == "effects":
        nothing = vega.filled("nothing.json", width=WIDTH_PX)
        drawing = Drawing(stack([nothing], _heading(evidence.verdict)), "")
    if drawing is None:
        there = [name for name, draw in CHARTS.items() if draw(evidence) is not None]
        raise UsageError(
            f"--chart {chart}: {evidence.name} has nothing of the kind to draw; "
            f"it has {', '.join(there) or 'no chart'}"
        )
    svg = vega.alone(drawing.spec, f"{answer(evidence.verdict)} {drawing.text}")
    return vega.png(svg) if format == "png" else svg + "\n"


def _pairs(evidence: Evidence, panels: list[Spec], number: int, text: str) -> Drawing | None:
    """The first of ``number`` panels."""
    if not panels:
        return None
    left = number - _MOST_PANELS
    more = f" The first {_MOST_PANELS}; {left} more are in the HTML report." if left > 0 else ""
    return Drawing(grid(panels, 2, _heading(evidence.verdict, more)), text + more)


def _heading(verdict: Verdict, more: str = "") -> Spec:
    outside = " Measured without the sandbox." if verdict.outside else ""
    question = plain.sentence(verdict.question)[:140]
    return heading(plain.short(verdict.experiment), f"{question}{more}{outside}")
