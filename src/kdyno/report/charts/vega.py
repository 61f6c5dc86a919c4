# SPDX-License-Identifier: MIT
"""Altair's charts as SVG, drawn here by vl-convert: no browser, no network.

Marks and axes are altair's; putting them into layers and panels is not, since altair copies and
checks a whole chart at every such step, which takes seconds for a long report. Channels are
altair's objects (``altair.X2("high:Q")``): for a word alone it compares with all it knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import Any

FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
_CELL_PX = 6.7
"""Mean width of a character at 12 px, rather too much than too little."""

# Each chart is one image with one text; the parts of it would only be read aloud one by one.
_PARTS = re.compile(r' (?:role|aria-[a-z]+|class|pointer-events)="[^"]*"')
_EMPTY = re.compile(r'<path d="(?:M0,0h0v0h0Z)?"[^>]*/>')
_ROOT = re.compile(r"<svg[^>]*?width=\"([\d.]+)\" height=\"([\d.]+)\"[^>]*>")

Spec = dict[str, Any]
"""A Vega-Lite specification: a layer, a panel of layers, or a stack of panels."""

_CONFIG: Spec = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "domainColor": "var(--line)",
        "gridColor": "var(--grid)",
        "tickColor": "var(--line)",
        "labelColor": "var(--ink)",
        "titleColor": "var(--muted)",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "title": {"color": "var(--muted)", "fontSize": 12, "fontWeight": "bold", "anchor": "start"},
}


def fitted(text: str, width_px: float) -> str:
    """A label of at most that width. Vega's own limit may cut a character in half, and fails."""
    from rich.cells import cell_len, set_cell_size

    cells = int(width_px / _CELL_PX)
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def arm_colour() -> Any:
    """Colour by the field ``arm``: "baseline" or "variant"; the page's own palette."""
    import altair

    scale = altair.Scale(
        domain=["baseline", "variant"], range=["var(--baseline)", "var(--variant)"]
    )
    return altair.Color("arm:N", scale=scale, legend=None)


def label_width(texts: Iterable[str], most_px: int) -> int:
    """Room for the longest of these labels, within reason."""
    from rich.cells import cell_len

    longest = max((cell_len(text) for text in texts), default=0)
    return min(most_px, max(60, round(longest * _CELL_PX) + 8))


def names_axis(label_px: int) -> Any:
    """The axis of rows whose labels have a number of six letters before the name, so that two that
    read the same are kept apart."""
    import altair

    return altair.Axis(
        labelExpr="slice(datum.label, 6)",
        labelLimit=0,
        minExtent=label_px,
        maxExtent=label_px,
        ticks=False,
        domain=False,
        grid=False,
    )


@contextmanager
def unchecked() -> Iterator[None]:
    """Without altair's check of every part against the schema, which the tests have made."""
    from altair.utils import schemapi

    with schemapi.debug_mode(False):
        yield


def layer(chart: Any, rows: Sequence[Spec]) -> Spec:
    """An altair chart of one mark with the rows that it draws."""
    spec: Spec = chart.to_dict(validate=False, context={"top_level": False})
    return {**spec, "data": {"values": list(rows)}}


def panel(layers: Sequence[Spec], width_px: int, height: int | Spec, title: str = "") -> Spec:
    """Layers over each other on the same axes. ``height``: pixels, or ``{"step": pixels}``."""
    return {"layer": list(layers), "width": width_px, "height": height, "title": title}


def stack(panels: Sequence[Spec], title: str | Spec = "", spacing_px: int = 8) -> Spec:
    """Panels below each other."""
    return {"vconcat": list(panels), "spacing": spacing_px, "title": title}


def grid(panels: Sequence[Spec], columns: int, title: str | Spec = "") -> Spec:
    """Panels beside and below each other."""
    return {"concat": list(panels), "columns": columns, "spacing": 24, "title": title}


def drawn(spec: Spec, text: str) -> str:
    """The chart as an ``<svg>`` element that reads ``text`` to those who cannot see it.

    Colours stay as ``var(--name)``.
    """
    import vl_convert

    svg = vl_convert.vegalite_to_svg({**spec, "config": _CONFIG})
    svg = _EMPTY.sub("", _PARTS.sub("", svg))
    size = _ROOT.search(svg)
    assert size is not None, svg[:200]
    root = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(text)}" '
        f'width="{size[1]}" height="{size[2]}" viewBox="0 0 {size[1]} {size[2]}">'
    )
    return root + svg[size.end() :]


def png(svg: str) -> bytes:
    """A picture of a standalone SVG (see palette.resolved)."""
    import vl_convert

    data: bytes = vl_convert.svg_to_png(svg, scale=2.0)
    return data
