# SPDX-License-Identifier: MIT
"""kdyno killed where it has no sandbox, which ends all by itself elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import EXPERIMENT, KDYNO, kdyno
from descendants import descendants

from kdyno.measure.builder import Built

pytestmark = pytest.mark.uml

SUITE = '[[suite]]\nname = "unixbench"\ncases = ["pipe"]\nseconds = {seconds}\n'
MACHINES = {
    "host": 'name = "killed"\n[machine]\nkind = "host"\n',
    "uml": EXPERIMENT.read_text().split("[[suite]]")[0],
}
OUTSIDE = ("--no-sandbox", "--max-boots", "1")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Not below /dev, where a guest would not find its job."""
    with tempfile.TemporaryDirectory(prefix="killed-", dir="/var/tmp") as folder:
        yield Path(folder)


def guests() -> list[int]:
    """Of this test: guest programs, their supervisors, and kernels (``init=…/kdyno-guest``)."""
    return descendants(b"kdyno-guest")


@pytest.mark.parametrize("machine", MACHINES)
def test_without_a_sandbox_the_guest_ends_and_the_next_run_removes_its_folder(
    built: Built, tmp_path: Path, temporary: Path, machine: str
) -> None:
    file = tmp_path / "long.toml"
    file.write_text(MACHINES[machine] + SUITE.format(seconds=300))
    process = subprocess.Popen(
        [*KDYNO, "run", str(file), *OUTSIDE],
        env={**os.environ, "KDYNO_RUNS": str(tmp_path / "runs"), "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    job = "job" if machine == "host" else "kdyno.job"
    while process.poll() is None and not list(temporary.glob(f"kdyno-boot-*/in/{job}")):
        os.sched_yield()
    while process.poll() is None and len(guests()) < 2:
        os.sched_yield()
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    while guests():
        os.sched_yield()  # the supervisor sees that its parent is gone
    assert list(temporary.glob("kdyno-boot-*"))  # one or both of a group
    file.write_text(MACHINES["host"] + SUITE.format(seconds=0.05))
    kdyno("run", file, *OUTSIDE, runs=tmp_path / "runs", TMPDIR=str(temporary))
    assert list(temporary.iterdir()) == []


@pytest.mark.needs("perf")
@pytest.mark.parametrize("outside", [(), ("--no-sandbox",)], ids=["inside", "outside"])
def test_a_killed_profile_leaves_no_profiler_and_no_guest(
    built: Built, tmp_path: Path, temporary: Path, outside: tuple[str, ...]
) -> None:
    file = tmp_path / "profiled.toml"
    file.write_text(MACHINES["uml"] + SUITE.format(seconds=1))
    process = subprocess.Popen(
        [
            *KDYNO,
            "profile",
            str(file),
            "--variant",
            "stock",
            "--boots",
            "1",
            "--seconds",
            "3",
            *outside,
        ],
        env={**os.environ, "KDYNO_RUNS": str(tmp_path / "runs"), "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not (descendants(b"perf.data") and guests()):
        os.sched_yield()
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    while descendants(b"perf.data") or guests():
        os.sched_yield()
