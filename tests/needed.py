# SPDX-License-Identifier: MIT
"""What a test needs of the machine.

What Debian packages bring is installed by `make test`, so there a test that lacks it fails (the
option --complete). Elsewhere, in `make check` on any machine, it is skipped. Both name the way out.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from kdyno import sandbox

SETUP = "./setup.sh --tests"
SAME = "bc bindfs bison bzip2 ccache clang clang-19 cpio fakeroot fio flex gcc mmdebstrap"
SAME += " rpm2cpio zstd"
"""Programs whose Debian package has their name."""
PACKAGES: Mapping[str, str] = {
    **{name: name for name in SAME.split()},
    "ab": "apache2-utils",
    "apache2": "apache2-bin",
    "apt-get": "apt",
    "benchstat": "",
    "chromium": "chromium-headless-shell",
    "diff": "diffutils",
    "dpkg-deb": "dpkg",
    "git": "git",
    "gprof": "binutils",
    "hackbench": "rt-tests",
    "mkfs.ext4": "e2fsprogs",
    "munged": "munge",
    "nm": "binutils",
    "pahole": "dwarves",
    "perf": "linux-perf",
    "postgres": "postgresql",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-x86_64": "qemu-user",
    "rpmbuild": "rpm",
    "setpriv": "util-linux",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "ssh": "openssh-client",
    "taskset": "util-linux",
    "unshare": "util-linux",
    "Xvfb": "xvfb",
    "xz": "xz-utils",
}
"""Program → the Debian package that has it; "": set-up builds it."""
NAMES: Mapping[str, tuple[str, ...]] = {
    "chromium": ("chromium", "chromium-browser", "chromium-headless-shell"),
    "clang": ("clang", "clang-19", "clang-16"),
    "postgres": ("postgres", *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres")))),
    "benchstat": (".venv/bin/benchstat", "benchstat"),
}
"""Programs that go by another name."""

complete = False
"""Whether everything that set-up installs must be there (set by --complete)."""


def path_of(name: str) -> str | None:
    """Where a program is; None when it is not there."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    places = (shutil.which(each, os.F_OK, path=path) for each in NAMES.get(name, (name,)))
    return next((place for place in places if place), None)


def lack(reason: str) -> NoReturn:
    """The test cannot run without something that set-up installs."""
    if complete:
        pytest.fail(f"{reason}; `{SETUP}` installs what the tests need", pytrace=False)
    pytest.skip(reason)


def need(*programs: str) -> None:
    """Each of the programs, or the test is skipped or fails; "sandbox" is bubblewrap that works."""
    for name in programs:
        if name == "sandbox":
            if (why := sandbox.unusable()) is not None:
                lack(f"no sandbox: {why} (apt-get install bubblewrap, docs/sandbox.md)")
        elif path_of(name) is None:
            package = PACKAGES[name]
            lack(f"no {name}: {f'apt-get install {package}' if package else SETUP}")
