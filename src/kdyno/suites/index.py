# SPDX-License-Identifier: MIT
"""The index of a case, and of a suite as the geometric mean of its cases' (BYTE UnixBench)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from kdyno.suites.catalogue import Case, Suite


@dataclass(frozen=True)
class SuiteIndex:
    """``value`` is None when a member is missing: the index of fewer cases is another index."""

    value: float | None
    missing: tuple[str, ...] = ()


def case_index(suite: Suite, case: Case, score: float) -> float | None:
    """suite.index × score ÷ baseline, or × baseline ÷ score where lower is better.

    None when the suite or the case has no index.
    """
    if suite.index is None or case.baseline is None:
        return None
    ratio = score / case.baseline if case.better == "higher" else case.baseline / score
    return suite.index * ratio


def members(suite: Suite) -> tuple[Case, ...]:
    """The cases that the suite's index is made of; none where it combines groups or has none."""
    if suite.index is None or suite.groups:
        return ()
    return tuple(case for case in suite.cases if case.baseline is not None)


def suite_index(suite: Suite, scores: Mapping[str, float]) -> SuiteIndex | None:
    """Geometric mean of the indices of all cases that have a baseline; None: it has no index.

    ``scores`` by case name, above 0.
    """
    wanted = members(suite)
    if not wanted:
        return None
    missing = tuple(case.name for case in wanted if case.name not in scores)
    if missing:
        return SuiteIndex(None, missing)
    indices = (case_index(suite, case, scores[case.name]) for case in wanted)
    return SuiteIndex(statistics.geometric_mean(it for it in indices if it is not None))
