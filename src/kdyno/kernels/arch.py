# SPDX-License-Identifier: MIT
"""The architectures that kdyno builds kernels for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kdyno.errors import UsageError


@dataclass(frozen=True)
class Arch:
    """How Kbuild is told, what it builds, and which file is the bootable image."""

    name: str
    make: tuple[str, ...]
    """Words of every make call."""
    goal: str
    """What make is asked to build."""
    image: str
    """The bootable file, from the top of the object tree."""
    word_bits: int
    config: Mapping[str, str]
    """Options that make this the architecture it is; an experiment cannot override them."""


ARCHS: Mapping[str, Arch] = {
    arch.name: arch
    for arch in (
        Arch("um", ("ARCH=um", "SUBARCH=x86_64"), "linux", "linux", 64, {"CONFIG_64BIT": "y"}),
        Arch("um32", ("ARCH=um", "SUBARCH=i386"), "linux", "linux", 32, {"CONFIG_64BIT": "n"}),
    )
}


def arch(name: str) -> Arch:
    """The architecture called ``name``; UsageError with the known ones otherwise."""
    if name not in ARCHS:
        raise UsageError(f"arch {name!r} is not one that kdyno builds ({', '.join(ARCHS)})")
    return ARCHS[name]
