# SPDX-License-Identifier: MIT
"""What happened while it was measured: the rounds of a group, the load of a parallel case."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from kdyno.judge import pairs
from kdyno.report import figures, plain
from kdyno.report.charts.vega import Spec, filled, fitted, stack
from kdyno.report.evidence import Evidence
from kdyno.stats.groups import location
from kdyno.store.manifest import CaseInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

COLOURS = ("variant", "slower", "faster", "failed", "inconclusive")
"""Of the variants; more are not told apart, and not drawn."""
_FEWEST_ROUNDS = 4
_MOST_LOADS = 24
_MOST_LOOKS = 5000


@dataclass(frozen=True)
class Turns:
    """One case in one group of guests that took turns.

    Above, the speed of every variant, round by round; below, the ratios to the baseline. Both on
    the same scale: what all variants have in common, the machine's own doing, is gone from the
    ratios.
    """

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
        low, high = _ends(self.machine)
        return high - low

    @property
    def text(self) -> str:
        """The finding in words."""
        parts = [
            f"{self.title}: {figures.count(len(self.machine), 'round')}. What all kernels had in "
            f"common, the machine’s own speed, went from {_span(self.machine)} in "
            "nine rounds of ten"
        ]
        for variant, logs in self.ratios.items():
            value = figures.effect(math.exp(location(logs)))
            who = f"{plain.short(variant)} ÷ {plain.short(self.baseline)}"
            parts.append(f"{who}: {value}, its rounds from {_span(logs)}")
        return ". ".join(parts) + "."

    def chart(self, width_px: int, title: str = "") -> Spec:
        """Two panels with the same rounds and the same scale, about ``width_px`` wide."""
        names = {name: fitted(plain.short(name), 150) for name in self.speeds}
        legend = {
            "title": None,
            "orient": "top",
            "columns": 3 if width_px < 600 else 6,
            "labelColor": "var(--ink)",
            "labelFontSize": 12,
            "symbolType": "stroke",
            "symbolStrokeWidth": 2,
            "labelLimit": 0,
        }
        centres = [_centre(self.speeds), _centre(self.ratios)]
        half = 1.08 * max(_reach(self.speeds, centres[0]), _reach(self.ratios, centres[1]))
        rival = f"÷ {fitted(plain.short(self.baseline), 110)}"
        panels = []
        for measure, lines, centre in (
            ("speed ÷ group’s median", self.speeds, centres[0]),
            (rival, self.ratios, centres[1]),
        ):
            last = lines is self.ratios
            panels.append(
                filled(
                    "rounds.json",
                    title="" if last else title,
                    width=max(140, width_px - 90),
                    rows=[
                        {"round": number, "percent": _percent(log), "name": names[name]}
                        for name, logs in lines.items()
                        for number, log in enumerate(logs, 1)
                    ],
                    values=[
                        {"percent": _percent(location(logs)), "name": names[name]}
                        for name, logs in self.ratios.items()
                    ]
                    if last
                    else [],
                    rounds=[1, len(self.machine)],
                    domain=[centre - half, centre + half],
                    measure=measure,
                    names=list(names.values()),
                    colours=[f"var(--{it})" for it in ("baseline", *COLOURS)][: len(names)],
                    legend=None if last else legend,
                    last=last,
                    axis_title="round" if last else None,
                    opacity=0.55 if last else 1,
                )
            )
        return stack(panels)


def turns(evidence: Evidence) -> Turns | None:
    """The case and group in which the machine was most restless; None where nobody took turns."""
    return max(_turns(evidence), key=lambda group: group.restless, default=None)


def _turns(evidence: Evidence) -> Iterator[Turns]:
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
        for block, of_block in ratios.items():
            count = min(map(len, of_block.values()))
            if count < _FEWEST_ROUNDS:
                continue
            names = [baseline, *list(of_block)[: len(COLOURS)]]
            speeds = np.stack(
                [
                    np.asarray(data.rounds[case.suite, case.case, name][block])[:count]
                    for name in names
                ]
            )
            speeds = speeds - np.median(speeds)
            yield Turns(
                case,
                block,
                baseline,
                dict(zip(names, speeds, strict=True)),
                {name: of_block[name][:count] for name in names[1:]},
            )


def _percent(log: float) -> float:
    return round(100.0 * math.expm1(log), 4)


def _ends(logs: NDArray[Any]) -> tuple[float, float]:
    """Between them lie nine of ten."""
    import numpy as np

    low, high = np.percentile(logs, (5, 95))
    return float(low), float(high)


def _span(logs: NDArray[Any]) -> str:
    low, high = (figures.effect(math.exp(end)) for end in _ends(logs))
    return f"{low} to {high}"


def _centre(lines: Mapping[str, NDArray[Any]]) -> float:
    """Percent, halfway between the ends of what nine rounds of ten of each variant say."""
    ends = [_percent(end) for logs in lines.values() for end in _ends(logs)]
    return (min(ends) + max(ends)) / 2


def _reach(lines: Mapping[str, NDArray[Any]], centre: float) -> float:
    """Half an axis in percent: all rounds, but a wild one must not squeeze the others."""
    away = sorted(abs(_percent(log) - centre) for logs in lines.values() for log in logs)
    return max(0.01, min(away[-1], 2.0 * away[int(0.95 * (len(away) - 1))]))


@dataclass(frozen=True)
class Look:
    """What the load meter saw at one time."""

    ms: int
    runnable: int
    busy_percent: int


@dataclass(frozen=True)
class Load:
    """One case in the boot whose score is nearest to the kernel's median."""

    case: CaseInfo
    variant: str
    tasks: float | None
    """Requested (-j); None: not recorded."""
    looks: tuple[Look, ...]

    @property
    def title(self) -> str:
        return f"{plain.short(self.case.case)} · {plain.short(self.variant)}"

    @property
    def highest(self) -> float:
        """The axis must reach as far."""
        return max(self.tasks or 0.0, *(look.runnable for look in self.looks))

    def sags(self, look: Look) -> bool:
        """Fewer than half of the requested tasks were runnable."""
        return self.tasks is not None and 2 * look.runnable < self.tasks

    @property
    def text(self) -> str:
        """The finding in words."""
        mean = fmean(look.runnable for look in self.looks)
        busy = fmean(look.busy_percent for look in self.looks)
        text = f"{self.title}: {mean:.1f} runnable tasks on average, CPU {busy:.0f} % busy"
        if self.tasks is None:
            return f"{text}."
        low = fmean(map(self.sags, self.looks))
        sags = f"for {figures.percent(low, signed=False, decimals=0)} of the time"
        return (
            f"{text}, {self.tasks:g} asked for; fewer than half of that "
            f"{sags if low else 'at no time'}."
        )

    def chart(self, width_px: int, title: str = "", highest: float = 0.0) -> Spec:
        """Tasks as steps; dashed: the requested number; shaded: where it sagged below half of that.

        highest: the upper end of the axis, at least, so that charts can be compared.
        """
        sags: list[Spec] = []
        before = 0.0
        for look in self.looks:
            now = look.ms / 1000.0
            if self.sags(look) and sags and sags[-1]["until"] == before:
                sags[-1]["until"] = now
            elif self.sags(look):
                sags.append({"s": before, "until": now})
            before = now
        steps = [{"s": look.ms / 1000.0, "tasks": look.runnable} for look in self.looks]
        return filled(
            "load.json",
            title=title,
            width=width_px,
            seconds=[0, before],
            tasks=[0, max(1.0, 1.05 * max(highest, self.highest))],
            sags=sags,
            steps=[{**steps[0], "s": 0.0}, *steps],
            requested=[] if self.tasks is None else [{"tasks": self.tasks}],
        )


def looks(text: str) -> tuple[Look, ...]:
    """From ``100:1:100 201:2:98``; what is not a look is left out."""
    words = [word.split(":") for word in text.split()[:_MOST_LOOKS]]
    return tuple(
        Look(*(int(part[:9]) for part in parts))
        for parts in words
        if len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts)
    )


def loads(evidence: Evidence) -> Sequence[Load]:
    """By case, then by variant; only what a load meter looked at."""
    charts: list[Load] = []
    for case, variant, points in evidence.cells:
        metered = [point for point in points if point.load]
        if not metered or len(charts) >= _MOST_LOADS:
            continue
        middle = median(point.score for point in metered)
        typical = min(metered, key=lambda point: abs(point.score - middle))
        if line := looks(typical.load):
            charts.append(Load(case, variant, typical.tasks, line))
    return charts
