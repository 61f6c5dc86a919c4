# SPDX-License-Identifier: MIT
"""Which commit: `kdyno bisect`'s search beside two others, on recorded noise.

    python -m benchmarks.simulation.searches

A range of commits has one step, or none. What a boot scores is recorded noise, drawn again in runs
of neighbouring boots, so that it drifts as the machine did. Three ways to search:

- kdyno: the ends first; each probe in groups with both ends of what is left, until it is decided;
  the step verified by fresh groups.
- mean of three: `git bisect run` with a script that takes the mean of three boots and a threshold
  in the middle between those of the ends.
- coin tosses: a Bayesian search (Horstein, 1963) in which one boot beyond the threshold is a toss
  whose error is known from ten boots of each end, until a commit has 99 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.random import Generator

from benchmarks.simulation.synthetic import Draw
from benchmarks.statistics import recorded
from kdyno.bisect.search import WITHIN, Difference, Measured, Search, Span, Unusable

LENGTHS = (8, 64, 512, 4096)
EFFECTS = (0.0, 0.01, 0.02, 0.05)
SEARCHES = 200
MOST_BLOCKS = 4000
MOST_TOSSES = 400
PILOT = 20
"""Blocks from which the spread is taken, for the number that a width needs."""


@dataclass
class Range:
    """Commits 0 … n with log scores, and what was spent on them."""

    levels: np.ndarray
    draw: Draw
    random: Generator
    boots: int = 0
    built: set[int] = field(default_factory=set)

    def row(self, points: Sequence[int]) -> np.ndarray:
        """Boots of these commits, one after the other."""
        self.built |= set(points)
        self.boots += len(points)
        return self.levels[list(points)] + self.draw(self.random, 1, len(points))[0, :, 0]

    def groups(self, points: Sequence[int], half: float) -> np.ndarray:
        """Shape (blocks, points): in random order within a block, until every difference of two
        has this half-width (a log ratio)."""

        def blocks(count: int) -> np.ndarray:
            every = np.tile(np.arange(len(points)), (count, 1))
            order = self.random.permuted(every, axis=1)
            boots = self.row([points[at] for at in order.ravel()]).reshape(order.shape)
            return np.take_along_axis(boots, np.argsort(order, axis=1), axis=1)

        pilot = blocks(PILOT)
        spread = max(float(np.std(np.diff(pilot, axis=1), axis=0, ddof=1).max()), 1e-9)
        more = min(MOST_BLOCKS, math.ceil((2.2 * spread / half) ** 2)) - PILOT
        return np.concatenate([pilot, blocks(more)]) if more > 0 else pilot


def difference(rows: np.ndarray, high: int, low: int) -> Difference:
    logs = rows[:, high] - rows[:, low]
    log, error = float(logs.mean()), float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return Difference(math.exp(log), math.exp(log - 1.96 * error), math.exp(log + 1.96 * error))


def search(
    ends: Span, least: float, measure: Callable[[Search, int], Measured | Unusable]
) -> Search:
    """The whole search, with ``measure(search, point)``: a build takes 60 s, a probe 30 s."""
    state = Search(ends, least)
    built = {ends.low, ends.high}
    while state.span is not None:
        at = state.probe(built, 60.0, 30.0)
        built.add(at)
        state.record(at, measure(state, at))
    return state


def kdyno(own: Range) -> int | None:
    last, smallest = len(own.levels) - 1, 0.005
    for half in (0.02, WITHIN * smallest):
        ends = difference(own.groups((0, last), half), 1, 0)
        if ends.half_width <= ends.size / 4:
            break
    least = ends.size / 4
    # As of a session whose ends differ by less than its default looks for.
    if not ends.is_step(least) or ends.half_width > ends.size:
        return None

    def probe(state: Search, at: int) -> Measured:
        assert state.span is not None
        rows = own.groups((state.span.low, at, state.span.high), state.half_width)
        return Measured(difference(rows, 1, 0), difference(rows, 2, 1), difference(rows, 2, 0))

    state = search(Span(0, last, ends), least, probe)
    for step in list(state.steps):
        again = difference(own.groups((step.low, step.high), WITHIN * least), 1, 0)
        if not again.is_step(least):
            state.reject(step)
    return state.steps[0].high if state.certain else None


def mean_of_three(own: Range) -> int | None:
    low, high = 0, len(own.levels) - 1
    ends = [float(own.row([at] * 3).mean()) for at in (low, high)]
    threshold, worse = sum(ends) / 2, ends[1] < ends[0]
    while high - low > 1:
        middle = (low + high) // 2
        bad = (float(own.row([middle] * 3).mean()) < threshold) == worse
        low, high = (low, middle) if bad else (middle, high)
    return high


def coin_tosses(own: Range) -> int | None:
    last = len(own.levels) - 1
    good, bad = own.row([0] * 10), own.row([last] * 10)
    threshold, worse = float(good.mean() + bad.mean()) / 2, bad.mean() < good.mean()
    wrong = (((good < threshold) == worse).sum() + ((bad < threshold) != worse).sum() + 1) / 22
    wrong = min(0.49, float(wrong))
    chance = np.full(last, 1.0 / last)  # that the step is commit 1 … last
    for _toss in range(MOST_TOSSES):
        if chance.max() >= 0.99:
            break
        # Where bad is as likely as good: a commit is bad if the step is it or before it.
        at = int(np.abs(np.cumsum(chance)[: last - 1] - 0.5).argmin()) + 1
        is_bad = (float(own.row([at])[0]) < threshold) == worse
        before = np.arange(1, last + 1) <= at
        chance = chance * np.where(before == is_bad, 1.0 - wrong, wrong)
        chance /= chance.sum()
    return int(chance.argmax()) + 1 if chance.max() >= 0.99 else None


TOOLS = {"kdyno": kdyno, "mean of three": mean_of_three, "coin tosses": coin_tosses}
"""Name → the commit that it names; None: none is."""


@dataclass(frozen=True)
class Row:
    """Of one tool over many ranges."""

    wrong: float
    """Share in which a commit is named that has no step."""
    unnamed: float
    builds: float
    boots: float


def simulate(tool: str, commits: int, effect: float, searches: int, draw: Draw, seed: int) -> Row:
    """The ranges are the same for every tool."""
    rows = []
    for number in range(searches):
        random = np.random.default_rng([seed, commits, int(1e4 * effect), number])
        at = int(random.integers(1, commits + 1))
        levels = np.where(np.arange(commits + 1) >= at, math.log1p(-effect), 0.0)
        own = Range(levels, draw, random)
        named = TOOLS[tool](own)
        right = named == at if effect else named is None
        rows.append((named is not None and not right, named is None, len(own.built), own.boots))
    return Row(*np.mean(np.array(rows, dtype=float), axis=0))


if __name__ == "__main__":
    draw = recorded("pipe")
    print(f"{SEARCHES} searches a row, on recorded noise")
    print("commits  effect  tool             wrong    none  builds   boots")
    for commits, effect, tool in product(LENGTHS, EFFECTS, TOOLS):
        row = simulate(tool, commits, effect, SEARCHES, draw, 1)
        print(
            f"{commits:7} {100 * effect:6.1f}%  {tool:14} {100 * row.wrong:6.1f}% "
            f"{100 * row.unnamed:6.1f}% {row.builds:7.1f} {row.boots:7.0f}",
            flush=True,
        )
