# SPDX-License-Identifier: MIT
"""The dot chart: every effect of one variant with its interval, against what would not matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kdyno.report import effects, figures, plain
from kdyno.report.chart import scale
from kdyno.report.charts.vega import Spec, fitted, label_width, layer, names_axis, panel, stack
from kdyno.report.groups import Group
from kdyno.store.verdict import Effect, Verdict

ROW_PX = 20
_WORDS = ("faster", "slower", "equivalent", "inconclusive", "failed")


def sorted_effects(group: Group, suite: str) -> tuple[Effect, ...]:
    """The suite's measured effects, the largest ratio on top; controls below all others."""
    measured = [it for it in group.effects if it.suite == suite and it.ratio is not None]
    return tuple(sorted(measured, key=lambda it: (it.control, -(it.ratio or 0.0))))


def limit(verdict: Verdict) -> float:
    """Half the axis of all the verdict's charts: distance of ratio − 1 from the middle."""
    return scale(verdict.effects, verdict.equivalent, 3).limit


def effects_chart(
    verdict: Verdict, group: Group, width_px: int, figures_px: int, title: str | Spec = ""
) -> Spec | None:
    """A chart about ``width_px`` wide, labels included; None when nothing was measured.

    ``figures_px``: room for the effect in figures at the right; 0 leaves them out.
    """
    names = [f"{plain.short(it.case)} ↓ *" for it in group.effects]
    label_px = label_width(names, width_px * 3 // 10)
    plot_px = max(120, width_px - label_px - figures_px - 30)
    half = 100.0 * limit(verdict)
    suites = [suite for suite in group.suites if sorted_effects(group, suite)]
    panels = []
    for suite in suites:
        effects = sorted_effects(group, suite)
        last = suite == suites[-1]
        layers = _layers(verdict, effects, half, label_px, last, figures_px > 0)
        name = plain.short(suite) if len(suites) > 1 else ""
        panels.append(panel(layers, plot_px, {"step": ROW_PX}, name))
    return stack(panels, title) if panels else None


def told(verdict: Verdict, group: Group) -> str:
    """The finding of the chart in words, for those who cannot see it."""
    counts: Counter[str] = Counter(it.verdict for it in group.effects)
    found = ", ".join(f"{counts[word]} {word}" for word in _WORDS if counts[word])
    measured = [it for it in group.effects if it.ratio is not None]
    parts = [
        f"Effects of {plain.short(group.variant)} against {plain.short(verdict.baseline)}: {found}"
    ]
    if measured:
        low = min(measured, key=lambda it: it.ratio or 0.0)
        high = max(measured, key=lambda it: it.ratio or 0.0)
        parts.append(
            f"from {figures.effect(low.ratio)} in {plain.short(low.case)} "
            f"to {figures.effect(high.ratio)} in {plain.short(high.case)}"
        )
    return "; ".join(parts) + ". The table of verdicts has every figure."


def _layers(
    verdict: Verdict,
    effects: Sequence[Effect],
    half: float,
    label_px: int,
    last: bool,
    with_figures: bool,
) -> list[Spec]:
    import altair

    rows = [_row(number, it, half, label_px) for number, it in enumerate(effects)]
    order = [row["row"] for row in rows]
    ends = altair.Scale(domain=[-half, half], nice=False)
    ticks = "datum.value == 0 ? '0' : format(datum.value, '+~g') + ' %'"
    axis = altair.Axis(
        title=_axis_title(verdict, effects) if last else None,
        labelExpr=ticks,
        labels=last,
        ticks=last,
        tickCount=5,
        labelFlush=False,
    )
    names = names_axis(label_px)
    y = altair.Y("row:N", scale=altair.Scale(domain=order), title=None, axis=names)

    def x(name: str) -> Any:
        return altair.X(f"{name}:Q", scale=ends, axis=axis)

    colour = altair.Color(
        "verdict:N",
        scale=altair.Scale(domain=list(_WORDS), range=[f"var(--{word})" for word in _WORDS]),
        legend=None,
    )
    band = min(100.0 * verdict.equivalent, half)
    chart = altair.Chart()
    layers = [
        layer(
            chart.mark_rect(color="var(--band)").encode(x=x("low"), x2=altair.X2("high:Q")),
            [{"low": -band, "high": band}],
        ),
        layer(
            chart.mark_bar(color="var(--floor)", height=4).encode(
                y=y, x=x("floor_low"), x2=altair.X2("floor_high:Q")
            ),
            [row for row in rows if "floor_low" in row],
        ),
        layer(chart.mark_rule(color="var(--muted)").encode(x=x("low")), [{"low": 0}]),
        layer(
            chart.mark_rule(strokeWidth=2).encode(
                y=y, x=x("low"), x2=altair.X2("high:Q"), color=colour
            ),
            [row for row in rows if "low" in row],
        ),
    ]
    for side, shape in ((0, "circle"), (-1, "triangle-left"), (1, "triangle-right")):
        there = [row for row in rows if row["side"] == side]
        if there:
            mark = chart.mark_point(shape=shape, size=70, filled=True, opacity=1)
            layers.append(layer(mark.encode(y=y, x=x("at"), color=colour), there))
        if there and side and not with_figures:  # what lies outside is told in figures at least
            align: Any = "left" if side < 0 else "right"
            mark = chart.mark_text(align=align, fontSize=12, dx=-9 * side)
            text = altair.Text("figure:N")
            layers.append(layer(mark.encode(y=y, x=x("at"), text=text, color=colour), there))
    if with_figures:
        mark = chart.mark_text(align="left", fontSize=12, dx=8)
        place = altair.XDatum(half)
        layers.append(
            layer(mark.encode(y=y, x=place, text=altair.Text("figure:N"), color=colour), rows)
        )
    return layers


def _axis_title(verdict: Verdict, effects: Sequence[Effect]) -> str:
    floor = "; grey: noise floor" if any(it.noise_floor is not None for it in effects) else ""
    return f"value ÷ baseline − 1; band: {figures.tolerance(verdict.equivalent)}{floor}"


def _row(number: int, it: Effect, half: float, label_px: int) -> dict[str, Any]:
    at = 100.0 * ((it.ratio or 1.0) - 1.0)
    ends = it.ci or it.ci_raw
    mark = (" ↓" if it.better == "lower" else "") + (" *" if it.control else "")
    row: dict[str, Any] = {
        "row": f"{number:05d} {fitted(plain.short(it.case), label_px - 20)}{mark}",
        "verdict": it.verdict,
        "at": _inside(at, _ARROW_AT * half if abs(at) > half else half),
        "side": (at > half) - (at < -half),
        "figure": f"{figures.effect(it.ratio)} {effects.word(it)}",
    }
    if ends is not None:
        low, high = (100.0 * (end - 1.0) for end in ends)
        if low < half and high > -half:
            row |= {"low": _inside(low, half), "high": _inside(high, half)}
    if it.noise_floor is not None:
        floor = min(100.0 * it.noise_floor, half)
        row |= {"floor_low": -floor, "floor_high": floor}
    return row


_ARROW_AT = 0.94
"""Of half the axis: an arrow at its very end would lie on the case's name."""


def _inside(value: float, half: float) -> float:
    return max(-half, min(half, value))
