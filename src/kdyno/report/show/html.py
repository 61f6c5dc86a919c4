# SPDX-License-Identifier: MIT
"""Tables that sort by a click on a heading and filter by what is typed above them."""

from __future__ import annotations

from dataclasses import replace

from kdyno.report import plain
from kdyno.report.show.grid import Cell, Column, Grid, headed
from kdyno.report.show.markup import Content, Html, short, tag

FILTER_FROM_ROWS = 8
"""Shorter tables are seen at a glance."""
GLYPHS = {"faster": "▲", "slower": "▼", "equivalent": "≈", "inconclusive": "?", "failed": "✕"}


def table(grid: Grid) -> Html:
    """The grid without its note; its title is read aloud. Facets become choices where there is
    more than one value."""
    head = [
        tag(
            "th",
            tag("button", plain.line(it.head), type="button"),
            scope="col",
            class_="number" if it.is_number else None,
        )
        for it in grid.columns
    ]
    facets = [{name: of(item) for name, of in grid.facets.items()} for item in grid.items]
    body = [
        tag(
            "tr",
            [_cell(column, cell, not at) for at, (column, cell) in enumerate(pairs)],
            **{f"data_f_{name}": value or None for name, value in of.items()},
        )
        for row, of in zip(grid.rows, facets, strict=True)
        for pairs in [zip(grid.columns, row, strict=True)]
    ]
    title = plain.line(grid.title)
    whole = tag(
        "table",
        tag("caption", title, class_="unseen"),
        tag("thead", tag("tr", head)),
        tag("tbody", body),
        id=grid.id,
        class_="sortable",
    )
    choices = {
        name: values
        for name in grid.facets
        if len(values := list(dict.fromkeys(it[name] for it in facets if it[name]))) > 1
    }
    controls = filters(grid.id, len(facets), choices) if len(facets) >= FILTER_FROM_ROWS else ""
    # A region that scrolls must be reachable by the keyboard.
    frame = tag("div", whole, class_="frame", role="region", aria_label=title, tabindex=0)
    return Html(controls + frame)


def headed_table(grid: Grid) -> Html:
    """The same with capitals at the beginning of its heads."""
    return table(replace(grid, columns=headed(grid.columns)))


def badge(word: str, more: str = "") -> Html:
    """A verdict as a coloured word with its own sign."""
    sign = tag("span", GLYPHS[word], aria_hidden="true")
    return tag("span", sign, f" {word}{more}", class_=f"badge {word}")


def filters(id_: str, count: int, choices: dict[str, list[str]]) -> Html:
    """Controls that hide what does not fit inside the element ``id_``. Of no use without script,
    and hidden then."""
    search = tag(
        "label",
        "Search ",
        tag("input", type="search", autocomplete="off", spellcheck="false", data_search=True),
    )
    selects = [
        tag(
            "label",
            f"{facet} ",
            tag(
                "select",
                tag("option", "all", value=""),
                [tag("option", value, value=value) for value in values],
                data_facet=facet,
            ),
        )
        for facet, values in choices.items()
    ]
    told = tag("output", f"{count} of {count}", aria_live="polite")
    return tag("form", search, selects, told, class_="filters", data_for=id_)


def _cell(column: Column, cell: Cell, first: bool) -> Html:
    classes = ["number"] if column.is_number else []
    if column.kind == "effect":
        classes.append(f"effect {cell.tone}")
    key = cell.value
    return tag(
        "th" if first else "td",
        _content(column, cell),
        scope="row" if first else None,
        class_=" ".join(classes) or None,
        data_v=key if isinstance(key, str) or key is None else f"{key:.17g}",
    )


def _content(column: Column, cell: Cell) -> Content:
    if cell.markup is not None:
        return cell.markup
    shown: Html | str = plain.line(cell.text)
    if column.kind == "text" and shown:
        shown = tag("bdi", shown)
    elif column.kind == "name":
        shown = short(cell.text)
    elif column.kind == "verdict":
        shown = badge(cell.tone)
    if cell.depth:
        shown = tag("span", shown, class_=f"depth{cell.depth}")
    notes = [*cell.notes, *([plain.sentence(cell.why)] if cell.why else [])]
    return [shown, *(tag("small", tag("bdi", it)) for it in notes)]
