# SPDX-License-Identifier: MIT
"""One boot of one variant, from its image to the record that is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from kdyno.command import shown
from kdyno.experiment.model import Experiment, Variant
from kdyno.judge import disturbance
from kdyno.kernels.image import Image
from kdyno.lab.equipment import Equipment
from kdyno.lab.sampling import load_flags, samples_of
from kdyno.machines.cpus import Placement, first
from kdyno.machines.host import HostJob, Running, work_off
from kdyno.machines.program import guest_program
from kdyno.machines.uml import UmlBoot, boot, supports_seccomp
from kdyno.store.boot import BootJob, BootRecord
from kdyno.store.manifest import CaseInfo
from kdyno.store.work import work_digest
from kdyno.suites.catalogue import Case
from kdyno.suites.job import CaseJob, Job, render


@dataclass(frozen=True)
class Bench:
    """What every boot of a run has in common."""

    experiment: Experiment
    images: Mapping[str, Image]
    variants: Mapping[str, Variant]
    """By the name it has in the run; the baseline's copy stands here as well."""
    cases: tuple[Case, ...]
    jobs: tuple[CaseJob, ...]
    """As ``cases``, in the same order."""
    placement: Placement
    cache: Path
    sandboxed: bool
    mode: str
    equipment: Equipment = field(default_factory=Equipment)
    running: Running | None = None
    """The kernel that runs now, when the machine is the host; then there are no images."""

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
        work=work_digest(job.bench, job.operations, job.args) if job else "",
    )


def request(bench: Bench, name: str, *, empty: bool = False, mode: str | None = None) -> UmlBoot:
    """The boot of variant ``name``; ``empty``: say hello and power off."""
    variant, image = bench.variants[name], bench.images[name]
    machine = bench.experiment.machine
    mode = mode or bench.mode
    if mode == "seccomp" and not supports_seccomp(image.kernel):
        mode = "ptrace"
    return UmlBoot(
        kernel=image.kernel,
        program=guest_program(bench.cache, image.word_bits),
        job=Job(() if empty else bench.runnable, variant.sysctl),
        placement=first(bench.placement, (variant.cpus or machine.cpus) if image.smp else 1),
        memory_bytes=machine.memory_bytes,
        cmdline=variant.cmdline,
        mode=mode,
        sandboxed=bench.sandboxed,
        limit_s=machine.timeout_s,
        shared=() if empty else bench.equipment.shared,
        disk_bytes=0 if empty else bench.equipment.disk_bytes,
        disk_parent=bench.equipment.disk_parent,
    )


def host_job(bench: Bench) -> HostJob:
    """The job on the running kernel."""
    machine = bench.experiment.machine
    return HostJob(
        program=guest_program(bench.cache, 64),
        job=Job(bench.runnable),
        placement=bench.placement,
        tmp_bytes=machine.memory_bytes,
        sandboxed=bench.sandboxed,
        limit_s=machine.timeout_s,
        shared=bench.equipment.shared,
        disk_bytes=bench.equipment.disk_bytes,
        disk_parent=bench.equipment.disk_parent,
    )


def measure(
    bench: Bench,
    name: str,
    *,
    index: int,
    block: int,
    listener: Callable[[str], None] = lambda _case: None,
) -> tuple[BootRecord, bytes]:
    """Boot variant ``name`` once; the record and the console."""
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    asked: UmlBoot | HostJob
    if bench.running is not None:
        asked = host_job(bench)
        outcome = work_off(asked, listener)
        digest = bench.running.digest
    else:
        asked = request(bench, name)
        outcome = boot(asked, listener)
        digest = bench.images[name].digest
    host = outcome.host
    samples = samples_of(bench.cases, outcome.transcript, bench.equipment.lacking)
    flags = (*host.flags, *disturbance.flags_of(host), *load_flags(samples))
    host = host.model_copy(update={"flags": flags})
    job = BootJob(
        index=index,
        block=block,
        variant=name,
        image=digest,
        command=outcome.command,
        job=render(asked.job, "0" * 32),
        started_at=started,
    )
    made = BootRecord(job=job, host=host, samples=samples)
    return made, f"$ {shown(outcome.command)}\n".encode() + outcome.console
