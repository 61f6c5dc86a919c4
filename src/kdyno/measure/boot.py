# SPDX-License-Identifier: MIT
"""Whole boots, from their plans to the records that are stored; and boots of fixed work.

Fixed work is the same operations in every boot of every variant, so that figures can be subtracted,
or counts compared: the baseline is booted once by time, and how often it did each case's operation
is the work of all.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from kdyno import deferred
from kdyno.errors import ToolError
from kdyno.machines.machine import Alive, Plan, run_to_end
from kdyno.machines.process import Listener, Outcome
from kdyno.measure.bench import COUNT_S, PARTS, Bench, plan_of
from kdyno.store.boot import BootFlag, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo
from kdyno.suites import protocol as record, score as figure
from kdyno.suites.catalogue import Case
from kdyno.suites.job import MOST_OPERATIONS, CaseJob, render
from kdyno.suites.protocol import Transcript
from kdyno.suites.score import score_of

_disturbances = deferred("kdyno.judge.flags:disturbances")  # after a boot
OUTPUT_KEPT = 4096
"""Characters of a program's output that are stored with each sample: the last ones."""
_SLOWEST = 20.0
"""A variant, or a kernel that counts its own calls, may take so many times as long."""


@dataclass
class Rounds:
    """What one guest did of a case, round by round."""

    way: Literal["turns", "frozen"]
    turns: list[tuple[int, int]] = field(default_factory=list)
    """(operations, ns). The same index in every guest of a group is the same round."""
    cpu_ns: list[int] = field(default_factory=list)
    """Of each turn; 0 where the host does not know it."""


def samples_of(
    cases: Sequence[Case],
    transcript: Transcript,
    lacking: Mapping[str, str] | None = None,
    rounds: Mapping[int, Rounds] | None = None,
) -> tuple[Sample, ...]:
    """A score, or why there is none, for every case that was begun or cannot run here. ``lacking``:
    suite/case → why it was left out of the job. ``rounds``: of cases that took turns, by their
    place in the job."""
    samples = []
    number = 0
    for case in cases:
        none = partial(Sample, suite=case.suite, case=case.name)
        if missing := (lacking or {}).get(f"{case.suite}/{case.name}"):
            samples.append(none(status="skip", text=missing))
            continue
        result, own = transcript.result(number), (rounds or {}).get(number)
        number += 1
        if isinstance(result, record.Sample):
            samples.append(_sample(case, result, result.reps))
        elif isinstance(result, record.Done) and own is not None and own.turns:
            cpu_ns = tuple(own.cpu_ns) if any(own.cpu_ns) else ()
            update = {"interleave": own.way, "cpu_ns": cpu_ns}
            samples.append(_sample(case, result, tuple(own.turns)).model_copy(update=update))
        elif isinstance(result, record.Done):
            samples.append(none(status="error", text="not one of its turns was answered"))
        elif result is not None:  # a case that was never begun has none; the boot says why
            skipped = isinstance(result, record.Skip)
            samples.append(none(status="skip" if skipped else "error", text=result.reason))
    return tuple(samples)


def _sample(
    case: Case, result: record.Sample | record.Done, reps: tuple[tuple[int, int], ...]
) -> Sample:
    extra: dict[str, float | bool | str | None] = {}
    for name, text in result.extra.items():
        extra[name] = text[-OUTPUT_KEPT:]
        if name not in ("stdout", "stderr") and text[:1].isdigit():
            with suppress(ValueError):
                extra[name] = float(text)
    output = result.extra.get("stdout", "")
    try:
        timed = case.figure is None or isinstance(result, record.Done)
        score = score_of(case, reps) if timed else figure.read(case, output)
        extra.update(figure.also(case, output))
    except figure.NoFigure as problem:
        return Sample(suite=case.suite, case=case.name, status="error", text=str(problem))
    return Sample(
        suite=case.suite,
        case=case.name,
        score=score,
        reps=reps,
        user_ns=result.user_ns,
        sys_ns=result.sys_ns,
        extra=extra,
    )


def sample_flags(samples: Sequence[Sample]) -> tuple[BootFlag, ...]:
    """Where fewer tasks were runnable than were asked for, for long enough to say so; and where
    counters had to take turns on the CPU."""
    flags = []
    for sample in samples:
        name = f"{sample.suite}/{sample.case}"
        if isinstance(counted := sample.extra.get("multiplexed"), float):
            text = f"{name}: counted {counted:.0%} of the time, and scaled"
            flags.append(BootFlag(kind="multiplexed", text=text))
        share = sample.extra.get(figure.LOW_PARALLELISM)
        if isinstance(share, float) and share >= figure.LOW_PARALLELISM_PERCENT:
            text = f"{name}: parallelism fell below half of -j for {share:.0f} % of the time"
            flags.append(BootFlag(kind="low-parallelism", text=text))
    return tuple(flags)


def at_once(bench: Bench) -> int:
    """How many guests may run at the same time: what is counted is the same beside others."""
    if not bench.undisturbed:
        return 1
    memory = bench.machine.footprint()
    cpus = len(bench.placement.guest | bench.placement.own)
    return max(1, min(cpus, memory.available_bytes // max(1, memory.each_bytes)))


def boot(bench: Bench, plan: Plan, listener: Listener = lambda _case: None) -> Outcome:
    """One whole boot: every case of the plan, one after the other."""
    return run_to_end(bench.machine.open(plan, listener), bench.machine.clock)


def measure(
    bench: Bench, plans: Sequence[Plan], *, first_index: int
) -> list[tuple[BootRecord, bytes]]:
    """Boot all of these at the same time; the records and the consoles."""
    machine, started = bench.machine, now()
    with Alive(machine.clock) as alive:
        for plan in plans:
            alive.sessions.append(machine.open(plan))
        alive.until_ended()
    ended = enumerate(zip(plans, alive.outcomes, strict=True), first_index)
    return [record_of(bench, plan, outcome, at, started) for at, (plan, outcome) in ended]


def record_of(
    bench: Bench,
    plan: Plan,
    outcome: Outcome,
    index: int,
    started: str,
    rounds: Mapping[int, Rounds] | None = None,
) -> tuple[BootRecord, bytes]:
    """For the store: a boot, and what it printed below the command that repeats it by hand."""
    host = outcome.host
    samples = samples_of(bench.cases, outcome.transcript, bench.equipment.lacking, rounds)
    disturbed = () if bench.undisturbed else _disturbances(host)
    flags = (*host.flags, *disturbed, *sample_flags(samples))
    places = tuple(bench.machine.several())
    job = BootJob(
        index=index,
        machine=places[plan.block % len(places)] if places else "",
        block=plan.block,
        variant=plan.variant,
        image=bench.machine.identity(plan.variant),
        command=outcome.command,
        job=render(plan.job, "0" * 32),
        started_at=started,
        layout=plan.layout + 1 if bench.experiment.measure.layouts else 0,
    )
    boot = BootRecord(job=job, host=host.model_copy(update={"flags": flags}), samples=samples)
    return boot, f"$ {shlex.join(outcome.command)}\n".encode() + outcome.console


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


# Fixed work.


def key_of(job: CaseJob) -> str:
    return f"{job.suite}/{job.case}"


def calibrated(bench: Bench, seconds: float, notify: Callable[[str], None]) -> dict[str, int]:
    """suite/case → operations that the baseline does in ``seconds``. Cases that already have a
    number keep it. Cases that cannot run are left out, said aloud; ToolError when none is left or
    the boot fails."""
    jobs = tuple(job if job.operations else replace(job, seconds=seconds) for job in bench.runnable)
    name = bench.experiment.baseline
    outcome = boot(bench, plan_of(bench, name, jobs))
    if outcome.host.status != "ok":
        raise ToolError(
            f"{name}: the boot that says how often each case does its operation failed: "
            f"{outcome.host.reason}: {outcome.host.text}"
        )
    operations: dict[str, int] = {}
    fixed = {key_of(job): job.operations for job in jobs if job.operations is not None}
    for sample in samples_of(bench.cases, outcome.transcript, bench.equipment.lacking):
        key = f"{sample.suite}/{sample.case}"
        done = sum(count for count, _ns in sample.reps)
        spent_s = sum(ns for _count, ns in sample.reps) / 1e9
        if sample.score is None or not done or not spent_s:
            notify(f"{key} is left out: {sample.text or 'it gave no result'}")
            continue
        count = fixed.get(key) or max(1, round(done / spent_s * seconds))
        if count > MOST_OPERATIONS:  # the guest's word, which need not be true
            notify(f"{key} is left out: it claims {done} operations in {spent_s:g} s")
            continue
        operations[key] = count
    if not operations:
        raise ToolError("no case is left: see what each of them said above")
    return operations


def fixed_jobs(bench: Bench, operations: Mapping[str, int], seconds: float) -> tuple[CaseJob, ...]:
    """The cases that are left, each with its number of operations, in the order of the run."""
    return tuple(
        replace(
            job,
            seconds=None,
            operations=operations[key_of(job)],
            timeout_s=max(job.timeout_s, 30.0 + _SLOWEST * seconds),
        )
        for job in bench.runnable
        if key_of(job) in operations
    )


def with_fixed_work(
    bench: Bench, cases: Sequence[CaseInfo], notify: Callable[[str], None]
) -> Bench:
    """Where instructions are counted: the same with a number of operations for each case, few and
    the same in every boot of every variant. Those of ``cases``, as an earlier part of a run had
    them; else by a boot of the baseline. Cases that fail in it are left out of the run."""
    operations = {f"{case.suite}/{case.case}": case.operations for case in cases if case.operations}
    own = {key_of(job): job.operations for job in bench.jobs if job.operations}
    wanted = {key_of(job) for job in bench.runnable}
    # Once any was fixed, what has none failed then.
    if operations.keys() <= own.keys() and not wanted <= operations.keys():
        # For twice as long: parts of half a repetition are refused as too short to be timed.
        measured = calibrated(bench, 2 * COUNT_S, notify)
        # As many in each part; of those that are long, as few as the time is for.
        operations = {
            key: own.get(key) or (count // 2) // PARTS * PARTS or max(1, count // 2)
            for key, count in measured.items()
        }
    fixed = {key_of(job): job for job in fixed_jobs(bench, operations, COUNT_S)}
    why = "it failed in the boot that says how often each case does its operation"
    lacking = {**bench.equipment.lacking, **dict.fromkeys(wanted - operations.keys(), why)}
    jobs = tuple(fixed.get(key_of(job), job) for job in bench.jobs)
    return replace(bench, jobs=jobs, equipment=replace(bench.equipment, lacking=lacking))
