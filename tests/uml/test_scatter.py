# SPDX-License-Identifier: MIT
"""The free pages of a real kernel, before its first case."""

from __future__ import annotations

import dataclasses

import pytest

from kdyno.kernels.image import Image
from kdyno.machines.cpus import place
from kdyno.machines.program import guest_program
from kdyno.machines.uml import UmlBoot, boot
from kdyno.paths import cache_root
from kdyno.suites.job import CaseJob, Job
from kdyno.suites.record import Hello, Sample

pytestmark = pytest.mark.uml

LOOK = CaseJob("own", "free", "run", ("cat", "/proc/buddyinfo"), seconds=0.01)


def free(request: UmlBoot) -> tuple[Hello, int]:
    """What the guest said of its pages, and how many lie between two that are taken."""
    outcome = boot(request)
    hello, said = outcome.transcript.hello, outcome.transcript.result(0)
    assert hello is not None and isinstance(said, Sample), (outcome.host, said)
    return hello, sum(int(line.split()[4]) for line in said.extra["stdout"].splitlines())


def test_pages_lie_apart_where_they_are_drawn(stock: Image) -> None:
    request = UmlBoot(
        kernel=stock.kernel,
        program=guest_program(cache_root(), stock.word_bits),
        job=Job((LOOK,)),
        placement=place(1),
        memory_bytes=512 << 20,
    )
    hello, alone = free(request)
    assert (hello.scattered, alone) == (0, pytest.approx(0, abs=300))
    hello, alone = free(dataclasses.replace(request, scatter=7))
    # 32 MiB: an eighth of the free pages have both neighbours taken, and more only one.
    assert hello.scattered == 8192
    assert alone > 1500
