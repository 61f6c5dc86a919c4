# SPDX-License-Identifier: MIT
"""One table on a terminal, in Markdown, in HTML and in CSV."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest

from kdyno.report.show import grid as grids
from kdyno.report.show import html, terminal
from kdyno.report.show.grid import Cell, Column, Grid, headed, of_rows
from kdyno.report.show.terminal import Layout, Screen

ITEMS = (("pipe", 271828.1, "faster"), ("<b>|\x1b[31mx", None, "failed"))


def verdict(each: tuple[str, float | None, str]) -> Cell:
    why = "exit 1" if each[1] is None else ""
    return Cell(each[2], notes=("too little",), sign="≈", why=why, tone=each[2])


COLUMNS = (
    Column("case", lambda value: Cell(value[0], notes=("control",), sign="*"), "name"),
    Column("value", lambda value: value[1], "number", "{:.1f} k".format, absent="–", worth=2),
    Column("more", lambda _: "m" * 20, worth=3),
    Column("verdict", verdict, "verdict", worth=1),
)
GRID = Grid(COLUMNS, ITEMS, "A title", id="t", facets=("verdict",))


def test_on_a_terminal() -> None:
    two = Layout(replace(GRID, columns=COLUMNS[:2]))
    lines = [line.plain.rstrip() for line in terminal.lines(two)]
    assert lines == [
        "  case          value",
        "  pipe *   271828.1 k",
        "  <b>|x *           –",
    ]


def test_a_narrow_terminal_leaves_out_what_is_worth_least() -> None:
    def heads(width: int) -> list[str]:
        return [column.head for column in terminal.fit(GRID, width, 2).grid.columns]

    assert heads(80) == ["case", "value", "more", "verdict"]
    assert heads(45) == ["case", "value", "verdict"]
    assert heads(30) == ["case", "verdict"]
    assert heads(14) == ["case"]

    # Columns of the same worth stand and fall together.
    twins = [replace(each, worth=1) for each in COLUMNS[1:]]
    grid = replace(GRID, columns=[COLUMNS[0], *twins])
    assert len(terminal.fit(grid, 80, 0).grid.columns) == 4
    assert len(terminal.fit(grid, 50, 0).grid.columns) == 1


def test_a_name_folds_and_the_rest_stays_in_line() -> None:
    grid = of_rows(("a", "n"), (("x" * 5, 7), ("y", 8)))
    lines = [line.plain for line in terminal.lines(Layout(grid, (3, 1), indent=0))]
    assert lines == ["a    n", "xxx  7", "xx    ", "y    8"]


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = terminal.text([GRID])
    assert "\x1b" not in plain and "faster ≈" in plain
    coloured = terminal.text([GRID], Screen(80, colour=True))
    assert "\x1b[1;32mfaster ≈\x1b[0m" in coloured and "\x1b[31mx" not in coloured
    ascii_only = terminal.text([GRID, "µ"], Screen(80, unicode=False))
    assert ascii_only.isascii() and ascii_only.endswith("u\n")

    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert terminal.screen_of(Tty()).colour
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.screen_of(Tty()).colour


def test_no_part_moves_the_cursor() -> None:
    evil = "a\x1b[2Jb\x07\u202ec\x9b1md\re"
    grid = of_rows((evil, "n"), ((evil, 1),), title=evil)
    for each in (
        terminal.text([evil, grid]),
        grids.markdown(grid),
        grids.csv(grid),
        html.table(grid),
    ):
        assert each.replace("\n", "").isprintable()


def test_in_markdown() -> None:
    assert grids.markdown(GRID).splitlines() == [
        "| case | value | more | verdict |",
        "| --- | --: | --- | --- |",
        f"| pipe (control) | 271828.1 k | {'m' * 20} | **faster**, too little |",
        f"| \\<b\\>\\|x (control) | – | {'m' * 20} | **failed**, too little: exit 1 |",
    ]


def test_in_html() -> None:
    result = html.table(GRID)
    assert re.findall(r'<th[^>]*scope="col"[^>]*><button type="button">(\w+)', result) == [
        "case",
        "value",
        "more",
        "verdict",
    ]
    assert '<td class="number" data-v="271828.09999999998">271828.1 k</td>' in result
    assert '<tr data-f-verdict="failed">' in result and "<b>" not in result.replace("&lt;b&gt;", "")
    assert '<span class="badge faster">' in result and "<small><bdi>exit 1</bdi></small>" in result
    assert "filters" not in result
    assert 'data-facet="verdict"' in html.table(replace(GRID, items=ITEMS * 4))


def test_in_csv_the_figure_stands_not_the_words() -> None:
    grid = of_rows(("a", "b", "c", "d"), (("=1+1", 0.1 + 0.2, True, None), ("\x1b", 7, False, "")))
    first, second = csv.reader(io.StringIO(grids.csv(grid).partition("\n")[2]))
    assert first == ["'=1+1", "0.30000000000000004", "yes", ""]
    assert second == ["?", "7", "no", ""]
    text = Column("n", lambda value: value, "number", "{:.1f} k".format)
    assert grids.csv(Grid([text], [1.25])) == "n\n1.25\n"


def test_columns_of_figures_are_known_by_their_figures() -> None:
    grid = of_rows(("a", "b", "c"), (("x", 1, None), ("y", None, None)), absent="–")
    assert [column.kind for column in grid.columns] == ["text", "number", "text"]
    assert [cell.text for cell in grid.rows[1]] == ["y", "–", "–"]
    assert [each.head for each in headed(grid.columns)] == ["A", "B", "C"]
