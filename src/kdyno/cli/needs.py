# SPDX-License-Identifier: MIT
"""What kdyno needs of a machine: what is there, what is missing, and how to install it."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kdyno import sandbox, whole
from kdyno.command import capture
from kdyno.kernels.compiler import DEBIAN, missing_clang
from kdyno.machines import emulator
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


def _in_a_case(*names: str) -> Callable[[], str | None]:
    """One of each: looked for where a case looks, which may not be where a shell does (sbin)."""

    def missing() -> str | None:
        lacking = [
            name.replace("|", " or ")
            for name in names
            if not any(shutil.which(it, path=ENVIRONMENT["PATH"]) for it in name.split("|"))
        ]
        return f"no {', no '.join(lacking)}" if lacking else None

    return missing


def _modules(*names: str, also: str = "") -> Callable[[], str | None]:
    """Development files by pkg-config, as the guest's programs are built with them."""

    def missing() -> str | None:
        if shutil.which("pkg-config") is None:
            return "no pkg-config on PATH"
        lacking = [it for it in names if capture(["pkg-config", "--exists", it]).status != 0]
        if lacking:
            return f"pkg-config knows no {', no '.join(lacking)}"
        return _in_a_case(also)() if also else None

    return missing


SUITE_NEEDS: tuple[Need, ...] = (
    Need("fio", "suites fio, tiobench, xbench disk", False, packages("fio"), _in_a_case("fio")),
    Need(
        "Apache and ab",
        "suite apachebench",
        False,
        {
            "debian": "apache2-bin apache2-utils",
            "ubuntu": "apache2-bin apache2-utils",
            "fedora": "httpd httpd-tools",
            "arch": "apache",
            "suse": "apache2 apache2-utils",
            "alpine": "apache2 apache2-utils",
        },
        _in_a_case("apache2|httpd", "ab"),
    ),
    Need(
        "hackbench",
        "suite hackbench",
        False,
        packages("rt-tests", fedora="realtime-tests"),
        _in_a_case("hackbench"),
    ),
    Need("sysbench", "suite sysbench", False, packages("sysbench"), _in_a_case("sysbench")),
    Need("stress-ng", "suite stress-ng", False, packages("stress-ng"), _in_a_case("stress-ng")),
    Need(
        "FFTW",
        "xbench cpu.fft",
        False,
        packages(
            "pkg-config libfftw3-dev",
            fedora="pkgconf-pkg-config fftw-devel",
            arch="pkgconf fftw",
            suse="pkg-config fftw3-devel",
            alpine="pkgconf fftw-dev",
        ),
        _modules("fftw3"),
    ),
    Need(
        "cairo",
        "xbench quartz",
        False,
        packages(
            "pkg-config libcairo2-dev",
            fedora="pkgconf-pkg-config cairo-devel",
            arch="pkgconf cairo",
            suse="pkg-config cairo-devel",
            alpine="pkgconf cairo-dev",
        ),
        _modules("cairo"),
    ),
    Need(
        "Mesa",
        "xbench opengl",
        False,
        packages(
            "pkg-config libegl-dev libgles-dev libegl-mesa0 libgl1-mesa-dri",
            fedora="pkgconf-pkg-config mesa-libEGL-devel mesa-libGLES-devel mesa-dri-drivers",
            arch="pkgconf mesa",
            suse="pkg-config Mesa-libEGL-devel Mesa-libGLESv2-devel Mesa-dri",
            alpine="pkgconf mesa-dev mesa-dri-gallium",
        ),
        _modules("egl", "glesv2"),
    ),
    Need(
        "GTK and Xvfb",
        "xbench ui",
        False,
        packages(
            "pkg-config libgtk-3-dev xvfb",
            fedora="pkgconf-pkg-config gtk3-devel xorg-x11-server-Xvfb",
            arch="pkgconf gtk3 xorg-server-xvfb",
            suse="pkg-config gtk3-devel xorg-x11-server-Xvfb",
            alpine="pkgconf gtk+3.0-dev xvfb",
        ),
        _modules("gtk+-3.0", also="Xvfb"),
    ),
)


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
