# SPDX-License-Identifier: MIT
"""Guests that are alive together and do the same fixed work, in turns: for what is subtracted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from kdyno.machines.machine import Machine, Outcome, Plan
from kdyno.measure.turns import (
    LONGEST_S,
    TURN_S,
    Member,
    Size,
    begin_case,
    frozen_turns,
    orders,
    together,
    turns,
)
from kdyno.suites.job import CaseJob

_FEW = 10
"""Operations in all, of a case of which a single one takes a tenth of a second or more."""


def run(
    machine: Machine,
    plans: Sequence[Plan],
    seed: str,
    why_whole: Callable[[CaseJob], str],
) -> Mapping[str, Outcome]:
    """Start the plans in this order, do every case's operations in turns; variant → outcome.

    All plans have the same cases, each with its number of operations. A case that takes no turns
    (``why_whole`` says why) is done whole, one guest after the other.
    """

    def work(members: Sequence[Member]) -> None:
        for index, job in enumerate(plans[0].job.cases):
            _case(members, index, job, f"{seed}:{job.suite}/{job.case}", bool(why_whole(job)))

    _, outcomes = together(machine, plans, work)
    return {plan.variant: outcome for plan, outcome in zip(plans, outcomes, strict=True)}


def _case(members: Sequence[Member], index: int, job: CaseJob, seed: str, whole: bool) -> None:
    alive = begin_case(members, index, job, seed, whole=whole)
    if not alive:
        return
    by_name = {member.name: member for member in alive}
    sizes = _Sizes(job.operations or 1)
    rounds = orders(f"{seed}:turns", sorted(by_name))
    for operations, order in zip(sizes, rounds, strict=False):
        present = [by_name[name] for name in order if by_name[name].ready]
        # How long the first one takes is not known; where there are few, they are long.
        long = sizes.each_s * operations > LONGEST_S
        frozen = long if sizes.each_s else (job.operations or 1) <= _FEW
        size = Size(operations, 0.0, job.timeout_s)
        took = frozen_turns(present, size) if frozen else turns(present, size)
        if not took:
            break
        sizes.each_s = min(took.values()) / 1e9 / operations
    for member in alive:
        member.end(job.timeout_s)


class _Sizes:
    """Operations of one turn after the other, until all are done: one first, then as many as a
    turn's time holds by what the last round took."""

    def __init__(self, operations: int) -> None:
        self._left = operations
        self._last = 0
        self.each_s = 0.0
        """Of one operation, in the last round; 0 before the first."""

    def __iter__(self) -> Iterator[int]:
        while self._left:
            wanted = TURN_S / self.each_s if self.each_s else 1.0
            # What was timed at first may have been an interruption, or a clock's tick.
            self._last = max(1, min(self._left, int(wanted), 10 * self._last or 1))
            self._left -= self._last
            yield self._last
