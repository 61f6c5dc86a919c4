# SPDX-License-Identifier: MIT
"""One boot of a native kernel, counted, for the tests of this folder."""

from __future__ import annotations

from typing import Any

from kdyno.kernels.image import Image
from kdyno.machines import emulator
from kdyno.machines.cpus import place
from kdyno.machines.emulator import Way
from kdyno.machines.guest import boot, guest_program
from kdyno.machines.process import Listener, Outcome
from kdyno.machines.qemu import QemuBoot
from kdyno.paths import cache_root
from kdyno.suites.job import CaseJob, Job


def case(bench: str, *args: str, operations: int = 5000, timeout_s: float = 20.0) -> CaseJob:
    return CaseJob("test", bench, bench, args, None, operations, timeout_s)


def command(*words: str, operations: int = 1) -> CaseJob:
    """A program of this machine's, run once before it is measured."""
    return case("run", "--", *words, operations=operations, timeout_s=60.0)


def booted(
    image: Image,
    *cases: CaseJob,
    memory: int = 128 << 20,
    word_bits: int = 0,
    way: Way = "count",
    listener: Listener = lambda _case: None,
    **more: Any,
) -> Outcome:
    """word_bits: of the guest program, where they are not the kernel's. more: of ``QemuBoot``."""
    request = QemuBoot(
        emulator=emulator.find(),
        way=way,
        kernel=image.kernel,
        program=guest_program(cache_root(), word_bits or image.word_bits),
        job=Job(cases),
        placement=place(1),
        memory_bytes=memory,
        disk_parent=cache_root() / "disks",
        scheduler=image.scheduler,
        apic=image.apic,
        **more,
    )
    return boot(request, listener)
