# SPDX-License-Identifier: MIT
"""From the repetitions of a case to its score."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, get_args

from kdyno.errors import UsageError
from kdyno.suites.catalogue import Case
from kdyno.suites.table import nearest

Scoring = Literal["kdyno", "unixbench"]
SCORINGS: tuple[Scoring, ...] = get_args(Scoring)
"""kdyno: the median. unixbench: as that program sums up its passes, for people who compare with
published indices; verdicts are always by kdyno's own."""


def score_of(
    case: Case, reps: Sequence[tuple[int, int]], scoring: Scoring | str = "kdyno"
) -> float:
    """The score in the case's unit; by default the median over the repetitions.

    ``reps`` are (operations, ns) pairs, all above 0. A rate is operations × scale ÷ seconds, a
    time is seconds × scale ÷ operations. UsageError for another way of scoring than SCORINGS.
    """
    if not reps:
        raise ValueError(f"{case.suite}/{case.name}: no repetitions")
    if case.score == "rate":
        passes = [n * case.scale / (ns / 1e9) for n, ns in reps]
    else:
        passes = [ns / 1e9 * case.scale / n for n, ns in reps]
    if scoring == "kdyno":
        return statistics.median(passes)
    if scoring == "unixbench":
        return unixbench_mean(passes, higher_is_better=case.better == "higher")
    raise UsageError(f"scoring is {scoring!r}{nearest(scoring, SCORINGS)}")


def unixbench_mean(passes: Sequence[float], higher_is_better: bool = True) -> float:
    """Geometric mean of what is left when the worst third, rounded down, is dropped.

    ``passes`` are scores above 0: repetitions of one boot, or of all of a variant's boots. Two
    passes are too few to drop one.
    """
    if not passes:
        raise ValueError("no passes")
    ordered = sorted(passes, reverse=not higher_is_better)
    return statistics.geometric_mean(ordered[len(ordered) // 3 :])
