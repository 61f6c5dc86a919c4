# SPDX-License-Identifier: MIT
"""One boot of one variant, from its image to the record that is stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from kdyno.command import shown
from kdyno.experiment.model import Experiment, Variant
from kdyno.kernels.image import Image
from kdyno.lab import disturbance
from kdyno.machines.cpus import Placement, first
from kdyno.machines.program import guest_program
from kdyno.machines.uml import Outcome, UmlBoot, boot, supports_seccomp
from kdyno.store.boot import BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo
from kdyno.suites import record
from kdyno.suites.catalogue import Case
from kdyno.suites.job import CaseJob, Job, render
from kdyno.suites.score import score_of


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


def info(case: Case) -> CaseInfo:
    """What the manifest says of a case."""
    return CaseInfo(
        suite=case.suite,
        case=case.name,
        unit=case.unit,
        better=case.better,
        scale=case.scale,
        control=case.control,
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
        job=Job(() if empty else bench.jobs, variant.sysctl),
        placement=bench.placement if image.smp else first(bench.placement),
        memory_bytes=machine.memory_bytes,
        cmdline=variant.cmdline,
        mode=mode,
        sandboxed=bench.sandboxed,
        limit_s=machine.timeout_s,
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
    asked = request(bench, name)
    started = datetime.now(UTC).isoformat(timespec="milliseconds")
    outcome = boot(asked, listener)
    host = outcome.host
    host = host.model_copy(update={"flags": (*host.flags, *disturbance.flags_of(host))})
    job = BootJob(
        index=index,
        block=block,
        variant=name,
        image=bench.images[name].digest,
        command=outcome.command,
        job=render(asked.job, "0" * 32),
        started_at=started,
    )
    made = BootRecord(job=job, host=host, samples=samples_of(bench.cases, outcome))
    return made, f"$ {shown(outcome.command)}\n".encode() + outcome.console


def samples_of(cases: tuple[Case, ...], outcome: Outcome) -> tuple[Sample, ...]:
    """The samples of a boot: a score, or why there is none, for every case that was begun."""
    samples = []
    for number, case in enumerate(cases):
        said = outcome.transcript.result(number)
        if isinstance(said, record.Sample):
            samples.append(
                Sample(
                    suite=case.suite,
                    case=case.name,
                    score=score_of(case, said.reps),
                    reps=said.reps,
                    user_ns=said.user_ns,
                    sys_ns=said.sys_ns,
                    extra={**said.extra},
                )
            )
        elif said is not None:  # a case that was never begun has no sample; the boot says why
            status: Literal["skip", "error"] = "skip" if isinstance(said, record.Skip) else "error"
            samples.append(
                Sample(suite=case.suite, case=case.name, status=status, text=said.reason)
            )
    return tuple(samples)
