# SPDX-License-Identifier: MIT
"""How far boots of one kernel lie apart: box and whiskers, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kdyno.report import figures, plain
from kdyno.report.charts.vega import (
    Spec,
    arm_colour,
    fitted,
    label_width,
    layer,
    names_axis,
    panel,
    stack,
)
from kdyno.report.evidence import Evidence, Point
from kdyno.store.manifest import CaseInfo

ROW_PX = 16
MOST_ROWS = 160


@dataclass(frozen=True)
class Spread:
    """Of the boots of one variant in one case; values in the case's unit."""

    case: CaseInfo
    variant: str
    boots: int
    disturbed: int
    median: float
    low: float
    """5th percentile; so few boots that there is none: the least."""
    quarter: float
    three_quarters: float
    high: float
    variation: float
    """Standard deviation ÷ mean; 0 for a single boot."""

    @property
    def middle_half(self) -> float:
        """Interquartile range ÷ median."""
        return (self.three_quarters - self.quarter) / self.median


def spreads(evidence: Evidence) -> tuple[Spread, ...]:
    """By case, then by variant; only what has scores."""
    return tuple(_spread(case, variant, points) for case, variant, points in evidence.cells)


def _spread(case: CaseInfo, variant: str, points: tuple[Point, ...]) -> Spread:
    import numpy as np

    scores = np.array([point.score for point in points])
    low, quarter, median, three_quarters, high = np.percentile(scores, (5, 25, 50, 75, 95))
    return Spread(
        case=case,
        variant=variant,
        boots=len(points),
        disturbed=sum(bool(point.boot.disturbed) for point in points),
        median=float(median),
        low=float(low),
        quarter=float(quarter),
        three_quarters=float(three_quarters),
        high=float(high),
        variation=float(scores.std(ddof=1) / scores.mean()) if len(points) > 1 else 0.0,
    )


def spread_chart(found: Sequence[Spread], baseline: str, width_px: int) -> Spec:
    """A chart: 90 % of the boots as a line, half of them as a bar, around the median."""
    labels = [f"{plain.short(it.case.case)} · {plain.short(it.variant)}" for it in found]
    label_px = label_width(labels, width_px * 4 // 10)
    suites = list(dict.fromkeys(it.case.suite for it in found))
    rows = {
        suite: [
            _row(number, it, baseline, label_px)
            for number, it in enumerate(found)
            if it.case.suite == suite
        ]
        for suite in suites
    }
    half = _half(found)
    plot_px = max(140, width_px - label_px - 30)
    panels = []
    for suite in suites:
        layers = _layers(rows[suite], half, label_px, suite == suites[-1])
        name = plain.short(suite) if len(suites) > 1 else ""
        panels.append(panel(layers, plot_px, {"step": ROW_PX}, name))
    return stack(panels)


def _half(found: Sequence[Spread]) -> float:
    """Half the axis in percent. As in the dot chart, one wild case must not squeeze the others."""
    reaches = sorted(
        100.0 * max(it.median - it.low, it.high - it.median) / it.median for it in found
    )
    return max(1e-3, min(reaches[-1], 4.0 * reaches[int(0.8 * (len(reaches) - 1))]))


def _layers(rows: list[Spec], half: float, label_px: int, last: bool) -> list[Spec]:
    import altair

    for row in rows:
        for key in ("low", "quarter", "three_quarters", "high"):
            row[key] = max(-half, min(half, row[key]))
    names = names_axis(label_px)
    axis = altair.Axis(
        title="distance from the median" if last else None,
        labelExpr="datum.value == 0 ? '0' : format(datum.value, '+~g') + ' %'",
        labels=last,
        ticks=last,
        tickCount=5,
    )
    order = altair.Scale(domain=[row["row"] for row in rows])
    y = altair.Y("row:N", scale=order, title=None, axis=names)
    ends = altair.Scale(domain=[-half, half], nice=False)
    chart = altair.Chart().encode(y=y, color=arm_colour())

    def x(name: str) -> Any:
        return altair.X(f"{name}:Q", scale=ends, axis=axis)

    ground = altair.ColorValue("var(--ground)")
    marks = (
        chart.mark_rule(strokeWidth=1.5).encode(x=x("low"), x2=altair.X2("high:Q")),
        chart.mark_bar(height=7, opacity=1).encode(
            x=x("quarter"), x2=altair.X2("three_quarters:Q")
        ),
        chart.mark_tick(thickness=2, height=9).encode(x=x("median"), color=ground),
    )
    return [layer(mark, rows) for mark in marks]


def told(found: Sequence[Spread]) -> str:
    """The finding in words."""
    most = max(found, key=lambda it: it.variation)
    least = min(found, key=lambda it: it.variation)
    return (
        "Spread from boot to boot: the coefficient of variation goes from "
        f"{figures.percent(least.variation, signed=False)} ({plain.short(least.case.case)} on "
        f"{plain.short(least.variant)}) to {figures.percent(most.variation, signed=False)} "
        f"({plain.short(most.case.case)} on {plain.short(most.variant)}). "
        "The table has every figure."
    )


def _row(number: int, it: Spread, baseline: str, label_px: int) -> Spec:
    from rich.cells import cell_len

    def away(value: float) -> float:
        return 100.0 * (value / it.median - 1.0)

    variant = fitted(plain.short(it.variant), 0.4 * label_px)
    case = fitted(plain.short(it.case.case), label_px - 6.7 * (3 + cell_len(variant)))
    return {
        "row": f"{number:05d} {case} · {variant}",
        "arm": "baseline" if it.variant == baseline else "variant",
        "low": away(it.low),
        "quarter": away(it.quarter),
        "three_quarters": away(it.three_quarters),
        "high": away(it.high),
        "median": 0.0,
    }
