# SPDX-License-Identifier: MIT
"""Intervals plotted with characters: where an effect lies, and against what."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kdyno.report import figures
from kdyno.report.charts.vega import reach
from kdyno.store.verdict import Effect


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
