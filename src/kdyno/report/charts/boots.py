# SPDX-License-Identifier: MIT
"""Boots of one kernel: each as a point in time order, and how far they lie apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from kdyno.report import figures, plain
from kdyno.report.charts.vega import Spec, filled, fitted, label_width, stack
from kdyno.report.evidence import Evidence, Point
from kdyno.store.manifest import CaseInfo

MOST_ROWS = 160
"""Of the chart of spread."""


@dataclass(frozen=True)
class Strip:
    """A panel of points in time order, and where they lie in it.

    Not made by a chart library: a page may hold hundreds of these with thousands of points, and a
    path of zero-length strokes costs ten bytes a point. Strokes do not scale with the picture, so
    it can be stretched to any width and the points stay round. page.js knows the same sizes.
    """

    count: int
    """Of places on the time axis."""
    low: float
    high: float
    """The value axis, from bottom to top."""
    width, height, edge = 1000, 240, 14

    def x(self, position: float) -> int:
        return round((position + 0.5) * self.width / max(1, self.count))

    def y(self, value: float) -> int:
        span = self.high - self.low or 1.0
        room = self.height - 2 * self.edge
        return round(self.height - self.edge - (value - self.low) / span * room)

    def dots(self, points: Iterable[tuple[float, float]]) -> str:
        return "".join(f"M{self.x(position)} {self.y(value)}h0" for position, value in points)

    def ticks(self, positions: Iterable[int], length: int) -> str:
        """From the bottom upwards."""
        return "".join(f"M{self.x(position)} {self.height}v-{length}" for position in positions)

    def svg(self, text: str, paths: Iterable[tuple[str, str]]) -> str:
        """(class, path) from the back to the front; empty ones are left out."""
        drawn = "".join(f'<path class="{kind}" d="{path}"/>' for kind, path in paths if path)
        return (
            f'<svg class="strip" role="img" aria-label="{escape(text)}" tabindex="0" '
            f'viewBox="0 0 {self.width} {self.height}" preserveAspectRatio="none">{drawn}</svg>'
        )


def boots_strip(
    boots: int, arms: Mapping[str, Sequence[Point]], failed: Iterable[int]
) -> tuple[Strip, list[tuple[str, str]]]:
    """The panel of one case and its paths. arms: "baseline" and "variant" → points; failed:
    positions of their boots without a score. Disturbed boots are rings."""
    scores = [point.score for points in arms.values() for point in points]
    strip = Strip(boots, min(scores, default=0.0), max(scores, default=1.0))
    paths = [
        (f"median {arm}", f"M0 {strip.y(median(it.score for it in points))}H{strip.width}")
        for arm, points in arms.items()
        if points
    ]
    paths.append(("failed", strip.ticks(failed, 2 * strip.edge)))
    for arm, points in arms.items():
        for disturbed in (False, True):
            dots = strip.dots(
                (it.boot.position, it.score)
                for it in points
                if bool(it.boot.disturbed) == disturbed
            )
            paths.append((f"dots {arm}", dots))
            # The same again, smaller, in the colour of the ground.
            paths.append(("ring", dots if disturbed else ""))
    return strip, paths


def boots_chart(evidence: Evidence, case: CaseInfo, variant: str, width_px: int) -> Spec:
    """The same panel for a picture that stands alone, with axes."""
    baseline = evidence.verdict.baseline
    arms = plain.short(variant)
    if variant != baseline:
        arms += f" (blue), {plain.short(baseline)} (grey)"
    return filled(
        "boots.json",
        title=f"{plain.short(case.case)}: {arms}",
        width=width_px,
        unit=plain.short(case.unit),
        domain=[0, max(1, len(evidence.boots)) + 1],
        rows=[
            {
                "boot": point.boot.position + 1,
                "score": point.score,
                "arm": "baseline" if name == baseline else "variant",
                "disturbed": bool(point.boot.disturbed),
            }
            for name in dict.fromkeys((baseline, variant))
            for point in evidence.points.get((case.suite, case.case, name), ())
        ],
    )


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
    """Standard deviation ÷ mean."""

    @property
    def middle_half(self) -> float:
        """Interquartile range ÷ median."""
        return (self.three_quarters - self.quarter) / self.median


def spreads(evidence: Evidence) -> list[Spread]:
    """By case, then by variant; only what has scores of several boots."""
    import numpy as np

    found = []
    for case, variant, points in evidence.cells:
        if len(points) < 2:
            continue
        scores = np.array([point.score for point in points])
        low, quarter, middle, three_quarters, high = np.percentile(scores, (5, 25, 50, 75, 95))
        found.append(
            Spread(
                case=case,
                variant=variant,
                boots=len(points),
                disturbed=sum(bool(point.boot.disturbed) for point in points),
                median=float(middle),
                low=float(low),
                quarter=float(quarter),
                three_quarters=float(three_quarters),
                high=float(high),
                variation=float(scores.std(ddof=1) / scores.mean()),
            )
        )
    return found


def spread_chart(found: Sequence[Spread], baseline: str, width_px: int) -> Spec:
    """A panel for each suite: 90 % of the boots as a line, half of them as a bar, around the
    median."""
    labels = [f"{plain.short(it.case.case)} · {plain.short(it.variant)}" for it in found]
    label_px = label_width(labels, width_px * 4 // 10)
    # As in the dot chart, one wild case must not squeeze the others.
    reaches = sorted(
        100.0 * max(it.median - it.low, it.high - it.median) / it.median for it in found
    )
    half = max(1e-3, min(reaches[-1], 4.0 * reaches[int(0.8 * (len(reaches) - 1))]))
    suites = list(dict.fromkeys(it.case.suite for it in found))
    panels = []
    for suite in suites:
        rows = [
            _row(number, it, baseline, label_px, half)
            for number, it in enumerate(found)
            if it.case.suite == suite
        ]
        last = suite == suites[-1]
        panels.append(
            filled(
                "spread.json",
                title=plain.short(suite) if len(suites) > 1 else "",
                width=max(140, width_px - label_px - 30),
                rows=rows,
                order=[row["row"] for row in rows],
                domain=[-half, half],
                label_px=label_px,
                last=last,
                axis_title="distance from the median" if last else None,
            )
        )
    return stack(panels)


def _row(number: int, spread: Spread, baseline: str, label_px: int, half: float) -> Spec:
    from rich.cells import cell_len

    variant = fitted(plain.short(spread.variant), 0.4 * label_px)
    case = fitted(plain.short(spread.case.case), label_px - 6.7 * (3 + cell_len(variant)))
    ends = {
        name: max(-half, min(half, 100.0 * (getattr(spread, name) / spread.median - 1.0)))
        for name in ("low", "quarter", "three_quarters", "high")
    }
    arm = "baseline" if spread.variant == baseline else "variant"
    return {"row": f"{number:05d} {case} · {variant}", "arm": arm, **ends, "median": 0.0}


def spread_summary(found: Sequence[Spread]) -> str:
    """The finding in words."""
    most = max(found, key=lambda it: it.variation)
    least = min(found, key=lambda it: it.variation)
    return (
        "Spread from boot to boot: the coefficient of variation goes from "
        f"{figures.share(least.variation)} ({plain.short(least.case.case)} on "
        f"{plain.short(least.variant)}) to {figures.share(most.variation)} "
        f"({plain.short(most.case.case)} on {plain.short(most.variant)}). "
        "The table has every figure."
    )
