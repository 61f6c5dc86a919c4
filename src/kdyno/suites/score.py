# SPDX-License-Identifier: MIT
"""From the repetitions of a case, or the figure that a program prints, to a score; and indices. Of
a suite: the geometric mean of its cases' indices (BYTE UnixBench). Of a group of cases, or of
groups: the harmonic mean (XBench)."""

from __future__ import annotations

import math
import re
import signal
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from kdyno.suites.catalogue import Case, Suite
from kdyno.suites.protocol import clean

SCORINGS = ("kdyno", "unixbench")
"""kdyno: the median. unixbench: as that program combines its passes, for people who compare with
published indices; verdicts always use kdyno's own."""
SHOWN = 300
"""Characters of a program's output that a message shows."""
_WORD_SHOWN = 60
"""The same of what was matched."""
MOST = 1e90
"""Of a figure; its reciprocal is the least. What is computed from it is still a number."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_SEARCH_S = 2.0
"""CPU time of one search; an honest one takes microseconds."""
LOW_PARALLELISM = "low_parallelism_percent"
"""In extra: share of the time in which fewer than half of the requested tasks were runnable."""
LOW_PARALLELISM_PERCENT = 10.0
"""From there on there is a flag."""


def score_of(case: Case, reps: Sequence[tuple[int, int]]) -> float:
    """The score in the case's unit: the median over ``reps``, (operations, ns) pairs above 0. A
    rate is operations × scale ÷ seconds, a time seconds × scale ÷ operations."""
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
    """Which of (operations, instructions) is the score of a count. The one that most are the same
    as: what happens now and then, a tick or the step to the beginning of a file, is in some parts
    and not in others. Where no two agree, the cheapest."""
    times = Counter(reps)
    return min(range(len(reps)), key=lambda at: (-times[reps[at]], reps[at][1] / reps[at][0]))


def unixbench_mean(passes: Sequence[float], higher_is_better: bool = True) -> float:
    """Geometric mean of what is left when the worst third, rounded down, is dropped. ``passes`` are
    scores above 0: repetitions of one boot, or of all of a variant's boots. Two passes are too few
    to drop one."""
    if not passes:
        raise ValueError("no passes")
    ordered = sorted(passes, reverse=not higher_is_better)
    return statistics.geometric_mean(ordered[len(ordered) // 3 :])


@dataclass(frozen=True)
class Index:
    """Of a suite or a group. ``value``: None where a member is missing, never the mean of fewer."""

    value: float | None
    missing: tuple[str, ...] = ()
    """The cases (or groups without a score of their own) that are not there."""


def case_index(suite: Suite, case: Case, score: float) -> float | None:
    """suite.index × score ÷ baseline, or × baseline ÷ score where lower is better. None when the
    suite or the case has no index."""
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
    if not (wanted := members(suite)):
        return None
    if missing := tuple(case.name for case in wanted if case.name not in scores):
        return Index(None, missing)
    indices = (case_index(suite, case, scores[case.name]) for case in wanted)
    return Index(statistics.geometric_mean(index for index in indices if index is not None))


def group_scores(
    groups: Mapping[str, Sequence[str]], scores: Mapping[str, float]
) -> dict[str, Index]:
    """The score of every group, in their order. ``scores`` by the name of the case, all above 0. A
    score that stands under a group's own name is taken where its members have none, as in published
    tables that print only the group."""
    indices: dict[str, Index] = {}
    every = dict(scores)
    for group, members in groups.items():
        missing = tuple(
            name
            for member in members
            if member not in every
            for name in (indices[member].missing if member in indices else (member,))
        )
        if not missing:
            every[group] = statistics.harmonic_mean([every[name] for name in members])
            indices[group] = Index(every[group])
        elif group in scores:
            indices[group] = Index(scores[group])
        else:
            indices[group] = Index(None, missing)
    return indices


# The figure that a program prints, read as if the program tried to cheat.


class NoFigure(ValueError):
    """Why what a program printed gives no figure; the text shows what it printed."""


def number(text: str) -> float:
    """A positive finite number; NoFigure says what it is instead."""
    word = text.strip()
    short = clean(word, _WORD_SHOWN)
    if word.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise NoFigure(f"the figure is {word}")
    if _NUMBER.fullmatch(word) is None:
        raise NoFigure(f"the figure is not a number but {short!r}")
    value = float(word)
    if not math.isfinite(value):
        raise NoFigure(f"the figure {short} is beyond every number")
    if value < 0:
        raise NoFigure(f"the figure is negative: {short}")
    if value == 0:
        raise NoFigure(f"the figure is zero: {short}")
    return value


def read(case: Case, output: str) -> float:
    """The figure in what a program printed to stdout. NoFigure when it is not there."""
    assert case.figure is not None
    text = clean(output, 1 << 16).strip()
    printed = f"it printed {text if len(text) <= SHOWN else '… ' + text[-SHOWN:]!r}"
    if not text:
        printed = "it printed nothing"
    matches = _matches(case.figure, output)
    if len(matches) != 1:
        first = ", ".join(clean(match, _WORD_SHOWN) for match in matches[:3])
        count = f"{len(matches)} figures ({first})" if matches else "no figure"
        program = case.program[0].rpartition("/")[2] if case.program else "the command"
        what = f"{count} in what {program} printed, by {case.figure!r}"
        raise NoFigure(f"{what}: {printed}")
    try:
        value = number(matches[0]) * case.scale
    except NoFigure as problem:
        raise NoFigure(f"{problem}: {printed}") from None
    if not 1 / MOST <= value <= MOST:
        raise NoFigure(f"the figure {clean(matches[0], _WORD_SHOWN)} is out of range")
    return value


def also(case: Case, output: str) -> dict[str, float]:
    """The further figures that are found; zero and below are as good as any here."""
    values = {}
    for name, pattern in case.also:
        matches = _matches(pattern, output)
        if len(matches) == 1 and _NUMBER.fullmatch(matches[0].strip()):
            value = float(matches[0])
            if math.isfinite(value):
                values[name] = value
    return values


def _matches(pattern: str, output: str) -> list[str]:
    """What the group matches, in order. NoFigure where the search takes too long. "(a+)+b" would go
    on for years. Python's engine looks for signals while it searches, and this timer counts kdyno's
    own CPU time, so that a busy machine changes no answer."""

    def stop(*_: object) -> NoReturn:
        raise NoFigure(
            f"{pattern!r} was looked for during {_SEARCH_S:g} s of CPU time without an end; write "
            "it without a repetition inside a repetition"
        )

    former = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SEARCH_S)
    try:
        return re.findall(pattern, output, re.MULTILINE)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, former)
