# SPDX-License-Identifier: MIT
"""The rounds of one group of guests that took turns: what the machine did, what the ratios did.

Above, the speed of every variant, round by round; below, the ratios to the baseline. Both on the
same scale: what all variants have in common, the machine's own doing, is gone from the ratios.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kdyno.judge import pairs
from kdyno.report import figures, plain
from kdyno.report.charts.vega import Spec, fitted, layer, panel, stack
from kdyno.report.evidence import Evidence
from kdyno.stats.groups import location
from kdyno.store.manifest import CaseInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEIGHT_PX = {"speed": 170, "ratio": 170}
COLOURS = ("variant", "slower", "faster", "failed", "inconclusive")
"""Of the variants; more are not told apart, and not drawn."""
_FEWEST = 4
"""Rounds; fewer are no picture."""


@dataclass(frozen=True)
class Turns:
    """One case in one group."""

    case: CaseInfo
    block: int
    baseline: str
    speeds: Mapping[str, NDArray[Any]]
    """Variant → natural logarithm of its speed in each round ÷ the group's median; the baseline
    is the first. Shape (rounds,), the same for all."""
    ratios: Mapping[str, NDArray[Any]]
    """Variant → log ratio of its score to the baseline's in each round."""

    @property
    def title(self) -> str:
        return f"{plain.short(self.case.case)} · group {self.block + 1}"

    @cached_property
    def machine(self) -> NDArray[Any]:
        """What the variants of a round have in common, against its median. Log scale."""
        import numpy as np

        own = np.stack([logs - np.median(logs) for logs in self.speeds.values()]).mean(axis=0)
        return np.asarray(own - np.median(own))

    @property
    def restless(self) -> float:
        """How far the machine's speed went, nine rounds of ten; log scale."""
        low, high = _most(self.machine)
        return high - low

    @property
    def text(self) -> str:
        """The finding in words."""
        said = [
            f"{self.title}: {figures.count(len(self.machine), 'round')}. What all kernels had in "
            f"common, the machine’s own speed, went from {_span(self.machine)} in "
            "nine rounds of ten"
        ]
        for variant, logs in self.ratios.items():
            value = figures.effect(math.exp(location(logs)))
            who = f"{plain.short(variant)} ÷ {plain.short(self.baseline)}"
            said.append(f"{who}: {value}, its rounds from {_span(logs)}")
        return ". ".join(said) + "."


def turns(evidence: Evidence) -> Turns | None:
    """The case and group in which the machine was most restless; None where nobody took turns."""
    return max(_all(evidence), key=lambda it: it.restless, default=None)


def _all(evidence: Evidence) -> Iterator[Turns]:
    import numpy as np

    data, baseline = evidence.samples, evidence.verdict.baseline
    others: dict[tuple[str, str], list[str]] = {}
    for suite, name, variant in data.rounds:
        if variant != baseline:
            others.setdefault((suite, name), []).append(variant)
    places = {name: at for at, name in enumerate(evidence.variants)}
    for case in evidence.cases:
        ratios: dict[int, dict[str, NDArray[Any]]] = {}
        for variant in sorted(others.get((case.suite, case.case), ()), key=places.__getitem__):
            for block, logs in pairs.all_rounds(data, case, baseline, variant):
                ratios.setdefault(block, {})[variant] = logs
        for block, found in ratios.items():
            count = min(map(len, found.values()))
            if count < _FEWEST:
                continue
            shown = list(found)[: len(COLOURS)]
            speeds = np.stack(
                [
                    np.asarray(data.rounds[case.suite, case.case, name][block])[:count]
                    for name in (baseline, *shown)
                ]
            )
            speeds = speeds - np.median(speeds)
            yield Turns(
                case,
                block,
                baseline,
                dict(zip((baseline, *shown), speeds, strict=True)),
                {name: found[name][:count] for name in shown},
            )


def rounds_chart(found: Turns, width_px: int, title: str = "") -> Spec:
    """Two panels with the same rounds and the same scale, about ``width_px`` wide."""
    import altair

    names = {name: fitted(plain.short(name), 150) for name in found.speeds}
    colours = ["baseline", *COLOURS][: len(names)]
    scale = altair.Scale(domain=list(names.values()), range=[f"var(--{it})" for it in colours])
    legend = altair.Legend(
        title=None,
        orient="top",
        columns=3 if width_px < 600 else 6,
        labelColor="var(--ink)",
        labelFontSize=12,
        symbolType="stroke",
        symbolStrokeWidth=2,
        labelLimit=0,
    )
    centres = [_middle(found.speeds), _middle(found.ratios)]
    half = 1.08 * max(
        _reach(logs, centre)
        for logs, centre in zip((found.speeds, found.ratios), centres, strict=True)
    )
    ends = altair.Scale(domain=[1, len(found.machine)], nice=False)
    base = altair.Chart()
    panels = []
    about = (
        (found.speeds, "speed ÷ group’s median", HEIGHT_PX["speed"]),
        (found.ratios, f"÷ {fitted(plain.short(found.baseline), 110)}", HEIGHT_PX["ratio"]),
    )
    for (logs, words, height_px), centre in zip(about, centres, strict=True):
        last = logs is found.ratios
        x_axis = altair.Axis(
            title="round" if last else None, labels=last, ticks=last, grid=False, tickMinStep=1
        )
        y_axis = altair.Axis(
            title=words,
            tickCount=5,
            minExtent=52,
            labelExpr="datum.value == 0 ? '0' : format(datum.value, '+~g') + ' %'",
        )
        shown = altair.Scale(domain=[centre - half, centre + half], nice=False)
        x = altair.X("round:Q", scale=ends, axis=x_axis)
        y = altair.Y("percent:Q", scale=shown, axis=y_axis)
        colour = altair.Color("name:N", scale=scale, legend=None if last else legend)
        rows: list[Spec] = [
            {"round": number, "percent": _percent(value), "name": names[name]}
            for name, values in logs.items()
            for number, value in enumerate(values, 1)
        ]
        line = base.mark_line(strokeWidth=1.3, clip=True, opacity=0.55 if last else 1)
        layers = [layer(line.encode(x=x, y=y, color=colour), rows)]
        if last:
            values = [
                {"percent": _percent(location(each)), "name": names[name]}
                for name, each in logs.items()
            ]
            rule = base.mark_rule(strokeWidth=1.5, clip=True)
            layers.append(layer(rule.encode(y=y, color=colour), values))
        heading = title if not last else ""
        panels.append(panel(layers, max(140, width_px - 90), height_px, heading))
    return stack(panels)


def _percent(log: float) -> float:
    return round(100.0 * math.expm1(log), 4)


def _most(logs: NDArray[Any]) -> tuple[float, float]:
    import numpy as np

    low, high = np.percentile(logs, (5, 95))
    return float(low), float(high)


def _span(logs: NDArray[Any]) -> str:
    low, high = (math.exp(end) for end in _most(logs))
    return f"{figures.effect(low)} to {figures.effect(high)}"


def _middle(logs: Mapping[str, NDArray[Any]]) -> float:
    """Percent, halfway between the ends of what nine rounds of ten of each variant say."""
    ends = [_percent(end) for values in logs.values() for end in _most(values)]
    return (min(ends) + max(ends)) / 2


def _reach(logs: Mapping[str, NDArray[Any]], centre: float) -> float:
    """Half an axis in percent: all rounds, but a wild one must not squeeze the others."""
    away = sorted(abs(_percent(log) - centre) for values in logs.values() for log in values)
    return max(0.01, min(away[-1], 2.0 * away[int(0.95 * (len(away) - 1))]))
