# SPDX-License-Identifier: MIT
"""One boot of one variant, from its plan to the record that is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kdyno.command import shown
from kdyno.experiment.model import Experiment, Variant
from kdyno.judge import disturbance
from kdyno.kernels.image import Image
from kdyno.machines.cpus import Placement
from kdyno.machines.machine import Machine, Plan
from kdyno.machines.session import Listener, Outcome, run_to_end
from kdyno.measure.equipment import Equipment
from kdyno.measure.sampling import load_flags, samples_of
from kdyno.measure.undecided import flags_of
from kdyno.store.boot import BootJob, BootRecord
from kdyno.store.manifest import CaseInfo
from kdyno.store.verdict import Flag
from kdyno.store.work import work_digest
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
        """What is executed is counted, and what else the host does changes nothing."""
        return self.experiment.measure.metric != "time"

    def caveats(self) -> tuple[Flag, ...]:
        """What its figures do not say. After the machine was probed."""
        return (*self.machine.caveats(), *flags_of(self.experiment, self.cases))

    @property
    def runnable(self) -> tuple[CaseJob, ...]:
        """The jobs of the cases that can run on this machine."""
        lacking = self.equipment.lacking or ("",) * len(self.jobs)
        return tuple(job for job, why in zip(self.jobs, lacking, strict=True) if not why)


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
    )


def boot(bench: Bench, plan: Plan, listener: Listener = lambda _case: None) -> Outcome:
    """One whole boot: every case of the plan, one after the other."""
    return run_to_end(bench.machine.open(plan, listener), bench.machine.clock)


def measure(
    bench: Bench, name: str, *, index: int, block: int, draw: int = 0
) -> tuple[BootRecord, bytes]:
    """Boot variant ``name`` once; the record and the console."""
    started = now()
    plan = plan_of(bench, name, draw=draw)
    outcome = boot(bench, plan)
    host = outcome.host
    samples = samples_of(bench.cases, outcome.transcript, bench.equipment.lacking)
    disturbed = () if bench.counts else disturbance.flags_of(host)
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
    )


def console_of(outcome: Outcome) -> bytes:
    """What the boot printed, below the command that it can be repeated with by hand."""
    return f"$ {shown(outcome.command)}\n".encode() + outcome.console


def now() -> str:
    """UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
