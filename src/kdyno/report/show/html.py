# SPDX-License-Identifier: MIT
"""HTML that is safe by its type: text is cleaned and escaped unless it is Html already.

A report shows what kernels, files and other people wrote. Pages are Jinja2 templates with
autoescape; here are the environment that they share and what makes markup of text."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from kdyno.report import figures, plain
from kdyno.report.show.grid import Grid, headed

Html = Markup
"""Markup. A plain ``str`` is text."""

FILTER_FROM_ROWS = 8
"""Shorter tables are seen at a glance."""
GLYPHS = {"faster": "▲", "slower": "▼", "equivalent": "≈", "inconclusive": "?", "failed": "✕"}

_UNSAFE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def element(form: str, *content: str) -> Html:
    """``element("<td>{}</td>", "a < b")``, where a template is too much."""
    return Html(form).format(*map(_output, content))


def name(text: str) -> Html:
    """A name from outside on one line; its writing direction stays its own."""
    return element("<bdi>{}</bdi>", plain.name(text))


def short(text: str) -> Html:
    """The same, cut for a table; the whole name comes up on hovering."""
    whole, cut = plain.name(text), plain.short(text)
    return name(text) if whole == cut else element('<bdi title="{}">{}</bdi>', whole, cut)


def block(text: str, limit: int = 200_000) -> Html:
    """Text of several lines as it is, without what moves a cursor or turns the writing round."""
    lines = [plain.line(line) for line in text[:limit].splitlines()]
    cut = "\n…" if len(text) > limit else ""
    return element('<pre tabindex="0"><code>{}</code></pre>', "\n".join(lines) + cut)


def data(value: Any, id_: str) -> Html:
    """JSON for the page's script. Nothing in it can end the element or begin a comment."""
    text = htmlsafe_json_dumps(value, separators=(",", ":"), allow_nan=False)
    return element('<script type="application/json" id="{}">{}</script>', id_, text)


def _output(value: Any) -> Any:
    """What a template prints, before it is escaped: without lone surrogates, which no HTML file can
    hold, control characters, and what changes the writing direction, if the caller left any."""
    if isinstance(value, Html):
        return value
    text = "" if value is None else str(value)
    return _UNSAFE.sub("\ufffd", text.encode("utf-8", "replace").decode())


def macros(template: str) -> Any:
    """The macros of a template of this room, each a function that gives Html."""
    return ENVIRONMENT.get_template(template).module


def table(grid: Grid) -> Html:
    """The grid without its note, sorted by a click on a heading and filtered by what is typed above
    it; its title is read aloud. Facets become choices where there is more than one value."""
    facets = {
        at: head
        for at, column in enumerate(grid.columns)
        if (head := column.head.lower()) in grid.facets
    }
    rows = []
    choices: dict[str, dict[str, None]] = {head: {} for head in facets.values()}
    for cells in grid.rows:
        texts = {head: plain.short(cells[at].text) for at, head in facets.items() if cells[at].text}
        for head, text in texts.items():
            choices[head][text] = None
        rows.append((list(zip(grid.columns, cells, strict=True)), texts))
    several = {head: list(values) for head, values in choices.items() if len(values) > 1}
    return Html(macros("parts.html").table(grid, grid.columns, rows, several))


TEMPLATES = Path(__file__).parent.parent / "templates"
ENVIRONMENT = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
    finalize=_output,
)
ENVIRONMENT.globals |= {"glyphs": GLYPHS, "filter_from": FILTER_FROM_ROWS, "figures": figures}
ENVIRONMENT.filters |= {
    "name": name,
    "plain_name": plain.name,
    "short": short,
    "cut": plain.short,
    "line": plain.line,
    "sentence": plain.sentence,
    "block": block,
    "table": table,
    "headed_table": lambda grid: table(replace(grid, columns=headed(grid.columns))),
    "strings": lambda value: list(map(str, value)) if isinstance(value, list) else [],
    "effect": figures.effect,
    "sort_key": lambda value: f"{value:.17g}" if isinstance(value, float) else str(value),
    # Keeps a line from ending between a number and its percent sign.
    "unbroken": lambda text: element("{}", text).replace(" %", Html("&nbsp;%")),
}
