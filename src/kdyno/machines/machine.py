# SPDX-License-Identifier: MIT
"""The seam: what a machine is, for everybody who measures on one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Box, Variant
from kdyno.kernels.image import Image
from kdyno.machines.cpus import Placement
from kdyno.machines.facts import Facts
from kdyno.machines.process import Events, Listener, Outcome, Session
from kdyno.store.verdict import Flag
from kdyno.suites.job import Job


@dataclass
class Alive:
    """Guests that are alive at the same time; however the block ends, none of them is left."""

    clock: Events
    sessions: list[Session] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    """As ``sessions``; filled as the block ends."""

    def until_ended(self) -> None:
        while not all(session.ended for session in self.sessions):
            self.clock.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        with ExitStack() as every:  # a problem with one of them is none of the others'
            for session in reversed(self.sessions):
                every.callback(self._close, session)

    def _close(self, session: Session) -> None:
        self.outcomes.append(session.close())


def run_to_end(session: Session, clock: Events) -> Outcome:
    """For a guest that works its whole job off by itself."""
    with Alive(clock, [session]) as alive:
        alive.until_ended()
    return alive.outcomes[0]


@dataclass(frozen=True)
class Can:
    """What a kind of machine is able to do. Where it is not, a text says why, for people."""

    turns: str = ""
    """Guests that are alive together and take turns."""
    profile: str = ""
    """Separate the time of the kernel under test from all else."""
    change: str = ""
    """Run kernels that kdyno made for a purpose: with gprof, with KUnit, with copies counted."""
    scatter: str = ""
    """Put the pages of cases at random places."""
    count: str = ""
    """Count the instructions of a guest exactly: the metric "instructions"."""
    counters: str = ""
    """Read the CPU's and the kernel's counters beside a case's time."""


@dataclass(frozen=True)
class Method:
    """How an experiment wants its figures: ``[measure]`` and ``[machine]`` of its file."""

    metric: str = "time"
    """What is compared: "time"; "instructions" where the machine counts what it executes."""
    accel: str = "auto"
    apart: bool = False
    """Instructions of programs and of the kernel are counted apart."""
    userland: str = ""
    """``debian:SUITE/ARCH`` where guests see its programs and not this machine's."""
    counters: tuple[str, ...] = ()
    """Of experiment.model.COUNTERS: beside the time."""
    counter: str = ""
    """One of them, which is compared instead of the time; ``metric`` is "time"."""

    @property
    def counted(self) -> tuple[str, ...]:
        """All counters that guests need."""
        return tuple(filter(None, dict.fromkeys((*self.counters, self.counter))))


def only_times(kind: str, can: Can, method: Method) -> None:
    """For a machine that neither emulates nor counts: UsageError where that is wanted."""
    if method.apart and method.metric == "time":
        raise UsageError('[measure] apart = true goes with metric = "instructions"')
    if method.metric != "time":
        raise UsageError(
            f'[measure] metric = "{method.metric}" and [machine] kind = "{kind}": {can.count}'
        )
    if method.userland:
        raise UsageError(
            f'[machine] userland is of kind = "qemu"; on kind = "{kind}" cases start this '
            "machine's own programs"
        )
    if method.counters and can.counters:
        raise UsageError(f'[measure] counters and [machine] kind = "{kind}": {can.counters}')
    if method.accel != "auto":
        raise UsageError(f'[machine] accel is of kind = "qemu"; kind = "{kind}" emulates nothing')


@dataclass(frozen=True)
class Plan:
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
    block: int = 0
    """Of the run: where there are several machines, they take the blocks in turns."""
    draw: int = 0
    """Where the machine can, what should not matter (addresses, random numbers) is perturbed: the
    same number, the same perturbation. 0: none."""
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
class Userland:
    """Programs for guests to see in place of this machine's: finished, in the cache, read-only."""

    root: Path
    program: Path
    """Beside which are kdyno's own programs, as beside the guest program."""
    description: str
    """With a digest of all packages' versions and of kdyno's programs: where it is the same, so are
    the files."""


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
    method: Method = Method()
    userland: Userland | None = None
    hosts: tuple[str, ...] = ()
    """Of machines that are reached over the network: their names."""
    box: Box = field(default_factory=Box)


class Machine(Protocol):
    """Where variants run. One object for all boots of a run; nothing asks which kind it is."""

    can: Can
    places: Mapping[str, str] | None
    """Where guests find ``{dir}``, ``{disk}``, ``{tree}``, ``{programs}``, ``{prepared}``; None
    where that is not the same in every guest."""
    clock: Events
    """Of all its sessions."""
    emulator: str = ""
    """What its figures depend on beside kernel and host."""

    def caveats(self) -> tuple[Flag, ...]:
        """What its figures do not say. After ``probe``."""

    def identity(self, variant: str) -> str:
        """Digest of what is booted for the variant."""

    def host_facts(self) -> Facts:
        """What the machine is where that is not this one; else nothing. After ``probe``."""
        return {}

    def several(self) -> Mapping[str, Facts]:
        """Where there are several machines, what each of them is, by a name for it, in the order
        in which they take blocks; else nothing. After ``probe``."""
        return {}

    def described(self, variant: str) -> dict[str, Any]:
        """JSON values for the run's folder: what that is, and how it was made."""

    def programs(self, variant: str) -> Programs:
        """For profilers. ToolError where ``can.profile`` says why not."""
        raise ToolError(self.can.profile)

    def probe(self, notice: Callable[[str], None]) -> None:
        """Start everything once with nothing to do. ToolError when nothing can start at all. A
        variant that fails is not judged here: the loop counts its failures."""

    def footprint(self) -> Footprint:
        """Memory, for guests that are alive together."""
        return Footprint(0, 0)

    def open(self, plan: Plan, listener: Listener = lambda _case: None) -> Session:
        """A guest that starts. Errors are the host's; what the guest does is its outcome."""

    def close(self) -> None:
        """After the last session. Once more does nothing."""
        self.clock.close()
