# SPDX-License-Identifier: MIT
"""One turn of each guest: short ones one after the other, long ones in slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kdyno.measure import rounds
from kdyno.measure.member import ANSWERS, Member
from kdyno.suites import record


@dataclass(frozen=True)
class Size:
    """Of a turn, the same for all guests of a group."""

    operations: int
    lead: int
    turn_s: float
    limit_s: float
    work: int = 1
    """Of what the figure counts, in one operation."""

    @property
    def frozen(self) -> bool:
        """It is too long to be waited for."""
        return self.turn_s > rounds.LONGEST_S


def turns(present: Sequence[Member], size: Size) -> dict[str, int]:
    """One turn of each, one after the other; name → ns.

    What they answered is looked at when all had theirs. A guest finds its caches full of what ran
    before it, and looking at an answer takes ten times longer there than it would elsewhere.
    """
    took = {}
    for member in present:
        member.take_turn(size.lead, size.operations, size.limit_s)
    for member in present:
        ns = member.took()
        if ns is None:
            member.ready = False
        else:
            took[member.name] = ns
    return took


def frozen_turns(present: Sequence[Member], size: Size) -> dict[str, int]:
    """One long turn of each, all begun together; who is not at work is stopped. Name → ns.

    By the host's clock: a frozen guest's own jumps over the gaps. Where a command marks what is to
    be timed of it, that.
    """
    took = {}
    working = []
    for member in present:
        member.session.pause()
        working.append(_Long(member))
        member.send(f"turn 0 {size.operations}", size.limit_s)
    try:
        while working:
            for turn in tuple(working):
                member = turn.member
                said = turn.slice()
                if isinstance(said, record.Turn):
                    took[member.name] = max(1, round(turn.timed_s * 1e9))
                    member.cpu_ns = max(0, round(turn.cpu_s * 1e9))
                elif not member.lost and member.ready:
                    member.session.pause()
                    continue
                else:
                    member.ready = False
                working.remove(turn)
    finally:
        for member in present:
            member.session.resume()
    return took


class _Long:
    """A turn in slices, and how much of them is timed, in seconds by the host's clock."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self._ran_s, self._used_s = 0.0, member.session.used_s()
        self._from_s, self._from_cpu_s = 0.0, self._used_s
        self._marked_s, self._marked_cpu_s = 0.0, 0.0
        self._marked = False

    @property
    def timed_s(self) -> float:
        return self._marked_s if self._marked else self._ran_s

    @property
    def cpu_s(self) -> float:
        """CPU time of the guest's processes in ``timed_s``."""
        if self._marked:
            return self._marked_cpu_s
        return self.member.session.used_s() - self._used_s

    def slice(self) -> record.Record | None:
        """Let it go on for a slice. Its answer; None where it has none yet."""
        clock = self.member.clock
        began_s = clock.now_s()
        until_s = began_s + rounds.SLICE_S
        self.member.session.resume()
        while True:
            said = self.member.hear(*ANSWERS, record.Mark, until_s=until_s)
            now_s = clock.now_s()
            self._ran_s += now_s - began_s
            began_s = now_s
            if not isinstance(said, record.Mark):
                return said
            self._mark(said)

    def _mark(self, mark: record.Mark) -> None:
        used_s = self.member.session.used_s()
        if mark.begins:
            self._from_s, self._from_cpu_s = self._ran_s, used_s
        else:
            self._marked = True
            self._marked_s += self._ran_s - self._from_s
            self._marked_cpu_s += used_s - self._from_cpu_s
