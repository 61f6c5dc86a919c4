# SPDX-License-Identifier: MIT
"""What several test files share: the guest program, built once."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import settings

from kdyno.paths import data_root

# No test asserts a time, and a machine that does something else takes as long as it takes.
settings.register_profile("kdyno", deadline=None)
settings.load_profile("kdyno")


@pytest.fixture(scope="session")
def guest_build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that `make -C guest` fills; tests that run side by side share it."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    out = shared / "guest-build"
    with (shared / "guest-build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(
            ["make", "-j2", "-C", str(data_root() / "guest"), f"OUT={out}"],
            check=True,
            capture_output=True,
            env={**os.environ, "MAKEFLAGS": ""},
        )
    return out


@pytest.fixture(scope="session", params=["64", "32"])
def program(guest_build: Path, request: pytest.FixtureRequest) -> Path:
    """The guest program in each word size that this machine can build."""
    path = guest_build / f"kdyno-guest-{request.param}"
    if not path.exists():
        assert request.param == "32"
        pytest.skip("this toolchain does not link -m32 -static")
    return path
