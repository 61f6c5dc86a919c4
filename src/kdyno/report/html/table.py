# SPDX-License-Identifier: MIT
"""Tables that sort by a click on a heading and filter by what is typed above them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kdyno.report.html.markup import Content, Html, tag

FILTER_FROM_ROWS = 8
"""Shorter tables are seen at a glance."""


@dataclass(frozen=True)
class Cell:
    content: Content
    key: float | str | None = None
    """What to sort by; None: by the text. Missing figures sort last either way."""
    number: bool = False
    class_: str = ""


@dataclass(frozen=True)
class Row:
    cells: Sequence[Cell]
    facets: dict[str, str] = field(default_factory=dict)
    """Facet → value, for the choices above the table."""


def table(
    id_: str,
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Row],
    facets: Sequence[str] = (),
) -> Html:
    """``facets``: those that get a choice where there is more than one value."""
    numbers = [cell.number for cell in rows[0].cells] if rows else [False] * len(heads)
    head = [
        tag(
            "th",
            tag("button", text, type="button"),
            scope="col",
            class_="number" if number else None,
        )
        for text, number in zip(heads, numbers, strict=True)
    ]
    body = [
        tag(
            "tr",
            [_cell(cell, number == 0) for number, cell in enumerate(row.cells)],
            **{f"data_f_{name}": value for name, value in row.facets.items()},
        )
        for row in rows
    ]
    whole = tag(
        "table",
        tag("caption", caption, class_="unseen"),
        tag("thead", tag("tr", head)),
        tag("tbody", body),
        id=id_,
        class_="sortable",
    )
    # A region that scrolls must be reachable by the keyboard.
    frame = tag("div", whole, class_="frame", role="region", aria_label=caption, tabindex=0)
    return Html(_filters(id_, rows, facets) + frame)


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


def _filters(id_: str, rows: Sequence[Row], facets: Sequence[str]) -> Html:
    choices = {}
    for facet in facets:
        values = list(dict.fromkeys(row.facets[facet] for row in rows if facet in row.facets))
        if len(values) > 1:
            choices[facet] = values
    return filters(id_, len(rows), choices) if len(rows) >= FILTER_FROM_ROWS else Html("")


def _cell(cell: Cell, first: bool) -> Html:
    classes = " ".join(filter(None, ["number" if cell.number else "", cell.class_]))
    key = cell.key
    return tag(
        "th" if first else "td",
        cell.content,
        scope="row" if first else None,
        class_=classes or None,
        data_v=f"{key:.17g}" if isinstance(key, float | int) else key,
    )
