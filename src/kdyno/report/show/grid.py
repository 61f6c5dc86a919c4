# SPDX-License-Identifier: MIT
"""A table before it is shown anywhere: items, and columns that say what each reads of them.

Markdown and CSV are made of it here, text for a terminal and HTML beside this module. What is
foreign (names from files, kernels and people) is made safe by them, in every cell."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from csv import writer as writer_of
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal

from markupsafe import Markup

from kdyno.report import plain

Value = str | float | None
"""What a cell stands for: full precision, no unit. bool is one too."""
Kind = Literal["text", "name", "number", "effect", "verdict"]
"""name: given by somebody, and cut where there is little room. number and effect: to the right.
effect and verdict: coloured by the cell's tone."""

# HTML counts too: most renderers let it through.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!@&])")
_BOLD = ("faster", "slower", "failed")


@dataclass(frozen=True)
class Cell:
    text: str = ""
    value: Value = None
    """What it is sorted by, and what stands in CSV. None: the text, or nothing was measured."""
    notes: tuple[str, ...] = ()
    """What stands beside it where there is room for words."""
    sign: str = ""
    """The same where there is none: signs behind the text."""
    why: str = ""
    """The reason why there is no figure."""
    tone: str = ""
    """A verdict's word."""
    style: str = ""
    """How a terminal shows it, in the words of rich."""
    depth: int = 0
    """How far it stands below what it refines."""
    markup: Markup | None = None
    """For HTML in place of the text: links and pictures."""


@dataclass(frozen=True)
class Column:
    """``of`` reads an item: a Cell, or a value that ``format`` puts into words."""

    head: str
    of: Callable[[Any], Cell | Value]
    kind: Kind = "text"
    format: Callable[[Any], str] | None = None
    absent: str = ""
    """What stands for None."""
    quiet: bool = False
    """Dim on a terminal."""
    worth: int = 0
    """0: always shown. Else those with more are left out first where a terminal is narrow."""

    @property
    def is_number(self) -> bool:
        return self.kind in ("number", "effect")

    def cell(self, item: Any) -> Cell:
        value = self.of(item)
        if isinstance(value, Cell):
            return value
        if value is None:
            return Cell(self.absent)
        text = self.format(value) if self.format is not None else plainly(value)
        return Cell(text, None if isinstance(value, str) else value)


@dataclass(frozen=True)
class Grid:
    """A table. ``id``: of its HTML element. ``note``: what explains it."""

    columns: Sequence[Column]
    items: Sequence[Any]
    title: str = ""
    note: str = ""
    id: str = ""
    facets: Sequence[str] = ()
    """Heads of the columns, in small letters, by whose texts a page's reader may choose rows."""

    @property
    def rows(self) -> list[list[Cell]]:
        return [[column.cell(item) for column in self.columns] for item in self.items]


def of_rows(
    heads: Sequence[str],
    rows: Sequence[Sequence[Value]],
    kinds: Sequence[Kind] = (),
    *,
    absent: str = "",
    title: str = "",
    note: str = "",
    id: str = "",
) -> Grid:
    """A grid of rows that are values by column. Without ``kinds``, columns of figures only are
    numbers and the others text."""
    kinds = kinds or [_kind([row[at] for row in rows]) for at in range(len(heads))]
    columns = [
        Column(head, itemgetter(at), kind, absent=absent)
        for at, (head, kind) in enumerate(zip(heads, kinds, strict=True))
    ]
    return Grid(columns, rows, title, note, id)


def headed(columns: Sequence[Column]) -> list[Column]:
    """The same columns with capitals at the beginning of their heads."""
    return [replace(column, head=column.head[:1].upper() + column.head[1:]) for column in columns]


def plainly(value: Value) -> str:
    """A value without a unit: four digits of what is not a whole number."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _kind(values: Sequence[Value]) -> Kind:
    present = [value for value in values if value is not None]
    figures = bool(present) and all(isinstance(value, int | float) for value in present)
    return "number" if figures else "text"


def escaped(text: str) -> str:
    """Text as it stands, on one line."""
    return _SPECIAL.sub(r"\\\1", plain.line(text))


def markdown(grid: Grid) -> str:
    """The grid in Markdown, without its title and its note."""
    heads = [escaped(column.head) for column in grid.columns]
    sides = ["--:" if column.is_number else "---" for column in grid.columns]
    rows = [
        [_marked(column, cell) for column, cell in zip(grid.columns, row, strict=True)]
        for row in grid.rows
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, sides, *rows))


def _marked(column: Column, cell: Cell) -> str:
    text = escaped(cell.text)
    if column.kind == "verdict" and cell.tone in _BOLD:
        text = f"**{text}**"
    notes = ", ".join(map(escaped, cell.notes))
    if notes:
        text += f" ({notes})" if column.kind == "name" else f", {notes}"
    if cell.why:
        text += f": {escaped(plain.sentence(cell.why))}"
    return "&nbsp;&nbsp;" * cell.depth + text


def csv(grid: Grid) -> str:
    """The grid as CSV, for spreadsheets, at full precision: its heads, then a line for each row."""
    out = io.StringIO()
    writer = writer_of(out, lineterminator="\n")
    writer.writerow([_field(Cell(column.head)) for column in grid.columns])
    writer.writerows([_field(cell) for cell in row] for row in grid.rows)
    return out.getvalue()


def _field(cell: Cell) -> str:
    if isinstance(cell.value, bool):
        return "yes" if cell.value else "no"
    if isinstance(cell.value, int | float):
        return repr(cell.value)
    text = plain.sentence(cell.value or cell.text) or ("?" if cell.text else "")
    # Spreadsheets run what begins like a formula; an apostrophe makes it text.
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
