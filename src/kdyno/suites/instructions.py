# SPDX-License-Identifier: MIT
"""The same cases, counted instead of timed: a guest whose clock goes on by 1 ns an instruction."""

from __future__ import annotations

from dataclasses import replace

from kdyno.suites.catalogue import Case
from kdyno.suites.wrapping import placeholders

_TIMES = frozenset({"seconds", "whole_seconds", "milliseconds"})
UNIT = "instructions/operation"
FIGURES = ("user", "kernel")
"""What an operation is made of, in the order in which it is shown."""


def counted(case: Case) -> Case:
    """The case with instructions for a score: nanoseconds an operation, by that clock.

    What a program says of its own speed, and the index of a suite, are of times.
    """
    plain = replace(case, score="time", scale=1.0, figure=None, baseline=None)
    return replace(plain, unit=UNIT, better="lower", counted=True)


def why_uncounted(case: Case) -> str:
    """Why its instructions decide nothing; empty where they do."""
    if case.uncounted:
        return case.uncounted
    if case.disk_bytes:
        return "it waits for a disk, and how long that takes is in no count"
    if any(name in _TIMES for word in case.program for name in placeholders(word)):
        return "it runs for so many seconds, by a clock that counts so many instructions"
    return ""
