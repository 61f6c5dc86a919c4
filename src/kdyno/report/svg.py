# SPDX-License-Identifier: MIT
"""The dot chart of all variants as one SVG, for papers, slides and pages."""

from __future__ import annotations

from kdyno.report import plain
from kdyno.report.charts.effects import effects_chart, told
from kdyno.report.charts.palette import resolved
from kdyno.report.charts.vega import drawn, table
from kdyno.report.groups import groups
from kdyno.report.sentence import answer
from kdyno.store.verdict import Verdict

NAME = "svg"
HELP = "the dot chart of effects with intervals, as a drawing"
SUFFIX = ".svg"

WIDTH_PX, FIGURES_PX = 860, 150


def export(verdict: Verdict) -> str:
    """One panel per variant. UsageError-free: a verdict without figures gives its words only."""
    import altair

    found = groups(verdict)
    panels = []
    for group in found:
        chart = effects_chart(verdict, group, WIDTH_PX, FIGURES_PX)
        if chart is not None:
            title = f"{plain.short(group.variant)} ÷ {plain.short(verdict.baseline)}"
            panels.append(chart.properties(title=altair.Title(title, color="var(--ink)")))
    if not panels:
        nothing = altair.Chart(table([{"text": "nothing was measured"}]))
        panels.append(nothing.mark_text(color="var(--ink)", fontSize=14).encode(text="text:N"))
    heading = altair.Title(
        plain.short(verdict.experiment),
        subtitle=plain.sentence(verdict.question)[:140],
        color="var(--ink)",
        subtitleColor="var(--muted)",
        fontSize=16,
        offset=16,
    )
    text = answer(verdict) + " " + " ".join(told(verdict, group) for group in found)
    drawing = drawn(altair.vconcat(*panels, spacing=20).properties(title=heading), text)
    head, rest = drawing.split(">", 1)
    ground = '<rect width="100%" height="100%" fill="var(--ground)"/>'
    return resolved(f"{head}>{ground}{rest}") + "\n"
