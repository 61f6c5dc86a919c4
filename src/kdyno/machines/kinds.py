# SPDX-License-Identifier: MIT
"""The kinds of machines that an experiment may name. A new one is a module and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kdyno.machines import host_machine, qemu_machine, uml_machine
from kdyno.machines.machine import Asked, Can, Machine, Setup


@dataclass(frozen=True)
class Kind:
    """A kind of machine, before there is one."""

    name: str
    label: str
    """For people, in the middle of a sentence."""
    builds: bool
    """It boots kernels that kdyno builds; otherwise there is one variant, the kernel that runs."""
    archs: tuple[str, ...]
    """What it boots; the first is the default."""
    can: Can
    check: Callable[[Asked], None]
    """UsageError or ToolError where it cannot measure what is asked, before anything is built."""
    make: Callable[[Setup], Machine]
    memory: str = ""
    """Of a guest for one command; empty: as much as an experiment's."""


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            *("uml", "User Mode Linux", True, ("um", "um32")),
            *(uml_machine.CAN, uml_machine.check, uml_machine.Uml),
        ),
        Kind(
            *("qemu", "QEMU", True, ("x86_64", "i386")),
            *(qemu_machine.CAN, qemu_machine.check, qemu_machine.Qemu),
            memory="512M",  # a kernel that is emulated begins with all of its memory
        ),
        Kind(
            *("host", "the machine's own kernel", False, ()),
            *(host_machine.CAN, host_machine.check, host_machine.Host),
        ),
    )
}
