# SPDX-License-Identifier: MIT
"""Real kernels for the tests marked `uml`: built once, into the user's own cache."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from descendants import adopt, descendants
from real_kernels import EXPERIMENT, built_kernels

from kdyno.kernels.image import Image
from kdyno.measure.builder import Built

__all__ = ["EXPERIMENT", "KDYNO", "kdyno", "uml_processes"]

KDYNO = [sys.executable, "-m", "kdyno"]


def kdyno(
    *arguments: str | Path, runs: Path, check: Sequence[int] = (0,), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line as a user would; the exit status must be one of ``check``."""
    done = subprocess.run(
        [*KDYNO, *map(str, arguments)],
        env={**os.environ, "KDYNO_RUNS": str(runs), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode in check, done.stdout + done.stderr
    return done


@pytest.fixture(scope="session", autouse=True)
def _guests_of_its_own() -> None:
    adopt()


def uml_processes() -> list[int]:
    """Images and sandboxes that this test session booted and that are alive."""
    return descendants(b"kdyno.job=")


@pytest.fixture(scope="session")
def built() -> Built:
    return built_kernels()


@pytest.fixture(scope="session")
def stock(built: Built) -> Image:
    return built.images["stock"]
