# SPDX-License-Identifier: MIT
"""Effects on whole groups of a suite's cases, such as XBench's, with intervals.

In every block each case has a ratio, and a group the harmonic mean of its members' ratios: its
score where the baseline's are all 100. So a group is compared within blocks, as its cases are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kdyno.judge.pairs import replicate_log_ratios
from kdyno.judge.question import Question
from kdyno.stats.effect import interval
from kdyno.stats.signedrank import Floats
from kdyno.stats.verdict import Claim, judge
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples
from kdyno.store.verdict import GroupEffect
from kdyno.suites.catalogue import Catalogue, Suite
from kdyno.suites.score import group_scores

Row = tuple[str, str, str, Claim]
"""Suite, group, variant, and what is claimed of them."""


def group_rows(data: Samples, question: Question, catalogue: Catalogue) -> list[Row]:
    """Every group of which all cases were measured, in the suite's order. None for counts: groups
    are of scores."""
    if question.counted:
        return []
    return [
        (suite.name, group, variant, Claim(ratios, "higher"))
        for variant in question.variants
        for suite in catalogue.values()
        for group, ratios in _log_ratios(data, question, suite, variant).items()
    ]


def group_effects(
    data: Samples, question: Question, catalogue: Catalogue, beside: Sequence[Claim] = ()
) -> tuple[GroupEffect, ...]:
    """The rows, judged. ``beside``: what else the run claims; all are one family."""
    rows = group_rows(data, question, catalogue)
    if not rows:
        return ()  # or the whole family of the run would be judged once more, for nothing
    claims = [*(claim for *_, claim in rows), *beside]
    judged = judge(claims, question.equivalent, 1.0 - question.confidence)
    return tuple(
        GroupEffect(
            suite=suite,
            group=group,
            variant=variant,
            ratio=each.effect.ratio,
            ci=interval(each.lo, each.hi),
            ci_raw=interval(each.effect.lo, each.effect.hi),
            blocks=each.effect.n,
            verdict=each.word,
            equivalent_too=each.equivalent_too,
            predicted_blocks=each.predicted_blocks,
        )
        for (suite, group, variant, _), each in zip(rows, judged, strict=False)
    )


def _log_ratios(data: Samples, question: Question, suite: Suite, variant: str) -> dict[str, Floats]:
    """Group → log of its score ÷ the baseline's in every block, NaN where a case of it lacks."""
    cases = [case for case in question.cases if case.suite == suite.name]
    if not suite.groups or not cases:
        return {}
    found: dict[str, Floats] = {}
    for block, ratios in enumerate(_by_block(data, question, cases, variant)):
        for group, score in group_scores(suite.groups, ratios).items():
            if score.value is not None:
                every = found.setdefault(group, np.full(data.blocks, np.nan))
                every[block] = np.log(score.value)
    return found


def _by_block(
    data: Samples, question: Question, cases: list[CaseInfo], variant: str
) -> Iterator[Mapping[str, float]]:
    """Case → its ratio, above 1 where the variant is better, for every block of the run."""
    logs = {
        case.case: replicate_log_ratios(data, question, case, variant)
        * (1.0 if case.better == "higher" else -1.0)
        for case in cases
    }
    for block in range(data.blocks):
        yield {
            name: float(np.exp(values[block]))
            for name, values in logs.items()
            if np.isfinite(values[block])
        }
