# SPDX-License-Identifier: MIT
"""What people see, held against files."""

from __future__ import annotations

from pathlib import Path

import held as golden
import pytest
from golden.verdicts import build
from rich.cells import cell_len

from kdyno.report.exporters import exporters
from kdyno.report.sentence import answer
from kdyno.report.terminal import text
from kdyno.store.verdict import Verdict

GOLDEN = Path(__file__).parent / "golden"
VERDICTS: dict[str, Verdict] = build()


def held(name: str, result: str) -> None:
    golden.held(GOLDEN / name, result)


@pytest.mark.parametrize("name", VERDICTS)
def test_terminal(name: str) -> None:
    pages = [f"----- {width}\n{text(VERDICTS[name], width)}" for width in (60, 80, 120)]
    held(f"{name}.txt", "".join(pages))


@pytest.mark.parametrize("name", ["demo", "lower-is-better", "failed", "hostile", "itself"])
@pytest.mark.parametrize("kind", ["markdown", "csv", "json"])
def test_exporters(name: str, kind: str) -> None:
    each = exporters()[kind]
    held(f"{name}{each.suffix}", each.export(VERDICTS[name]))


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
        *(each.export(verdict) for name, each in exporters().items() if name != "json"),
    ):
        if isinstance(key, bytes):
            continue  # a picture or a table in a format that has no markup to get through
        # A no-break space of our own, between a number and its unit, is not a control character.
        printable = key.replace("\n", "").replace("\xa0", " ")
        assert printable.isprintable()
        key.encode()
    cells = exporters()["csv"].export(verdict).splitlines()
    assert all(",=" not in line and ",+x" not in line and ",@" not in line for line in cells)
    page = exporters()["markdown"].export(verdict)
    assert "<b>" not in page and "pipe\\|pipe" in page
    tables = [line.replace("\\|", "") for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in tables}) == 1


# "hostile" holds a lone surrogate, which no JSON can.
@pytest.mark.parametrize("name", [name for name in VERDICTS if name != "hostile"])
def test_the_json_reads_back(name: str) -> None:
    verdict = VERDICTS[name]
    again = Verdict.from_json(exporters()["json"].export(verdict))
    assert again == verdict
