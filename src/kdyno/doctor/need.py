# SPDX-License-Identifier: MIT
"""One thing that a machine has or lacks, and the packages that bring it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Family of distributions → the command that installs packages.
INSTALL: Mapping[str, str] = {
    "debian": "sudo apt-get install",
    "ubuntu": "sudo apt-get install",
    "fedora": "sudo dnf install",
    "arch": "sudo pacman -S",
    "suse": "sudo zypper install",
    "alpine": "sudo apk add",
}


@dataclass(frozen=True)
class Need:
    """One thing that kdyno needs: ``required``, or only for what ``purpose`` says."""

    name: str
    purpose: str
    required: bool
    packages: Mapping[str, str]
    """Family of distributions → package."""
    missing: Callable[[], str | None]
    """None when it is there, else what is wrong."""


@dataclass(frozen=True)
class Finding:
    """A need and whether it is met."""

    need: Need
    problem: str | None

    @property
    def ok(self) -> bool:
        return self.problem is None


def program(*names: str) -> Callable[[], str | None]:
    """One of these on PATH is enough."""

    def missing() -> str | None:
        return None if any(map(shutil.which, names)) else f"no {' or '.join(names)} on PATH"

    return missing


def packages(name: str, **others: str) -> dict[str, str]:
    """Family → package: ``name`` but for ``others``; Ubuntu's is Debian's unless told."""
    found = {**dict.fromkeys(INSTALL, name), **others}
    found["ubuntu"] = others.get("ubuntu", found["debian"])
    return found
