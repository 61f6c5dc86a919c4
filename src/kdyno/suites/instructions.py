# SPDX-License-Identifier: MIT
"""The same cases, counted instead of timed: a guest whose clock goes on by 1 ns an instruction."""

from __future__ import annotations

from dataclasses import replace

from kdyno.suites.catalogue import Case

UNIT = "instructions/operation"


def counted(case: Case) -> Case:
    """The case with instructions for a score: nanoseconds an operation, by that clock.

    What a program says of its own speed, and the index of a suite, are of times.
    """
    plain = replace(case, score="time", scale=1.0, figure=None, baseline=None)
    return replace(plain, unit=UNIT, better="lower", counted=True)
