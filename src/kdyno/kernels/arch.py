# SPDX-License-Identifier: MIT
"""The architectures that kdyno builds kernels for: one TOML file each in archs/."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
    runs: tuple[int, ...]
    """Word sizes of the programs that its kernels run."""
    config: Mapping[str, str]
    """Options that make this the architecture it is; an experiment cannot override them."""


def _read(file: Path) -> Arch:
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    return Arch(
        name=file.stem, **{**data, "make": tuple(data["make"]), "runs": tuple(data["runs"])}
    )


ARCHS: Mapping[str, Arch] = {
    file.stem: _read(file) for file in sorted(Path(__file__).with_name("archs").glob("*.toml"))
}


def arch(name: str) -> Arch:
    """The architecture called ``name``; UsageError with the known ones otherwise."""
    if name not in ARCHS:
        raise UsageError(f"arch {name!r} is not one that kdyno builds ({', '.join(ARCHS)})")
    return ARCHS[name]
