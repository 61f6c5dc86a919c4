# SPDX-License-Identifier: MIT
"""The tutorial, done: its files, its commands, its finding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import kdyno

TUTORIAL = Path(__file__).parent.parent.parent / "docs" / "tutorial" / "checksum.toml"

pytestmark = pytest.mark.uml


def test_the_tutorials_patch_is_found_slower(tmp_path: Path) -> None:
    run = ["run", TUTORIAL, "--max-boots", "8", "--seconds", "0.1", "--case", "fscopy-4096"]
    kdyno(*run, "--case", "dhry2reg", "--json", tmp_path / "v.json", runs=tmp_path / "runs")
    effects = json.loads((tmp_path / "v.json").read_text())["effects"]
    [copies] = [it for it in effects if it["case"] == "fscopy-4096"]
    # A third when it was written; a busy machine widens the interval, not the distance.
    assert copies["ratio"] < 0.9 and copies["blocks"] == 8
    for words in (["-o", tmp_path / "x.html"], ["--chart", "boots", "-o", tmp_path / "x.png"]):
        kdyno("report", "last", *words, runs=tmp_path / "runs")
    assert (tmp_path / "x.html").stat().st_size > 20_000
    done = kdyno("report", "last", "--fail-on", "slower", runs=tmp_path / "runs", check=(0, 10))
    assert done.returncode == (10 if copies["verdict"] == "slower" else 0)
