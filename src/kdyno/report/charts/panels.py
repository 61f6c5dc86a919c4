# SPDX-License-Identifier: MIT
"""The charts of a report: what is plotted in each, and its finding in words.

A chart is a Vega-Lite file beside this module. Here are the data that it is filled with: effects
with their intervals, and levels of crossed factors. Boots in time order are paths made here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median

from kdyno.report import effects as columns, figures, plain
from kdyno.report.charts import vega
from kdyno.report.charts.vega import Spec, filled, fitted, label_width, stack
from kdyno.report.evidence import Point
from kdyno.report.groups import Group, cut_short, displayed, first_groups, groups
from kdyno.report.sentence import answer
from kdyno.store.verdict import Effect, FactorEffect, Verdict, deciding
from kdyno.suites.catalogue import UNIT

_ARROW_AT, _CUT_AT = 0.94, 0.99
"""Of half the axis: an arrow, or a mark of an interval that goes on, at its very end would lie on
the case's name."""
_FIGURES_PX = 150
"""What effects in figures take beside their chart."""
_MOST_INTERACTIONS = 24
_PAGE_PX, _PAIR_PX, _ALONE_PX = 1000, 480, 860
"""Width of a chart in a page, of one of a pair, and of a picture that stands alone."""
_WORDS = ("faster", "slower", "equivalent", "inconclusive", "failed")


@dataclass(frozen=True)
class Panel:
    title: str
    text: str
    """The finding in words, for those who cannot see it."""
    spec: Spec


def effects_panel(verdict: Verdict, group: Group, width_px: int = _PAGE_PX) -> Panel | None:
    """The dot chart of a variant; None when nothing was measured."""
    measured = sorted(filter(_ratio, group.effects), key=_ratio)
    if not measured:
        return None
    counts: Counter[str] = Counter(effect.verdict for effect in group.effects)
    tally = ", ".join(f"{counts[word]} {word}" for word in _WORDS if counts[word])
    title = f"{plain.short(group.variant)} ÷ {plain.short(verdict.baseline)}"
    # Of equal ones the first in the verdict's order.
    ends = [
        f"{figures.effect(effect.ratio)} in {plain.short(effect.case)}"
        for effect in (measured[0], max(measured, key=_ratio))
    ]
    text = (
        f"Effects of {plain.short(group.variant)} against {plain.short(verdict.baseline)}: {tally}"
        f"; from {ends[0]} to {ends[1]}. The table of verdicts has every figure."
    )
    return Panel(title, text, _effects_chart(verdict, group, width_px))


def _ratio(effect: Effect) -> float:
    return effect.ratio or 0.0


def _effects_chart(verdict: Verdict, group: Group, width_px: int) -> Spec:
    """A panel for each suite, the axis below the last; on the right the effects in figures."""
    labels = [f"{plain.short(effect.case)} ↓ *" for effect in group.effects]
    label_px = label_width(labels, width_px * 3 // 10)
    half = 100.0 * columns.limit(verdict)
    places = {suite: at for at, suite in enumerate(group.suites)}
    # The largest ratio on top; controls below all others.
    effects = sorted(
        (effect for effect in group.effects if effect.ratio is not None),
        key=lambda effect: (places[effect.suite], effect.control, -_ratio(effect)),
    )
    suites: dict[str, list[Spec]] = {}
    for number, effect in enumerate(effects):
        row = _effect_row(effect, half, label_px)
        # The number keeps rows apart whose labels read the same once they are cut.
        row["row"] = f"{number:05d} {row['row']}"
        suites.setdefault(effect.suite, []).append(row)
    floored = any("floor_low" in row for row in suites[effects[-1].suite])
    floor = "; grey: noise floor" if floored else ""
    band = min(100.0 * verdict.equivalent, half)
    panels = []
    for suite, rows in suites.items():
        last = suite == effects[-1].suite
        axis = f"value ÷ baseline − 1; band: {figures.tolerance(verdict.equivalent)}{floor}"
        panel = filled(
            "effects.json",
            title=plain.short(suite) if len(suites) > 1 else "",
            width=max(120, width_px - _FIGURES_PX - label_px - 30),
            rows=rows,
            order=[row["row"] for row in rows],
            domain=[-half, half],
            half=half,
            label_px=label_px,
            last=last,
            axis_title=axis if last else None,
            band={"low": -band, "high": band},
        )
        panels.append(panel)
    return stack(panels)


def _effect_row(effect: Effect, half: float, label_px: int) -> Spec:
    def inside(value: float, edge: float = half) -> float:
        return max(-edge, min(edge, value))

    at = _percent(effect.ratio)
    mark = (" ↓" if effect.better == "lower" else "") + (" *" if effect.control else "")
    side = (at > half) - (at < -half)
    row: Spec = {
        "row": f"{fitted(plain.short(effect.case), label_px - 20)}{mark}",
        "verdict": effect.verdict,
        "at": inside(at, _ARROW_AT * half) if side else at,
        "side": side,
        "at_right": f"{columns.effect(effect).text} {columns.word(effect)}",
    }
    if ends := effect.ci or effect.ci_raw:
        low, high = map(_percent, ends)
        if side:  # to the arrow, which stands for all that is beyond
            low, high = (low, row["at"]) if side > 0 else (row["at"], high)
        if low < high:
            row |= {"low": inside(low), "high": inside(high)}
            # An interval that is cut off looks like a short one.
            end = half * (1 + 1e-9)
            row |= {"cut_low": -_CUT_AT * half} if low < -end and side >= 0 else {}
            row |= {"cut_high": _CUT_AT * half} if high > end and side <= 0 else {}
    if side:  # what cannot be plotted, in words: before the line, or above it where it is long
        begin = row["low" if side > 0 else "high"] if "low" in row else row["at"]
        place, text_at = ("beside", begin) if 2 * begin * side > half else ("above", row["at"])
        row |= {place: figures.interval(ends) if ends else "", "text_at": text_at}
    if effect.noise_floor is not None:
        floor = min(100.0 * effect.noise_floor, half)
        row |= {"floor_low": -floor, "floor_high": floor}
    return row


def _percent(ratio: float | None) -> float:
    return 100.0 * ((ratio or 1.0) - 1.0)


def factor_panels(verdict: Verdict) -> list[Panel]:
    """What a level does at each level of another factor, one for each case, level and other factor
    with two levels measured. A flat line: they do not depend on each other."""
    table = verdict.factors
    lines: dict[tuple[str, ...], list[FactorEffect]] = {}
    for effect in map(deciding, table.effects if table else ()):
        if effect.kind == "conditional" and effect.ratio is not None and effect.other and effect.at:
            key = (effect.suite, effect.case, effect.factor, effect.level, effect.other)
            lines.setdefault(key, []).append(effect)
    panels = []
    for (_suite, case, factor, level, other), effects in lines.items():
        if len(effects) < 2 or table is None:
            continue
        what = f"{plain.short(factor)} {plain.short(level)}"
        title = f"{plain.short(case)}: {what}, by {plain.short(other)}"
        points = ", ".join(
            f"{plain.short(effect.at or '')} {figures.effect(effect.ratio)}" for effect in effects
        )
        levels = table.factors.get(other, ())
        spec = _level_chart(effects, levels, verdict.equivalent)
        panels.append(Panel(title, f"{title}: {points}", spec))
    return panels[:_MOST_INTERACTIONS]


def _level_chart(effects: Sequence[FactorEffect], levels: Sequence[str], equivalent: float) -> Spec:
    there = dict.fromkeys(effect.at or "" for effect in effects)
    # A verdict from elsewhere may have effects of levels that it does not list.
    order = dict.fromkeys((*(level for level in levels if level in there), *there))
    place = {
        level: f"{number:05d} {fitted(plain.short(level), 120)}"
        for number, level in enumerate(order)
    }
    rows = []
    for effect in effects:
        row: Spec = {"level": place[effect.at or ""], "at": _percent(effect.ratio)}
        if ends := effect.ci or effect.ci_raw:
            row["low"], row["high"] = map(_percent, ends)
        rows.append(row)
    return filled(
        "factors.json",
        title="",
        width=_PAIR_PX - 90,
        rows=rows,
        order=list(place.values()),
        factor=fitted(plain.short(effects[0].other or ""), 120),
        band={"at": -100.0 * equivalent, "high": 100.0 * equivalent},
    )


def picture(verdict: Verdict, format: str) -> str | bytes:
    """The effects of all variants, SVG as text or PNG as bytes: light, on a ground of its own."""
    seen = displayed(verdict)
    variants, left = first_groups(groups(seen))
    charts = [panel for group in variants if (panel := effects_panel(seen, group, _ALONE_PX))]
    specs = [{**each.spec, "title": {"text": each.title, "color": "var(--ink)"}} for each in charts]
    cut = cut_short(verdict)
    more = (f" {cut[0].upper()}{cut[1:]}." if cut else "") + (f" {left}" if left else "")
    outside = " Measured without the sandbox." if verdict.outside else ""
    counted = any(effect.unit == UNIT for effect in verdict.effects)
    counts = " Instructions: the length of a path, not time." if counted else ""
    question = plain.sentence(verdict.question)[:140]
    head = vega.heading(plain.short(verdict.experiment), f"{question}{more}{outside}{counts}")
    lack = "nothing was compared" if verdict.values else "nothing was measured"
    specs = specs or [filled("nothing.json", width=_ALONE_PX, text=lack)]
    spec = stack(specs, head, spacing_px=20)
    svg = vega.alone(spec, " ".join([answer(verdict), *(each.text for each in charts)]))
    return vega.png(svg) if format == "png" else svg + "\n"


@dataclass(frozen=True)
class Strip:
    """A panel of points in time order, and where they lie in it.

    Not made by a chart library: a page may hold hundreds of these with thousands of points, and a
    path of zero-length strokes costs ten bytes a point. Strokes do not scale with the picture, so
    it can be stretched to any width and the points stay round. page.js knows the same sizes."""

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
        content = "".join(f'<path class="{kind}" d="{path}"/>' for kind, path in paths if path)
        return (
            f'<svg class="strip" role="img" aria-label="{escape(text)}" tabindex="0" '
            f'viewBox="0 0 {self.width} {self.height}" preserveAspectRatio="none">{content}</svg>'
        )


def boots_strip(
    boots: int, arms: Mapping[str, Sequence[Point]], failed: Iterable[int]
) -> tuple[Strip, list[tuple[str, str]]]:
    """The panel of one case and its paths. arms: "baseline" and "variant" → points; failed:
    positions of their boots without a score. Disturbed boots are rings."""
    scores = [point.score for points in arms.values() for point in points]
    strip = Strip(boots, min(scores, default=0.0), max(scores, default=1.0))
    paths = [
        (f"median {arm}", f"M0 {strip.y(median(point.score for point in points))}H{strip.width}")
        for arm, points in arms.items()
        if points
    ]
    paths.append(("failed", strip.ticks(failed, 2 * strip.edge)))
    for arm, points in arms.items():
        for disturbed in (False, True):
            dots = strip.dots(
                (point.boot.position, point.score)
                for point in points
                if bool(point.boot.disturbed) == disturbed
            )
            paths.append((f"dots {arm}", dots))
            # The same again, smaller, in the colour of the ground.
            paths.append(("ring", dots if disturbed else ""))
    return strip, paths
