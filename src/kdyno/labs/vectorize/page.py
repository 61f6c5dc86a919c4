# SPDX-License-Identifier: MIT
"""A vectorisation survey as one page that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kdyno import __version__
from kdyno.labs.vectorize.survey import Survey
from kdyno.labs.vectorize.tables import head
from kdyno.report import plain
from kdyno.report.html.page import alone
from kdyno.report.show.grid import Grid
from kdyno.report.show.html import table
from kdyno.report.show.markup import Content, tag


def page(survey: Survey, grids: Sequence[Grid]) -> str:
    """The whole file; tables sort by their headings and filter by what is typed above them."""
    return alone(
        tool="kdyno vectorize",
        title=f"vectorised loops · {plain.short(survey.source)} · kdyno",
        heading="What the compiler vectorises",
        intro=[tag("p", line) for line in head(survey) if line],
        sections={grid.id: (grid.title, _content(grid)) for grid in grids if grid.items},
        foot=f"Made by kdyno {__version__}.",
        skip=("main", "To the tables"),
    )


def _content(grid: Grid) -> Content:
    note = tag("p", grid.note, class_="tip") if grid.note else None
    return [note, table(replace(grid, id=f"{grid.id}-table"))]
