# SPDX-License-Identifier: MIT
"""Altair's charts as SVG, drawn here by vl-convert: no browser, no network."""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from typing import Any

FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
_CELL_PX = 6.7
"""Mean width of a character at 12 px, rather too much than too little."""

# Each chart is one image with one text; the parts of it would only be read aloud one by one.
_PARTS = re.compile(r' (?:role|aria-[a-z]+|class|pointer-events)="[^"]*"')
_EMPTY = re.compile(r'<path d="(?:M0,0h0v0h0Z)?"[^>]*/>')
_ROOT = re.compile(r"<svg[^>]*?width=\"([\d.]+)\" height=\"([\d.]+)\"[^>]*>")


def fitted(text: str, width_px: float) -> str:
    """A label of at most that width. Vega's own limit may cut a character in half, and fails."""
    from rich.cells import cell_len, set_cell_size

    cells = int(width_px / _CELL_PX)
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def table(rows: list[dict[str, Any]]) -> Any:
    """Rows as a chart's data, inside its own specification."""
    import altair

    return altair.Data(values=rows)  # type: ignore[no-untyped-call]


def label_width(texts: Iterable[str], most_px: int) -> int:
    """Room for the longest of these labels, within reason."""
    from rich.cells import cell_len

    longest = max((cell_len(text) for text in texts), default=0)
    return min(most_px, max(60, round(longest * _CELL_PX) + 8))


def drawn(chart: Any, text: str) -> str:
    """The altair chart as an ``<svg>`` element that reads ``text`` to those who cannot see it.

    Colours stay as ``var(--name)``.
    """
    import vl_convert

    styled = chart.configure(background="transparent", font=FONT).configure_view(stroke=None)
    styled = styled.configure_axis(
        domainColor="var(--line)",
        gridColor="var(--grid)",
        tickColor="var(--line)",
        labelColor="var(--ink)",
        titleColor="var(--muted)",
        labelFontSize=12,
        titleFontSize=12,
        titleFontWeight="normal",
    ).configure_title(color="var(--muted)", fontSize=12, fontWeight="bold", anchor="start")
    svg = vl_convert.vegalite_to_svg(styled.to_json())
    svg = _EMPTY.sub("", _PARTS.sub("", svg))
    size = _ROOT.search(svg)
    assert size is not None, svg[:200]
    root = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(text)}" '
        f'width="{size[1]}" height="{size[2]}" viewBox="0 0 {size[1]} {size[2]}">'
    )
    return root + svg[size.end() :]


def png(svg: str, scale: float = 2.0) -> bytes:
    """A picture of a standalone SVG (see palette.resolved)."""
    import vl_convert

    data: bytes = vl_convert.svg_to_png(svg, scale=scale)
    return data
