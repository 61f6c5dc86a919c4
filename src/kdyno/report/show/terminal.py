# SPDX-License-Identifier: MIT
"""Grids and words on a terminal, or as the same in plain text."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TextIO

from rich.console import Console, RenderableType
from rich.text import Text

from kdyno.report import plain
from kdyno.report.show.grid import Cell, Column, Grid

NARROWEST, WIDEST, ROOMY = 40, 160, 80
"""Columns that are used at least and at most, and those from which nothing has to give way."""
GAP = 2
NAME_LEAST, NAME_MOST = 12, 34
# Rich breaks lines at no-break spaces too; a private character, which no name can hold here.
_UNBROKEN = "\ue000"

STYLES = {
    "faster": "bold green",
    "slower": "bold red",
    "equivalent": "cyan",
    "inconclusive": "yellow",
    "failed": "bold magenta",
}
# For terminals and files that take no Unicode.
TO_ASCII = str.maketrans(
    {
        "−": "-", "…": "~", "÷": "/", "±": "", "↓": "v", "≈": "~", "≥": ">=", "·": "-", "×": "x",
        "“": '"', "”": '"', "’": "'", "–": "-", "—": "-", "µ": "u", "°": "o",
        "Σ": "S",
        "▲": "+", "▼": "-", "›": ">", "│": "|", "┊": ":", "─": "-", "●": "o", "◂": "<", "▸": ">",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Screen:
    """What is written to; by default a file that takes anything."""

    width: int = 80
    colour: bool = False
    unicode: bool = True


FILE = Screen()
_ANY = Console(file=io.StringIO(), width=WIDEST)


@dataclass(frozen=True)
class Layout:
    grid: Grid
    widths: Sequence[int] = ()
    """Of the columns; none: as wide as what is in them. A name that is wider folds."""
    indent: int = 2
    heads: bool = True
    cut: int = 0
    """How long a text may be; 0: as long as it is."""
    left: int = 0
    """Columns of the terminal that nothing takes."""


Part = Grid | Layout | RenderableType
"""str: lines that stay as they are. All else but tables rich wraps at the screen's width."""


def screen_of(file: TextIO) -> Screen:
    """Coloured on a terminal unless NO_COLOR."""
    console = Console(file=file)
    encoding = (getattr(file, "encoding", None) or "utf-8").lower()
    colour = console.is_terminal and not os.environ.get("NO_COLOR")
    return Screen(console.width, colour, encoding.replace("-", "") == "utf8")


def used(screen: Screen) -> int:
    """Columns of the screen that are written to."""
    return max(NARROWEST, min(screen.width, WIDEST))


def show(parts: Callable[[Screen], Iterable[Part]], file: TextIO | None = None) -> None:
    """Prints to ``file`` (stdout)."""
    file = file if file is not None else sys.stdout
    screen = screen_of(file)
    out = text(parts(screen), screen)
    if not screen.unicode:  # a name may hold what the terminal's encoding does not
        encoding = getattr(file, "encoding", None) or "ascii"
        out = out.encode(encoding, "replace").decode(encoding)
    file.write(out)


def text(parts: Iterable[Part], screen: Screen = FILE) -> str:
    """All parts below each other; lines end without blanks unless they are coloured."""
    out = io.StringIO()
    console = Console(
        file=out,
        width=used(screen),
        # Sixteen colours: the person's own terminal theme decides how they look.
        color_system="standard" if screen.colour else None,
        force_terminal=screen.colour,
        legacy_windows=False,
        highlight=False,
        emoji=False,
        markup=False,
    )
    for part in parts:
        if isinstance(part, str):
            as_it_is = "\n".join(map(plain.line, part.splitlines()))
            console.print(Text(as_it_is), soft_wrap=True)
        elif isinstance(part, Grid | Layout):
            for line in lines(part if isinstance(part, Layout) else Layout(part)):
                console.print(line, soft_wrap=True)
        else:
            console.print(part)
    rendered = out.getvalue().replace(_UNBROKEN, " ")
    ready = [line.rstrip() if not screen.colour else line for line in rendered.splitlines()]
    whole = "\n".join(ready).rstrip() + "\n"
    return whole if screen.unicode else whole.translate(TO_ASCII)


def words(text: str, style: str = "") -> Text:
    """A text to wrap, but never between a number and its percent sign."""
    return Text(text.replace(" %", f"{_UNBROKEN}%"), style=style, overflow="fold")


def lines(layout: Layout) -> list[Text]:
    """A line a row, or more where a name folds."""
    cells = _cells(layout.grid, layout.indent, layout.cut)
    widths = layout.widths or _widths(cells)
    rows = []
    for row in cells if layout.heads else cells[1:]:
        rows += _folded(layout.grid.columns, row, widths)
    return rows


def together(grids: Iterable[Grid], indent: int = 2) -> list[int]:
    """Widths with which several tables of the same columns stand in line."""
    return _widths([row for grid in grids for row in _cells(grid, indent)])


def fit(grid: Grid, width: int, indent: int) -> Layout:
    """The first column, all without a worth, and the others in the order of their worth while
    there is room. On a narrow terminal a long name wraps before anything is left out."""
    sizes = [
        max(size, NAME_LEAST) if not at else size + GAP
        for at, size in enumerate(_widths(_cells(grid, indent)))
    ]
    worth = [column.worth for column in grid.columns]
    order = sorted((at for at, value in enumerate(worth) if value), key=lambda at: worth[at])
    rest = width - sum(sizes[at] for at, value in enumerate(worth) if at and not value)
    names = min(sizes[0], NAME_MOST)
    if width < ROOMY and order:
        names = min(names, max(NAME_LEAST, rest - sizes[order[0]]))
    sizes[0] = max(8, min(names, rest))
    left = rest - sizes[0]
    chosen = {at for at, value in enumerate(worth) if not value}
    for _, of in groupby(order, key=lambda at: worth[at]):
        together = list(of)
        if sum(sizes[at] for at in together) > left:
            break
        chosen.update(together)
        left -= sum(sizes[at] for at in together)
    kept = sorted(chosen)
    columns = [grid.columns[at] for at in kept]
    widths = [sizes[at] - (GAP if at else 0) for at in kept]
    return Layout(replace(grid, columns=columns), widths, indent, left=left)


def _cells(grid: Grid, indent: int, cut: int = 0) -> list[list[Text]]:
    """Heads, then a list a row."""
    cells = [[Text(plain.line(column.head), style="dim") for column in grid.columns]]
    cells[0][0].pad_left(indent)
    for row in grid.rows:
        texts = [_text(column, cell, cut) for column, cell in zip(grid.columns, row, strict=True)]
        texts[0].pad_left(indent + 2 * row[0].depth)
        cells.append(texts)
    return cells


def _text(column: Column, cell: Cell, cut: int) -> Text:
    text = plain.short(cell.text) if column.kind == "name" else plain.line(cell.text)
    if cut and len(text) > cut:
        text = f"{text[: cut - 1]}…"
    style = cell.style or ("dim" if column.quiet else "")
    if column.kind == "verdict":
        style = STYLES.get(cell.tone, "")
    elif column.kind == "effect" and cell.tone in ("faster", "slower"):
        style = "bold"
    return Text(f"{text} {cell.sign}" if cell.sign else text, style=style)


def _widths(cells: Sequence[Sequence[Text]]) -> list[int]:
    return [max(text.cell_len for text in column) for column in zip(*cells, strict=True)]


def _folded(columns: Sequence[Column], row: Sequence[Text], widths: Sequence[int]) -> list[Text]:
    """A row, in several lines where a cell is wider than its column."""
    parts = [
        [cell] if cell.cell_len <= width else list(cell.wrap(_ANY, width, overflow="fold"))
        for cell, width in zip(row, widths, strict=True)
    ]
    lines = []
    for number in range(max(map(len, parts))):
        line = Text()
        for at, (column, part, width) in enumerate(zip(columns, parts, widths, strict=True)):
            cell = part[number] if number < len(part) else Text()
            gap = " " * (width - cell.cell_len)
            line.append(" " * GAP if at else "")
            line.append_text(Text(gap) + cell if column.is_number else cell + Text(gap))
        lines.append(line)
    return lines
