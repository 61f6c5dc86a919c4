# SPDX-License-Identifier: MIT
"""Interaction lines: what a level does at each level of another factor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kdyno.report import figures, plain
from kdyno.report.charts.vega import Spec, fitted, layer, panel
from kdyno.store.verdict import FactorEffect, Verdict

HEIGHT_PX = 220
MOST = 24
"""Charts; an experiment with more says the rest in its table."""


@dataclass(frozen=True)
class Interaction:
    title: str
    text: str
    """The finding in words."""
    effects: tuple[FactorEffect, ...]
    """Conditional ones of one level, by the levels of one other factor."""
    levels: tuple[str, ...]
    equivalent: float

    def chart(self, width_px: int) -> Spec:
        """A flat line means that the two factors do not depend on each other."""
        import altair

        rows = [_row(it) for it in self.effects]
        there = {str(row["level"]): None for row in rows}
        # A verdict from elsewhere may have effects of levels that it does not list.
        order = dict.fromkeys((*(it for it in self.levels if it in there), *there))
        ticks = "datum.value == 0 ? '0' : format(datum.value, '+~g') + ' %'"
        y_axis = altair.Axis(title="effect", labelExpr=ticks, tickCount=5)
        # The number keeps levels apart that read the same once they are cut.
        place = {level: f"{number:05d} {_cut(level)}" for number, level in enumerate(order)}
        for row in rows:
            row["level"] = place[row["level"]]
        x_axis = altair.Axis(
            title=_cut(self.effects[0].other or ""),
            labelExpr="slice(datum.label, 6)",
            labelAngle=0,
            grid=False,
            labelLimit=0,
        )
        x = altair.X("level:N", scale=altair.Scale(domain=list(place.values())), axis=x_axis)
        y = altair.Y("at:Q", axis=y_axis, scale=altair.Scale(zero=True))
        low = altair.Y("low:Q", axis=y_axis)
        band = 100.0 * self.equivalent
        ink = "var(--variant)"
        chart = altair.Chart()
        layers = [
            layer(
                chart.mark_rect(color="var(--band)").encode(y=y, y2=altair.Y2("high:Q")),
                [{"at": -band, "high": band}],
            ),
            layer(chart.mark_rule(color="var(--muted)").encode(y=y), [{"at": 0}]),
            layer(chart.mark_line(color=ink, strokeWidth=1.5).encode(x=x, y=y), rows),
            layer(
                chart.mark_rule(color=ink, strokeWidth=2).encode(
                    x=x, y=low, y2=altair.Y2("high:Q")
                ),
                [row for row in rows if "low" in row],
            ),
            layer(chart.mark_circle(color=ink, size=70, opacity=1).encode(x=x, y=y), rows),
        ]
        return panel(layers, width_px - 90, HEIGHT_PX)


def interaction_charts(verdict: Verdict) -> Iterator[Interaction]:
    """One for each case, level and other factor with at least two levels measured."""
    table = verdict.factors
    if table is None:
        return
    found: dict[tuple[str, ...], list[FactorEffect]] = {}
    for it in table.effects:
        if it.kind == "conditional" and it.ratio is not None and it.other and it.at:
            found.setdefault((it.suite, it.case, it.factor, it.level, it.other), []).append(it)
    several = [(key, effects) for key, effects in found.items() if len(effects) > 1]
    for (_suite, case, factor, level, other), effects in several[:MOST]:
        what = f"{plain.short(factor)} {plain.short(level)}"
        title = f"{plain.short(case)}: {what}, by {plain.short(other)}"
        said = ", ".join(f"{plain.short(it.at or '')} {figures.effect(it.ratio)}" for it in effects)
        text = f"{title}: {said}"
        yield Interaction(
            title, text, tuple(effects), table.factors.get(other, ()), verdict.equivalent
        )


def _row(it: FactorEffect) -> Spec:
    row: Spec = {"level": it.at, "at": 100.0 * ((it.ratio or 1.0) - 1.0)}
    if ends := it.ci or it.ci_raw:
        row |= {"low": 100.0 * (ends[0] - 1.0), "high": 100.0 * (ends[1] - 1.0)}
    return row


def _cut(text: str) -> str:
    return fitted(plain.short(text), 120)
