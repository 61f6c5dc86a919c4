# SPDX-License-Identifier: MIT
"""A group: one guest of every variant, all alive at once, of which one works at a time.

What a shared machine does changes within seconds. Guests that take turns of a few milliseconds
see the same machine, and their ratios within a round say what the kernels differ by.
"""

from __future__ import annotations

import gc
import math
import os
import random
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from kdyno.machines.machine import Alive, Machine, Plan
from kdyno.machines.process import ANSWERS, Events, Outcome, Session
from kdyno.measure.bench import Bench
from kdyno.measure.boot import Rounds, now, record_of
from kdyno.store.boot import BootRecord
from kdyno.suites import protocol as record
from kdyno.suites.catalogue import Case
from kdyno.suites.job import CaseJob
from kdyno.suites.protocol import Record

TURN_S = 0.004
"""Aimed at. Shorter follows a restless machine better and costs more hand-overs."""
LONGEST_S = 0.025
"""A case whose single operation takes longer is handed over in the middle of it, by freezing."""
SLICE_S = 0.010
"""Of a frozen turn."""
LEAST, MOST = 8, 400
"""Rounds of a case in a group."""
LEAST_LONG = 2
"""The same of frozen turns, which may take seconds: with one nobody could tell what is within a
group from what is between groups, and so how many would be best."""
WORD_S = 15.0
"""For an answer that takes no work."""
_CALIBRATING = 12
"""Turns that may go into finding out how many operations a turn has."""
_WAITS = 4
"""Of them, that are taken again because the guest waited for the CPU."""
_SHORT_NS = 100_000_000
"""A turn that is cheap to take again."""
_WARM = 1
"""Rounds of a case that are not measured."""


# One guest.


@dataclass
class Member:
    """A guest that takes turns with others. Whatever happens to it, the others go on."""

    plan: Plan
    session: Session
    clock: Events
    started: str
    """UTC, ISO 8601."""
    rounds: dict[int, Rounds] = field(default_factory=dict)
    """Case, by its place in the job → what was measured."""
    lost: bool = False
    """It died, or did not answer: no further order."""
    ready: bool = False
    """The case that was begun waits for turns."""
    ran_s: float = 0.0
    """Time in its turns; not in those that only warm up or calibrate."""
    cpu_ns: int = 0
    """Of the last turn, its hand-over included; 0: not known. Of a frozen one only to a tick."""
    marks: bool = False
    """The case marks what is timed of a turn, and so has said something before its end."""
    whole_s: float = 0.0
    """Of the last turn that was waited for alone, with what is not timed of it."""
    _records: deque[Record] = field(default_factory=deque)

    @property
    def name(self) -> str:
        return self.plan.variant

    def send(self, order: str, limit_s: float) -> None:
        """What it sent before is not an answer to this."""
        self._listen()
        self._records.clear()
        self.session.send(order, limit_s)

    def hear(self, *types: type[Record], until_s: float = math.inf) -> Record | None:
        """The next record of these types; None where it has none to give, or by ``until_s``. An
        error or skip ends the case that is running; the guest's end loses it."""
        while True:
            self._listen()
            while self._records:
                one = self._records.popleft()
                if isinstance(one, types):
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
            elif isinstance(one, record.Mark):
                self.marks = True
            elif isinstance(one, record.Fatal):
                self.lost = True
            self._records.append(one)

    def begin(self, index: int, limit_s: float) -> None:
        """Set the case up; afterwards ``ready`` says whether it takes turns."""
        self.ready = self.marks = False
        self.send(f"begin {index}", limit_s)
        answer = self.hear(*ANSWERS["begin"])
        self.ready = isinstance(answer, record.Ready)
        self.session.meter()

    def take_turn(self, operations: int, limit_s: float) -> None:
        """One turn; ``took`` is to be called next, and may be so after others' turns."""
        self._listen()
        self._records.clear()
        before_ns = self.session.cpu_ns()
        # The guest takes an unmeasured lead-in too. There is none: measured, it made turns longer
        # and groups differ more (docs/how-it-measures.md).
        answered = self.session.ask(f"turn 0 {operations}", limit_s)
        if (self.marks or not answered) and (answer := self.hear(*ANSWERS["turn"])) is not None:
            self._records.appendleft(answer)
        self.cpu_ns = max(0, self.session.cpu_ns() - before_ns)

    def took(self) -> int | None:
        """The turn's nanoseconds by the guest's clock; None where there was no answer, or one of no
        time: that is of a turn without operations, which nobody ordered."""
        answer = self.hear(*ANSWERS["turn"])
        return (answer.ns or None) if isinstance(answer, record.Turn) else None

    def end(self, limit_s: float) -> None:
        if self.ready and not self.lost:
            self.send("end", limit_s)
            self.hear(*ANSWERS["end"])
        self.ready = False

    def whole(self, index: int, limit_s: float) -> None:
        """The case from its beginning to its end, as in a boot of its own."""
        self.send(f"case {index}", limit_s)
        self.hear(*ANSWERS["case"])


# One turn of each guest: short ones one after the other, long ones in slices.


@dataclass(frozen=True)
class Size:
    """Of a turn, the same for all guests of a group."""

    operations: int
    turn_s: float
    limit_s: float
    whole_s: float = 0.0
    """With what a command does before and after what it marks as timed."""
    work: int = 1
    """Of what the figure counts, in one operation."""

    @property
    def frozen(self) -> bool:
        """It is too long to be waited for."""
        return self.turn_s > LONGEST_S


def turns(present: Sequence[Member], size: Size) -> dict[str, int]:
    """One turn of each, one after the other; name → ns. Answers are looked at when all had theirs:
    between turns, in the guests' caches, that takes ten times longer."""
    for member in present:
        member.take_turn(size.operations, size.limit_s)
    took = {member.name: ns for member in present if (ns := member.took()) is not None}
    for member in present:
        member.ready = member.ready and member.name in took
    return took


def frozen_turns(present: Sequence[Member], size: Size) -> dict[str, int]:
    """One long turn of each, all begun together; who is not at work is stopped. Name → ns. By the
    host's clock: a frozen guest's own jumps over the gaps. Where a command marks what is to be
    timed of it, that."""
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
                if isinstance(turn.slice(), record.Turn):
                    timed_s, cpu_s = turn.timed()
                    took[member.name] = max(1, round(timed_s * 1e9))
                    member.cpu_ns = max(0, round(cpu_s * 1e9))
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
    """A turn in slices, by the host's clock."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self._ran_s, self._used_s = 0.0, member.session.used_s()
        self._marks: list[tuple[bool, float, float]] = []
        """Whether what is timed begins or ends; seconds and CPU seconds by then."""

    def timed(self) -> tuple[float, float]:
        """Seconds, and CPU seconds of the guest's processes, of what is timed of it."""
        spans, begun = [], (0.0, self._used_s)
        for begins, *at in self._marks:
            if begins:
                begun = (at[0], at[1])
            else:
                spans.append((at[0] - begun[0], at[1] - begun[1]))
        if not spans:
            spans = [(self._ran_s, self.member.session.used_s() - self._used_s)]
        return sum(ran_s for ran_s, _ in spans), sum(used_s for _, used_s in spans)

    def slice(self) -> Record | None:
        """Let it go on for a slice. Its answer; None where it has none yet."""
        clock = self.member.clock
        began_s = clock.now_s()
        until_s = began_s + SLICE_S
        self.member.session.resume()
        while True:
            answer = self.member.hear(*ANSWERS["turn"], record.Mark, until_s=until_s)
            now_s = clock.now_s()
            self._ran_s += now_s - began_s
            began_s = now_s
            if not isinstance(answer, record.Mark):
                return answer
            self._marks.append((bool(answer.begins), self._ran_s, self.member.session.used_s()))


# The rounds of a case.


def why_whole(case: Case) -> str:
    """Why a case is not measured by turns but whole, one guest after the other; empty: it is.
    Whoever gives such a case's ``work`` says that its figure is not needed, and that it does not
    wait for its disk."""
    if case.figure is not None and not case.work:
        return "its figure is what the program says, by a clock that jumps when a guest is frozen"
    if case.disk_bytes and not case.work:
        return "its disk is the host's, which goes on writing in the others' turns"
    if case.bench == "contend":
        return "its processes compute in the others' turns, and its figure is not the time it takes"
    return ""


def orders(seed: str, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Endless rounds, balanced; they depend on nothing but the seed. After every len(names) of them
    each name was once at every position, and each followed on every other and on itself as often: a
    guest that makes the next one slower does so to all alike, and no ratio moves. Such orders are
    called serially balanced (Finney & Outhwaite, 1956)."""
    generator = random.Random(seed)
    first, *others = generator.sample(list(names), len(names))
    while True:
        generator.shuffle(others)
        order = [first, *others]
        # From A B C D on: D A B C, C D A B, B C D A, and then A again.
        for at in range(len(order), 0, -1):
            yield tuple(order[at % len(order) :] + order[: at % len(order)])


def begin_case(
    members: Sequence[Member], index: int, job: CaseJob, seed: str, *, whole: bool
) -> list[Member]:
    """The guests that are alive, in random order, each told to begin the case. ``whole``: it takes
    no turns and is done by one after the other; nobody has turns to take then."""
    by_name = {member.name: member for member in members if not member.lost}
    order = next(orders(seed, [member.name for member in members]))
    alive = [by_name[name] for name in order if name in by_name]
    for member in alive:
        if whole:
            member.whole(index, job.timeout_s + WORD_S)
        else:
            member.begin(index, job.timeout_s)
    return [] if whole else alive


def calibrated(ready: Sequence[Member], job: CaseJob) -> Size | None:
    """Operations of a turn, from unmeasured turns of all guests, each alone on the machine. One
    number for all, by their geometric mean: a single guest's would be another in each group where
    kernels differ by a factor. None where no guest is left that answers."""
    operations, each_ns = job.operations or 1, []
    for member in ready:
        if (result := _calibrated_by(member, job, operations)) is not None:
            operations = job.operations or result[0]
            each_ns.append(result[1])
    if not each_ns:
        return None
    mean_ns = statistics.geometric_mean(each_ns)
    operations = job.operations or max(1, round(TURN_S * 1e9 / mean_ns))
    limit_s = max(job.timeout_s, 100 * operations * max(each_ns) / 1e9)
    turn_s = operations * mean_ns / 1e9
    whole_s = max((member.whole_s for member in ready if member.marks), default=turn_s)
    return Size(operations, turn_s, limit_s, whole_s, job.work)


def _calibrated_by(member: Member, job: CaseJob, operations: int) -> tuple[int, float] | None:
    """(operations that were enough, ns of one), beginning with so many; None: no answer. The
    cheapest turn counts: one that was interrupted would make the operation look slow."""
    best_ns, short_ns, waits = math.inf, math.inf, 0
    for _ in range(_CALIBRATING):
        began_s = member.clock.now_s()
        member.take_turn(operations, job.timeout_s)
        if (ns := member.took()) is None:
            return None
        member.whole_s = member.clock.now_s() - began_s
        # The guest's word, but it cannot have taken longer than was waited for it.
        ns = min(ns, max(1, round(member.whole_s * 1e9)))
        if job.operations or ns >= TURN_S * 5e8:
            # Nothing shorter counts: a clock may know nothing but its ticks.
            best_ns = min(best_ns, ns / operations)
            waited = 0 < member.cpu_ns < ns < _SHORT_NS
            if job.operations or not waited or waits == _WAITS:
                break
            waits += 1
            continue
        short_ns = ns / operations
        operations = max(1, int(min(TURN_S * 1e9 / short_ns, 10 * operations)))
    return operations, short_ns if best_ns == math.inf else best_ns


def _take_rounds(
    ready: Sequence[Member], index: int, seed: str, seconds: float, size: Size
) -> None:
    # Of a long command whose timed part is short, no more turns than there is time for.
    turn_s = size.turn_s if size.frozen else max(size.turn_s, size.whole_s)
    count, warm = max(LEAST_LONG, round(seconds / turn_s)), 0
    if not size.frozen:
        if turn_s <= LONGEST_S:
            count, warm = min(MOST, max(LEAST, count)), _WARM
        count += -count % len(ready)  # each as often at every position
    by_name = {member.name: member for member in ready}
    rounds = {name: Rounds("frozen" if size.frozen else "turns") for name in by_name}
    names = sorted(by_name)
    # What is not measured has no part in the balance of what is.
    first = islice(orders(f"{seed}:warm", names), warm)
    series = chain(first, islice(orders(f"{seed}:turns", names), count))
    for number, order in enumerate(series):
        present = [by_name[name] for name in order if by_name[name].ready]
        took = frozen_turns(present, size) if size.frozen else turns(present, size)
        for name, ns in took.items() if number >= warm else ():
            rounds[name].turns.append((size.operations * size.work, ns))
            rounds[name].cpu_ns.append(by_name[name].cpu_ns)
            by_name[name].ran_s += ns / 1e9
        if not any(member.ready and not member.lost for member in ready):
            break
    for member in ready:
        if member.ready:
            member.rounds[index] = rounds[member.name]


# A group.

Effort = Mapping[tuple[str, str], float]
"""(suite, case) → seconds of timed turns of each guest in a group."""


def together(
    machine: Machine, plans: Sequence[Plan], work: Callable[[Sequence[Member]], None]
) -> tuple[list[Member], list[Outcome]]:
    """Start guests in this order, have ``work`` done by them while all are alive, end them. Their
    outcomes are in the same order; whatever happens, none is left."""
    members: list[Member] = []
    with Alive(machine.clock) as alive:
        for plan in plans:
            alive.sessions.append(session := machine.open(plan))
            members.append(Member(plan, session, machine.clock, now()))
        for member in members:
            member.hear(record.Hello)
        work(members)
        for member in members:
            member.send("bye", WORD_S)
        alive.until_ended()
    return members, alive.outcomes


@contextmanager
def beside_no_turn(cpus: frozenset[int]) -> Iterator[None]:
    """kdyno on the guests' own CPUs: it works between turns, when they do not. A hand-over is a
    switch of processes there, and not the waking of a CPU that sleeps, which a virtual machine pays
    twice for. No garbage is collected meanwhile, between two turns."""
    before = os.sched_getaffinity(0)
    collecting = gc.isenabled()
    os.sched_setaffinity(0, cpus)
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        os.sched_setaffinity(0, before)


def measure(
    bench: Bench,
    plans: Sequence[Plan],
    seed: str,
    *,
    first_index: int,
    effort: Effort,
    show: Callable[[str], None] = lambda _case: None,
) -> list[tuple[BootRecord, bytes]]:
    """Start guests in this order, let them take turns in every case, end them; a record and a
    console for every guest. Guests that fail have a record that says so; those that are left still
    give their pairs."""

    def work(members: Sequence[Member]) -> None:
        cases = list(enumerate(bench.runnable_cases))
        with beside_no_turn(bench.placement.guest):
            # What a case finds in caches and allocators is what the one before it left.
            for index, (case, job) in random.Random(f"{seed}:cases").sample(cases, len(cases)):
                show(case.name)
                own = f"{seed}:{case.suite}/{case.name}"
                alive = begin_case(members, index, job, own, whole=bool(why_whole(case)))
                ready = [member for member in alive if member.ready]
                if (size := calibrated(ready, job)) is not None:
                    seconds = effort.get((case.suite, case.name), job.seconds or 0.5)
                    _take_rounds(ready, index, own, seconds, size)
                for member in alive:
                    member.end(job.timeout_s)

    clock = bench.machine.clock
    began_s, own_s = clock.now_s(), time.process_time()
    members, outcomes = together(bench.machine, plans, work)
    wall_s, own_s = clock.now_s() - began_s, time.process_time() - own_s
    return records_of(bench, members, outcomes, first_index, wall_s, own_s)


def records_of(
    bench: Bench,
    members: Sequence[Member],
    outcomes: Sequence[Outcome],
    first_index: int,
    wall_s: float,
    kdyno_s: float,
) -> list[tuple[BootRecord, bytes]]:
    """For the store. kdyno_s: CPU seconds of kdyno itself while the group was alive."""
    # What ran on the guests' CPUs beside one guest were mostly the others of its group, and kdyno,
    # which sits there between turns.
    own_s = [(outcome.host.user_s or 0.0) + (outcome.host.sys_s or 0.0) for outcome in outcomes]
    complete = all(outcome.host.user_s is not None for outcome in outcomes)
    records = []
    for at, (member, outcome) in enumerate(zip(members, outcomes, strict=True)):
        after = dict(outcome.host.after)
        others_s = after.pop("guest_cpus_others_s", None)
        if complete and isinstance(others_s, int | float):
            others_s -= kdyno_s + sum(own_s) - own_s[at]
            after["guest_cpus_others_s"] = round(max(0.0, others_s), 3)
        update = {"after": after, "group_s": wall_s, "inside_s": member.ran_s}
        host = outcome.host.model_copy(update={**update, "boot_overhead_s": None})
        own = replace(outcome, host=host)
        index = first_index + at
        records.append(record_of(bench, member.plan, own, index, member.started, member.rounds))
    return records
