# SPDX-License-Identifier: MIT
"""Intervals plotted with characters: where an effect lies, and against what."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from kdyno.report import figures, plain
from kdyno.report.charts.vega import reach
from kdyno.report.groups import Group, cut_short, displayed, groups
from kdyno.store.verdict import Effect, Verdict

NARROWEST, WIDEST = 40, 120
_CHART_LEAST, _CHART_MOST = 15, 81


@dataclass(frozen=True)
class Marks:
    """The characters of a chart, all one column wide."""

    one: str
    band: str
    line: str
    dot: str
    left: str
    right: str


UNICODE = Marks(one="│", band="┊", line="─", dot="●", left="◂", right="▸")
ASCII = Marks(one="|", band=":", line="-", dot="o", left="<", right=">")


@dataclass(frozen=True)
class Scale:
    """The same for all rows of a report; 1 is in the middle."""

    limit: float
    """Distance of ratio − 1 from the middle to either edge."""
    width: int
    """Columns, odd."""
    equivalent: float

    def column(self, ratio: float) -> int:
        """0 … width − 1; −1 and width lie outside."""
        middle = self.width // 2
        column = middle + round((ratio - 1.0) / self.limit * middle)
        return max(-1, min(self.width, column))

    def draw(self, effect: Effect, marks: Marks) -> str:
        """The row's picture. Arrows mark what lies outside."""
        cells = [" "] * self.width
        for edge in (1.0 - self.equivalent, 1.0 + self.equivalent):
            if 0 <= (column := self.column(edge)) < self.width:
                cells[column] = marks.band
        cells[self.width // 2] = marks.one
        points = [self.column(end) for end in effect.ci or effect.ci_raw or ()]
        if points:
            for column in range(max(points[0], 0), min(points[1], self.width - 1) + 1):
                cells[column] = marks.line
        if effect.ratio is not None:
            points.append(self.column(effect.ratio))
            if 0 <= points[-1] < self.width:
                cells[points[-1]] = marks.dot
        if min(points, default=0) < 0:
            cells[0] = marks.left
        if max(points, default=0) >= self.width:
            cells[-1] = marks.right
        return "".join(cells)

    def axis(self, decimals: int | None = None) -> str:
        """What stands above or below: both ends and the middle."""
        low, high = (figures.percent(side * self.limit, decimals=decimals) for side in (-1, 1))
        line = low.ljust(self.width // 2) + "0"
        return line + high.rjust(self.width - len(line))


def scale(effects: Iterable[Effect], equivalent: float, width: int) -> Scale:
    """Wide enough for all intervals, unless a few would squeeze the others to nothing."""
    reaches = []
    for effect in effects:
        ratios = [*(effect.ci or effect.ci_raw or ())]
        ratios += [] if effect.ratio is None else [effect.ratio]
        if ratios:
            reaches.append(max(abs(ratio - 1.0) for ratio in ratios))
    limit = max(1.5 * equivalent, 1e-4)
    if reaches:
        limit = max(limit, reach(reaches))
    power = 10.0 ** math.floor(math.log10(limit))
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
    step = next((candidate for candidate in steps if limit <= candidate * power * (1 + 1e-9)), 10.0)
    return Scale(step * power, width - (width + 1) % 2, equivalent)


def lines(verdict: Verdict, width: int, *, unicode: bool = True) -> list[str]:
    """The dot chart: one row a case, with its name, dot and interval on a common axis, the effect.
    At most ``width`` columns, of which 40 to 120 are used."""
    cut, verdict = cut_short(verdict), displayed(verdict)
    width = max(NARROWEST, min(width, WIDEST))
    measured = [
        group
        for group in groups(verdict)
        if any(effect.ratio is not None for effect in group.effects)
    ]
    if not measured:
        return ["nothing was measured"]
    effects = [effect for group in measured for effect in group.effects]
    figure_cells = max(cell_len(_figure(effect)) for effect in effects)
    names = max(cell_len(_name(effect)) for effect in effects)
    # A name is cut before the chart gets too small to be read.
    names = min(names, max(8, min(2 * width // 5, width - figure_cells - _CHART_LEAST - 4)))
    chart_cells = min(_CHART_MOST, max(_CHART_LEAST, width - names - figure_cells - 4))
    on = scale(effects, verdict.equivalent, chart_cells)
    marks = UNICODE if unicode else ASCII
    chart: list[str] = []
    for group in measured:
        chart += ["", *_group(verdict, group, on, names, marks)]
    band, level = figures.tolerance(verdict.equivalent), f"{100 * verdict.confidence:g} %"
    chart += [
        "",
        f"{'':{names}}  {on.axis()}",
        f"{marks.dot} effect  {marks.line} {level} interval  {marks.band} {band}",
        f"{marks.left} {marks.right} beyond the edge",
        *textwrap.wrap(cut, width),
    ]
    return [line if cell_len(line) <= width else set_cell_size(line, width) for line in chart[1:]]


def _group(verdict: Verdict, group: Group, on: Scale, names: int, marks: Marks) -> list[str]:
    against = "itself (A/A)" if group.is_copy else plain.short(verdict.baseline)
    rows = [f"{plain.short(group.variant)} ÷ {against}"]
    for suite in group.suites:
        if len(group.suites) > 1:
            rows.append(f" {plain.short(suite)}")
        for effect in group.effects:
            if effect.suite == suite:
                name = set_cell_size(_name(effect, names), names)
                rows.append(f"{name}  {on.draw(effect, marks)}  {_figure(effect)}".rstrip())
    return rows


def _name(effect: Effect, cells: int = 1000) -> str:
    """Cut to ``cells`` columns, its marks kept."""
    marks = (" ↓" if effect.better == "lower" else "") + (" *" if effect.control else "")
    case = f"  {plain.short(effect.case)}"
    room = cells - cell_len(marks)
    if cell_len(case) > room:
        case = set_cell_size(case, room - 1) + "…"
    return case + marks


def _figure(effect: Effect) -> str:
    if effect.ratio is None:
        return "no figure"
    glyph = {"faster": "▲", "slower": "▼"}.get(effect.verdict, " ")
    return f"{glyph} {figures.effect(effect.ratio)}"
