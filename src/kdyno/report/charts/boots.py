# SPDX-License-Identifier: MIT
"""Each boot as a point in time order, for two variants in one case.

Drawn here and not by a chart library: a page may hold hundreds of these with thousands of points,
and a path of zero-length strokes costs ten bytes a point. Strokes do not scale with the picture,
so it can be stretched to any width and the points stay round.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from kdyno.report import plain
from kdyno.report.charts.vega import Spec, arm_colour, layer, panel
from kdyno.report.evidence import Evidence, Point
from kdyno.store.manifest import CaseInfo

WIDTH, HEIGHT = 1000, 240
PANEL_PX = 150
_EDGE = 14


@dataclass(frozen=True)
class Strip:
    """Where the points of one panel lie."""

    boots: int
    """Boots of the run: the length of the time axis."""
    low: float
    high: float
    """The value axis, from bottom to top."""

    def x(self, position: int) -> int:
        return round((position + 0.5) * WIDTH / max(1, self.boots))

    def y(self, score: float) -> int:
        span = self.high - self.low or 1.0
        return round(HEIGHT - _EDGE - (score - self.low) / span * (HEIGHT - 2 * _EDGE))


def strip(boots: int, points: Iterable[Point]) -> Strip:
    """Axes that show all of these points."""
    scores = [point.score for point in points]
    return Strip(boots, min(scores, default=0.0), max(scores, default=1.0))


def drawn(
    on: Strip,
    baseline: Sequence[Point],
    variant: Sequence[Point],
    failed: Sequence[int],
    text: str,
) -> str:
    """The panel as ``<svg>``. ``failed``: positions of the two variants' boots without a score.

    Disturbed boots are rings. Classes: baseline, variant, ring, median, failed.
    """
    parts = [
        f'<svg class="strip" role="img" aria-label="{escape(text)}" tabindex="0" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">'
    ]
    for name, points in (("baseline", baseline), ("variant", variant)):
        if points:
            level = on.y(median(point.score for point in points))
            parts.append(f'<path class="median {name}" d="M0 {level}H{WIDTH}"/>')
    if failed:
        ticks = "".join(f"M{on.x(position)} {HEIGHT}v-{2 * _EDGE}" for position in failed)
        parts.append(f'<path class="failed" d="{ticks}"/>')
    for name, points in (("baseline", baseline), ("variant", variant)):
        for disturbed in (False, True):
            chosen = [point for point in points if bool(point.boot.disturbed) == disturbed]
            if not chosen:
                continue
            dots = "".join(f"M{on.x(it.boot.position)} {on.y(it.score)}h0" for it in chosen)
            parts.append(f'<path class="dots {name}" d="{dots}"/>')
            if disturbed:  # the same again, smaller, in the colour of the ground
                parts.append(f'<path class="ring" d="{dots}"/>')
    return "".join([*parts, "</svg>"])


def boots_chart(evidence: Evidence, case: CaseInfo, variant: str, width_px: int) -> Spec:
    """The same panel for a picture that stands alone, with axes."""
    import altair

    baseline = evidence.verdict.baseline
    rows: list[Spec] = [
        {
            "boot": point.boot.position + 1,
            "score": point.score,
            "arm": "baseline" if arm == baseline else "variant",
            "disturbed": bool(point.boot.disturbed),
        }
        for arm in dict.fromkeys((baseline, variant))
        for point in evidence.points.get((case.suite, case.case, arm), ())
    ]
    middles: list[Spec] = [
        {"arm": arm, "score": median(row["score"] for row in rows if row["arm"] == arm)}
        for arm in dict.fromkeys(row["arm"] for row in rows)
    ]
    ends = altair.Scale(domain=[0, max(1, len(evidence.boots)) + 1], nice=False)
    x = altair.X("boot:Q", scale=ends, axis=altair.Axis(title="boot", grid=False, tickCount=6))
    y_axis = altair.Axis(title=plain.short(case.unit), tickCount=5, format="~s")
    y = altair.Y("score:Q", scale=altair.Scale(zero=False), axis=y_axis)
    chart = altair.Chart().encode(y=y, color=arm_colour())
    layers = [
        layer(chart.mark_rule(opacity=0.55), middles),
        layer(
            chart.mark_point(filled=True, size=34, opacity=1).encode(x=x),
            [row for row in rows if not row["disturbed"]],
        ),
        layer(
            chart.mark_point(filled=False, size=30, opacity=1, strokeWidth=1.5).encode(x=x),
            [row for row in rows if row["disturbed"]],
        ),
    ]
    arms = plain.short(variant)
    if variant != baseline:
        arms += f" (blue), {plain.short(baseline)} (grey)"
    return panel(layers, width_px, PANEL_PX, f"{plain.short(case.case)}: {arms}")
