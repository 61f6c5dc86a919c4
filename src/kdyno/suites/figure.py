# SPDX-License-Identifier: MIT
"""The figure that a program prints, read as if the program tried to cheat."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from kdyno.suites.catalogue import Case
from kdyno.suites.record import clean

SHOWN = 300
"""Characters of a program's output that a message shows."""
MOST = 1e90
"""Of a figure; its reciprocal is the least. What is computed from it is still a number."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,30}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_SEARCH_S = 2.0
"""CPU time of one search; an honest one takes microseconds."""
LOW_PARALLELISM = "low_parallelism_percent"
"""In extra: share of the time in which fewer than half of the requested tasks were runnable."""
LOW_PARALLELISM_PERCENT = 10.0
"""From there on there is a flag."""


class NoFigure(ValueError):
    """Why what a program printed gives no figure; the text shows what it printed."""


@dataclass(frozen=True)
class Reading:
    """The figure, and the others that the case keeps; those that were not found are left out."""

    value: float
    also: Mapping[str, float]


def number(text: str) -> float:
    """A positive finite number; NoFigure says what it is instead."""
    word = text.strip()
    if word.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise NoFigure(f"the figure is {word}")
    if _NUMBER.fullmatch(word) is None:
        raise NoFigure(f"the figure is not a number but {clean(word, 60)!r}")
    value = float(word)
    if not math.isfinite(value):
        raise NoFigure(f"the figure {word} is beyond every number")
    if value < 0:
        raise NoFigure(f"the figure is negative: {word}")
    if value == 0:
        raise NoFigure(f"the figure is zero: {word}")
    return value


def read(case: Case, output: str) -> Reading:
    """The figures in what a program printed to stdout. NoFigure when the main one is not there."""
    assert case.figure is not None
    text = clean(output, 1 << 16).strip()
    printed = f"it printed {text if len(text) <= SHOWN else '… ' + text[-SHOWN:]!r}"
    if not text:
        printed = "it printed nothing"
    matches = _matches(case.figure, output)
    if len(matches) != 1:
        count = f"{len(matches)} figures ({', '.join(matches[:3])})" if matches else "no figure"
        program = case.program[0].rpartition("/")[2] if case.program else "the command"
        what = f"{count} in what {program} printed, by {case.figure!r}"
        raise NoFigure(f"{what}: {printed}")
    try:
        value = number(matches[0]) * case.scale
    except NoFigure as problem:
        raise NoFigure(f"{problem}: {printed}") from None
    if not 1 / MOST <= value <= MOST:
        raise NoFigure(f"the figure {matches[0]} is out of range")
    return Reading(value, also(case, output))


def also(case: Case, output: str) -> dict[str, float]:
    """The further figures; zero and below are as good as any here."""
    values = {}
    for name, pattern in case.also:
        matches = _matches(pattern, output)
        if len(matches) == 1 and _NUMBER.fullmatch(matches[0].strip()):
            value = float(matches[0])
            if math.isfinite(value):
                values[name] = value
    return values


def _matches(pattern: str, output: str) -> list[str]:
    """What the group matches, in order. NoFigure where the search takes too long.

    "(a+)+b" would go on for years. Python's engine looks for signals while it searches, and this
    timer counts kdyno's own CPU time, so that a busy machine changes no answer."""

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
