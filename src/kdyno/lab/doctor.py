# SPDX-License-Identifier: MIT
"""What kdyno needs of a machine: what is there, what is missing, how it is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from kdyno import sandbox
from kdyno.command import capture

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


def _program(*names: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        return None if any(map(shutil.which, names)) else f"no {' or '.join(names)} on PATH"

    return missing


def _links(*flags: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        if shutil.which("gcc") is None:
            return "no gcc on PATH"
        with TemporaryDirectory(prefix="kdyno-doctor-") as name:
            source = Path(name) / "main.c"
            source.write_text('#include <stdio.h>\nint main(void) { return puts("") < 0; }\n')
            done = capture(["gcc", *flags, "-o", f"{name}/main", str(source)])
            return None if done.status == 0 else f"gcc {' '.join(flags)} cannot link a program"

    return missing


def _space() -> str | None:
    from kdyno.paths import cache_root

    folder = cache_root()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    return None if free > 5e9 else f"{free / 1e9:.1f} GB free at {folder}, 5 GB needed"


def _gnu_patch() -> str | None:
    if shutil.which("patch") is None:
        return "no patch on PATH"
    # BusyBox has a patch, too, that cannot be told to refuse an inexact match.
    said = capture(["patch", "--version"]).output
    return None if "GNU patch" in said else "the patch on PATH is not GNU patch"


def _packages(name: str, **others: str) -> dict[str, str]:
    """Family → package: ``name`` but for ``others``; Ubuntu's is Debian's unless told."""
    packages = {**dict.fromkeys(INSTALL, name), **others}
    packages["ubuntu"] = others.get("ubuntu", packages["debian"])
    return packages


NEEDS: tuple[Need, ...] = (
    Need("gcc", "to build kernels", True, _packages("gcc"), _program("gcc")),
    Need("make", "to build kernels", True, _packages("make"), _program("make")),
    Need("flex", "to build kernels", True, _packages("flex"), _program("flex")),
    Need("bison", "to build kernels", True, _packages("bison"), _program("bison")),
    Need("bc", "to build kernels", True, _packages("bc"), _program("bc")),
    Need("patch", "to apply a variant's patches", True, _packages("patch"), _gnu_patch),
    Need("xz", "to unpack sources", True, _packages("xz", debian="xz-utils"), _program("xz")),
    Need(
        "static C library",
        "for the program that runs in a guest",
        True,
        {
            "debian": "libc6-dev",
            "ubuntu": "libc6-dev",
            "fedora": "glibc-static",
            "arch": "glibc",
            "suse": "glibc-devel-static",
            "alpine": "musl-dev linux-headers",
        },
        _links("-static"),
    ),
    Need("bubblewrap", "the sandbox", True, _packages("bubblewrap"), sandbox.unusable),
    Need("disk space", "sources, object trees, images", True, {}, _space),
    Need("git", "for git: sources", False, _packages("git"), _program("git")),
    Need("ccache", "to build again faster", False, _packages("ccache"), _program("ccache")),
    Need(
        "perf",
        "for profiles",
        False,
        _packages("perf", debian="linux-perf", ubuntu="linux-tools-generic"),
        _program("perf"),
    ),
    Need(
        "apt", "for debian: sources", False, {"fedora": "apt", "arch": "apt"}, _program("apt-get")
    ),
    Need(
        "32-bit toolchain",
        "for 32-bit kernels",
        False,
        {
            "debian": "gcc-multilib",
            "ubuntu": "gcc-multilib",
            "fedora": "glibc-devel.i686 glibc-static.i686",
            "arch": "lib32-glibc lib32-gcc-libs",
            "suse": "gcc-32bit glibc-devel-static-32bit",
        },
        _links("-m32", "-static"),
    ),
)


def examine() -> tuple[Finding, ...]:
    """Look for everything; a second or less."""
    return tuple(Finding(need, need.missing()) for need in NEEDS)


def family(os_release: str) -> str | None:
    """Family of the distribution that /etc/os-release text names; None for an unknown one."""
    values = dict(
        line.split("=", 1) for line in os_release.splitlines() if "=" in line and line[0] != "#"
    )
    words = " ".join(values.get(key, "").strip("\"' ") for key in ("ID", "ID_LIKE")).split()
    aliases = {"rhel": "fedora", "centos": "fedora", "opensuse": "suse"}
    for word in words:
        name = aliases.get(word, word)
        if name in INSTALL:
            return name
    return None


def this_family() -> str | None:
    """Family of this machine's distribution."""
    try:
        return family(Path("/etc/os-release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def install_line(findings: tuple[Finding, ...], family_name: str | None) -> str | None:
    """One command that installs everything missing; None when nothing is, or nobody knows how."""
    if family_name is None:
        return None
    wanted = [
        finding.need.packages[family_name]
        for finding in findings
        if not finding.ok and family_name in finding.need.packages
    ]
    if not wanted:
        return None
    command = INSTALL[family_name]
    if os.geteuid() == 0:
        command = command.removeprefix("sudo ")
    return f"{command} {' '.join(wanted)}"
