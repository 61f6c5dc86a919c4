# SPDX-License-Identifier: MIT
"""The dot chart of all variants as one SVG, for papers, slides and pages."""

from __future__ import annotations

from kdyno.report import plain
from kdyno.report.charts.effects import effects_chart, told
from kdyno.report.charts.palette import resolved
from kdyno.report.charts.vega import Spec, drawn, layer, panel, stack, unchecked
from kdyno.report.groups import groups
from kdyno.report.sentence import answer
from kdyno.store.verdict import Verdict

NAME = "svg"
HELP = "the dot chart of effects with intervals, as a drawing"
SUFFIX = ".svg"

WIDTH_PX, FIGURES_PX = 860, 150


def export(verdict: Verdict) -> str:
    """One panel per variant; without any figure, the words that there is none."""
    found = groups(verdict)
    panels = []
    with unchecked():
        for group in found:
            title = f"{plain.short(group.variant)} ÷ {plain.short(verdict.baseline)}"
            heading = {"text": title, "color": "var(--ink)"}
            chart = effects_chart(verdict, group, WIDTH_PX, FIGURES_PX, heading)
            if chart is not None:
                panels.append(chart)
        spec = stack(panels or [_nothing()], _heading(verdict), spacing_px=20)
    text = answer(verdict) + " " + " ".join(told(verdict, group) for group in found)
    head, rest = drawn(spec, text).split(">", 1)
    ground = '<rect width="100%" height="100%" fill="var(--ground)"/>'
    return resolved(f"{head}>{ground}{rest}") + "\n"


def _heading(verdict: Verdict) -> Spec:
    return {
        "text": plain.short(verdict.experiment),
        "subtitle": plain.sentence(verdict.question)[:140],
        "color": "var(--ink)",
        "subtitleColor": "var(--muted)",
        "fontSize": 16,
        "offset": 16,
    }


def _nothing() -> Spec:
    import altair

    mark = altair.Chart().mark_text(color="var(--ink)", fontSize=14).encode(text="text:N")
    return panel([layer(mark, [{"text": "nothing was measured"}])], WIDTH_PX, 60)
