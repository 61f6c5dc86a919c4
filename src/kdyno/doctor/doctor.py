# SPDX-License-Identifier: MIT
"""What kdyno needs of a machine: what is there, what is missing, how it is installed."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

from kdyno import sandbox, whole
from kdyno.command import capture
from kdyno.doctor.needs import INSTALL, SUITE_NEEDS, Finding, Need, packages, program
from kdyno.kernels.compiler import DEBIAN, missing_clang
from kdyno.machines import emulator
from kdyno.paths import cache_root, data_root

__all__ = ["INSTALL", "NEEDS", "Finding", "Need", "examine", "family", "install_line"]


def _links(*flags: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        if shutil.which("gcc") is None:
            return "no gcc on PATH"
        with whole.scratch("doctor") as name:
            source = name / "main.c"
            source.write_text('#include <stdio.h>\nint main(void) { return puts("") < 0; }\n')
            done = capture(["gcc", *flags, "-o", f"{name}/main", str(source)])
            return None if done.status == 0 else f"gcc {' '.join(flags)} cannot link a program"

    return missing


def _compiles(header: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        if shutil.which("gcc") is None:
            return "no gcc on PATH"
        found = capture(["gcc", "-E", "-include", header, "-x", "c", "/dev/null"])
        return None if found.status == 0 else f"no {header}"

    return missing


def _space() -> str | None:

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


NEEDS: tuple[Need, ...] = (
    Need("gcc", "to build kernels", True, packages("gcc"), program("gcc")),
    Need("make", "to build kernels", True, packages("make"), program("make")),
    Need("flex", "to build kernels", True, packages("flex"), program("flex")),
    Need("bison", "to build kernels", True, packages("bison"), program("bison")),
    Need("bc", "to build kernels", True, packages("bc"), program("bc")),
    Need("patch", "to apply a variant's patches", True, packages("patch"), _gnu_patch),
    Need("xz", "to unpack sources", True, packages("xz", debian="xz-utils"), program("xz")),
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
    Need("bubblewrap", "the sandbox", True, packages("bubblewrap"), sandbox.unusable),
    Need("disk space", "sources, object trees, images", True, {}, _space),
    Need("git", "for git: sources", False, packages("git"), program("git")),
    Need("ccache", "to build again faster", False, packages("ccache"), program("ccache")),
    Need(
        "perf",
        "for profiles, suite perf-bench",
        False,
        packages("perf", debian="linux-perf", ubuntu="linux-tools-generic"),
        program("perf"),
    ),
    Need("apt", "for debian: sources", False, {"fedora": "apt", "arch": "apt"}, program("apt-get")),
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
    Need(
        "clang",
        'for compiler = "clang"',
        False,
        packages("clang", debian=DEBIAN, ubuntu="clang"),
        missing_clang,
    ),
    Need(
        "QEMU",
        'for [machine] kind = "qemu": native kernels, counted',
        False,
        packages(
            "qemu-system-x86",
            debian="qemu-system-x86 seabios",
            arch="qemu-system-x86 seabios",
            suse="qemu-x86 qemu-microvm",
            alpine="qemu-system-x86_64 seabios",
        ),
        emulator.missing,
    ),
    Need(
        "pahole",
        "for schedulers: fragment sched-ext",
        False,
        packages("pahole", debian="dwarves", ubuntu="dwarves pahole", fedora="dwarves"),
        program("pahole"),
    ),
    Need(
        "libelf",
        "to build native kernels",
        False,
        packages(
            "libelf-dev",
            fedora="elfutils-libelf-devel",
            arch="libelf",
            suse="libelf-devel",
            alpine="elfutils-dev",
        ),
        _compiles("libelf.h"),
    ),
    *SUITE_NEEDS,
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


def suites_line(findings: tuple[Finding, ...], family_name: str | None) -> str | None:
    """The project's own command for what suites run; None when all is there, or outside of a
    checkout or of Debian and its like."""
    makefile = data_root() / "Makefile"
    lacking = any(not finding.ok and finding.need in SUITE_NEEDS for finding in findings)
    if not lacking or family_name not in ("debian", "ubuntu") or not makefile.is_file():
        return None
    return (
        "make setup-suites"
        if Path.cwd() == makefile.parent
        else (f"make -C {shlex.quote(str(makefile.parent))} setup-suites")
    )


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
    wanted = list(dict.fromkeys(" ".join(wanted).split()))
    command = INSTALL[family_name]
    if os.geteuid() == 0:
        command = command.removeprefix("sudo ")
    return f"{command} {' '.join(wanted)}"
