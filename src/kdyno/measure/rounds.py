# SPDX-License-Identifier: MIT
"""The order of turns, how long they are, and which cases can be measured by them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kdyno.suites.catalogue import Case

TURN_S = 0.004
"""Aimed at. Shorter follows a restless machine better and costs more hand-overs."""
LONGEST_S = 0.025
"""A case whose single operation takes longer is handed over in the middle of it, by freezing."""
SLICE_S = 0.010
"""Of a frozen turn."""
LEAD = 0.0
"""The unmeasured beginning of a turn, as a share of its operations: caches were someone else's.
None: measured, it made turns longer and groups differ more (docs/how-it-measures.md)."""
LEAST, MOST = 8, 400
"""Rounds of a case in a group."""
LEAST_LONG = 2
"""The same of frozen turns, which may take seconds: with one nobody could tell what is within a
group from what is between groups, and so how many would be best."""


def why_whole(case: Case) -> str:
    """Why a case is not measured by turns but whole, one guest after the other; empty: it is.

    A frozen guest's clock jumps, so what a program says of its own speed is not true there. What
    is written to a disk may still be being written by the host when the next guest has its turn;
    whoever gives such a case's ``work`` says that it does not wait for that.
    """
    if case.figure is not None and not case.work:
        return "its figure is what the program says, by a clock that jumps when a guest is frozen"
    if case.disk_bytes and not case.work:
        return "its disk is the host's, which goes on writing in the others' turns"
    return ""


def orders(seed: str, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Endless rounds, balanced; they depend on nothing but the seed.

    After every len(names) of them each name was once at every position. Who is last in a round is
    first in the next one, so each follows on itself as often as on any other: a guest that makes
    the next one slower does so to all alike, itself included, and no ratio moves. Such orders are
    called serially balanced (Finney & Outhwaite, 1956).
    """
    generator = random.Random(seed)
    first, *others = generator.sample(list(names), len(names))
    while True:
        generator.shuffle(others)
        order = [first, *others]
        # From A B C D on: D A B C, C D A B, B C D A, and then A again.
        for at in range(len(order), 0, -1):
            yield tuple(order[at % len(order) :] + order[: at % len(order)])
