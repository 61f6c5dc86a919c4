# SPDX-License-Identifier: MIT
"""Every native benchmark of the guest program, run as an ordinary process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kdyno.paths import data_root

# What `run` and the programs of their own do is tested elsewhere; faults are for guests.
OTHERS = {"run", "program"}
ARGUMENTS = {
    "fscopy": ["1024 200"],
    "fsread": ["256 200"],
    "fswrite": ["4096 200"],
    "shell": ["1", "8"],
    "contend": ["median 2", "work 2"],
    "memfill": ["256"],
    "memcopy": ["256"],
    "stream": ["copy", "scale", "add", "triad"],
}
# A busy machine makes an operation seem long while it is calibrated, and two threads that take
# turns at a lock are many times faster while only one runs. Then a repetition does not last the
# millisecond that it must, the program says so, and the next of these will do.
SECONDS = ("0.03", "0.5", "5")
TOO_SHORT = "less than 1 ms cannot be timed"
LINES = [
    f"{path.stem} {arguments}".strip()
    for path in sorted((data_root() / "guest" / "bench").glob("*.c"))
    if path.stem not in OTHERS and not path.stem.startswith("fault-")
    for arguments in ARGUMENTS.get(path.stem, [""])
]


def call(program: Path, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), "bench", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "KDYNO_DIR": str(tmp_path)},
    )


def record(program: Path, tmp_path: Path, *words: str) -> dict[str, Any]:
    done = call(program, tmp_path, *words)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES)
def test_every_benchmark_repeats_counts_and_cleans_up(
    program: Path, tmp_path: Path, line: str
) -> None:
    name, *args = line.split()
    for seconds in SECONDS:
        done = call(program, tmp_path, name, "--seconds", seconds, *args)
        if TOO_SHORT not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["bench"] == name
    # Only an operation that fills the time by itself may be repeated fewer than five times.
    assert len(found["reps"]) >= 5 or found["reps"][0][0] == 1
    assert len({operations for operations, _ in found["reps"]}) == 1
    # What contend says in the place of a duration is how late a process woke up.
    least_ns = 1 if name == "contend" else 1_000_000
    assert all(operations > 0 and ns >= least_ns for operations, ns in found["reps"])
    assert found["calibration_ns"] > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fsread 0 5", "the block size is 0"),
        ("fswrite 2048 1", "does not fit"),
        ("fsread 1024", "a block size in bytes and a file size in KiB are wanted"),
        ("shell", "a number of copies"),
        ("shell 0", "the number of copies is 0"),
        ("stream twice", "copy, scale, add or triad"),
        ("memfill", "a block size in KiB"),
        ("memcopy x", "the block size is x"),
        ("gcd 5", "takes no arguments"),
    ],
)
def test_wrong_arguments_are_named(program: Path, tmp_path: Path, line: str, words: str) -> None:
    done = call(program, tmp_path, *line.split())
    assert done.returncode == 1
    assert words in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_full_or_missing_folder_is_an_error(program: Path, tmp_path: Path) -> None:
    done = call(program, tmp_path / "none", "fsread", "1024", "100")
    assert "cannot create" in done.stderr
    done = call(program, tmp_path / "none", "shell", "1")
    assert "cannot create" in done.stderr


def test_the_text_of_the_shell_case(program: Path) -> None:
    done = subprocess.run(
        [str(program), "helper", "shell"], capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    assert 8300 <= len(done.stdout) <= 8700
    assert lines != sorted(lines)
    assert 20 <= sum("the" in line for line in lines) <= len(lines) - 20


def test_operations_are_shared_among_threads(program: Path, tmp_path: Path) -> None:
    # 7 is not a multiple of 4, and the benchmark itself counts the locks that were taken.
    found = record(program, tmp_path, "threads-lock", "--operations", "7000007")
    assert sum(operations for operations, _ in found["reps"]) == 7000007


FROM, TO = "echo kdyno: timed from here", "echo kdyno: timed to here"
WORK = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"


def timed_ns(program: Path, tmp_path: Path, script: str) -> float:
    """Of the one operation that is measured; before it there is one to warm up."""
    options = ("run", "--operations", "2", "--", "--warmups", "0", "--figure", "printed", "--")
    *_, (operations, ns) = record(program, tmp_path, *options, "sh", "-c", script)["reps"]
    assert operations == 1
    return float(ns)


@pytest.mark.slow
def test_of_a_command_only_what_it_marks_is_timed(program: Path, tmp_path: Path) -> None:
    """Orders of times that are thousands of times apart: of two lines, and of much work."""
    lines = timed_ns(program, tmp_path, f"{WORK}; {FROM}; echo; {TO}; {WORK}")
    assert 0 < lines < timed_ns(program, tmp_path, f"{FROM}; {WORK}; {TO}")
    # The first run begins, the second ends: neither has marked anything.
    half = f"cd {tmp_path}; if mkdir first 2>/dev/null; then {FROM}; else {TO}; {WORK}; fi"
    assert lines < timed_ns(program, tmp_path, half)
