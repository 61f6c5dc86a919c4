# SPDX-License-Identifier: MIT
"""Vega-Lite specifications as SVG, rendered by vl-convert: no browser, no network.

A chart is a JSON file; code fills in its data and what depends on them. Colours are
``var(--name)``, so that a chart follows its page; a chart on its own gets the light ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, cast

from rich.cells import cell_len, set_cell_size

from kdyno.reading.checked import values_in

COLOURS: dict[str, tuple[str, str]] = {
    "ground": ("#ffffff", "#11151b"),
    "card": ("#f5f7f9", "#1a2029"),
    "line": ("#d9dfe5", "#303a46"),
    "grid": ("#e9edf1", "#252d37"),
    "ink": ("#1a2027", "#e7ebf0"),
    "muted": ("#586370", "#9ba7b5"),
    "accent": ("#1f5fbf", "#7fb0ff"),
    "band": ("#dfe9f7", "#1e3048"),
    "floor": ("#c5ccd4", "#46515e"),
    "baseline": ("#6d7885", "#9aa5b2"),
    "variant": ("#1f5fbf", "#7fb0ff"),
    "faster": ("#0b6e4f", "#5fd6a8"),
    "slower": ("#c4400a", "#ff9a62"),
    "equivalent": ("#3f5fa8", "#9db8f5"),
    "inconclusive": ("#7d6200", "#dcbf57"),
    "failed": ("#9d1c9d", "#ee8bee"),
}
"""Name → light and dark; the style sheet of every page has them too. Pairs of text and ground reach
4.5:1; faster and slower differ in lightness too, for readers who cannot tell green from red."""

_COLOUR = re.compile(r"var\(--([a-z]+)\)")
_CELL_PX = 6.7
"""Mean width of a character at 12 px, rather too much than too little."""
_GROUND = '<rect width="100%" height="100%" fill="var(--ground)"/>'

# Each chart is one image with one text; the parts of it would only be read aloud one by one.
_PARTS = re.compile(r' (?:role|aria-[a-z]+|class|pointer-events)="[^"]*"')
_EMPTY = re.compile(r'<path d="(?:M0,0h0v0h0Z)?"[^>]*/>|<g/>')
_ROOT = re.compile(r"<svg[^>]*?width=\"([\d.]+)\" height=\"([\d.]+)\"[^>]*>")

Spec = dict[str, Any]
"""A Vega-Lite specification: a panel, or several panels below each other."""

_file = cache(values_in)


def filled(template: str | Path | Spec, **values: Any) -> Spec:
    """A specification, or the JSON file of one, with values in place of its strings ``"$name"``.

    A file is of this folder, or a whole path. KeyError for a name without a value."""
    if not isinstance(template, dict):
        template = cast(Spec, _file(Path(__file__).parent / template))
    percent = "datum.value == 0 ? '0' : format(datum.value, '+~g') + ' %'"
    return cast(Spec, _filled(template, {"percent": percent, **values}))


def _filled(part: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(part, dict):
        return {key: _filled(value, values) for key, value in part.items()}
    if isinstance(part, list):
        return [_filled(value, values) for value in part]
    return values[part[1:]] if isinstance(part, str) and part.startswith("$") else part


def stack(panels: Sequence[Spec], title: str | Spec = "", spacing_px: int = 8) -> Spec:
    return {"vconcat": list(panels), "spacing": spacing_px, "title": title}


def heading(text: str, subtitle: str) -> Spec:
    """The title of a chart that stands alone."""
    return {
        "text": text,
        "subtitle": subtitle,
        "color": "var(--ink)",
        "subtitleColor": "var(--muted)",
        "fontSize": 16,
        "offset": 16,
    }


def fitted(text: str, width_px: float) -> str:
    """A label of at most that width. Vega's own limit may cut a character in half, and fails."""
    cells = int(width_px / _CELL_PX)
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def label_width(texts: Iterable[str], most_px: int) -> int:
    """Room for the longest of these labels, within reason."""
    longest = max((cell_len(text) for text in texts), default=0)
    return min(most_px, max(60, round(longest * _CELL_PX) + 8))


def drawn(spec: Spec, text: str) -> str:
    """The chart as an ``<svg>`` element that reads ``text`` to those who cannot see it.

    Colours stay as ``var(--name)``."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg({**spec, "config": filled("config.json")})
    svg = _EMPTY.sub("", _PARTS.sub("", svg))
    size = _ROOT.search(svg)
    assert size is not None, svg[:200]
    root = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(text)}" '
        f'width="{size[1]}" height="{size[2]}" viewBox="0 0 {size[1]} {size[2]}">'
    )
    return root + svg[size.end() :]


def alone(spec: Spec, text: str) -> str:
    """The chart as an SVG that needs no page around it: light, on a ground of its own."""
    head, rest = drawn(spec, text).split(">", 1)
    return _COLOUR.sub(lambda use: COLOURS.get(use[1], (use[0],))[0], f"{head}>{_GROUND}{rest}")


def png(svg: str) -> bytes:
    """A picture of an SVG that stands alone, two pixels for one."""
    import vl_convert

    return bytes(vl_convert.svg_to_png(svg, scale=2.0))
