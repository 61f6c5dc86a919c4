# SPDX-License-Identifier: MIT
"""An interval drawn with characters: where the effect lies, and against what."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from kdyno.report import figures
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
        found = middle + round((ratio - 1.0) / self.limit * middle)
        return max(-1, min(self.width, found))


def scale(effects: Iterable[Effect], equivalent: float, width: int) -> Scale:
    """Wide enough for all intervals, unless a few would squeeze the others to nothing."""
    reaches = sorted(reach for it in effects if (reach := _reach(it)) is not None)
    limit = 0.0
    if reaches:
        limit = min(reaches[-1], 4.0 * reaches[int(0.8 * (len(reaches) - 1))])
    limit = max(limit, 1.5 * equivalent, 1e-4)
    return Scale(_round_up(limit), width - (width + 1) % 2, equivalent)


def draw(it: Effect, on: Scale, marks: Marks) -> str:
    """The row's picture, ``on.width`` columns. Arrows mark what lies outside."""
    cells = [" "] * on.width
    for edge in (1.0 - on.equivalent, 1.0 + on.equivalent):
        if 0 <= (column := on.column(edge)) < on.width:
            cells[column] = marks.band
    cells[on.width // 2] = marks.one
    ends = it.ci or it.ci_raw
    if ends is not None:
        low, high = on.column(ends[0]), on.column(ends[1])
        for column in range(max(low, 0), min(high, on.width - 1) + 1):
            cells[column] = marks.line
        if low < 0:
            cells[0] = marks.left
        if high >= on.width:
            cells[-1] = marks.right
    if it.ratio is not None:
        column = on.column(it.ratio)
        if 0 <= column < on.width:
            cells[column] = marks.dot
        elif column < 0:
            cells[0] = marks.left
        else:
            cells[-1] = marks.right
    return "".join(cells)


def axis(on: Scale) -> str:
    """What stands above: both ends and the middle."""
    places = 0 if on.limit >= 0.02 else 1 if on.limit >= 0.001 else 2
    low, high = (figures.percent(side * on.limit, decimals=places) for side in (-1, 1))
    line = low.ljust(on.width // 2) + "0"
    return line + high.rjust(on.width - len(line))


def _reach(it: Effect) -> float | None:
    points = [*(it.ci or it.ci_raw or ()), *([] if it.ratio is None else [it.ratio])]
    return max((abs(point - 1.0) for point in points), default=None)


def _round_up(value: float) -> float:
    """To 1, 1.5, 2, 3, 5 or 7 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    for step in (1.0, 1.5, 2.0, 3.0, 5.0, 7.0):
        if value <= step * power * (1 + 1e-9):
            return step * power
    return 10.0 * power
