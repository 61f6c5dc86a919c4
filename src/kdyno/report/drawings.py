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
from kdyno.report.charts import boots, effects, interaction, load, rounds, spread
from kdyno.report.charts.palette import resolved
from kdyno.report.charts.vega import Spec, drawn, grid, layer, panel, png, stack, unchecked
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
    found, left = drawn_first(groups(verdict))
    panels = []
    for group in found:
        title = f"{plain.short(group.variant)} ÷ {plain.short(verdict.baseline)}"
        heading = {"text": title, "color": "var(--ink)"}
        chart = effects.effects_chart(verdict, group, WIDTH_PX, FIGURES_PX, heading)
        if chart is not None:
            panels.append(chart)
    if not panels:
        return None
    text = " ".join(effects.told(verdict, group) for group in found)
    told = cut_short(evidence.verdict)
    more = [f" {told[0].upper()}{told[1:]}."] if told else []
    heading = _heading(verdict, "".join([*more, *([f" {left}"] if left else [])]))
    return Drawing(stack(panels, heading, spacing_px=20), text)


def boots_drawing(evidence: Evidence) -> Drawing | None:
    found = [
        (case, variant)
        for case, variant, _ in evidence.cells
        if variant != evidence.verdict.baseline or len(evidence.variants) == 1
    ]
    panels = [boots.boots_chart(evidence, *each, _PAIR_PX) for each in found[:_MOST_PANELS]]
    return _pairs(evidence, panels, len(found), "Every boot as a point in time order.")


def spread_drawing(evidence: Evidence) -> Drawing | None:
    found = [it for it in spread.spreads(evidence) if it.boots > 1][: spread.MOST_ROWS]
    if not found:
        return None
    chart = spread.spread_chart(found, evidence.verdict.baseline, WIDTH_PX)
    return Drawing({**chart, "title": _heading(evidence.verdict)}, spread.told(found))


def rounds_drawing(evidence: Evidence) -> Drawing | None:
    found = rounds.turns(evidence)
    if found is None:
        return None
    chart = rounds.rounds_chart(found, WIDTH_PX, found.title)
    return Drawing({**chart, "title": _heading(evidence.verdict)}, found.text)


def factors_drawing(evidence: Evidence) -> Drawing | None:
    found = list(interaction.interaction_charts(evidence.verdict))
    panels = [{**each.chart(_PAIR_PX + 90), "title": each.title} for each in found[:_MOST_PANELS]]
    return _pairs(evidence, panels, len(found), " ".join(each.text for each in found))


def load_drawing(evidence: Evidence) -> Drawing | None:
    found = load.loads(evidence)
    top = load.highest(found)
    panels = [load.load_chart(each, _PAIR_PX, each.title, top) for each in found[:_MOST_PANELS]]
    return _pairs(evidence, panels, len(found), " ".join(each.text for each in found))


CHARTS: dict[str, Callable[[Evidence], Drawing | None]] = {
    "effects": effects_drawing,
    "boots": boots_drawing,
    "spread": spread_drawing,
    "rounds": rounds_drawing,
    "factors": factors_drawing,
    "load": load_drawing,
}
"""Name → what draws it; None where the run has nothing of the kind."""


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
    svg = standalone(chart, evidence)
    return png(svg) if format == "png" else svg + "\n"


def standalone(chart: str, evidence: Evidence) -> str:
    """The chart as an SVG that needs no page around it."""
    with unchecked():
        drawing = CHARTS[chart](evidence)
        if drawing is None and chart == "effects":
            drawing = Drawing(stack([_nothing()], _heading(evidence.verdict)), "")
        if drawing is None:
            having = [name for name, draw in CHARTS.items() if draw(evidence) is not None]
            raise UsageError(
                f"--chart {chart}: {evidence.name} has nothing of the kind to draw; "
                f"it has {', '.join(having) or 'no chart'}"
            )
        head, rest = drawn(drawing.spec, f"{answer(evidence.verdict)} {drawing.text}").split(">", 1)
    ground = '<rect width="100%" height="100%" fill="var(--ground)"/>'
    return resolved(f"{head}>{ground}{rest}")


def _pairs(evidence: Evidence, panels: list[Spec], number: int, text: str) -> Drawing | None:
    """The first of ``number`` panels."""
    if not panels:
        return None
    left = number - _MOST_PANELS
    more = f" The first {_MOST_PANELS}; {left} more are in the HTML report." if left > 0 else ""
    heading = _heading(evidence.verdict, more)
    return Drawing(grid(panels, 2, heading), text + more)


def _heading(verdict: Verdict, more: str = "") -> Spec:
    outside = " Measured without the sandbox." if verdict.outside else ""
    return {
        "text": plain.short(verdict.experiment),
        "subtitle": plain.sentence(verdict.question)[:140] + more + outside,
        "color": "var(--ink)",
        "subtitleColor": "var(--muted)",
        "fontSize": 16,
        "offset": 16,
    }


def _nothing() -> Spec:
    import altair

    mark = (
        altair.Chart().mark_text(color="var(--ink)", fontSize=14).encode(text=altair.Text("text:N"))
    )
    return panel([layer(mark, [{"text": "nothing was measured"}])], WIDTH_PX, 60)
