# SPDX-License-Identifier: MIT
"""Three real runs, and every word that kdyno prints about them.

``tests/data/runs`` holds whole run folders: guests that took turns (a busy machine: 40 % restless),
separate boots of two factors, and counted native kernels. What is printed about them changes only
in a commit that says why.
"""

from __future__ import annotations

import re
import tarfile
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command_line import Kdyno
from held import held

from kdyno.cli.main import verbs

DATA = Path(__file__).parent / "data" / "runs"
GOLDEN = Path(__file__).parent / "golden" / "recorded"
RUNS = ("turns", "factors", "counts")
_NUMBER = re.compile(r"(?<=[\s\[])-?\d+\.\d+(?:e[-+]\d+)?(?=[\s,\]])")
FORMATS = ("markdown", "csv", "json", "junit", "benchstat")


@dataclass(frozen=True)
class Recorded:
    name: str
    folder: Path

    def held(self, kind: str, text: str) -> None:
        """Compare with the golden file, without the folder of this test."""
        text = text.replace(str(self.folder.parent), "RUNS")
        held(GOLDEN / f"{self.name}.{kind}", text)


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Recorded:
    with tarfile.open(DATA / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path / "recorded", filter="data")
    (folder,) = (tmp_path / "recorded").iterdir()
    return Recorded(request.param, folder)


def test_table(kdyno: Kdyno, run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run.held("txt", kdyno("report", run.folder).out)


@pytest.mark.parametrize("form", FORMATS)
def test_export(kdyno: Kdyno, run: Recorded, form: str) -> None:
    run.held(form, kdyno("report", run.folder, "-f", form).out)


def test_judged_again(kdyno: Kdyno, run: Recorded) -> None:
    """The rule gives, from the samples, the verdict.json that the run ended with, to six digits:
    linear algebra rounds differently on other processors, and a root is a little elsewhere."""
    before = (run.folder / "verdict.json").read_text()
    result = kdyno("judge", run.folder)
    assert result.status == 0, result.err
    after = (run.folder / "verdict.json").read_text()
    assert _NUMBER.sub("N", after) == _NUMBER.sub("N", before)
    numbers = [[*map(float, _NUMBER.findall(text))] for text in (after, before)]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-6, abs=1e-12)
    run.held("judge", result.out)


class Words(HTMLParser):
    """The text of a page, a line for each element that has any; scripts and styles left out."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in ("script", "style", "svg")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style", "svg")

    def handle_data(self, data: str) -> None:
        if not self._silent and data.strip():
            self.lines.append(" ".join(data.split()))


@pytest.mark.slow
def test_page(kdyno: Kdyno, run: Recorded, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert kdyno("report", run.folder, "-o", page).status == 0
    words = Words()
    words.feed(page.read_text("utf-8"))
    run.held("page", "\n".join(words.lines) + "\n")


def test_help(kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    pages = [
        f"===== kdyno {verb}\n{kdyno(*verb.split(), '--help').out}"
        for verb in ["", *sorted(verbs())]
    ]
    held(GOLDEN / "help.txt", re.sub(r" +$", "", "\n".join(pages), flags=re.MULTILINE))
