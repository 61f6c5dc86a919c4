# SPDX-License-Identifier: MIT
"""A table before it is shown anywhere: items, and columns that say what each reads of them.

The renderers beside this module make text for a terminal, Markdown, HTML and CSV of it. What is
foreign (names from files, kernels and people) is made safe by them, in every cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Literal

from markupsafe import Markup

Value = str | float | None
"""What a cell stands for: full precision, no unit. bool is one too."""
Kind = Literal["text", "name", "number", "effect", "verdict"]
"""name: given by somebody, and cut where there is little room. number and effect: to the right.
effect and verdict: coloured by the cell's tone."""


@dataclass(frozen=True)
class Cell:
    """What one item has in one column."""

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
    link: str = ""
    """Where the text leads to, as long as it is one."""
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
    facets: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    """What a page's reader may choose rows by."""

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
