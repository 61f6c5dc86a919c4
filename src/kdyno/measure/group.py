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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from kdyno.judge.flags import disturbances
from kdyno.machines.machine import Alive, Machine, Outcome, Plan
from kdyno.measure import rounds
from kdyno.measure.bench import Bench, console_of, job_of, now, plan_of
from kdyno.measure.member import WORD_S, Member
from kdyno.measure.sampling import Rounds, load_flags, samples_of
from kdyno.measure.turn import Size, frozen_turns, turns
from kdyno.store.boot import BootFlag, BootRecord
from kdyno.suites import record
from kdyno.suites.catalogue import Case
from kdyno.suites.job import CaseJob

_CALIBRATING = 12
"""Turns that may go into finding out how many operations a turn has."""
_WAITS = 4
"""Of them, that are taken again because the guest waited for the CPU."""
_SHORT_NS = 100_000_000
"""A turn that is cheap to take again."""
_WARM = 1
"""Rounds of a case that are not measured."""


@dataclass(frozen=True)
class Effort:
    """How much a group does of each case."""

    seconds: Mapping[tuple[str, str], float]
    """(suite, case) → seconds of timed turns of each guest."""


@dataclass(frozen=True)
class Measured:
    """What a group gave: a record and a console for every guest, in the order of their start."""

    boots: tuple[tuple[BootRecord, bytes], ...]
    wall_s: float


def measure(
    bench: Bench,
    order: Sequence[str],
    seed: str,
    *,
    first_index: int,
    block: int,
    draw: int,
    layout: int = 0,
    effort: Effort,
    show: Callable[[str], None] = lambda _case: None,
) -> Measured:
    """Start the variants in this order, let them take turns in every case, end them.

    Guests that fail have a record that says so; those that are left still give their pairs.
    """
    lacking = bench.equipment.lacking or ("",) * len(bench.jobs)
    able = [
        (case, job)
        for case, job, why in zip(bench.cases, bench.jobs, lacking, strict=True)
        if not why
    ]

    def work(members: Sequence[Member]) -> None:
        with beside_no_turn(bench.placement.guest):
            # What a case finds in caches and allocators is what the one before it left.
            for index in random.Random(f"{seed}:cases").sample(range(len(able)), len(able)):
                case, job = able[index]
                show(case.name)
                _case(members, index, case, job, f"{seed}:{case.suite}/{case.name}", effort)

    clock = bench.machine.clock
    began_s, own_s = clock.now_s(), time.process_time()
    plans = [plan_of(bench, name, turns=True, draw=draw, layout=layout) for name in order]
    members, outcomes = together(bench.machine, plans, work)
    wall_s = clock.now_s() - began_s
    own_s = time.process_time() - own_s
    made = _records(bench, members, outcomes, first_index, block, wall_s, own_s)
    return Measured(tuple(made), wall_s)


def together(
    machine: Machine, plans: Sequence[Plan], work: Callable[[Sequence[Member]], None]
) -> tuple[list[Member], list[Outcome]]:
    """Start guests in this order, have ``work`` done by them while all are alive, end them.

    What came of each is in the same order; whatever happens, none is left.
    """
    members: list[Member] = []
    with Alive(machine.clock) as alive:
        for plan in plans:
            session = alive.add(machine.open(plan))
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
    """kdyno on the guests' own CPUs: it works between turns, when they do not.

    A hand-over is a switch of processes there, and not the waking of a CPU that sleeps, which a
    virtual machine pays twice for; and whatever shares a core with the guests has peace from us.
    No garbage is looked for meanwhile: that goes through all of kdyno's memory, between two turns.
    """
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


def begun(
    members: Sequence[Member], index: int, job: CaseJob, seed: str, *, whole: bool
) -> list[Member]:
    """The guests that are alive, in random order, each told to begin the case.

    ``whole``: it takes no turns and is done by one after the other; nobody has turns to take then.
    """
    by_name = {member.name: member for member in members if not member.lost}
    order = next(rounds.orders(seed, [member.name for member in members]))
    alive = [by_name[name] for name in order if name in by_name]
    for member in alive:
        if whole:
            member.whole(index, job.timeout_s + WORD_S)
        else:
            member.begin(index, job.timeout_s)
    return [] if whole else alive


def _case(
    members: Sequence[Member], index: int, case: Case, job: CaseJob, seed: str, effort: Effort
) -> None:
    alive = begun(members, index, job, seed, whole=bool(rounds.why_whole(case)))
    ready = [member for member in alive if member.ready]
    seconds = effort.seconds.get((case.suite, case.name), job.seconds or 0.5)
    size = _calibrated(ready, job)
    if size is not None:
        _rounds(ready, index, seed, seconds, size)
    for member in alive:
        member.end(job.timeout_s)


def _calibrated(ready: Sequence[Member], job: CaseJob) -> Size | None:
    """Operations of a turn, from unmeasured turns of all guests, each alone on the machine.

    One number for all, by their geometric mean: that of a single guest would be another in each
    group where kernels differ by a factor, and with it the weight of a turn's cold beginning. None
    where no guest is left that answers.
    """
    operations, each_ns = job.operations or 1, []
    for member in ready:
        found = _calibrated_by(member, job, operations)
        if found is not None:
            operations = job.operations or found[0]
            each_ns.append(found[1])
    if not each_ns:
        return None
    mean_ns = statistics.geometric_mean(each_ns)
    operations = job.operations or max(1, round(rounds.TURN_S * 1e9 / mean_ns))
    turn_s = operations * mean_ns / 1e9
    lead = 0 if turn_s > rounds.LONGEST_S else round(rounds.LEAD * operations)
    limit_s = max(job.timeout_s, 100 * operations * max(each_ns) / 1e9)
    return Size(operations, lead, turn_s, limit_s, job.work)


def _calibrated_by(member: Member, job: CaseJob, operations: int) -> tuple[int, float] | None:
    """(operations that were enough, ns of one), beginning with so many; None: no answer.

    The cheapest turn counts: one that was interrupted would make the operation look slow.
    """
    best_ns, short_ns, waits = math.inf, math.inf, 0
    for _ in range(_CALIBRATING):
        ns = member.turn(0, operations, job.timeout_s)
        if ns is None:
            return None
        if job.operations or ns >= rounds.TURN_S * 5e8:
            # Nothing shorter counts: a clock may know nothing but its ticks.
            best_ns = min(best_ns, ns / operations)
            waited = 0 < member.cpu_ns < ns < _SHORT_NS
            if job.operations or not waited or waits == _WAITS:
                break
            waits += 1
            continue
        short_ns = ns / operations
        operations = max(1, int(min(rounds.TURN_S * 1e9 / short_ns, 10 * operations)))
    return operations, short_ns if best_ns == math.inf else best_ns


def _rounds(ready: Sequence[Member], index: int, seed: str, seconds: float, size: Size) -> None:
    count, warm = max(rounds.LEAST_LONG, round(seconds / size.turn_s)), 0
    if not size.frozen:
        count, warm = min(rounds.MOST, max(rounds.LEAST, count)), _WARM
        count += -count % len(ready)  # each as often at every position
    by_name = {member.name: member for member in ready}
    taken: dict[str, list[tuple[int, int]]] = {name: [] for name in by_name}
    cpu_ns: dict[str, list[int]] = {name: [] for name in by_name}
    for number, order in enumerate(
        islice(rounds.orders(f"{seed}:turns", sorted(by_name)), count + warm)
    ):
        present = [by_name[name] for name in order if by_name[name].ready]
        took = frozen_turns(present, size) if size.frozen else turns(present, size)
        for name, ns in took.items():
            if number >= warm:
                taken[name].append((size.operations * size.work, ns))
                cpu_ns[name].append(by_name[name].cpu_ns)
                by_name[name].ran_s += ns / 1e9 * (1 + size.lead / size.operations)
        if len([member for member in ready if member.ready and not member.lost]) < 1:
            break
    for member in ready:
        if member.ready:
            done = tuple(taken[member.name])
            way: Literal["turns", "frozen"] = "frozen" if size.frozen else "turns"
            member.rounds[index] = Rounds(way, done, tuple(cpu_ns[member.name]))


def _records(
    bench: Bench,
    members: Sequence[Member],
    outcomes: Sequence[Outcome],
    first_index: int,
    block: int,
    wall_s: float,
    kdyno_s: float,
) -> list[tuple[BootRecord, bytes]]:
    # What ran on the guests' CPUs beside one guest were mostly the others of its group, and kdyno,
    # which sits there between turns.
    group_s = kdyno_s + sum((it.host.user_s or 0.0) + (it.host.sys_s or 0.0) for it in outcomes)
    made = []
    for at, (member, outcome) in enumerate(zip(members, outcomes, strict=True)):
        host = outcome.host
        own_s = (host.user_s or 0.0) + (host.sys_s or 0.0)
        after = dict(host.after)
        others_s = after.get("guest_cpus_others_s")
        if isinstance(others_s, int | float):
            after["guest_cpus_others_s"] = round(max(0.0, others_s - (group_s - own_s)), 3)
        samples = samples_of(
            bench.cases, outcome.transcript, bench.equipment.lacking, member.rounds
        )
        host = host.model_copy(
            update={
                "after": after,
                "group_s": wall_s,
                "inside_s": member.ran_s,
                "boot_overhead_s": None,
            }
        )
        flags: tuple[BootFlag, ...] = (
            *host.flags,
            *disturbances(host),
            *load_flags(samples),
        )
        host = host.model_copy(update={"flags": flags})
        job = job_of(bench, member.plan, outcome, first_index + at, block, member.started)
        made.append((BootRecord(job=job, host=host, samples=samples), console_of(outcome)))
    return made
