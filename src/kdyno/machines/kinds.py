# SPDX-License-Identifier: MIT
"""The kinds of machines that an experiment may name. A new one is a module and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from kdyno import deferred
from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment
from kdyno.machines.cpus import Placement, place
from kdyno.machines.machine import Can, Machine, Method, Setup

_examine: Callable[..., None] = deferred("kdyno.machines.examination:examine")


@dataclass(frozen=True)
class Kind:
    """A kind of machine, before there is one."""

    name: str
    label: str
    archs: tuple[str, ...]
    """What it boots; the first is the default."""
    memory: str = ""
    """Of a guest for one command; empty: as much as an experiment's."""
    no_images: str = ""
    """Why it boots no installed kernel (``image`` of a variant); empty: it does."""
    remote: bool = False
    """It is a box, reached over the network by the name that the experiment gives it."""
    fragment: str = ""
    """Of kernel/config/, with what every kernel there needs. Named in ``config`` it brings the
    machine's own configuration as well."""

    @property
    def builds(self) -> bool:
        """It boots kernels that kdyno builds; else there is one variant, the kernel that runs."""
        return bool(self.archs)

    def place(self, cpus: int) -> Placement:
        """The CPUs of this machine that a guest with so many gets: of a remote one, its ssh."""
        return place(1 if self.remote else cpus)

    @property
    def can(self) -> Can:
        can: Can = self._module.CAN
        return can

    def check(self, method: Method) -> None:
        """UsageError or ToolError where it cannot measure by the method, before anything is
        built."""
        self._module.check(method)

    def examine(self, experiment: Experiment, counters: Sequence[str], cache: Path) -> None:
        """ToolError where one of the machines that are reached over the network cannot boot
        kernels, or not count, before any is built."""
        if self.remote:
            _examine(experiment, counters, cache)

    @property
    def own_name(self) -> str:
        return f"{self.fragment}.config"

    def make(self, setup: Setup) -> Machine:
        name = "Boxes" if len(setup.hosts) > 1 else self.name.capitalize()
        machine: Machine = getattr(self._module, name)(setup)
        return machine

    @property
    def _module(self) -> ModuleType:
        """Of the machine's own name, imported when an experiment names it."""
        return import_module(f"kdyno.machines.{self.name}")


def of_command_line(name: str, what: str) -> None:
    """UsageError for a kind that a command line cannot name. what: it is wanted for."""
    kinds = [kind.name for kind in KINDS.values() if kind.builds and not kind.remote]
    if name in kinds:
        return
    text = f"--machine {name!r}: {what} {' and '.join(kinds)}"
    if name in KINDS and KINDS[name].remote:
        text += f". A {name} has a host: `kdyno run` takes it from an experiment with [machine] "
        text += f'kind = "{name}" and host = "NAME"'
    raise UsageError(text)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            "uml",
            "User Mode Linux",
            ("um", "um32"),
            no_images="boots kernels that are built for it (ARCH=um), and an installed kernel is "
            'not: kind = "qemu" counts it',
        ),
        # A kernel that is emulated begins with all of its memory.
        Kind("qemu", "QEMU", ("x86_64", "i386"), memory="512M"),
        Kind("box", "a machine of your own", ("x86_64",), remote=True, fragment="box"),
        Kind("host", "the machine's own kernel", (), no_images="has one kernel, the one that runs"),
    )
}
