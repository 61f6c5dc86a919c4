# SPDX-License-Identifier: MIT
"""The charts of a report: what is plotted in each, and its finding in words.

A chart is a Vega-Lite file beside this module. Here are the data that it is filled with: effects
with their intervals, levels of crossed factors, boots in time order and how far they lie apart,
the rounds of a group, the load of a parallel case."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from html import escape
from statistics import fmean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len

from kdyno.judge import pairs
from kdyno.report import effects as columns
from kdyno.report import figures, plain
from kdyno.report.charts.text import scale
from kdyno.report.charts.vega import Spec, filled, fitted, label_width, reach, stack
from kdyno.report.evidence import Evidence, Point
from kdyno.report.groups import Group, deciding
from kdyno.stats.groups import location
from kdyno.store.manifest import CaseInfo
from kdyno.store.verdict import Effect, FactorEffect, Verdict

COLOURS = ("variant", "slower", "faster", "failed", "inconclusive")
"""Of the variants' rounds; more cannot be distinguished and are not plotted."""
MOST_ROWS = 160
"""Of the chart of spread."""
_ARROW_AT = 0.94
"""Of half the axis: an arrow at its very end would lie on the case's name."""
_FIGURES_PX, _ROOMY_PX = 150, 600
"""What effects in figures take beside their chart, and from which width they have the room."""
_MOST_INTERACTIONS = 24
_MOST_LOADS, _MOST_LOOKS = 24, 5000
_FEWEST_ROUNDS = 4
_WORDS = ("faster", "slower", "equivalent", "inconclusive", "failed")


@dataclass(frozen=True)
class Panel:
    """One chart."""

    title: str
    text: str
    """The finding in words, for those who cannot see it."""
    draw: Callable[..., Spec]
    """(width in px with all labels, title="") → the chart."""


def limit(verdict: Verdict) -> float:
    """Half the axis of all the verdict's charts: distance of ratio − 1 from the middle."""
    return scale(verdict.effects, verdict.equivalent, 3).limit


def effects_panel(verdict: Verdict, group: Group) -> Panel | None:
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
    return Panel(title, text, partial(_effects_chart, verdict, group))


def _ratio(effect: Effect) -> float:
    return effect.ratio or 0.0


def _effects_chart(verdict: Verdict, group: Group, width_px: int, title: str | Spec = "") -> Spec:
    """A panel for each suite; on the right, where there is room, the effects in figures."""
    figures_px = _FIGURES_PX if width_px >= _ROOMY_PX else 0
    labels = [f"{plain.short(effect.case)} ↓ *" for effect in group.effects]
    label_px = label_width(labels, width_px * 3 // 10)
    half = 100.0 * limit(verdict)
    places = {suite: at for at, suite in enumerate(group.suites)}
    # The largest ratio on top; controls below all others.
    effects = sorted(
        (effect for effect in group.effects if effect.ratio is not None),
        key=lambda effect: (places[effect.suite], effect.control, -_ratio(effect)),
    )
    rows = [(each.suite, _effect_row(each, half, label_px, figures_px > 0)) for each in effects]
    last = [effect for effect in effects if effect.suite == effects[-1].suite]
    floor = "; grey: noise floor" if any(effect.noise_floor is not None for effect in last) else ""
    band = min(100.0 * verdict.equivalent, half)
    return _by_suite(
        "effects.json",
        rows,
        half,
        label_px,
        width_px - figures_px,
        f"value ÷ baseline − 1; band: {figures.tolerance(verdict.equivalent)}{floor}",
        title,
        band={"low": -band, "high": band},
    )


def _by_suite(
    template: str,
    rows: Sequence[tuple[str, Spec]],
    half: float,
    label_px: int,
    width_px: int,
    axis_title: str,
    title: str | Spec = "",
    **values: Any,
) -> Spec:
    """A panel for each suite of (suite, row), below each other, with the axis below the last."""
    suites: dict[str, list[Spec]] = {}
    for number, (suite, row) in enumerate(rows):
        # The number keeps rows apart whose labels read the same once they are cut.
        suites.setdefault(suite, []).append({**row, "row": f"{number:05d} {row['row']}"})
    panels = []
    for suite, of_suite in suites.items():
        last = suite == rows[-1][0]
        panel = filled(
            template,
            title=plain.short(suite) if len(suites) > 1 else "",
            width=max(120, width_px - label_px - 30),
            rows=of_suite,
            order=[row["row"] for row in of_suite],
            domain=[-half, half],
            half=half,
            label_px=label_px,
            last=last,
            axis_title=axis_title if last else None,
            **values,
        )
        panels.append(panel)
    return stack(panels, title)


def _effect_row(effect: Effect, half: float, label_px: int, with_figures: bool) -> Spec:
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
    }
    in_figures = f"{figures.effect(effect.ratio)} {columns.word(effect)}"
    beside = [] if with_figures else [in_figures]
    if with_figures:
        row["at_right"] = in_figures
    if ends := effect.ci or effect.ci_raw:
        low, high = map(_percent, ends)
        beside.append(figures.interval(ends))
        if side:  # to the arrow, which stands for all that is beyond
            low, high = (low, row["at"]) if side > 0 else (row["at"], high)
        if low < high:
            row |= {"low": inside(low), "high": inside(high)}
    if side:  # what cannot be plotted, in words: before the line, or above it where it is long
        begin = row["low" if side > 0 else "high"] if "low" in row else row["at"]
        place, text_at = ("beside", begin) if 2 * begin * side > half else ("above", row["at"])
        row |= {place: ", ".join(beside), "text_at": text_at}
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
        draw = partial(_factor_chart, effects, levels, verdict.equivalent)
        panels.append(Panel(title, f"{title}: {points}", draw))
    return panels[:_MOST_INTERACTIONS]


def _factor_chart(
    effects: Sequence[FactorEffect],
    levels: Sequence[str],
    equivalent: float,
    width_px: int,
    title: str | Spec = "",
) -> Spec:
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
        title=title,
        width=width_px - 90,
        rows=rows,
        order=list(place.values()),
        factor=fitted(plain.short(effects[0].other or ""), 120),
        band={"at": -100.0 * equivalent, "high": 100.0 * equivalent},
    )


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
            for point in evidence.points.get((*case.key, name), ())
        ],
    )


@dataclass(frozen=True)
class Spread:
    """Of the boots of one variant in one case; values in the case's unit."""

    case: CaseInfo
    variant: str
    boots: int
    disturbed: int
    variation: float
    """Standard deviation ÷ mean."""
    low: float
    """5th percentile; so few boots that there is none: the least."""
    quarter: float
    median: float
    three_quarters: float
    high: float

    @property
    def middle_half(self) -> float:
        """Interquartile range ÷ median."""
        return (self.three_quarters - self.quarter) / self.median


def spreads(evidence: Evidence) -> list[Spread]:
    """By case, then by variant; only what has scores of several boots."""
    spreads = []
    for case, variant, points in evidence.cells:
        if len(points) < 2:
            continue
        scores = np.array([point.score for point in points])
        disturbed = sum(bool(point.boot.disturbed) for point in points)
        variation = float(scores.std(ddof=1) / scores.mean())
        quantiles = map(float, np.percentile(scores, (5, 25, 50, 75, 95)))
        spreads.append(Spread(case, variant, len(points), disturbed, variation, *quantiles))
    return spreads


def spread_panel(evidence: Evidence, rows: Sequence[Spread]) -> Panel:
    """90 % of the boots as a line, half of them as a bar, around the median."""
    most, least = (end(rows, key=lambda row: row.variation) for end in (max, min))
    ends = [
        f"{figures.share(of.variation)} ({plain.short(of.case.case)} on {plain.short(of.variant)})"
        for of in (least, most)
    ]
    text = (
        f"Spread from boot to boot: the coefficient of variation goes from {ends[0]} to {ends[1]}. "
        "The table has every figure."
    )
    baseline = evidence.verdict.baseline
    if len(rows) > MOST_ROWS:  # the chart would be longer than anyone reads
        rows = [row for row in rows if row.variant == baseline][:MOST_ROWS]
    return Panel("", text, partial(_spread_chart, rows, baseline))


def _spread_chart(
    rows: Sequence[Spread], baseline: str, width_px: int, title: str | Spec = ""
) -> Spec:
    labels = [f"{plain.short(row.case.case)} · {plain.short(row.variant)}" for row in rows]
    label_px = label_width(labels, width_px * 4 // 10)
    far = [100.0 * max(row.median - row.low, row.high - row.median) / row.median for row in rows]
    half = max(1e-3, reach(far))

    def row(spread: Spread) -> Spec:
        variant = fitted(plain.short(spread.variant), 0.4 * label_px)
        case = fitted(plain.short(spread.case.case), label_px - 6.7 * (3 + cell_len(variant)))
        ends = {
            name: max(-half, min(half, _percent(getattr(spread, name) / spread.median)))
            for name in ("low", "quarter", "three_quarters", "high")
        }
        arm = "baseline" if spread.variant == baseline else "variant"
        return {"row": f"{case} · {variant}", "arm": arm, **ends, "median": 0.0}

    of_suites = [(item.case.suite, row(item)) for item in rows]
    return _by_suite(
        "spread.json", of_suites, half, label_px, width_px, "distance from the median", title
    )


@dataclass(frozen=True)
class Turns:
    """One case in one group of guests that took turns.

    Above, the speed of every variant, round by round; below, the ratios to the baseline. Both on
    the same scale: what all variants have in common, the machine's own doing, is gone from the
    ratios."""

    case: CaseInfo
    block: int
    speeds: Mapping[str, NDArray[Any]]
    """Variant → natural logarithm of its speed in each round ÷ the group's median; the baseline
    is the first. Shape (rounds,), the same for all."""
    ratios: Mapping[str, NDArray[Any]]
    """Variant → log ratio of its score to the baseline's in each round."""

    @cached_property
    def machine(self) -> NDArray[Any]:
        """What the variants of a round have in common, against its median. Log scale."""
        own = np.stack([logs - np.median(logs) for logs in self.speeds.values()]).mean(axis=0)
        return np.asarray(own - np.median(own))

    @property
    def restless(self) -> float:
        """How far the machine's speed went, nine rounds of ten; log scale."""
        low, high = _ends(self.machine)
        return high - low

    @property
    def panel(self) -> Panel:
        title = f"{plain.short(self.case.case)} · group {self.block + 1}"
        parts = [
            f"{title}: {figures.count(len(self.machine), 'round')}. What all kernels had in "
            f"common, the machine’s own speed, went from {_span(self.machine)} in "
            "nine rounds of ten"
        ]
        baseline = plain.short(next(iter(self.speeds)))
        parts += [
            f"{plain.short(variant)} ÷ {baseline}: {figures.effect(math.exp(location(logs)))}, "
            f"its rounds from {_span(logs)}"
            for variant, logs in self.ratios.items()
        ]
        return Panel(title, ". ".join(parts) + ".", self.chart)

    def chart(self, width_px: int, title: str | Spec = "") -> Spec:
        """Two panels with the same rounds and the same scale, about ``width_px`` wide."""
        names = {name: fitted(plain.short(name), 150) for name in self.speeds}
        centres = [_centre(lines) for lines in (self.speeds, self.ratios)]
        lines = zip((self.speeds, self.ratios), centres, strict=True)
        half = 1.08 * max(_reach(of, centre) for of, centre in lines)
        rows = [
            [
                {"round": number, "percent": _percent_of_log(log), "name": names[name]}
                for name, logs in of.items()
                for number, log in enumerate(logs, 1)
            ]
            for of in (self.speeds, self.ratios)
        ]
        values = [
            {"percent": _percent_of_log(location(logs)), "name": names[name]}
            for name, logs in self.ratios.items()
        ]
        return filled(
            "rounds.json",
            title=title,
            width=max(140, width_px - 90),
            speeds=rows[0],
            ratios=rows[1],
            values=values,
            rounds=[1, len(self.machine)],
            speeds_domain=[centres[0] - half, centres[0] + half],
            ratios_domain=[centres[1] - half, centres[1] + half],
            rival=f"÷ {fitted(plain.short(next(iter(self.speeds))), 110)}",
            names=list(names.values()),
            colours=[f"var(--{name})" for name in ("baseline", *COLOURS)][: len(names)],
            columns=3 if width_px < 600 else 6,
        )


def turns(evidence: Evidence) -> Turns | None:
    """The case and group in which the machine was most restless; None where no turns were taken."""
    return max(_turns(evidence), key=lambda group: group.restless, default=None)


def _turns(evidence: Evidence) -> Iterator[Turns]:
    rounds, baseline = evidence.samples.rounds, evidence.verdict.baseline
    places = {name: at for at, name in enumerate(evidence.variants)}
    others: dict[tuple[str, str], list[str]] = {}
    for suite, name, variant in sorted(rounds, key=lambda key: places[key[2]]):
        if variant != baseline:
            others.setdefault((suite, name), []).append(variant)
    for case in evidence.cases:
        ratios: dict[int, dict[str, NDArray[Any]]] = {}
        for variant in others.get(case.key, ()):
            for block, logs in pairs.all_rounds(evidence.samples, case, baseline, variant):
                ratios.setdefault(block, {})[variant] = logs
        for block, of_block in ratios.items():
            count = min(map(len, of_block.values()))
            if count < _FEWEST_ROUNDS:
                continue
            names = [baseline, *list(of_block)[: len(COLOURS)]]
            logs = np.stack([np.asarray(rounds[*case.key, name][block])[:count] for name in names])
            speeds = dict(zip(names, logs - np.median(logs), strict=True))
            yield Turns(case, block, speeds, {name: of_block[name][:count] for name in names[1:]})


def _percent_of_log(log: float) -> float:
    return round(100.0 * math.expm1(log), 4)


def _ends(logs: NDArray[Any]) -> tuple[float, float]:
    """Between them lie nine of ten."""
    low, high = np.percentile(logs, (5, 95))
    return float(low), float(high)


def _span(logs: NDArray[Any]) -> str:
    low, high = (figures.effect(math.exp(end)) for end in _ends(logs))
    return f"{low} to {high}"


def _centre(lines: Mapping[str, NDArray[Any]]) -> float:
    """Percent, halfway between the ends of what nine rounds of ten of each variant say."""
    ends = [_percent_of_log(end) for logs in lines.values() for end in _ends(logs)]
    return (min(ends) + max(ends)) / 2


def _reach(lines: Mapping[str, NDArray[Any]], centre: float) -> float:
    """Half an axis in percent."""
    away = [abs(_percent_of_log(log) - centre) for logs in lines.values() for log in logs]
    return max(0.01, reach(away, 0.95, 2.0))


@dataclass(frozen=True)
class Look:
    """What the load meter saw at one time."""

    ms: int
    runnable: int
    busy_percent: int


def looks(text: str) -> tuple[Look, ...]:
    """From ``100:1:100 201:2:98``; what is not a look is left out."""
    words = [word.split(":") for word in text.split()[:_MOST_LOOKS]]
    return tuple(
        Look(*(int(part[:9]) for part in parts))
        for parts in words
        if len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts)
    )


def load_panels(evidence: Evidence) -> list[Panel]:
    """By case, then by variant, in the boot whose score is nearest to the kernel's median; only
    what a load meter looked at. All have the same axis."""
    lines = []
    for case, variant, points in evidence.cells:
        if metered := [point for point in points if point.load]:
            middle = median(point.score for point in metered)
            typical = min(metered, key=lambda point: abs(point.score - middle))
            if line := looks(typical.load):
                title = f"{plain.short(case.case)} · {plain.short(variant)}"
                lines.append((title, line, typical.tasks))
    lines = lines[:_MOST_LOADS]
    tops = [max(tasks or 0.0, *(look.runnable for look in line)) for _, line, tasks in lines]
    top = max(tops, default=0.0)
    return [
        Panel(title, f"{title}: {_load_text(line, tasks)}", partial(_load_chart, line, tasks, top))
        for title, line, tasks in lines
    ]


def _load_text(line: Sequence[Look], tasks: float | None) -> str:
    """tasks: requested (-j); None: not recorded."""
    mean = fmean(look.runnable for look in line)
    busy = fmean(look.busy_percent for look in line)
    text = f"{mean:.1f} runnable tasks on average, CPU {busy:.0f} % busy"
    if tasks is None:
        return f"{text}."
    low = fmean(2 * look.runnable < tasks for look in line)
    sags = f"for {figures.percent(low, signed=False, decimals=0)} of the time"
    return f"{text}, {tasks:g} asked for; fewer than half of that {sags if low else 'at no time'}."


def _load_chart(
    line: Sequence[Look], tasks: float | None, top: float, width_px: int, title: str | Spec = ""
) -> Spec:
    """Tasks as steps; dashed: the requested number; shaded: where it sagged below half of that."""
    steps = [{"s": look.ms / 1000.0, "tasks": look.runnable} for look in line]
    sags: list[Spec] = []
    before = 0.0
    for step in steps:
        if tasks is not None and 2 * step["tasks"] < tasks:
            if sags and sags[-1]["until"] == before:
                sags[-1]["until"] = step["s"]
            else:
                sags.append({"s": before, "until": step["s"]})
        before = step["s"]
    return filled(
        "load.json",
        title=title,
        width=width_px,
        seconds=[0, before],
        tasks=[0, max(1.0, 1.05 * top)],
        sags=sags,
        steps=[{**steps[0], "s": 0.0}, *steps],
        requested=[] if tasks is None else [{"tasks": tasks}],
    )
