# SPDX-License-Identifier: MIT
"""The kinds of machines that an experiment may name. A new one is a module and a row here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kdyno.machines import host_machine, uml_machine
from kdyno.machines.machine import Can, Machine, Setup


@dataclass(frozen=True)
class Kind:
    """A kind of machine, before there is one."""

    name: str
    builds: bool
    """It boots kernels that kdyno builds; otherwise there is one variant, the kernel that runs."""
    archs: tuple[str, ...]
    """What it boots; the first is the default."""
    can: Can
    make: Callable[[Setup], Machine]


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(uml_machine.NAME, True, ("um", "um32"), uml_machine.CAN, uml_machine.Uml),
        Kind(host_machine.NAME, False, (), host_machine.CAN, host_machine.Host),
    )
}
