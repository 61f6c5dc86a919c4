# SPDX-License-Identifier: MIT
"""Where in an ordered range of kernels a difference begins: a search by noisy measurements.

Points are numbered 0 (good) to n (bad). A probe measures a point in the middle of a range together
with both ends of that range, so each half has a difference of its own, and that of the whole range
is measured again. A half in which there is a difference is searched further; where both halves have
one there are several steps, and both are. A range whose difference is gone when it is looked at
again was taken by mistake: its sibling is searched instead. So an error has to be made in every
later probe too before a wrong point is named.

The next point is the one with the most information per second (Horstein, 1963, for noisy answers;
here an answer is measured until it is certain, and what a probe costs is mostly its build).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace

WITHIN = 0.64
"""Half-width of a measurement ÷ the smallest step that it is to tell: where that is a quarter of a
step, nothing and half of the step are both three standard errors away from it."""
_NEIGHBOUR_FAILS = 0.75
"""Chance that the neighbour of a point that does not build or boot fails too; it falls by this
factor with each point between."""
MOST_UNUSABLE = 16
"""Points of one range; with so many that have no figure the others are not tried."""


@dataclass(frozen=True)
class Difference:
    """A ratio of two points' figures, and its interval. All three above 0."""

    ratio: float
    low: float
    high: float

    @property
    def size(self) -> float:
        """|log ratio|"""
        return abs(math.log(self.ratio))

    @property
    def half_width(self) -> float:
        """Of the interval, as a log ratio."""
        return max(math.log(self.high / self.ratio), math.log(self.ratio / self.low))

    def is_step(self, least: float) -> bool:
        """Whether it is real, and no smaller than ``least`` (a log ratio)."""
        return self.size >= least and not self.low <= 1 <= self.high


@dataclass(frozen=True)
class Measured:
    """``middle`` ÷ low end, high end ÷ ``middle``, high end ÷ low end, of the same groups."""

    first: Difference
    second: Difference
    whole: Difference


@dataclass(frozen=True)
class Same:
    """The kernel of the point is, byte for byte, that of an end of the range."""

    as_low: bool


@dataclass(frozen=True)
class Unusable:
    """The point has no figure: it does not build, does not boot, or fails in the case."""

    why: str


Outcome = Measured | Same | Unusable


@dataclass(frozen=True)
class Span:
    """A range with its difference. As an answer: the step is in one of the points low + 1 … high,
    of which ``high`` alone has a figure."""

    low: int
    high: int
    difference: Difference
    siblings: tuple[Span, ...] = ()
    """The halves that were left for it, nearest first, to return to when it was a mistake."""


@dataclass
class Search:
    """The state; ``probe`` and ``record`` by turns until ``span`` is None.

    least: the smallest |log ratio| that counts as a step. Probes are to be measured to a half-width
    of at most ``half_width``.
    """

    ends: Span
    least: float
    steps: list[Span] = field(default_factory=list)
    spread: list[Span] = field(default_factory=list)
    """Ranges over which a difference is spread in parts, each smaller than ``least``."""
    unusable: dict[int, str] = field(default_factory=dict)
    curve: dict[int, float] = field(default_factory=dict)
    """Point → log ratio to point 0, chained over the probes."""
    probes: int = 0
    _open: list[Span] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.curve = {self.ends.low: 0.0, self.ends.high: math.log(self.ends.difference.ratio)}
        self._open = [self.ends]
        self._settle()

    @property
    def half_width(self) -> float:
        """That a probe needs, as a log ratio."""
        return WITHIN * self.least

    @property
    def span(self) -> Span | None:
        """The range that is searched now; None: the search has ended."""
        return self._open[-1] if self._open else None

    @property
    def certain(self) -> bool:
        """One step, and it is all of the difference of the ends but for less than a step."""
        if len(self.steps) != 1 or self.spread:
            return False
        step, ends = self.steps[0].difference, self.ends.difference
        rest = abs(math.log(ends.ratio / step.ratio))
        return rest < self.least + step.half_width + ends.half_width

    def candidates(self, span: Span) -> list[int]:
        """Points inside a range that may have a figure, and are worth a try."""
        inside = range(span.low + 1, span.high)
        left = [at for at in inside if at not in self.unusable]
        return left if len(inside) - len(left) < MOST_UNUSABLE else []

    def probe(self, built: Collection[int], build_s: float, measure_s: float) -> int:
        """The point of ``span`` to measure next. built: points whose kernels are there already."""
        span = self._open[-1]

        def worth(at: int) -> float:
            share = (at - span.low) / (span.high - span.low)
            bits = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
            cost_s = measure_s + (0.0 if at in built else build_s)
            distance = min((abs(at - other) for other in self.unusable), default=math.inf)
            return (1.0 - _NEIGHBOUR_FAILS**distance) * bits / cost_s

        return max(self.candidates(span), key=worth)

    def left(self) -> int:
        """Probes to come, if each halves what is open and none fails."""
        return sum(math.ceil(math.log2(len(self.candidates(span)) + 1)) for span in self._open)

    def record(self, at: int, outcome: Outcome) -> None:
        """The result of measuring point ``at`` of ``span``."""
        span = self._open[-1]
        self.probes += 1
        match outcome:
            case Unusable(why):
                self.unusable[at] = why
            case Same(as_low):
                self.curve[at] = self.curve[span.low if as_low else span.high]
                self._open[-1] = replace(span, low=at) if as_low else replace(span, high=at)
            case Measured(first, second, whole):
                self._open.pop()
                self.curve[at] = self.curve[span.low] + math.log(first.ratio)
                halves = [Span(span.low, at, first), Span(at, span.high, second)]
                large = [half for half in halves if half.difference.is_step(self.least)]
                if len(large) == 2:
                    self._open += reversed(halves)
                elif large:
                    (other,) = (half for half in halves if half is not large[0])
                    self._open.append(replace(large[0], siblings=(other, *span.siblings)))
                elif whole.is_step(self.least):
                    self.spread.append(replace(span, difference=whole))
                else:
                    self._back(span)
        self._settle()

    def reject(self, step: Span) -> None:
        """The step was not there when it was verified: go on with what was left for it."""
        self.steps.remove(step)
        self._back(step)
        self._settle()

    def _back(self, span: Span) -> None:
        """From a range that has no difference to the half that was left for it."""
        if span.siblings:
            self._open.append(replace(span.siblings[0], siblings=span.siblings[1:]))

    def _settle(self) -> None:
        """Ranges with nothing left to measure inside are steps, if they were measured as such."""
        while self._open and not self.candidates(self._open[-1]):
            span = self._open.pop()
            if span.difference.is_step(self.least):
                self.steps.append(span)
            else:
                self._back(span)
