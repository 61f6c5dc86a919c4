# SPDX-License-Identifier: MIT
"""The examples of the help that boot kernels, and the tutorial, done."""

from __future__ import annotations

import json
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
    own = [line for line in lines() if re.match(r"kdyno (build|run|try) .*mine\.", line)]
    return [line for line in own if "--refresh" not in line]


def of_memcpy() -> list[str]:
    """Those that boot a kernel or time something on this machine, and need no file of the reader's
    but a distribution."""
    others = r"mine\.S|--from|--into|--verify|--paper|trace|experiments/| -- "
    results = [
        line for line in lines() if re.match(r"kdyno lab memcpy (bench|histogram|tune) ", line)
    ]
    return [line for line in results if not re.search(others, line)]


SHORTER = {
    "bench": ("--minutes", "0.05"),
    "histogram": ("--seconds", "0.05"),
    "tune": ("--minutes", "0.05"),
}


def _mine(folder: Path) -> None:
    (folder / "mine.toml").write_text(MINE)
    shutil.copy(data_root() / "kernel/patches/slow-umask.patch", folder / "mine.patch")


def test_there_are_examples_of_each() -> None:
    assert {line.split()[1] for line in examples()} >= {"build", "run", "try"}
    assert {line.split()[3] for line in of_memcpy()} == set(SHORTER)


@pytest.mark.parametrize("line", examples())
def test_example(line: str, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _mine(tmp_path)
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


@pytest.mark.parametrize("line", of_memcpy())
def test_example_of_memcpy(
    line: str, built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _mine(tmp_path)
    shutil.copy(data_root() / "kernel/distributions/unixbench.json", tmp_path / "copies.json")
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)[1:]
    if "--cpu" in words and "-o" not in words:
        words += ["-o", "found.S"]  # else it writes its row into the checkout
    done = kdyno(*words, *SHORTER[words[2]], runs=tmp_path / "runs")
    assert done.stdout.strip()
    if "-o" in words:
        assert (tmp_path / words[words.index("-o") + 1]).stat().st_size > 100


PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
FILES = {"diff": "checksum.patch", "toml": "checksum.toml"}
SIX = {"run": ("--max-boots", "6", "--seconds", "0.05")}


def blocks() -> list[tuple[str, str]]:
    """(language, text) of each block of the page, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S)


def steps() -> list[tuple[str, str]]:
    """(command, what stands below it, "" where nothing does)."""
    results: list[tuple[str, str]] = []
    for language, text in blocks():
        if language == "sh":
            lines = text.splitlines()
            results += [(line, "") for line in lines if re.match("kdyno (build|run|report)", line)]
        elif language == "text":
            results[-1] = (results[-1][0], text)
    return results


def shape(text: str) -> list[str]:
    """Without digits: of a build its line; of a report its question, and of its table the columns
    and the name of each row."""
    if built := re.search(r"^\w+: built in (?:\d+ min )?\d+ s \(\d+ objects\)$", text, re.M):
        return re.sub(r"(\d+ min )?\d+", "N", built[0]).split()
    question = text.lstrip().splitlines()[0]
    (table,) = [part for part in text.split("\n\n") if re.search(r"effect +95 % interval", part)]
    header, *rows = table.strip("\n").splitlines()
    return [question, " ".join(header.split()), *(re.split(r" {2,}", row)[0] for row in rows)]


def test_its_commands_print_what_stands_below_them(
    built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for language, text in blocks():
        if language in FILES:
            Path(FILES[language]).write_text(text)
    compared = 0
    for command, printed in steps():
        words = shlex.split(command)[1:]
        gate = (0, 10) if "--fail-on" in words else (0,)
        done = kdyno(*words, *SIX.get(words[0], ()), runs=tmp_path / "runs", check=gate)
        if words[0] == "build":
            assert [line.split()[0] for line in done.stdout.splitlines()] == ["stock", "checksum"]
            if "built in" in done.stderr:  # else somebody has done this before
                assert shape(done.stderr) == shape(printed)
        elif printed:
            assert shape(done.stdout) == shape(printed), command
        compared += bool(printed)
        if "-o" in words:
            assert Path(words[words.index("-o") + 1]).stat().st_size > 500
    assert compared == 3
    effects = json.loads(kdyno("report", "last", "--json", "-", runs=tmp_path / "runs").stdout)
    (copies,) = [effect for effect in effects["effects"]
                 if (effect["case"], effect["variant"]) == ("fscopy-4096", "checksum")]  # fmt: skip
    assert copies["ratio"] < 1
