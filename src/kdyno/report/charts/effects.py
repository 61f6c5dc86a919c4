# SPDX-License-Identifier: MIT
"""Effects with their intervals: the dot chart of one variant, and levels of crossed factors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kdyno.report import effects as columns
from kdyno.report import figures, plain
from kdyno.report.charts.text import scale
from kdyno.report.charts.vega import Spec, filled, fitted, label_width, stack
from kdyno.report.groups import Group
from kdyno.store.verdict import Effect, FactorEffect, Verdict

_WORDS = ("faster", "slower", "equivalent", "inconclusive", "failed")
_ARROW_AT = 0.94
"""Of half the axis: an arrow at its very end would lie on the case's name."""
_MOST_INTERACTIONS = 24
"""Charts; the table of an experiment with more has the rest."""


def limit(verdict: Verdict) -> float:
    """Half the axis of all the verdict's charts: distance of ratio − 1 from the middle."""
    return scale(verdict.effects, verdict.equivalent, 3).limit


def effects_chart(
    verdict: Verdict, group: Group, width_px: int, figures_px: int, title: str | Spec = ""
) -> Spec | None:
    """Every effect of a variant, a panel for each suite; None when nothing was measured.

    width_px: of the chart with its labels, about. figures_px: room at the right for the effect in
    figures; 0 leaves them out, except for effects beyond the axis.
    """
    label_px = label_width(
        [f"{plain.short(it.case)} ↓ *" for it in group.effects], width_px * 3 // 10
    )
    half = 100.0 * limit(verdict)
    measured = {
        suite: effects
        for suite in group.suites
        # The largest ratio on top; controls below all others.
        if (
            effects := sorted(
                (it for it in group.effects if it.suite == suite and it.ratio is not None),
                key=lambda it: (it.control, -(it.ratio or 0.0)),
            )
        )
    }
    panels = []
    for suite, effects in measured.items():
        last = suite == list(measured)[-1]
        rows = [
            _row(number, effect, half, label_px, figures_px > 0)
            for number, effect in enumerate(effects)
        ]
        floor = "; grey: noise floor" if any(it.noise_floor is not None for it in effects) else ""
        words = f"value ÷ baseline − 1; band: {figures.tolerance(verdict.equivalent)}{floor}"
        band = min(100.0 * verdict.equivalent, half)
        panels.append(
            filled(
                "effects.json",
                title=plain.short(suite) if len(measured) > 1 else "",
                width=max(120, width_px - label_px - figures_px - 30),
                rows=rows,
                order=[row["row"] for row in rows],
                domain=[-half, half],
                half=half,
                band={"low": -band, "high": band},
                label_px=label_px,
                last=last,
                axis_title=words if last else None,
            )
        )
    return stack(panels, title) if panels else None


def _row(number: int, effect: Effect, half: float, label_px: int, with_figures: bool) -> Spec:
    """The number keeps cases apart whose names read the same once they are cut."""

    def inside(value: float, edge: float = half) -> float:
        return max(-edge, min(edge, value))

    at = 100.0 * ((effect.ratio or 1.0) - 1.0)
    ends = effect.ci or effect.ci_raw
    mark = (" ↓" if effect.better == "lower" else "") + (" *" if effect.control else "")
    side = (at > half) - (at < -half)
    figure = f"{figures.effect(effect.ratio)} {columns.word(effect)}"
    row: Spec = {
        "row": f"{number:05d} {fitted(plain.short(effect.case), label_px - 20)}{mark}",
        "verdict": effect.verdict,
        "at": inside(at, _ARROW_AT * half) if side else at,
        "side": side,
    }
    if with_figures:
        row["at_right"] = figure
    elif side:
        row["beside"] = figure
    if ends is not None:
        low, high = (100.0 * (end - 1.0) for end in ends)
        if low < half and high > -half:
            row |= {"low": inside(low), "high": inside(high)}
    if effect.noise_floor is not None:
        floor = min(100.0 * effect.noise_floor, half)
        row |= {"floor_low": -floor, "floor_high": floor}
    return row


def summary(verdict: Verdict, group: Group) -> str:
    """What the chart shows in words, for those who cannot see it."""
    counts: Counter[str] = Counter(it.verdict for it in group.effects)
    found = ", ".join(f"{counts[word]} {word}" for word in _WORDS if counts[word])
    measured = sorted(
        (it for it in group.effects if it.ratio is not None), key=lambda it: it.ratio or 0.0
    )
    parts = [
        f"Effects of {plain.short(group.variant)} against {plain.short(verdict.baseline)}: {found}"
    ]
    if measured:
        low, high = measured[0], max(measured, key=lambda it: it.ratio or 0.0)
        parts.append(
            f"from {figures.effect(low.ratio)} in {plain.short(low.case)} "
            f"to {figures.effect(high.ratio)} in {plain.short(high.case)}"
        )
    return "; ".join(parts) + ". The table of verdicts has every figure."


@dataclass(frozen=True)
class Interaction:
    """What a level does at each level of another factor. A flat line: they do not depend on each
    other."""

    title: str
    text: str
    """The finding in words."""
    effects: Sequence[FactorEffect]
    """Conditional ones of one level, by the levels of one other factor."""
    levels: Sequence[str]
    equivalent: float

    def chart(self, width_px: int, title: str = "") -> Spec:
        there = dict.fromkeys(it.at or "" for it in self.effects)
        # A verdict from elsewhere may have effects of levels that it does not list.
        order = dict.fromkeys((*(it for it in self.levels if it in there), *there))
        # The number keeps levels apart that read the same once they are cut.
        place = {level: f"{number:05d} {_cut(level)}" for number, level in enumerate(order)}
        rows = []
        for effect in self.effects:
            row: Spec = {
                "level": place[effect.at or ""],
                "at": 100.0 * ((effect.ratio or 1.0) - 1.0),
            }
            if ends := effect.ci or effect.ci_raw:
                row |= {"low": 100.0 * (ends[0] - 1.0), "high": 100.0 * (ends[1] - 1.0)}
            rows.append(row)
        band = 100.0 * self.equivalent
        return filled(
            "factors.json",
            title=title,
            width=width_px - 90,
            rows=rows,
            order=list(place.values()),
            factor=_cut(self.effects[0].other or ""),
            band={"at": -band, "high": band},
        )


def interactions(verdict: Verdict) -> list[Interaction]:
    """One for each case, level and other factor with at least two levels measured."""
    table = verdict.factors
    if table is None:
        return []
    lines: dict[tuple[str, ...], list[FactorEffect]] = {}
    for it in table.effects:
        if it.kind == "conditional" and it.ratio is not None and it.other and it.at:
            lines.setdefault((it.suite, it.case, it.factor, it.level, it.other), []).append(it)
    found = []
    for (_suite, case, factor, level, other), effects in lines.items():
        if len(effects) < 2:
            continue
        what = f"{plain.short(factor)} {plain.short(level)}"
        title = f"{plain.short(case)}: {what}, by {plain.short(other)}"
        points = ", ".join(
            f"{plain.short(it.at or '')} {figures.effect(it.ratio)}" for it in effects
        )
        levels = table.factors.get(other, ())
        found.append(Interaction(title, f"{title}: {points}", effects, levels, verdict.equivalent))
    return found[:_MOST_INTERACTIONS]


def _cut(text: str) -> str:
    return fitted(plain.short(text), 120)
