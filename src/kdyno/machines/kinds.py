# SPDX-License-Identifier: MIT
"""The kinds of machines that an experiment may name. A new one is a module and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kdyno.machines import host, qemu, uml
from kdyno.machines.machine import Can, Machine, Method, Setup


@dataclass(frozen=True)
class Kind:
    """A kind of machine, before there is one."""

    name: str
    label: str
    """For people, in the middle of a sentence."""
    archs: tuple[str, ...]
    """What it boots; the first is the default."""
    can: Can
    check: Callable[[Method], None]
    """UsageError or ToolError where it cannot measure by the method, before anything is built."""
    make: Callable[[Setup], Machine]
    memory: str = ""
    """Of a guest for one command; empty: as much as an experiment's."""

    @property
    def builds(self) -> bool:
        """It boots kernels that kdyno builds; else there is one variant, the kernel that runs."""
        return bool(self.archs)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("uml", "User Mode Linux", ("um", "um32"), uml.CAN, uml.check, uml.Uml),
        # A kernel that is emulated begins with all of its memory.
        Kind("qemu", "QEMU", ("x86_64", "i386"), qemu.CAN, qemu.check, qemu.Qemu, memory="512M"),
        Kind("host", "the machine's own kernel", (), host.CAN, host.check, host.Host),
    )
}
