# SPDX-License-Identifier: MIT
"""The runs' figures as series over time: one case of one variant on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from kdyno.report.site.summary import Kernel, Summary
from kdyno.stats.changepoints import Segment, segments
from kdyno.store.score import Score

Measure = Literal["score", "effect"]
TOO_LITTLE = 0.01
"""A change of level below this is shown, and called too little to matter."""


class Mark(NamedTuple):
    """One run's point. There are very many of them."""

    run: Summary
    kernel: Kernel
    value: float
    low: float | None
    high: float | None
    boots: int


@dataclass(frozen=True)
class Change:
    """From one level to the next, first seen in ``at``."""

    before: Mark
    at: Mark
    ratio: float
    word: str
    """faster, slower, or ``equivalent``: too little to matter."""


@dataclass(frozen=True)
class Series:
    """Points in time order, with what they have in common."""

    experiment: str
    machine: str
    suite: str
    case: str
    variant: str
    unit: str
    better: str
    measure: Measure
    """score: the case's own figure; effect: variant ÷ baseline, which drift does not reach."""
    marks: tuple[Mark, ...]

    @cached_property
    def levels(self) -> tuple[Segment, ...]:
        return segments([it.value for it in self.marks])

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        found = []
        for before, after in zip(self.levels, self.levels[1:], strict=False):
            ratio = after.level / before.level
            good = (ratio > 1.0) == (self.better == "higher")
            word = "faster" if good else "slower"
            if abs(ratio - 1.0) < TOO_LITTLE:
                word = "equivalent"
            found.append(Change(self.marks[after.start - 1], self.marks[after.start], ratio, word))
        return tuple(found)


def series_of(summaries: Sequence[Summary]) -> tuple[Series, ...]:
    """Every series of these runs, in the order in which their cases come up.

    Runs of other work, another unit or another machine begin a series of their own.
    """
    together: dict[tuple[str, ...], list[tuple[Summary, Score]]] = {}
    for run in sorted(summaries, key=lambda it: (it.created, it.name)):
        for score in run.scores:
            key = (
                *(run.experiment, run.machine_key, score.suite, score.case, score.variant),
                *(score.unit, score.better, score.work),
            )
            together.setdefault(key, []).append((run, score))
    found = []
    for points in together.values():
        run, score = points[-1]
        for measure in _measures(score, run):
            marks = tuple(filter(None, (_mark(it, each, measure) for it, each in points)))
            if marks:
                found.append(
                    Series(
                        experiment=run.experiment,
                        machine=run.machine,
                        suite=score.suite,
                        case=score.case,
                        variant=score.variant,
                        unit=score.unit,
                        better=score.better,
                        measure=measure,
                        marks=marks,
                    )
                )
    return tuple(found)


def _measures(score: Score, run: Summary) -> tuple[Measure, ...]:
    return ("score",) if score.variant == run.baseline else ("score", "effect")


def _mark(run: Summary, score: Score, measure: Measure) -> Mark | None:
    kernel = (run.kernels or {}).get(score.variant, Kernel("", ""))
    if measure == "score":
        return Mark(run, kernel, score.value, score.low, score.high, score.boots)
    if score.ratio is None or score.ratio <= 0:
        return None
    return Mark(run, kernel, score.ratio, score.ratio_low, score.ratio_high, score.boots)
