# SPDX-License-Identifier: MIT
"""One boot of a real kernel under User Mode Linux, with these cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from kdyno.kernels.image import Image
from kdyno.machines.cpus import place
from kdyno.machines.guest import boot, guest_program
from kdyno.machines.process import Listener, Outcome
from kdyno.machines.uml import UmlBoot
from kdyno.paths import cache_root
from kdyno.suites.job import CaseJob, Job
from kdyno.suites.protocol import Sample

__all__ = ["Image", "Outcome"]


def case(bench: str, *args: str, seconds: float = 0.05, timeout_s: float = 20.0) -> CaseJob:
    return CaseJob("test", bench, bench, args, seconds, None, timeout_s)


def command(*words: str) -> CaseJob:
    """Of one operation."""
    return CaseJob("test", "run", "run", ("--", *words), None, 1)


def booted(
    image: Image,
    *cases: CaseJob,
    sysctl: tuple[tuple[str, str], ...] = (),
    cpus: int = 1,
    listener: Listener = lambda _case: None,
    **more: Any,
) -> Outcome:
    """more: of ``UmlBoot``."""
    request = UmlBoot(
        kernel=image.kernel,
        program=guest_program(cache_root(), image.word_bits),
        job=Job(cases, sysctl),
        placement=place(cpus),
        memory_bytes=256 << 20,
    )
    return boot(replace(request, **more), listener)


def sample_of(outcome: Outcome, number: int = 0) -> Sample:
    result = outcome.transcript.result(number)
    assert isinstance(result, Sample), (result, outcome.host)
    return result


def output_of(outcome: Outcome, number: int = 0) -> str:
    return sample_of(outcome, number).extra["stdout"]


def folder_for_all(folder: Path) -> None:
    """Readable by every user, and so is each folder above it that a test has made."""
    for path in (folder, *folder.parents):
        if path.is_relative_to("/tmp") and path != Path("/tmp"):
            path.chmod(path.stat().st_mode | 0o555)
