# SPDX-License-Identifier: MIT
"""One guest of a group: what it was told, what it answered, how long it ran."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from kdyno.machines.machine import Clock, Plan, Session
from kdyno.measure.sampling import Rounds
from kdyno.suites import record
from kdyno.suites.record import Record

ANSWERS = (record.Turn, record.CaseError, record.Skip)
"""To a turn."""
WORD_S = 15.0
"""For an answer that takes no work."""


@dataclass
class Member:
    """A guest that takes turns with others. Whatever happens to it, the others go on."""

    plan: Plan
    session: Session
    clock: Clock
    started: str
    """UTC, ISO 8601."""
    rounds: dict[int, Rounds] = field(default_factory=dict)
    """Case, by its place in the job → what was measured."""
    lost: bool = False
    """It died, or did not answer: no further order."""
    ready: bool = False
    """The case that was begun waits for turns."""
    ran_s: float = 0.0
    """Time in its turns, lead-ins included; not in those that only warm up or calibrate."""
    cpu_ns: int = 0
    """Of the last turn, its hand-over included; 0: not known. Of a frozen one only to a tick."""
    _heard: deque[Record] = field(default_factory=deque)

    @property
    def name(self) -> str:
        return self.plan.variant

    def send(self, order: str, limit_s: float) -> None:
        """What it said before is not an answer to this."""
        self._listen()
        self._heard.clear()
        self.session.send(order, limit_s)

    def hear(self, *wanted: type[Record], until_s: float = math.inf) -> Record | None:
        """The next record of these types; None where it has none to give, or by ``until_s``.

        An error or skip ends the case that is running; the guest's end loses it.
        """
        while True:
            self._listen()
            while self._heard:
                one = self._heard.popleft()
                if isinstance(one, wanted):
                    return one
            if self.lost or self.session.ended:
                self.lost = True
                return None
            if self.clock.now_s() >= until_s:
                return None
            self.clock.wait(until_s)

    def _listen(self) -> None:
        for one in self.session.records():
            if isinstance(one, record.CaseError | record.Skip):
                self.ready = False
            elif isinstance(one, record.Fatal):
                self.lost = True
            self._heard.append(one)

    def begin(self, index: int, limit_s: float) -> None:
        """Set the case up; afterwards ``ready`` says whether it takes turns."""
        self.ready = False
        self.send(f"begin {index}", limit_s)
        said = self.hear(record.Ready, record.CaseError, record.Skip)
        self.ready = isinstance(said, record.Ready)
        self.session.meter()

    def turn(self, lead: int, operations: int, limit_s: float) -> int | None:
        """One turn; its nanoseconds by the guest's clock, None where there was no answer."""
        self.take_turn(lead, operations, limit_s)
        return self.took()

    def take_turn(self, lead: int, operations: int, limit_s: float) -> None:
        """Until it is over; ``took`` is to be called next, and may be so after others' turns."""
        self._listen()
        self._heard.clear()
        before_ns = self.session.cpu_ns()
        if not self.session.ask(f"turn {lead} {operations}", limit_s):
            said = self.hear(*ANSWERS)
            if said is not None:
                self._heard.appendleft(said)
        self.cpu_ns = max(0, self.session.cpu_ns() - before_ns)

    def took(self) -> int | None:
        """Nanoseconds of the turn that it took."""
        said = self.hear(*ANSWERS)
        return said.ns if isinstance(said, record.Turn) else None

    def end(self, limit_s: float) -> None:
        """The case is over."""
        if self.ready and not self.lost:
            self.send("end", limit_s)
            self.hear(record.Done, record.CaseError, record.Skip)
        self.ready = False

    def whole(self, index: int, limit_s: float) -> None:
        """The case from its beginning to its end, as in a boot of its own."""
        self.send(f"case {index}", limit_s)
        self.hear(record.Sample, record.CaseError, record.Skip)
