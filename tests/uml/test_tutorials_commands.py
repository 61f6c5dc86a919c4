# SPDX-License-Identifier: MIT
"""The tutorial, done: its files, its commands, and what it says that they print."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from conftest import kdyno

from kdyno.measure.builder import Built

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
FILES = {"diff": "checksum.patch", "toml": "checksum.toml"}
SHORT = {"run": ("--max-boots", "6", "--seconds", "0.05")}

pytestmark = pytest.mark.uml


def blocks() -> list[tuple[str, str]]:
    """(language, text) of each block of the page, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.M | re.S)


def steps() -> list[tuple[str, str]]:
    """(command, what stands below it, "" where nothing does)."""
    found: list[tuple[str, str]] = []
    for language, text in blocks():
        if language == "sh":
            lines = text.splitlines()
            found += [(it, "") for it in lines if re.match("kdyno (build|run|report)", it)]
        elif language == "text":
            found[-1] = (found[-1][0], text)
    return found


def shape(text: str) -> list[str]:
    """Without digits: of a build its line; of a report its question, and of its table the columns
    and the name of each row."""
    if built := re.search(r"^\w+: built in (?:\d+ min )?\d+ s \(\d+ objects\)$", text, re.M):
        return re.sub(r"(\d+ min )?\d+", "N", built[0]).split()
    question = text.lstrip().splitlines()[0]
    (table,) = [part for part in text.split("\n\n") if re.search(r"effect +95 % interval", part)]
    header, *rows = table.strip("\n").splitlines()
    return [question, " ".join(header.split()), *(re.split(r" {2,}", it)[0] for it in rows)]


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
        done = kdyno(*words, *SHORT.get(words[0], ()), runs=tmp_path / "runs", check=gate)
        if words[0] == "build":
            assert [it.split()[0] for it in done.stdout.splitlines()] == ["stock", "checksum"]
            if "built in" in done.stderr:  # else somebody has done this before
                assert shape(done.stderr) == shape(printed)
        elif printed:
            assert shape(done.stdout) == shape(printed), command
        compared += bool(printed)
        if "-o" in words:
            assert Path(words[words.index("-o") + 1]).stat().st_size > 500
    assert compared == 3
    effects = json.loads(kdyno("report", "last", "--json", "-", runs=tmp_path / "runs").stdout)
    (copies,) = [it for it in effects["effects"]
                 if (it["case"], it["variant"]) == ("fscopy-4096", "checksum")]  # fmt: skip
    assert copies["ratio"] < 1
