# SPDX-License-Identifier: MIT
"""Blocks as pairs: the one place where the values that are compared within a block come from."""

from __future__ import annotations

import math

from kdyno.judge.question import Question
from kdyno.stats.effect import PairedEffect, paired_effect
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples


def scores(data: Samples, case: CaseInfo, variant: str) -> list[float]:
    """One score for each block of the run, in the case's unit; NaN where there is none."""
    found = data.scores.get((case.suite, case.case, variant), {})
    return [found.get(block, math.nan) for block in range(data.blocks)]


def paired(
    data: Samples, case: CaseInfo, baseline: str, variant: str
) -> tuple[list[float], list[float]]:
    """Scores of both arms, one per block; NaN where a boot or its case failed."""
    return scores(data, case, baseline), scores(data, case, variant)


def effect_of(data: Samples, question: Question, case: CaseInfo, variant: str) -> PairedEffect:
    """The variant's raw effect on one case."""
    return paired_effect(*paired(data, case, question.baseline, variant), question.confidence)
