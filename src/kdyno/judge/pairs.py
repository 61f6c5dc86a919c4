# SPDX-License-Identifier: MIT
"""Blocks as pairs: the one place where the values that are compared within a block come from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kdyno.judge.question import Question
from kdyno.stats.effect import PairedEffect, paired_effect
from kdyno.stats.groups import location, spread
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples
from kdyno.store.verdict import RoundSpread

if TYPE_CHECKING:
    from numpy.typing import NDArray


def scores(data: Samples, case: CaseInfo, variant: str) -> list[float]:
    """One score for each block of the run, in the case's unit; NaN where there is none."""
    found = data.scores.get((case.suite, case.case, variant), {})
    return [found.get(block, math.nan) for block in range(data.blocks)]


def paired(
    data: Samples, case: CaseInfo, baseline: str, variant: str
) -> tuple[list[float], list[float]]:
    """Values of both arms, one per block; NaN where a boot or its case failed.

    In a block of whole boots these are the scores. Where both took turns the second is such that
    their ratio is the group's: a robust location of the rounds' ratios.
    """
    before, after = scores(data, case, baseline), scores(data, case, variant)
    for block, found in rounds(data, case, baseline, variant):
        before[block] = before[block] if before[block] > 0 else math.nan
        after[block] = before[block] * math.exp(location(found))
    return before, after


def rounds(
    data: Samples, case: CaseInfo, baseline: str, variant: str
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """(block, log ratio of the scores in each round), of the blocks in which both took turns."""
    sign = 1.0 if case.better == "higher" else -1.0  # a time goes down where a rate goes up
    ours = data.rounds.get((case.suite, case.case, variant), {})
    theirs = data.rounds.get((case.suite, case.case, baseline), {})
    for block in sorted(ours.keys() & theirs.keys()):
        count = min(len(ours[block]), len(theirs[block]))
        if count:
            after, before = np.asarray(ours[block]), np.asarray(theirs[block])
            yield block, sign * (after[:count] - before[:count])


def effect_of(data: Samples, question: Question, case: CaseInfo, variant: str) -> PairedEffect:
    """The variant's raw effect on one case."""
    return paired_effect(*paired(data, case, question.baseline, variant), question.confidence)


def spread_of(
    data: Samples, question: Question, case: CaseInfo, variant: str
) -> RoundSpread | None:
    """How far rounds and groups lie apart; None where too few guests took turns."""
    found = spread([logs for _, logs in rounds(data, case, question.baseline, variant)])
    if found is None:
        return None
    return RoundSpread(
        within=found.within, between=found.between, of_group=found.of_value, rounds=found.rounds
    )
