# SPDX-License-Identifier: MIT
"""A machine in memory: a clock of its own, scores by a given rule, and faults to order.

With it everything that measures is tested without a kernel, in milliseconds. What its guests say
goes through the same reader as the words of real ones.
"""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from kdyno.errors import ToolError
from kdyno.machines.machine import Can, Footprint, Machine, Plan
from kdyno.machines.process import Listener, Outcome
from kdyno.store.boot import BootHost
from kdyno.store.verdict import Flag
from kdyno.suites.protocol import Reader, Record

BOOT_S = 0.2
HAND_OVER_S = 0.0002
"""Of CPU time, beside what a turn does."""
_NONCE = "0" * 32

Rule = Callable[[str, str, float], float]
"""(variant, case, the clock) → seconds of one operation."""


@dataclass(frozen=True)
class Fault:
    """What a guest does instead of its work."""

    kind: str
    """boot: dies before its first word; die: in a case; silent: never answers in a case; forge:
    says a result of its own that nobody signed; error: the case fails, the guest goes on; idle:
    says that it did nothing, in no time; jump: its clock is put on by ten minutes in a turn that
    counts."""
    case: int = 0


class FakeClock:
    """Time passes only while somebody waits, and then at once."""

    def __init__(self) -> None:
        self._now_s = 1000.0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self.sessions: list[FakeSession] = []

    def close(self) -> None:
        """It holds nothing."""

    def now_s(self) -> float:
        return self._now_s

    def at(self, when_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (when_s, next(self._numbers), call))

    def wait(self, until_s: float = math.inf) -> None:
        """To the next thing that happens. ToolError where nothing ever would."""
        next_s = self._queue[0][0] if self._queue else math.inf
        due_s = min(
            (session.due_s() for session in self.sessions if not session.ended), default=math.inf
        )
        then_s = min(next_s, due_s, until_s)
        if then_s == math.inf:
            raise ToolError("nothing is left that could happen: somebody waits for ever")
        self._now_s = max(self._now_s, then_s)
        if next_s <= then_s:
            heapq.heappop(self._queue)[2]()
        for session in tuple(self.sessions):
            if not session.ended and session.due_s() <= self._now_s:
                session.stop("timeout")


@dataclass
class FakeMachine(Machine):
    """faults: variant → number of its boot → what it does then; boots count from 0."""

    rule: Rule
    faults: Mapping[str, Mapping[int, Fault]] = field(default_factory=dict)
    can: Can = field(default_factory=Can)
    memory: Footprint = field(default_factory=lambda: Footprint(1 << 20, 1 << 40))
    waits: Callable[[float], float] = lambda _now_s: 0.0
    """The clock → seconds in which somebody else has the CPU in the turn that begins."""
    around_s: float = 0.0
    """What a turn does before and after what it marks as timed; 0: it marks nothing."""
    ends_marks: bool = True
    """It says where what is timed ends, and not only where it begins."""
    awake: float = 1.0
    """Share of its working time in which a guest's processes have the CPU."""
    places: Mapping[str, str] | None = field(default_factory=dict)
    clock: FakeClock = field(default_factory=FakeClock)
    opened: list[str] = field(default_factory=list)
    """Variants in the order in which their guests were started."""
    draws: list[int] = field(default_factory=list)
    """What was drawn for each of them."""
    turned: list[tuple[str, str, int]] = field(default_factory=list)
    """(variant, case, operations) of every turn, in the order in which they began."""
    pauses: Counter[str] = field(default_factory=Counter)
    """Variant → how often its guests were stopped."""

    def caveats(self) -> tuple[Flag, ...]:
        return (Flag(kind="machine", text="made up"),)

    def identity(self, variant: str) -> str:
        return f"digest of {variant}"

    def described(self, variant: str) -> dict[str, Any]:
        return {"digest": self.identity(variant)}

    def footprint(self) -> Footprint:
        return self.memory

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> FakeSession:
        number = self.opened.count(plan.variant)
        self.opened.append(plan.variant)
        self.draws.append(plan.draw)
        fault = self.faults.get(plan.variant, {}).get(number)
        session = FakeSession(self, plan, fault, listener)
        self.clock.sessions.append(session)
        return session


class FakeSession:
    """One guest. It works on one thing at a time; what it works on stands still while paused."""

    def __init__(
        self, machine: FakeMachine, plan: Plan, fault: Fault | None, listener: Listener
    ) -> None:
        self._machine, self._plan, self._fault = machine, plan, fault
        self._listener = listener
        self._clock = machine.clock
        self._reader = Reader(_NONCE, len(plan.job.cases))
        self._seq = count()
        self._said: list[Record] = []
        self._began_s = self._clock.now_s()
        self._due_s, self._case = math.inf, -1
        self._work: tuple[float, Callable[[], None]] | None = None
        self._since_s = self._began_s
        self._paused = False
        self._cpu_ns = 0
        self._reason = ""
        self.ended = False
        self._busy(BOOT_S, self._hello)

    def due_s(self) -> float:
        return math.inf if self._paused else self._due_s

    def send(self, order: str, limit_s: float = math.inf) -> None:
        if self.ended:
            return
        self._due_s = self._clock.now_s() + limit_s
        word, *rest = order.split()
        numbers = [int(text) for text in rest]
        if word == "begin":
            self._begin(numbers[0])
            self._busy(0.001, lambda: self._say("ready", case=self._case))
        elif word == "turn":
            self._turn(*numbers)
        elif word == "end":
            figures = {"user_ns": 1, "sys_ns": 1, "extra": {}}
            self._busy(0.0, lambda: self._say("done", case=self._case, **figures))
        elif word == "case":
            self._begin(numbers[0])
            self._whole(lambda: None)
        elif word == "bye":
            self._busy(0.0, self._bye)

    def records(self) -> list[Record]:
        message, self._said = self._said, []
        return message

    def meter(self) -> None:
        pass

    def cpu_ns(self) -> int:
        return self._cpu_ns

    def used_s(self) -> float:
        return self._machine.awake * self._cpu_ns / 1e9

    def pause(self) -> None:
        if not self._paused and not self.ended:
            self._paused = True
            self._machine.pauses[self._plan.variant] += 1
            if self._work is not None:
                left_s, call = self._work
                self._work = (left_s - (self._clock.now_s() - self._since_s), call)

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            if self._work is not None:
                self._busy(*self._work)

    def close(self) -> Outcome:
        if not self.ended:
            self.stop("closed")
        if self in self._clock.sessions:
            self._clock.sessions.remove(self)
        host = BootHost(
            status="failed" if self._reason else "ok",
            reason=self._reason,
            text=self._reason,
            wall_s=self._clock.now_s() - self._began_s,
            user_s=0.0,
            sys_s=0.0,
        )
        return Outcome(host, self._reader.finish(), b"made up\n", ("made-up", self._plan.variant))

    def stop(self, why: str) -> None:
        self.ended, self._reason, self._work = True, why, None

    def _hello(self) -> None:
        if self._is("boot"):
            return self.stop("panic")
        more = {"release": "r", "machine": "m", "word_bits": 64, "cpus": 1, "mem_kb": 1}
        self._say("hello", protocol=1, mono_ns=self._ns(), **more)
        if not self._plan.job.turns:
            self._next(0)
        return None

    def _next(self, case: int) -> None:
        if case == len(self._plan.job.cases):
            return self._bye()
        self._begin(case)
        self._whole(lambda: self._next(case + 1))
        return None

    def _begin(self, case: int) -> None:
        self._case = case
        if not self._plan.job.turns:
            self._due_s = self._clock.now_s() + self._plan.job.cases[case].timeout_s
        self._listener(self._plan.job.cases[case].case)
        self._say("begin", case=case, bench="made-up", mono_ns=self._ns())

    def ask(self, order: str, limit_s: float = math.inf) -> bool:
        self.send(order, limit_s)
        soon_s = self._clock.now_s() + 0.25
        while not self._said and not self.ended and self._clock.now_s() < soon_s:
            self._clock.wait(soon_s)
        return bool(self._said)

    def _turn(self, lead: int, operations: int) -> None:
        case = self._plan.job.cases[self._case].case
        self._machine.turned.append((self._plan.variant, case, lead + operations))
        if self._misbehaves(lambda: None):
            return
        each_s = self._each_s()
        waits_s = self._machine.waits(self._clock.now_s())
        ns = max(1, round((each_s * operations + waits_s) * 1e9))
        self._cpu_ns += round((each_s * (lead + operations) + HAND_OVER_S) * 1e9)
        if self._is("jump") and self._cpu_ns > 3e7:  # calibrated long since
            self._fault = None
            ns += 600 * 10**9

        def done() -> None:
            self._say("turn", case=self._case, operations=operations, ns=ns)

        self._marked(each_s * (lead + operations) + waits_s, done)

    def _marked(self, seconds: float, then: Callable[[], None]) -> None:
        around_s = self._machine.around_s
        if not around_s:
            return self._busy(seconds, then)

        def begins() -> None:
            self._say("mark", case=self._case, begins=1)
            self._busy(seconds, ends)

        def ends() -> None:
            if self._machine.ends_marks:
                self._say("mark", case=self._case, begins=0)
            self._busy(around_s, then)

        return self._busy(around_s, begins)

    def _whole(self, then: Callable[[], None]) -> None:
        if self._misbehaves(then):
            return
        job = self._plan.job.cases[self._case]
        # A rule by which an operation changes with time does so from part to part.
        parts_s = [self._each_s(0.001 * part) for part in range(5)]
        operations = max(1, job.operations or int((job.seconds or 0.5) / 5 / parts_s[0]))

        def done() -> None:
            more = {"user_ns": 1, "sys_ns": 1, "calibration_ns": 1, "extra": {}}
            reps = [[operations, max(1, round(each * operations * 1e9))] for each in parts_s]
            self._say("sample", case=self._case, reps=reps, mono_ns=self._ns(), **more)
            then()

        self._busy(sum(parts_s) * operations, done)

    def _misbehaves(self, then: Callable[[], None]) -> bool:
        if self._is("die"):
            self.stop("panic")
        elif self._is("idle"):
            self._say("turn", case=self._case, operations=0, ns=0)
        elif self._is("error"):
            self._say("error", case=self._case, reason="made to fail")
            then()
        elif self._is("forge"):
            forged = {"t": "turn", "n": "f" * 32, "seq": 99, "case": 0, "operations": 1, "ns": 1}
            self._feed(forged)
            return False
        elif not self._is("silent"):
            return False
        return True

    def _is(self, kind: str) -> bool:
        fault = self._fault
        where = kind == "boot" or (fault is not None and fault.case == self._case)
        return fault is not None and fault.kind == kind and where

    def _each_s(self, later_s: float = 0.0) -> float:
        case = self._plan.job.cases[self._case]
        return self._machine.rule(self._plan.variant, case.case, self._clock.now_s() + later_s)

    def _bye(self) -> None:
        self._say("bye", mono_ns=self._ns(), inside_ns=1)
        self.ended = True

    def _busy(self, seconds: float, call: Callable[[], None]) -> None:
        """``call`` after so many seconds of running."""
        self._work = work = (seconds, call)
        self._since_s = self._clock.now_s()

        def over() -> None:
            # Another work, or the same after a pause, has taken its place.
            if self._work is work and not self._paused and not self.ended:
                self._work = None
                call()

        if not self._paused:
            self._clock.at(self._since_s + seconds, over)

    def _say(self, kind: str, **fields: object) -> None:
        if kind != "begin":
            self._due_s = math.inf
        self._feed({"n": _NONCE, "seq": next(self._seq), "t": kind, **fields})

    def _feed(self, record: Mapping[str, object]) -> None:
        self._said += self._reader.feed(json.dumps(record).encode() + b"\n")

    def _ns(self) -> int:
        return round(self._clock.now_s() * 1e9)
