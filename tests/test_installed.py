# SPDX-License-Identifier: MIT
"""The command as setup.sh installs it, which is what people run: a process, not a function."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import sysconfig
from http.client import HTTPConnection
from pathlib import Path

import pytest
from site_runs import small

KDYNO = Path(sysconfig.get_path("scripts")) / "kdyno"
RUNS = 21
"""More than one worker's share: what deadlocked before."""
LIMIT_S = 300.0
"""Far more than it takes on any machine; without it a deadlock would hold the tests for ever."""


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    first = small(tmp_path / "runs")
    for number in range(1, RUNS):
        shutil.copytree(first.path, tmp_path / "runs" / f"{first.name}-{number:02d}")
    return tmp_path / "runs"


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "KDYNO_CACHE": str(tmp_path / "cache")}


def test_a_worker_that_imports_the_command_does_not_run_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert KDYNO.is_file(), f"{KDYNO} is missing: ./setup.sh --python-only"
    monkeypatch.setattr(sys, "argv", [str(KDYNO), "--no-such-option"])
    # As multiprocessing's spawn does it in each worker; run, it would end in SystemExit.
    assert "main" in runpy.run_path(str(KDYNO), run_name="__mp_main__")
    assert "main" in runpy.run_module("kdyno.__main__", run_name="__mp_main__")


@pytest.mark.slow
@pytest.mark.parametrize("command", [[str(KDYNO)], [sys.executable, "-m", "kdyno"]])
def test_a_site_of_many_runs(runs: Path, tmp_path: Path, command: list[str]) -> None:
    words = ["report", "--all", "--runs", str(runs), "-o", str(tmp_path / "site")]
    done = subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=environment(tmp_path),
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.endswith(f"index.html ({RUNS} of {RUNS} runs drawn again)\n")
    assert len(list((tmp_path / "site" / "runs").glob("*.html"))) == RUNS


@pytest.mark.slow
def test_many_runs_are_served(runs: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [KDYNO, "serve", "--port", "0", "--runs", str(runs)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    ) as process:
        assert process.stderr is not None
        signal.signal(signal.SIGALRM, lambda *_: process.kill())
        signal.alarm(int(LIMIT_S))
        try:
            message = next(
                match
                for line in process.stderr
                if (match := re.match(r"http://127\.0\.0\.1:(\d+)/", line))
            )
            connection = HTTPConnection("127.0.0.1", int(message[1]), timeout=60)
            connection.request("GET", "/")
            page = connection.getresponse().read()
            connection.close()
            assert len(re.findall(rb'href="runs/', page)) == RUNS
            process.terminate()
            process.stderr.read()
        finally:
            signal.alarm(0)
            process.kill()
