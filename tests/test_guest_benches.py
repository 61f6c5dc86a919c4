# SPDX-License-Identifier: MIT
"""Every native benchmark of the guest program, and programs of their own, driven by its harness."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from needed import lack, need
from test_guest import GUEST, bench, call as guest

# What `run` and the programs of their own do is tested elsewhere; faults are for guests.
OTHERS = {"run", "program"}
ARGUMENTS = {
    "fscopy": ["64 125", "1024 200", "65536 200", "1024 200 16"],
    "fsread": ["256 200", "65536 200 4095"],
    "fswrite": ["4096 200", "65536 200", "4096 200 2064"],
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
    for path in sorted((GUEST / "bench").glob("*.c"))
    if path.stem not in OTHERS and not path.stem.startswith("fault-")
    for arguments in ARGUMENTS.get(path.stem, [""])
]


def call(program: Path, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return guest(program, "bench", *words, env={**os.environ, "KDYNO_DIR": str(tmp_path)})


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
    data = json.loads(done.stdout)
    assert data["bench"] == name
    # Only an operation that fills the time by itself may be repeated fewer than five times.
    assert len(data["reps"]) >= 5 or data["reps"][0][0] == 1
    assert len({operations for operations, _ in data["reps"]}) == 1
    # What contend says in the place of a duration is how late a process woke up.
    least_ns = 1 if name == "contend" else 1_000_000
    assert all(operations > 0 and ns >= least_ns for operations, ns in data["reps"])
    assert data["calibration_ns"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_full_or_missing_folder_is_an_error(program: Path, tmp_path: Path) -> None:
    for words in (("fsread", "1024", "100"), ("shell", "1")):
        assert "cannot create" in call(program, tmp_path / "none", *words).stderr


def test_the_text_of_the_shell_case(program: Path) -> None:
    text = guest(program, "helper", "shell").stdout
    lines = text.splitlines()
    assert 8300 <= len(text) <= 8700
    assert lines != sorted(lines)
    assert 20 <= sum("the" in line for line in lines) <= len(lines) - 20


def test_operations_are_shared_among_threads(program: Path, tmp_path: Path) -> None:
    # 7 is not a multiple of 4, and the benchmark itself counts the locks that were taken.
    record = bench(program, tmp_path, "threads-lock", "--operations", "7000007")
    assert sum(operations for operations, _ in record["reps"]) == 7000007


FROM, TO = "echo kdyno: timed from here", "echo kdyno: timed to here"
WORK = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"


def timed_ns(program: Path, tmp_path: Path, script: str) -> float:
    """Of the one operation that is measured; before it there is one to warm up."""
    options = ("run", "--operations", "2", "--", "--warmups", "0", "--figure", "printed", "--")
    *_, (operations, ns) = bench(program, tmp_path, *options, "sh", "-c", script)["reps"]
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


PROGRAMS = sorted(path.stem for path in (GUEST / "programs").glob("*.c"))


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "player"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def test_a_program_does_what_it_is_told(program: Path, tmp_path: Path) -> None:
    text = 'echo ready; while read n; do echo "$n $1" >>"$0.heard"; sleep 0.002; echo done; done'
    player = script(tmp_path, text)
    record = bench(program, tmp_path, "program", "--operations", "17", player, "x")
    assert [operations for operations, _ in record["reps"]] == [1] + [2] * 8
    heard = Path(f"{player}.heard").read_text().splitlines()
    assert heard == ["1 x", "1 x", *["2 x"] * 8], "a warm-up, then the repetitions"


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        ("echo skip no such library: apt-get install it", 77, "no such library: apt-get install"),
        ("echo ready; read n; echo skip no picture", 77, "no picture"),
        ("echo fail no plan", 1, "player no plan"),
        ("echo why >&2; exit 3", 1, "ended before it had answered (exit status 3); its last wo"),
        ("kill -SEGV $$", 1, "(Segmentation fault)"),
        ("echo ready; read n; echo dnoe", 1, "does not keep to what was agreed"),
        ("echo ready; while read n; do echo done; sleep 0.002; done; exit 4", 1, "wait status"),
        ("yes | tr -d '\\n'", 1, "a line that does not end"),
    ],
)
def test_a_program_that_does_not_is_explained(
    program: Path, tmp_path: Path, text: str, status: int, words: str
) -> None:
    done = call(program, tmp_path, "program", "--seconds", "0.02", script(tmp_path, text))
    assert (done.returncode, done.stdout) == (status, "")
    assert words in done.stderr


def test_what_was_not_built_says_why(program: Path, tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    done = call(program, tmp_path, "program", none)
    assert done.returncode == 1 and "No such file" in done.stderr
    (tmp_path / "none.missing").write_text("none needs x: apt-get install libx-dev\n")
    done = call(program, tmp_path, "program", none)
    assert done.returncode == 77 and "none needs x: apt-get install libx-dev\n" in done.stderr


@pytest.mark.slow
def test_a_machine_without_libraries_builds_all_the_same(tmp_path: Path) -> None:
    command = ["make", "-C", str(GUEST), f"OUT={tmp_path}", "programs", "CAN_32="]
    own = {"MAKEFLAGS": "", "PKG_CONFIG_LIBDIR": str(tmp_path)}
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, **own})
    for name in PROGRAMS:
        assert not (tmp_path / "programs" / name).exists()
        reason = (tmp_path / "programs" / f"{name}.missing").read_text()
        assert reason.startswith(f"{name} needs ")
        assert "which this machine lacks: apt-get install pkg-config lib" in reason


DRAWINGS = [f"drawing {shape}" for shape in ("line", "rectangle", "circle", "bezier", "text")]


def built_program(guest_build: Path, name: str) -> Path:
    path = guest_build / "programs" / name
    if not path.exists():
        lack(path.with_suffix(".missing").read_text().strip())
    return path


@pytest.mark.slow
@pytest.mark.parametrize("line", ["fft", *DRAWINGS, "squares", "controls"])
def test_kdyno_s_own_programs(guest_build: Path, tmp_path: Path, line: str) -> None:
    name, *args = line.split()
    words = ("--seconds", "0.05", str(built_program(guest_build, name)), *args)
    if name == "controls":
        need("Xvfb")
    done = call(guest_build / "kdyno-guest-64", tmp_path, "program", *words)
    if done.returncode == 77:
        lack(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert '"reps":[[' in done.stdout


def test_without_xvfb_the_user_interface_is_skipped(
    guest_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--seconds", "0.02", str(built_program(guest_build, "controls")))
    monkeypatch.setenv("PATH", str(tmp_path))
    done = call(guest_build / "kdyno-guest-64", tmp_path, "program", *words)
    assert done.returncode == 77 and "Xvfb is not installed: apt-get install xvfb" in done.stderr


def test_every_program_names_its_packages() -> None:
    assert PROGRAMS
    for name in PROGRAMS:
        lines = (GUEST / "programs" / f"{name}.c").read_text().splitlines()
        assert lines[1].startswith("// packages: ")
        assert lines[2].startswith("// install: ")
