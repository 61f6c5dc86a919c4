# SPDX-License-Identifier: MIT
"""Programs of their own, driven by the guest program's harness; a script plays the program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from needed import lack, need

from kdyno.paths import data_root
from tests.test_guest_benches import call, record

GUEST = data_root() / "guest"
PROGRAMS = sorted(path.stem for path in (GUEST / "programs").glob("*.c"))


def script(tmp_path: Path, text: str) -> str:
    path = tmp_path / "player"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o700)
    return str(path)


def test_a_program_does_what_it_is_told(program: Path, tmp_path: Path) -> None:
    player = script(
        tmp_path,
        'echo ready; while read n; do echo "$n $1" >>"$0.heard"; sleep 0.002; echo done; done',
    )
    found = record(program, tmp_path, "program", "--operations", "17", player, "x")
    assert [operations for operations, _ in found["reps"]] == [1] + [2] * 8
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
    done = call(program, tmp_path, "program", str(tmp_path / "none"))
    assert done.returncode == 1
    assert "No such file" in done.stderr
    (tmp_path / "none.missing").write_text("none needs x: apt-get install libx-dev\n")
    done = call(program, tmp_path, "program", str(tmp_path / "none"))
    assert done.returncode == 77
    assert "none needs x: apt-get install libx-dev\n" in done.stderr


def test_a_machine_without_libraries_builds_all_the_same(tmp_path: Path) -> None:
    subprocess.run(
        ["make", "-C", str(GUEST), f"OUT={tmp_path}", "programs", "CAN_32="],
        check=True,
        capture_output=True,
        env={**os.environ, "MAKEFLAGS": "", "PKG_CONFIG_LIBDIR": str(tmp_path)},
    )
    for name in PROGRAMS:
        assert not (tmp_path / "programs" / name).exists()
        reason = (tmp_path / "programs" / f"{name}.missing").read_text()
        assert reason.startswith(f"{name} needs ")
        assert "which this machine lacks: apt-get install pkg-config lib" in reason


@pytest.mark.parametrize(
    "line",
    [
        "fft",
        "drawing line",
        "drawing rectangle",
        "drawing circle",
        "drawing bezier",
        "drawing text",
        "squares",
        "controls",
    ],
)
def test_kdyno_s_own_programs(guest_build: Path, tmp_path: Path, line: str) -> None:
    name, *args = line.split()
    path = guest_build / "programs" / name
    if not path.exists():
        lack(path.with_suffix(".missing").read_text().strip())
    if name == "controls":
        need("Xvfb")
    done = call(
        guest_build / "kdyno-guest-64", tmp_path, "program", "--seconds", "0.05", str(path), *args
    )
    if done.returncode == 77:
        lack(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert '"reps":[[' in done.stdout


def test_without_xvfb_the_user_interface_is_skipped(guest_build: Path, tmp_path: Path) -> None:
    path = guest_build / "programs" / "controls"
    if not path.exists():
        lack(path.with_suffix(".missing").read_text().strip())
    done = subprocess.run(
        [str(guest_build / "kdyno-guest-64"), "bench", "program", "--seconds", "0.02", str(path)],
        env={"PATH": str(tmp_path), "KDYNO_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 77
    assert "Xvfb is not installed: apt-get install xvfb" in done.stderr


def test_every_program_names_its_packages() -> None:
    assert PROGRAMS
    for name in PROGRAMS:
        lines = (GUEST / "programs" / f"{name}.c").read_text().splitlines()
        assert lines[1].startswith("// packages: ")
        assert lines[2].startswith("// install: ")
