# SPDX-License-Identifier: MIT
"""A machine without a sandbox: no verb runs a stranger's code before it has refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import EXPERIMENT, Kdyno, kdyno  # noqa: F401
from fake_tree import make_repository, make_tree

from kdyno import sandbox


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An experiment whose source, compiler and routine each leave a mark when they run."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran > {tmp_path}/mark\necho gcc 12\n")
    program.chmod(0o755)
    tree = make_tree(tmp_path / "linux")
    make_repository(tree)
    (tree / ".git" / "config").write_text(f"[core]\n\tfsmonitor = {program}\n")
    file = tmp_path / "x.toml"
    text = EXPERIMENT.replace("debian:linux-source-7.3", f"path:{tree}")
    file.write_text(text.replace('cflags = "-O3"', f'compiler = "{program}"'))
    routine = tmp_path / "mine.S"
    routine.write_text("/*\n * help: x\n * requires: sse2\n * source: x\n * arch: um\n */\n"
                       "ROUTINE_START(mine)\nret\n")  # fmt: skip
    monkeypatch.setattr(sandbox, "unusable", lambda: "bwrap is not there")
    monkeypatch.setattr("kdyno.confined.confined", lambda *_words, **_more: pytest.fail("it runs"))
    return file


@pytest.mark.parametrize(
    "words",
    [
        ("build", "FILE"),
        ("run", "FILE"),
        ("run", "FILE", "--calibrate"),
        ("calibrate", "FILE"),
        ("profile", "FILE"),
        ("try", "-k", "compiler=PROGRAM", "--", "true"),
        ("vectorize", "FILE"),
        ("vectorize", "FOLDER"),
        ("memcpy", "check", "ROUTINE"),
        ("memcpy", "bench", "ROUTINE", "--quick"),
        ("memcpy", "tune"),
        ("memcpy", "histogram", "FILE"),
    ],
)
def test_a_verb_refuses_first(
    kdyno: Kdyno,  # noqa: F811
    hostile: Path,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(hostile.parent)
    places = {
        "FILE": hostile,
        "compiler=PROGRAM": f"compiler={hostile.parent}/program",
        "FOLDER": hostile.parent,
        "ROUTINE": hostile.parent / "mine.S",
    }
    said = kdyno(*(places.get(word, word) for word in words))
    assert "no sandbox: bwrap is not there" in said.err
    assert said.status == 1
    assert not (hostile.parent / "mark").exists()
