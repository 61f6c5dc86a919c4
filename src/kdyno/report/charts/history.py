# SPDX-License-Identifier: MIT
"""One case over time: a point for each run, its interval, levels, and where they change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from kdyno.stats.changepoints import Segment

WIDTH, HEIGHT = 1000, 240
_EDGE = 14


class Mark(Protocol):
    """One run's figure. ``low``, ``high``: its interval, or None."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float | None: ...
    @property
    def high(self) -> float | None: ...


@dataclass(frozen=True)
class Axes:
    count: int
    low: float
    high: float

    def x(self, position: float) -> int:
        return round((position + 0.5) * WIDTH / max(1, self.count))

    def y(self, value: float) -> int:
        span = self.high - self.low or 1.0
        return round(HEIGHT - _EDGE - (value - self.low) / span * (HEIGHT - 2 * _EDGE))


def axes(marks: Sequence[Mark]) -> Axes:
    """Showing all points and their intervals; an interval that is very wide is cut off."""
    values = [it.value for it in marks]
    low, high = min(values), max(values)
    room = max(high - low, 0.002 * abs(high)) * 1.5
    lows = [it.low for it in marks if it.low is not None]
    highs = [it.high for it in marks if it.high is not None]
    return Axes(
        len(marks),
        max(min([low, *lows]), low - room),
        min(max([high, *highs]), high + room),
    )


def drawn(
    on: Axes, marks: Sequence[Mark], levels: Sequence[Segment], text: str, new: Iterable[int] = ()
) -> str:
    """The panel as ``<svg>``. ``new``: points with another kernel than the one before.

    Classes: spans, level, change, kernel, dots variant.
    """
    parts = [
        f'<svg class="strip" role="img" aria-label="{escape(text)}" tabindex="0" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none">'
    ]
    changes = "".join(f"M{on.x(it.start - 0.5)} 0V{HEIGHT}" for it in levels[1:])
    if changes:
        parts.append(f'<path class="change" d="{changes}"/>')
    kernels = "".join(f"M{on.x(position)} {HEIGHT}v-{_EDGE}" for position in new)
    if kernels:
        parts.append(f'<path class="kernel" d="{kernels}"/>')
    spans = "".join(
        f"M{on.x(position)} {on.y(max(it.low, on.low))}V{on.y(min(it.high, on.high))}"
        for position, it in enumerate(marks)
        if it.low is not None and it.high is not None
    )
    if spans:
        parts.append(f'<path class="spans" d="{spans}"/>')
    level = "".join(
        f"M{on.x(it.start - 0.5)} {on.y(it.level)}H{on.x(it.end - 0.5)}" for it in levels
    )
    parts.append(f'<path class="level" d="{level}"/>')
    dots = "".join(f"M{on.x(position)} {on.y(it.value)}h0" for position, it in enumerate(marks))
    parts.append(f'<path class="dots variant" d="{dots}"/></svg>')
    return "".join(parts)
