# SPDX-License-Identifier: MIT
"""Runs of one kernel alone, such as the host's own: values of cases, and nothing compared."""

from __future__ import annotations

import statistics

from kdyno.judge.question import Question
from kdyno.stats.effect import PairedEffect, paired_effect
from kdyno.store.samples import Key, Samples
from kdyno.store.verdict import CaseValue


def own_spread(
    data: Samples, question: Question, blocks: int | None = None
) -> dict[Key, PairedEffect]:
    """(suite, case, variant) → its repetitions against their own median.

    The ratio is 1 by construction; the width of the interval is what the run stops by.
    """
    found = {}
    for case in question.cases:
        key = (case.suite, case.case, question.baseline)
        scores = list(data.scores.get(key, {}).values())[:blocks]
        if scores:
            middle = [statistics.median(scores)] * len(scores)
            found[key] = paired_effect(middle, scores, question.confidence)
    return found


def values_of(data: Samples, question: Question) -> tuple[CaseValue, ...]:
    """The median of each case with the interval of its repetitions."""
    spread = own_spread(data, question)
    values = []
    for case in question.cases:
        key = (case.suite, case.case, question.baseline)
        scores = list(data.scores.get(key, {}).values())
        middle = statistics.median(scores) if scores else None
        effect = spread.get(key)
        ci = None
        if middle is not None and effect is not None and effect.lo and effect.hi:
            ci = (middle * effect.lo, middle * effect.hi)
        reasons = data.missing.get(key)
        values.append(
            CaseValue(
                suite=case.suite,
                case=case.case,
                unit=case.unit,
                better=case.better,
                value=middle,
                ci=ci,
                repetitions=len(scores),
                reason=reasons.most_common(1)[0][0] if reasons and middle is None else None,
            )
        )
    return tuple(values)
