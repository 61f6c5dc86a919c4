# SPDX-License-Identifier: MIT
"""Grids in Markdown."""

from __future__ import annotations

import re

from kdyno.report import plain
from kdyno.report.show.grid import Cell, Column, Grid

# HTML counts too: most renderers let it through.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$!@&])")
_BOLD = ("faster", "slower", "failed")


def escaped(text: str) -> str:
    """Text as it stands, on one line."""
    return _SPECIAL.sub(r"\\\1", plain.line(text))


def table(grid: Grid) -> str:
    """The grid without its title and its note."""
    heads = [escaped(column.head) for column in grid.columns]
    sides = ["--:" if column.is_number else "---" for column in grid.columns]
    rows = [
        [_cell(column, cell) for column, cell in zip(grid.columns, row, strict=True)]
        for row in grid.rows
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, sides, *rows))


def _cell(column: Column, cell: Cell) -> str:
    text = escaped(cell.text)
    if cell.link:
        text = f"[{text}]({cell.link})"
    if column.kind == "verdict" and cell.tone in _BOLD:
        text = f"**{text}**"
    notes = ", ".join(map(escaped, cell.notes))
    if notes:
        text += f" ({notes})" if column.kind == "name" else f", {notes}"
    if cell.why:
        text += f": {escaped(plain.sentence(cell.why))}"
    return "&nbsp;&nbsp;" * cell.depth + text
