# SPDX-License-Identifier: MIT
"""What a machine may have or lack, and the packages that bring it; first of all what suites run."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kdyno.command import capture
from kdyno.machines.process import ENVIRONMENT

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
