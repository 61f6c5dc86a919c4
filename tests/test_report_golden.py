# SPDX-License-Identifier: MIT
"""What people see, held against files: of verdicts of each shape, and every word that kdyno prints
about three real runs.

``tests/data/runs`` holds whole run folders: guests that took turns (a busy machine: 40 % restless),
separate boots of two factors, counted native kernels, and a cost of one turn in twenty beside the
same cost in each turn. What is printed about them changes only
in a commit that says why.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import Kdyno
from golden.verdicts import build
from held import held
from on_screen import text
from rich.cells import cell_len
from test_html import Page

from kdyno.cli.main import verbs
from kdyno.report.evidence import Evidence
from kdyno.report.exporters import exporters
from kdyno.report.sentence import answer
from kdyno.store.verdict import Verdict

GOLDEN = Path(__file__).parent / "golden"
VERDICTS: dict[str, Verdict] = build()


@pytest.mark.parametrize("name", VERDICTS)
def test_terminal(name: str) -> None:
    pages = [f"----- {width}\n{text(VERDICTS[name], width)}" for width in (60, 80, 120)]
    held(GOLDEN / f"{name}.txt", "".join(pages))


@pytest.mark.parametrize("name", ["demo", "lower-is-better", "failed", "hostile", "itself"])
@pytest.mark.parametrize("kind", ["markdown", "csv", "json"])
def test_exporters(name: str, kind: str) -> None:
    each = exporters()[kind]
    held(GOLDEN / f"{name}{each.suffix}", each.export(Evidence(VERDICTS[name])))


@pytest.mark.parametrize("name", VERDICTS)
@pytest.mark.parametrize("width", [1, 40, 47, 60, 73, 80, 99, 120, 137, 200])
def test_no_line_is_too_long(name: str, width: int) -> None:
    for unicode in (True, False):
        lines = text(VERDICTS[name], width, unicode=unicode).splitlines()
        assert max(map(cell_len, lines)) <= max(width, 40)


@pytest.mark.parametrize("name", VERDICTS)
def test_ascii_terminals_and_colour(name: str) -> None:
    verdict = VERDICTS[name]
    if name != "hostile":
        assert text(verdict, 120, unicode=False).isascii()
    assert "\x1b" not in text(verdict, 120)
    coloured = text(verdict, 120, colour=True)
    assert "\x1b[" in coloured
    assert not any(char in coloured for char in "\x07\x9b\x9d\u202e")


@pytest.mark.slow
def test_nothing_hostile_gets_through() -> None:
    verdict = VERDICTS["hostile"]
    for key in (
        text(verdict, 120),
        answer(verdict),
        *(each.export(Evidence(verdict)) for name, each in exporters().items() if name != "json"),
    ):
        if isinstance(key, bytes):
            continue  # a picture or a table in a format that has no markup to get through
        # A no-break space of our own, between a number and its unit, is not a control character.
        printable = key.replace("\n", "").replace("\xa0", " ")
        assert printable.isprintable()
        key.encode()
    cells = exporters()["csv"].export(Evidence(verdict)).splitlines()
    assert all(",=" not in line and ",+x" not in line and ",@" not in line for line in cells)
    page = exporters()["markdown"].export(Evidence(verdict))
    assert "<b>" not in page and "pipe\\|pipe" in page
    tables = [line.replace("\\|", "") for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in tables}) == 1


# "hostile" holds a lone surrogate, which no JSON can.
@pytest.mark.parametrize("name", [name for name in VERDICTS if name != "hostile"])
def test_the_json_reads_back(name: str) -> None:
    verdict = VERDICTS[name]
    again = Verdict.from_json(exporters()["json"].export(Evidence(verdict)))
    assert again == verdict


DATA = Path(__file__).parent / "data" / "runs"
RECORDED = GOLDEN / "recorded"
_NUMBER = re.compile(r"(?<=[\s\[])-?\d+\.\d+(?:e[-+]\d+)?(?=[\s,\]])")
FORMATS = ("markdown", "csv", "json", "junit", "benchstat")


@dataclass(frozen=True)
class Recorded:
    name: str
    folder: Path

    def held(self, kind: str, text: str) -> None:
        """Compare with the golden file, without the folder of this test."""
        text = text.replace(str(self.folder.parent), "RUNS")
        held(RECORDED / f"{self.name}.{kind}", text)


@pytest.fixture(params=["turns", "factors", "counts", "tail"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Recorded:
    # Debian 12's own Python, 3.11.2, has no filters for tarfile yet.
    subprocess.run(["tar", "-C", tmp_path, "-xf", DATA / f"{request.param}.tar.xz"], check=True)
    (folder,) = tmp_path.iterdir()
    return Recorded(request.param, folder)


def test_table(kdyno: Kdyno, run: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    run.held("txt", kdyno("report", run.folder).out)


@pytest.mark.parametrize("form", FORMATS)
def test_export(kdyno: Kdyno, run: Recorded, form: str) -> None:
    run.held(form, kdyno("report", run.folder, "-f", form).out)


@pytest.mark.slow
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


@pytest.mark.slow
def test_page(kdyno: Kdyno, run: Recorded, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert kdyno("report", run.folder, "-o", page).status == 0
    words = Page(page.read_text("utf-8")).lines
    run.held("page", "\n".join(words) + "\n")


def test_help(kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    pages = [
        f"===== kdyno {verb}\n{kdyno(*verb.split(), '--help').out}"
        for verb in ["", *sorted(verbs())]
    ]
    held(RECORDED / "help.txt", re.sub(r" +$", "", "\n".join(pages), flags=re.MULTILINE))
