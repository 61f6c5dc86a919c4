# SPDX-License-Identifier: MIT
"""The examples of the help that boot kernels, on a patch that is built already."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import kdyno
from needed import need
from test_docs import VERBS
from test_docs_examples import examples as of_verb

from kdyno.measure.builder import Built
from kdyno.paths import data_root

pytestmark = pytest.mark.uml

MINE = """\
name     = "mine"
question = "Is mine faster?"
baseline = "stock"

[kernel]
source = "debian:linux-source-7.3"
config = ["bench"]

[variant.stock]

[variant.mine]
patches = ["mine.patch"]

[[suite]]
name    = "unixbench"
cases   = ["fscopy-256", "pipe", "syscall"]
seconds = 0.05
"""
SHORT = ("--max-boots", "1")


def lines() -> list[str]:
    return [line for verb in VERBS for line in of_verb(verb)]


def examples() -> list[str]:
    """Those on the reader's own files; the others build kernels that no other test needs."""
    found = [line for line in lines() if re.match(r"kdyno (build|run|try) .*mine\.", line)]
    return [line for line in found if "--refresh" not in line]


def test_there_are_examples_of_each() -> None:
    assert {line.split()[1] for line in examples()} >= {"build", "run", "try"}


@pytest.mark.parametrize("line", examples())
def test_example(line: str, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.toml").write_text(MINE)
    shutil.copy(data_root() / "kernel/patches/slow-umask.patch", tmp_path / "mine.patch")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)[1:]
    if words[0] == "try":
        need(words[words.index("--") + 1])
        words[1:1] = SHORT
    elif words[0] != "build":
        words += SHORT
    # One boot decides nothing: where the example asks, that is 11.
    status = 11 if "inconclusive" in words else 0
    done = kdyno(*words, runs=tmp_path / "runs", check=(status,))
    assert done.stdout.strip() or "--json" in words


def of_memcpy() -> list[str]:
    """Those that boot a kernel or time something on this machine, and need no file of the reader's
    but a distribution."""
    found = [
        line for line in lines() if re.match(r"kdyno lab memcpy (bench|histogram|tune) ", line)
    ]
    return [
        line
        for line in found
        if not re.search(r"mine\.S|--from|--into|--verify|--paper|trace|experiments/| -- ", line)
    ]


SHORTER = {
    "bench": ("--minutes", "0.05"),
    "histogram": ("--seconds", "0.05"),
    "tune": ("--minutes", "0.05"),
}


def test_there_are_examples_of_each_memcpy_verb() -> None:
    assert {line.split()[3] for line in of_memcpy()} == set(SHORTER)


@pytest.mark.parametrize("line", of_memcpy())
def test_example_of_memcpy(
    line: str, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(data_root() / "kernel/distributions/unixbench.json", tmp_path / "copies.json")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)[1:]
    if "--cpu" in words and "-o" not in words:
        words += ["-o", "found.S"]  # else it writes its row into the checkout
    done = kdyno(*words, *SHORTER[words[2]], runs=tmp_path / "runs")
    assert done.stdout.strip()
    if "-o" in words:
        assert (tmp_path / words[words.index("-o") + 1]).stat().st_size > 100
