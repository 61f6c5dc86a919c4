# SPDX-License-Identifier: MIT
"""A search on real kernels: of a series one patch does not compile, and the next one is slow."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import pytest
from conftest import kdyno

from kdyno.kernels import source
from kdyno.paths import cache_root

pytestmark = pytest.mark.uml
SOURCE = "debian:linux-source-7.3"
ANCHOR = "\t/* Null write succeeds. */\n"
SPIN = "\tfor (int turn = 0; turn < 20000; turn++)\n\t\tbarrier();\n"
ERROR = "#error not yet\n"


def series(folder: Path) -> Path:
    """1 a remark, 2 does not compile, 3 compiles again and spins in pipe writes, 4 a remark."""
    tree = source.fetch(source.parse(SOURCE), cache_root(), lambda _text, _part: None).path
    texts = {name: (tree / name).read_text() for name in ("mm/filemap.c", "fs/pipe.c")}
    steps = [
        {"mm/filemap.c": lambda text: f"/* 1 */\n{text}"},
        {"mm/filemap.c": lambda text: ERROR + text},
        {
            "mm/filemap.c": lambda text: text.removeprefix(ERROR),
            "fs/pipe.c": lambda text: text.replace(ANCHOR, SPIN + ANCHOR),
        },
        {"mm/filemap.c": lambda text: f"/* 4 */\n{text}"},
    ]
    folder.mkdir()
    for number, step in enumerate(steps, 1):
        lines: list[str] = []
        for name, change in step.items():
            before, texts[name] = texts[name], change(texts[name])
            halves = (text.splitlines(keepends=True) for text in (before, texts[name]))
            lines += difflib.unified_diff(*halves, f"a/{name}", f"b/{name}")
        (folder / f"{number}.patch").write_text("".join(lines))
    return folder


def test_the_slow_patch_is_found_behind_one_that_does_not_compile(tmp_path: Path) -> None:
    runs, result = tmp_path / "runs", tmp_path / "answer.json"
    words = ["--series", series(tmp_path / "patches"), "--source", SOURCE]
    ended = kdyno("bisect", *words, "--case", "unixbench/pipe", "--json", result, runs=runs)
    data = json.loads(result.read_text())
    (step,) = data["steps"]
    assert data["answer"] == "found" and step["verified"]
    assert (step["after"]["title"], step["point"]["title"]) == ("1.patch", "3.patch")
    assert step["difference"]["ci"][1] < 0.95
    outcomes = {probe["title"]: probe["outcome"] for probe in data["probes"]}
    assert outcomes["2.patch"] == "unusable" and "measured" in outcomes.values()
    assert "one of 2 patches" in ended.stdout and "2.patch" in ended.stdout
    # What is finished is not measured again.
    again = kdyno("bisect", "--resume", "last", runs=runs)
    assert again.stdout == ended.stdout
