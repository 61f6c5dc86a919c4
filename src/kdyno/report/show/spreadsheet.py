# SPDX-License-Identifier: MIT
"""Grids as CSV: full precision, for spreadsheets."""

from __future__ import annotations

import csv
import io

from kdyno.report import plain
from kdyno.report.show.grid import Cell, Grid


def text(grid: Grid) -> str:
    """A line with the heads, then a line a row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
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
