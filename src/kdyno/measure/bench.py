# SPDX-License-Identifier: MIT
"""One boot of one variant, from its plan to the record that is stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from kdyno.command import shown
from kdyno.experiment.model import Experiment, Variant
from kdyno.judge.flags import disturbances
from kdyno.kernels.image import Image
from kdyno.machines.cpus import Placement
from kdyno.machines.machine import Alive, Listener, Machine, Outcome, Plan, run_to_end
from kdyno.measure.equipment import Equipment
from kdyno.measure.sampling import load_flags, samples_of
from kdyno.measure.undecided import flags_of, ticks_of
from kdyno.store.boot import BootJob, BootRecord
from kdyno.store.manifest import CaseInfo, work_digest
from kdyno.store.verdict import Flag
from kdyno.suites.catalogue import Case
from kdyno.suites.job import CaseJob, Job, render


@dataclass(frozen=True)
class Bench:
    """What every boot of a run has in common."""

    experiment: Experiment
    machine: Machine
    variants: Mapping[str, Variant]
    """By the name it has in the run; the baseline's copy stands here as well."""
    cases: tuple[Case, ...]
    jobs: tuple[CaseJob, ...]
    """As ``cases``, in the same order."""
    placement: Placement
    equipment: Equipment = field(default_factory=Equipment)
    images: Mapping[str, Image] = field(default_factory=dict)
    """By variant, where kernels were built."""

    @property
    def counts(self) -> bool:
        """What is executed is counted."""
        return self.experiment.measure.metric != "time"

    @property
    def undisturbed(self) -> bool:
        """What else the host does changes nothing."""
        return self.counts or self.experiment.machine.own_clock

    def caveats(self) -> tuple[Flag, ...]:
        """What its figures do not say. After the machine was probed."""
        ticks = ticks_of(self.images) if self.experiment.measure.metric == "instructions" else ()
        return (*self.machine.caveats(), *flags_of(self.experiment, self.cases), *ticks)

    @property
    def runnable(self) -> tuple[CaseJob, ...]:
        """The jobs of the cases that can run on this machine."""
        lacking = self.equipment.lacking or ("",) * len(self.jobs)
        return tuple(job for job, why in zip(self.jobs, lacking, strict=True) if not why)


def without(bench: Bench, done: Collection[tuple[str, str]]) -> Bench:
    """The same less the cases that need no more boots, by (suite, case)."""
    kept = [it for it, case in enumerate(bench.cases) if (case.suite, case.name) not in done]
    lacking = bench.equipment.lacking
    return replace(
        bench,
        cases=tuple(bench.cases[it] for it in kept),
        jobs=tuple(bench.jobs[it] for it in kept),
        equipment=replace(
            bench.equipment, lacking=tuple(lacking[it] for it in kept) if lacking else ()
        ),
    )


def info(case: Case, job: CaseJob | None = None) -> CaseInfo:
    """What the manifest says of a case, and of its work."""
    return CaseInfo(
        suite=case.suite,
        case=case.name,
        unit=case.unit,
        better=case.better,
        scale=case.scale,
        control=case.control,
        of=case.of,
        levels=dict(case.levels),
        seconds=job.seconds if job else None,
        operations=job.operations if job else None,
        work=work_digest(job.bench, job.operations, job.args) if job else "",
    )


def plan_of(
    bench: Bench,
    name: str,
    cases: tuple[CaseJob, ...] | None = None,
    *,
    turns: bool = False,
    draw: int = 0,
    layout: int = 0,
) -> Plan:
    """The start of variant ``name`` with these cases, or with all that can run."""
    chosen = bench.runnable if cases is None else cases
    return Plan(
        variant=name,
        job=Job(chosen, bench.variants[name].sysctl, turns),
        shared=bench.equipment.shared,
        disk_bytes=bench.equipment.disk_bytes,
        disk_parent=bench.equipment.disk_parent,
        draw=draw,
        layout=layout,
    )


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
    bench: Bench, name: str, *, index: int, block: int, draw: int = 0, layout: int = 0
) -> tuple[BootRecord, bytes]:
    """Boot variant ``name`` once; the record and the console."""
    (made,) = measure_together(
        bench, [name], first_index=index, block=block, draw=draw, layout=layout
    )
    return made


def measure_together(
    bench: Bench,
    names: Sequence[str],
    *,
    first_index: int,
    block: int,
    draw: int = 0,
    layout: int = 0,
) -> list[tuple[BootRecord, bytes]]:
    """Boot each of these variants once, all at the same time."""
    plans = [plan_of(bench, name, draw=draw, layout=layout) for name in names]
    machine, started = bench.machine, now()
    with Alive(machine.clock) as alive:
        for plan in plans:
            alive.add(machine.open(plan))
        alive.until_ended()
    return [
        _record(bench, plan, outcome, first_index + at, block, started)
        for at, (plan, outcome) in enumerate(zip(plans, alive.outcomes, strict=True))
    ]


def _record(
    bench: Bench, plan: Plan, outcome: Outcome, index: int, block: int, started: str
) -> tuple[BootRecord, bytes]:
    host = outcome.host
    samples = samples_of(bench.cases, outcome.transcript, bench.equipment.lacking)
    disturbed = () if bench.undisturbed else disturbances(host)
    flags = (*host.flags, *disturbed, *load_flags(samples))
    host = host.model_copy(update={"flags": flags})
    made = BootRecord(
        job=job_of(bench, plan, outcome, index, block, started), host=host, samples=samples
    )
    return made, console_of(outcome)


def job_of(
    bench: Bench, plan: Plan, outcome: Outcome, index: int, block: int, started: str
) -> BootJob:
    """What this boot was to do, for its folder."""
    return BootJob(
        index=index,
        block=block,
        variant=plan.variant,
        image=bench.machine.identity(plan.variant),
        command=outcome.command,
        job=render(plan.job, "0" * 32),
        started_at=started,
        layout=plan.layout + 1 if bench.experiment.measure.layouts else 0,
    )


def console_of(outcome: Outcome) -> bytes:
    """What the boot printed, below the command that it can be repeated with by hand."""
    return f"$ {shown(outcome.command)}\n".encode() + outcome.console


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
