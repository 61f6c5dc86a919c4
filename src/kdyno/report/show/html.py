# SPDX-License-Identifier: MIT
"""Tables that sort by a click on a heading and filter by what is typed above them."""

from __future__ import annotations

from dataclasses import replace

from kdyno.report.show.grid import Grid, headed
from kdyno.report.show.markup import Html, macros


def table(grid: Grid) -> Html:
    """The grid without its note; its title is read aloud. Facets become choices where there is
    more than one value."""
    facets = [{name: of(item) for name, of in grid.facets.items()} for item in grid.items]
    rows = [list(zip(grid.columns, cells, strict=True)) for cells in grid.rows]
    values = {
        name: list(dict.fromkeys(row[name] for row in facets if row[name])) for name in grid.facets
    }
    choices = {name: several for name, several in values.items() if len(several) > 1}
    pairs = list(zip(rows, facets, strict=True))
    shown: Html = macros("parts.html").table(grid, grid.columns, pairs, choices)
    return shown


def headed_table(grid: Grid) -> Html:
    """The same with capitals at the beginning of its heads."""
    return table(replace(grid, columns=headed(grid.columns)))
