# SPDX-License-Identifier: MIT
"""The dot chart, drawn for wide and for narrow windows; the style sheet shows one of them."""

from __future__ import annotations

from kdyno.report import figures
from kdyno.report.charts.effects import effects_chart, summary
from kdyno.report.charts.vega import drawn
from kdyno.report.evidence import Evidence
from kdyno.report.groups import Group, drawn_first, groups
from kdyno.report.show.markup import Html, join, name, tag
from kdyno.store.verdict import Verdict

ORDER = 20
TITLE = "Effects"
SLOW = True

WIDTHS_PX = {"wide": (1000, 150), "narrow": (356, 0)}
"""Width of the drawing and, of it, what is kept for the effect in figures."""


def section(evidence: Evidence) -> Html | None:
    verdict = evidence.verdict
    first, left = drawn_first(groups(verdict))
    found = [chart for group in first if (chart := _figure(verdict, group)) is not None]
    note = tag("p", left, class_="legend") if left else None
    return join([_legend(verdict), note, found]) if found else None


def _figure(verdict: Verdict, group: Group) -> Html | None:
    text = summary(verdict, group)
    drawings = []
    for kind, (width_px, figures_px) in WIDTHS_PX.items():
        chart = effects_chart(verdict, group, width_px, figures_px)
        if chart is None:
            return None
        drawings.append(tag("div", Html(drawn(chart, text)), class_=f"drawing {kind}"))
    against = " (the same kernel: A/A)" if group.is_copy else ""
    title = [name(group.variant), " ÷ ", name(verdict.baseline), against]
    return tag("figure", tag("figcaption", tag("h3", title)), drawings, class_="effects")


def _legend(verdict: Verdict) -> Html:
    parts = [
        f"Dot: the effect. Line: its {100 * verdict.confidence:g} % interval. ",
        tag("span", class_="key band"),
        f"Band: {figures.tolerance(verdict.equivalent)}, too little to matter. ",
    ]
    if any(it.noise_floor is not None for it in verdict.effects):
        parts += [tag("span", class_="key floor"), "Grey: the noise floor. "]
    if any(it.better == "lower" for it in verdict.effects):
        parts.append("↓: lower is better, so faster lies on the left. ")
    if any(it.control for it in verdict.effects):
        parts.append("*: control. ")
    return tag("p", parts, class_="legend")
