# SPDX-License-Identifier: MIT
"""What kdyno needs of a machine (needs.toml): what is there, what is missing, how to install it."""

from __future__ import annotations

import os
import shlex
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kdyno import sandbox, whole
from kdyno.command import capture
from kdyno.kernels.compiler import missing_clang
from kdyno.machines import emulator, facts
from kdyno.machines.process import ENVIRONMENT
from kdyno.paths import cache_root, data_root

# Family of distributions → the command that installs packages.
INSTALL: Mapping[str, str] = {
    "debian": "sudo apt-get install",
    "ubuntu": "sudo apt-get install",
    "fedora": "sudo dnf install",
    "arch": "sudo pacman -S",
    "suse": "sudo zypper install",
    "alpine": "sudo apk add",
}


def _space() -> str | None:
    cache = cache_root()
    folder = next(folder for folder in (cache, *cache.parents) if folder.exists())
    free = shutil.disk_usage(folder).free
    lacking = f"{free / 1e9:.1f} GB free at {folder}, 5 GB needed"
    return None if free > 5e9 else lacking


def _gnu_patch() -> str | None:
    if shutil.which("patch") is None:
        return "no patch on PATH"
    # BusyBox has a patch, too, that cannot be told to refuse an inexact match.
    version = capture(["patch", "--version"]).output
    return None if "GNU patch" in version else "the patch on PATH is not GNU patch"


_OWN: Mapping[str, Callable[[], str | None]] = {
    "patch": _gnu_patch,
    "bubblewrap": sandbox.unusable,
    "disk space": _space,
    "clang": missing_clang,
    "QEMU": emulator.missing,
    "hardware counters": lambda: facts.why_no_pmu() or facts.why_paranoid() or None,
}


@dataclass(frozen=True)
class Need:
    """A table of needs.toml, whose comment says what its keys mean."""

    name: str
    purpose: str
    required: bool = False
    suite: bool = False
    packages: Mapping[str, str] = field(default_factory=dict)
    """Family of distributions → packages."""
    program: Sequence[str] = ()
    case: Sequence[str] = ()
    modules: Sequence[str] = ()
    links: Sequence[str] = ()
    header: str = ""

    def missing(self) -> str | None:
        """None when it is there, else what is wrong."""
        if self.name in _OWN:
            return _OWN[self.name]()
        if self.program:
            there = any(map(shutil.which, self.program))
            return None if there else f"no {' or '.join(self.program)} on PATH"
        if self.modules:
            if shutil.which("pkg-config") is None:
                return "no pkg-config on PATH"
            query = ["pkg-config", "--exists"]
            if lacking := [name for name in self.modules if capture([*query, name]).status != 0]:
                return f"pkg-config knows no {', no '.join(lacking)}"
        if self.links or self.header:
            return self._compiler_lacks()
        lacking = [
            names.replace("|", " or ")
            for names in self.case
            if not any(shutil.which(name, path=ENVIRONMENT["PATH"]) for name in names.split("|"))
        ]
        return f"no {', no '.join(lacking)}" if lacking else None

    def _compiler_lacks(self) -> str | None:
        if shutil.which("gcc") is None:
            return "no gcc on PATH"
        if self.header:
            done = capture(["gcc", "-E", "-include", self.header, "-x", "c", "/dev/null"])
            return None if done.status == 0 else f"no {self.header}"
        with whole.scratch("doctor") as folder:
            source = folder / "main.c"
            source.write_text('#include <stdio.h>\nint main(void) { return puts("") < 0; }\n')
            done = capture(["gcc", *self.links, "-o", f"{folder}/main", str(source)])
            return None if done.status == 0 else f"gcc {' '.join(self.links)} cannot link a program"


def _read(file: Path) -> tuple[Need, ...]:
    needs = []
    for name, table in tomllib.loads(file.read_text(encoding="utf-8")).items():
        packages = table.pop("packages", {})
        if "all" in packages:
            packages = dict.fromkeys(INSTALL, packages.pop("all")) | {"ubuntu": ""} | packages
        if "debian" in packages:
            packages["ubuntu"] = packages.get("ubuntu") or packages["debian"]
        needs.append(Need(name, table.pop("for"), packages=packages, **table))
    return tuple(needs)


NEEDS = _read(Path(__file__).with_name("needs.toml"))
Finding = tuple[Need, str | None]
"""A need, and what is wrong; None: it is met."""


def examine() -> tuple[Finding, ...]:
    """Look for everything; a second or less."""
    return tuple((need, need.missing()) for need in NEEDS)


def family(os_release: str) -> str | None:
    """Family of the distribution that /etc/os-release text names; None for an unknown one."""
    values = dict(
        line.split("=", 1) for line in os_release.splitlines() if "=" in line and line[0] != "#"
    )
    words = " ".join(values.get(key, "").strip("\"' ") for key in ("ID", "ID_LIKE")).split()
    aliases = {"rhel": "fedora", "centos": "fedora", "opensuse": "suse"}
    return next((name for word in words if (name := aliases.get(word, word)) in INSTALL), None)


def this_family() -> str | None:
    try:
        return family(Path("/etc/os-release").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def suites_line(findings: tuple[Finding, ...], family_name: str | None) -> str | None:
    """The project's own command for what suites run; None when all is there, or outside of a
    checkout or of Debian and its like."""
    makefile = data_root() / "Makefile"
    lacking = any(problem and need.suite for need, problem in findings)
    if not lacking or family_name not in ("debian", "ubuntu") or not makefile.is_file():
        return None
    if Path.cwd() == makefile.parent:
        return "make setup-suites"
    return f"make -C {shlex.quote(str(makefile.parent))} setup-suites"


def install_line(findings: tuple[Finding, ...], family_name: str | None) -> str | None:
    """One command that installs everything missing; None when nothing is, or nobody knows how."""
    lost = [need for need, problem in findings if problem]
    packages = " ".join(need.packages.get(family_name or "", "") for need in lost).split()
    if family_name is None or not packages:
        return None
    command = INSTALL[family_name]
    if os.geteuid() == 0:
        command = command.removeprefix("sudo ")
    return f"{command} {' '.join(dict.fromkeys(packages))}"
