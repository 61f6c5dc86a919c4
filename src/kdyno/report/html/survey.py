# SPDX-License-Identifier: MIT
"""A vectorisation survey as one page that needs no network and no other file."""

from __future__ import annotations

from collections.abc import Sequence

from kdyno import __version__
from kdyno.report import plain
from kdyno.report.html.markup import Html, join, tag
from kdyno.report.html.page import document
from kdyno.report.html.table import Cell, Row, table
from kdyno.report.survey import Grid, Value, head, is_figure, shown
from kdyno.vectorize.survey import Survey


def page(survey: Survey, grids: Sequence[Grid]) -> str:
    """The whole file; tables sort by their headings and filter by what is typed above them."""
    sections = [section(grid) for grid in grids if grid.rows]
    links = [tag("a", grid.title, href=f"#{grid.key}") for grid in grids if grid.rows]
    switch = tag("button", "Dark", type="button", id="theme", aria_pressed="false")
    said = head(survey)
    body = join(
        [
            tag(
                "header",
                tag("div", tag("p", "kdyno vectorize", class_="experiment"), switch, class_="top"),
                tag("h1", "What the compiler vectorises"),
                [tag("p", line) for line in said if line],
                tag("nav", links, aria_label="Sections"),
            ),
            tag("main", sections, id="main"),
            tag("footer", tag("p", f"Made by kdyno {__version__}.")),
        ]
    )
    title = f"vectorised loops · {plain.short(survey.source)} · kdyno"
    return document(title=title, body=body, skip=("main", "To the tables"))


def section(grid: Grid) -> Html:
    facets = ["flags"] if grid.facets else []
    values = grid.facets or ("",) * len(grid.rows)
    figures = [is_figure(grid, at) for at in range(len(grid.heads))]
    rows = [
        Row(
            [_cell(it, at) for it, at in zip(row, figures, strict=True)],
            {"flags": value} if facets else {},
        )
        for row, value in zip(grid.rows, values, strict=True)
    ]
    return tag(
        "section",
        tag("h2", grid.title, id=f"{grid.key}-title"),
        tag("p", grid.note, class_="tip") if grid.note else None,
        table(f"{grid.key}-table", grid.title, grid.heads, rows, facets),
        id=grid.key,
        aria_labelledby=f"{grid.key}-title",
    )


def _cell(value: Value, figure: bool) -> Cell:
    key = value if isinstance(value, int | float) else None
    return Cell(tag("bdi", shown(value)), key=key, number=figure)
