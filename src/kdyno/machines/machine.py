# SPDX-License-Identifier: MIT
"""The seam: what a machine is, for everybody who measures on one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kdyno.errors import UsageError
from kdyno.experiment.model import Variant
from kdyno.kernels.image import Image
from kdyno.machines.cpus import Placement
from kdyno.machines.session import Clock, Listener, Session
from kdyno.store.verdict import Flag
from kdyno.suites.job import Job

Told = Callable[[str], None]


@dataclass(frozen=True)
class Can:
    """What a kind of machine is able to do. Where it is not, a text says why, for people."""

    turns: str = ""
    """Guests that are alive together and take turns."""
    profile: str = ""
    """Tell the time of the kernel under test from all else."""
    change: str = ""
    """Run kernels that kdyno made for a purpose: with gprof, with KUnit, with copies counted."""
    scatter: str = ""
    """Put the pages of cases at drawn places."""
    count: str = ""
    """Count the instructions of a guest: the metric "instructions"."""


@dataclass(frozen=True)
class Asked:
    """How an experiment wants its figures."""

    metric: str = "time"
    """What is compared: "time"; "instructions" where the machine counts what it executes."""
    accel: str = "auto"
    """Of a machine that emulates: "kvm", "tcg", "icount", or "auto", which never times an emulated
    CPU."""
    cpus: int = 1
    apart: bool = False
    """Instructions of programs and of the kernel apart."""


def only_times(kind: str, can: Can, asked: Asked) -> None:
    """For a machine that neither emulates nor counts: UsageError where that is asked."""
    if asked.apart and asked.metric == "time":
        raise UsageError('[measure] apart = true goes with metric = "instructions"')
    if asked.metric != "time":
        raise UsageError(
            f'[measure] metric = "{asked.metric}" and [machine] kind = "{kind}": {can.count}'
        )
    if asked.accel != "auto":
        raise UsageError(f'[machine] accel is of kind = "qemu"; kind = "{kind}" emulates nothing')


@dataclass(frozen=True)
class Plan:
    """One guest to be started."""

    variant: str
    job: Job
    cmdline: str = ""
    """Words after those of the variant."""
    shared: tuple[tuple[Path, str], ...] = ()
    """(folder of the host, name): what its cases may read."""
    disk_bytes: int = 0
    disk_parent: Path = Path("/var/tmp")
    beside: tuple[str, ...] = ()
    """A profiler's command line that the whole guest is appended to."""
    draw: int = 0
    """Where the machine can, what should not matter (addresses, random numbers) is perturbed: the
    same number, the same perturbation. 0: as ever."""
    layout: int = 0
    """Which of the variant's links is booted, where it has several."""
    left: tuple[tuple[str, Path], ...] = ()
    """(file that the kernel's process leaves, where it is put on the host)."""
    given: tuple[tuple[str, bytes], ...] = ()
    """(name, content): what the kernel's process is handed for what it is to leave."""


@dataclass(frozen=True)
class Programs:
    """The files whose symbols a profile of a variant shows."""

    kernel: Path
    guest: Path


@dataclass(frozen=True)
class Footprint:
    """What guests that are alive together need at most, and what there is."""

    each_bytes: int
    available_bytes: int


@dataclass(frozen=True)
class Setup:
    """What every guest of a run has in common."""

    variants: Mapping[str, Variant]
    images: Mapping[str, Image]
    """As ``variants``; empty where the machine boots nothing that was built."""
    placement: Placement
    memory_bytes: int
    timeout_s: float | None
    cpus: int
    cache: Path
    sandboxed: bool
    asked: Asked = Asked()


class Machine(Protocol):
    """Where variants run. One object for all boots of a run; nothing asks which kind it is."""

    @property
    def can(self) -> Can: ...

    @property
    def places(self) -> Mapping[str, str] | None:
        """Where guests find ``{dir}``, ``{disk}``, ``{tree}``, ``{programs}``, ``{prepared}``.

        None where that is not the same in every guest.
        """

    @property
    def clock(self) -> Clock:
        """That all its sessions live by."""

    @property
    def emulator(self) -> str:
        """What its figures depend on beside kernel and host; empty: nothing."""

    def caveats(self) -> tuple[Flag, ...]:
        """What its figures do not say. After ``probe``."""

    def identity(self, variant: str) -> str:
        """Digest of what is booted for the variant."""

    def described(self, variant: str) -> dict[str, Any]:
        """JSON values for the run's folder: what that is, and how it came to be."""

    def programs(self, variant: str) -> Programs:
        """For profilers. ToolError where ``can.profile`` says why not."""

    def probe(self, told: Told) -> None:
        """Start everything once with nothing to do. ToolError when nothing can start at all.

        A variant that fails is not judged here: the loop counts its failures.
        """

    def footprint(self) -> Footprint:
        """Memory, for guests that are alive together."""

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> Session:
        """A guest that starts. Errors are the host's; what the guest does is its outcome."""

    def close(self) -> None:
        """After the last session."""
