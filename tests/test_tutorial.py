# SPDX-License-Identifier: MIT
"""docs/tutorial.md shows the files that lie beside it, and they are what it says."""

from __future__ import annotations

import re
from pathlib import Path

from kdyno.experiment.loader import parse
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "tutorial.md").read_text(encoding="utf-8")


def shown(language: str) -> str:
    [text] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    return str(text)


def test_the_patch_is_the_file() -> None:
    text = (DOCS.parent / "kernel" / "patches" / "checksum.patch").read_text(encoding="utf-8")
    assert text.endswith("\n\n" + shown("diff"))
    added = [line for line in text.splitlines() if re.match(r"\+(?!\+\+)", line)]
    assert len(added) == 6 and "patch is six lines" in PAGE


def test_the_experiment_is_the_file() -> None:
    path = DOCS / "tutorial" / "checksum.toml"
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n" + shown("toml"))
    experiment = parse(text, str(path), path.parent, vocabulary(load()))
    assert [it.name for it in experiment.variants] == ["stock", "checksum"]


def test_its_steps_are_numbered_without_a_gap() -> None:
    numbers = [int(it) for it in re.findall(r"^## (\d+)\. ", PAGE, re.M)]
    assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) == 8
