# SPDX-License-Identifier: MIT
"""From the repetitions of a case to its score, and from scores to indices.

Of a suite: the geometric mean of its cases' indices (BYTE UnixBench). Of a group of cases, or of
groups: the harmonic mean (XBench)."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kdyno.suites.catalogue import Case, CaseGroup, Suite

SCORINGS = ("kdyno", "unixbench")
"""kdyno: the median. unixbench: as that program combines its passes, for people who compare with
published indices; verdicts always use kdyno's own."""


def score_of(case: Case, reps: Sequence[tuple[int, int]]) -> float:
    """The score in the case's unit: the median over the repetitions.

    ``reps`` are (operations, ns) pairs, all above 0. A rate is operations × scale ÷ seconds, a
    time is seconds × scale ÷ operations."""
    if not reps:
        raise ValueError(f"{case.suite}/{case.name}: no repetitions")
    if case.counted:
        operations, instructions = reps[steady(reps)]
        return instructions / operations
    if case.better == "higher":
        passes = [n * case.scale / (ns / 1e9) for n, ns in reps]
    else:
        passes = [ns / 1e9 * case.scale / n for n, ns in reps]
    return statistics.median(passes)


def steady(reps: Sequence[tuple[float, float]]) -> int:
    """Which of (operations, instructions) is the score of a count.

    The one that most are the same as: what happens now and then, a tick or the step to the
    beginning of a file, is in some parts and not in others. Where no two agree, the cheapest."""
    times = Counter(reps)
    return min(range(len(reps)), key=lambda at: (-times[reps[at]], reps[at][1] / reps[at][0]))


def unixbench_mean(passes: Sequence[float], higher_is_better: bool = True) -> float:
    """Geometric mean of what is left when the worst third, rounded down, is dropped.

    ``passes`` are scores above 0: repetitions of one boot, or of all of a variant's boots. Two
    passes are too few to drop one."""
    if not passes:
        raise ValueError("no passes")
    ordered = sorted(passes, reverse=not higher_is_better)
    return statistics.geometric_mean(ordered[len(ordered) // 3 :])


@dataclass(frozen=True)
class Index:
    """Of a suite or a group. ``value`` is None when a member is missing: it is never the mean of
    fewer."""

    value: float | None
    missing: tuple[str, ...] = ()
    """The cases (or groups without a score of their own) that are not there."""


def case_index(suite: Suite, case: Case, score: float) -> float | None:
    """suite.index × score ÷ baseline, or × baseline ÷ score where lower is better.

    None when the suite or the case has no index."""
    if suite.index is None or case.baseline is None:
        return None
    ratio = score / case.baseline if case.better == "higher" else case.baseline / score
    return suite.index * ratio


def members(suite: Suite) -> tuple[Case, ...]:
    """The cases that the suite's index is made of; none where it combines groups or has none."""
    if suite.index is None or suite.groups:
        return ()
    return tuple(case for case in suite.cases if case.baseline is not None)


def suite_index(suite: Suite, scores: Mapping[str, float]) -> Index | None:
    """Geometric mean of the indices of all cases that have a baseline; None: it has no index.

    ``scores`` by case name, above 0."""
    wanted = members(suite)
    if not wanted:
        return None
    missing = tuple(case.name for case in wanted if case.name not in scores)
    if missing:
        return Index(None, missing)
    indices = (case_index(suite, case, scores[case.name]) for case in wanted)
    return Index(statistics.geometric_mean(index for index in indices if index is not None))


def group_scores(groups: Iterable[CaseGroup], scores: Mapping[str, float]) -> dict[str, Index]:
    """The score of every group, in their order.

    ``scores`` by the name of the case, all above 0. A score that stands under a group's own name
    is taken where its members have none, as in published tables that print only the group."""
    indices: dict[str, Index] = {}
    every = dict(scores)
    for group in groups:
        missing = tuple(
            name
            for member in group.members
            if member not in every
            for name in (indices[member].missing if member in indices else (member,))
        )
        if not missing:
            every[group.name] = statistics.harmonic_mean([every[name] for name in group.members])
            indices[group.name] = Index(every[group.name])
        elif group.name in scores:
            indices[group.name] = Index(scores[group.name])
        else:
            indices[group.name] = Index(None, missing)
    return indices
