# SPDX-License-Identifier: MIT
"""The host as a machine: the kernel that runs, whichever it is; nothing is booted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kdyno.errors import ToolError
from kdyno.machines.events import Events
from kdyno.machines.host import HOST_PLACES, HostJob, running, start
from kdyno.machines.machine import (
    Asked,
    Can,
    Footprint,
    Plan,
    Programs,
    Setup,
    Told,
    only_times,
)
from kdyno.machines.process import ProcessSession
from kdyno.machines.program import guest_program
from kdyno.machines.session import Listener
from kdyno.store.verdict import Flag

NAME = "host"
CAVEAT = Flag(
    kind="not-rebooted",
    text="every repetition ran on one and the same boot of the host's kernel: the spread between "
    "boots is not in these intervals",
)
_ONE = "the host runs one kernel, and it is never rebooted"
CAN = Can(
    turns=_ONE,
    profile=(
        "a profile separates the kernel under test from the host's, and here they are the same; "
        "`perf record -a` on that machine shows its kernel"
    ),
    scatter="its memory is the host's, and other programs' too",
    count=(
        'it runs on the host\'s CPU, where nobody counts exactly; [machine] kind = "qemu" does, '
        "with kernels that are built for it"
    ),
    change="its machine is the host, whose kernel kdyno does not change",
)


def check(asked: Asked) -> None:
    only_times(NAME, CAN, asked)


class Host:
    """All repetitions of a run on the running kernel."""

    can = CAN
    emulator = ""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._running = running()
        self.clock = Events()

    @property
    def places(self) -> Mapping[str, str] | None:
        return HOST_PLACES if self._setup.sandboxed else None

    def caveats(self) -> tuple[Flag, ...]:
        return (CAVEAT,)

    def identity(self, variant: str) -> str:
        return self._running.digest

    def described(self, variant: str) -> dict[str, Any]:
        return dict(self._running.to_json())

    def programs(self, variant: str) -> Programs:
        raise ToolError(CAN.profile)

    def probe(self, told: Told) -> None:
        """The kernel runs."""

    def footprint(self) -> Footprint:
        return Footprint(0, 0)

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> ProcessSession:
        setup = self._setup
        return start(
            HostJob(
                program=guest_program(setup.cache, 64),
                job=plan.job,
                placement=setup.placement,
                tmp_bytes=setup.memory_bytes,
                sandboxed=setup.sandboxed,
                limit_s=setup.timeout_s,
                shared=plan.shared,
                disk_bytes=plan.disk_bytes,
                disk_parent=plan.disk_parent,
            ),
            self.clock,
            listener,
        )

    def close(self) -> None:
        self.clock.close()
