# SPDX-License-Identifier: MIT
"""From repetitions to a score, and from scores to an index."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

from kdyno.errors import UsageError
from kdyno.suites.catalogue import Case, Suite


def score_of(case: Case, reps: Sequence[tuple[int, int]]) -> float:
    """Median over the repetitions, in the case's unit.

    ``reps`` are (operations, ns) pairs, all above 0. A rate is operations × scale ÷ seconds, a
    time is seconds × scale ÷ operations.
    """
    if not reps:
        raise ValueError(f"{case.suite}/{case.name}: no repetitions")
    if case.score == "rate":
        return statistics.median(n * case.scale / (ns / 1e9) for n, ns in reps)
    return statistics.median(ns / 1e9 * case.scale / n for n, ns in reps)


def case_index(suite: Suite, case: Case, score: float) -> float | None:
    """suite.index × score ÷ baseline; None when the suite or the case has no index."""
    if suite.index is None or case.baseline is None:
        return None
    return suite.index * score / case.baseline


def suite_index(suite: Suite, scores: Mapping[str, float]) -> float:
    """Geometric mean of the cases' indices, over all cases that have a baseline.

    ``scores`` by case name. UsageError names the members that are missing: an index of fewer
    cases is another index.
    """
    members = [case for case in suite.cases if case.baseline is not None]
    if suite.index is None or not members:
        raise UsageError(f"suite {suite.name} has no index")
    missing = [case.name for case in members if case.name not in scores]
    if missing:
        raise UsageError(f"the index of {suite.name} lacks {', '.join(missing)}")
    indices = [case_index(suite, case, scores[case.name]) for case in members]
    return math.exp(statistics.fmean(math.log(index) for index in indices if index is not None))
