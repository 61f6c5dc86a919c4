# SPDX-License-Identifier: MIT
"""One boot of a native kernel, counted, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

from kdyno.kernels.image import Image
from kdyno.machines import emulator
from kdyno.machines.cpus import place
from kdyno.machines.emulator import Way
from kdyno.machines.guest import boot
from kdyno.machines.machine import Listener, Outcome
from kdyno.machines.program import guest_program
from kdyno.machines.qemu import QemuBoot, Tallying
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
    cmdline: str = "",
    limit_s: float | None = None,
    draw: int = 0,
    sandboxed: bool = True,
    memory: int = 128 << 20,
    disk_bytes: int = 0,
    listener: Listener = lambda _case: None,
    tally: Tallying | None = None,
    shared: tuple[tuple[Path, str], ...] = (),
    cpus: int = 1,
    way: Way = "count",
    word_bits: int = 0,
    ticks_khz: int = 0,
) -> Outcome:
    """word_bits: of the guest program, where they are not the kernel's."""
    request = QemuBoot(
        emulator=emulator.find(),
        way=way,
        kernel=image.kernel,
        program=guest_program(cache_root(), word_bits or image.word_bits),
        job=Job(cases),
        placement=place(1),
        memory_bytes=memory,
        cmdline=cmdline,
        sandboxed=sandboxed,
        limit_s=limit_s,
        draw=draw,
        disk_bytes=disk_bytes,
        disk_parent=cache_root() / "disks",
        tally=tally,
        shared=shared,
        scheduler=image.scheduler,
        cpus=cpus,
        ticks_khz=ticks_khz,
    )
    return boot(request, listener)
