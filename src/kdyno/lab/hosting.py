# SPDX-License-Identifier: MIT
"""Runs on the host's own kernel: one variant, nothing to compare it with, never rebooted."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from kdyno.report import figures
from kdyno.stats.effect import PairedEffect, paired_effect
from kdyno.store.manifest import Manifest
from kdyno.store.samples import Samples
from kdyno.store.verdict import CaseValue

if TYPE_CHECKING:
    from kdyno.lab.judging import Question

HOST_CAVEAT = (
    "every repetition ran on one and the same boot of the host's kernel: the spread between boots "
    "is not in these intervals"
)


def own_spread(data: Samples, question: Question) -> dict[tuple[str, str, str], PairedEffect]:
    """(suite, case, variant) → its repetitions against their own median.

    The ratio is 1 by construction; the width of the interval is what the run stops by.
    """
    found = {}
    for case in question.cases:
        key = (case.suite, case.case, question.baseline)
        scores = list(data.scores.get(key, {}).values())
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


def host_answer(values: tuple[CaseValue, ...], manifest: Manifest) -> str:
    """The run in one sentence."""
    measured = [value for value in values if value.value is not None]
    kernel = manifest.host.get("host_kernel", "unknown")
    most = max((value.repetitions for value in measured), default=0)
    return (
        f"The running kernel {kernel}: {figures.count(len(measured), 'case')} of {len(values)} "
        f"measured, {figures.count(most, 'repetition')} at most; nothing is compared here "
        "(`kdyno compare RUN RUN` compares runs)."
    )
