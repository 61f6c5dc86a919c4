# SPDX-License-Identifier: MIT
"""kdyno killed where it has no sandbox, which ends all by itself elsewhere."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
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


def kill_when(
    ready: Callable[[], object], words: Sequence[str | Path], tmp_path: Path, temporary: Path
) -> None:
    """kdyno with these words, killed as soon as it is ready."""
    environment = {"KDYNO_RUNS": str(tmp_path / "runs"), "TMPDIR": str(temporary)}
    none = subprocess.DEVNULL
    process = subprocess.Popen(
        [*KDYNO, *words], env={**os.environ, **environment}, stdout=none, stderr=none
    )
    while process.poll() is None and not ready():
        os.sched_yield()
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("machine", MACHINES)
def test_without_a_sandbox_the_guest_ends_and_the_next_run_removes_its_folder(
    built: Built, tmp_path: Path, temporary: Path, machine: str
) -> None:
    file = tmp_path / "long.toml"
    file.write_text(MACHINES[machine] + SUITE.format(seconds=300))
    job = f"kdyno-boot-*/in/{'job' if machine == 'host' else 'kdyno.job'}"

    def ready() -> bool:
        return bool(list(temporary.glob(job))) and len(guests()) >= 2

    kill_when(ready, ["run", file, *OUTSIDE], tmp_path, temporary)
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
    words = ["profile", file, "--variant", "stock", "--boots", "1", "--seconds", "3", *outside]
    kill_when(lambda: descendants(b"perf.data") and guests(), words, tmp_path, temporary)
    while descendants(b"perf.data") or guests():
        os.sched_yield()
