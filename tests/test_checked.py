# SPDX-License-Identifier: MIT
"""What a model refuses, told with line, key, what was found and the nearest right word."""

from __future__ import annotations

import gzip
import json
import os
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import Field

from kdyno.errors import ToolError, UsageError
from kdyno.kernels.sources.tree import read_json
from kdyno.labs.vectorize import survey
from kdyno.machines.guest import supervisor_report
from kdyno.paths import data_root
from kdyno.reading.checked import FromFile, check, values, values_in
from kdyno.report.site import build
from kdyno.suites.protocol import Nonsense, decode


class Part(FromFile):
    word: Literal["fast", "slow"] = "fast"
    start: int = Field(default=0, alias="from", ge=0)


class Whole(FromFile):
    name: str
    part: list[Part] = Field(default_factory=list)
    named: dict[str, Part] = Field(default_factory=dict)


def refusal(text: str) -> str:
    with pytest.raises(UsageError) as refused:
        check(Whole, tomllib.loads(text), "x.toml", text, "see the docs")
    return str(refused.value)


def test_what_is_right_passes() -> None:
    text = 'name = "x"\n[[part]]\nfrom = 3\n'
    assert check(Whole, tomllib.loads(text), "x.toml").part[0].start == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "x.toml: name: is missing; see the docs"),
        ("name = 7\n", "x.toml:1: name: 7, an integer, is given, but text is expected; "
         "see the docs"),
        (
            'name = "x"\n[[part]]\nwrod = "fast"\n',
            'x.toml:3: part[1].wrod: unknown key. Did you mean "word"? Allowed: word, from; '
            "see the docs",
        ),
        (
            'name = "x" # \u2028\x85\n[[part]]\nfrom = -1\n',
            "x.toml:3: part[1].from: -1 should be greater than or equal to 0; see the docs",
        ),
    ],
)  # fmt: skip
def test_one_mistake(text: str, message: str) -> None:
    assert refusal(text) == message


def test_all_mistakes_at_once_in_the_order_of_the_file() -> None:
    lines = refusal('name = true\n[[part]]\nword = "fast"\n[[part]]\nword = "sloww"\n').splitlines()
    assert lines[0] == "x.toml: 2 mistakes; see the docs"
    assert lines[1].startswith("  x.toml:1: name: true")
    assert lines[2].startswith("  x.toml:5: part[2]")


@pytest.mark.slow
def test_a_thousand_mistakes_are_cut() -> None:
    text = "\n".join(f"k{number} = 1" for number in range(3000))
    head, *lines = refusal(text).splitlines()
    assert head == "x.toml: at least 1000 mistakes; see the docs" and len(lines) == 51
    assert lines[-1] == "  x.toml: … and at least 950 more mistakes"


def in_state(folder: Path, text: str) -> Any:
    (folder / build.MARKER).write_text(text)
    return build.state(folder) or None


def in_cache(folder: Path, text: str) -> Any:
    (folder / "tree.json").write_text(text)
    return read_json(folder / "tree.json")


def in_survey(folder: Path, text: str) -> Any:
    (folder / "loops.json.gz").write_bytes(gzip.compress(text.encode()))
    try:
        return survey.read(folder / "loops.json.gz")
    except ToolError:
        return None


def from_guest(_folder: Path, text: str) -> Any:
    try:
        return decode(text.encode())
    except Nonsense:
        return None


@pytest.mark.parametrize(
    "read",
    [in_state, in_cache, in_survey, from_guest, lambda _, text: supervisor_report(text.encode())],
)
@pytest.mark.parametrize("bad", ['{"a": 1, "a": 2}', '{"b": {"a": 1, "a": 1}}', "[" * 100_000])
def test_every_reader_of_json_is_the_strict_one(
    tmp_path: Path, read: Callable[[Path, str], Any], bad: str
) -> None:
    assert not read(tmp_path, bad)
    if read is not in_survey:
        assert read(tmp_path, '{"a": 1}') == {"a": 1}


def test_json_is_read_in_one_place_alone() -> None:
    files = (data_root() / "src" / "kdyno").rglob("*.py")
    assert [file.name for file in files if "json.load" in file.read_text()] == ["checked.py"]


def test_a_file_of_json_is_regular_and_bounded(tmp_path: Path) -> None:
    pipe, large = tmp_path / "pipe", tmp_path / "large.json"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="not a regular file"):
        values_in(pipe)
    large.write_text(json.dumps("x" * (1 << 20)))
    assert len(values_in(large)) == 1 << 20
    with pytest.raises(ValueError, match="larger than 1 MiB"):
        values_in(large, 1 << 20)
    with pytest.raises(ValueError, match="Infinity is not a number"):
        values("[-Infinity]", finite=True)
