# SPDX-License-Identifier: MIT
"""Sizes of copies as a drawing: for each class of sizes a bar of calls and a bar of bytes."""

from __future__ import annotations

from html import escape

from kdyno.labs.memcpy.count.distribution import Distribution
from kdyno.labs.memcpy.count.shares import by_size
from kdyno.report import plain
from kdyno.report.charts.palette import resolved

_LEFT_PX, _BAR_PX, _ROW_PX, _TOP_PX = 90, 400, 34, 64
_FONT = "system-ui, 'DejaVu Sans', sans-serif"


def chart(copies: Distribution) -> str:
    """One SVG that stands alone, in the colours of a light page."""
    shares = by_size(copies)
    title = plain.sentence(copies.source)
    longest = max(max(share.calls, share.bytes) for share in shares)
    height = _TOP_PX + _ROW_PX * len(shares) + 12
    width = _LEFT_PX + _BAR_PX + 70
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-family="{_FONT}" font-size="12">',
        f"<title>{escape(title)}: sizes of copies</title>",
        f'<rect width="{width}" height="{height}" fill="var(--ground)"/>',
        _text(12, 20, f"{title}: bytes a copy", "ink"),
        _key(_LEFT_PX, 44, "baseline", "of all calls"),
        _key(_LEFT_PX + 120, 44, "accent", "of all bytes"),
    ]
    for row, share in enumerate(shares):
        top = _TOP_PX + row * _ROW_PX
        parts.append(_text(_LEFT_PX - 8, top + 17, share.label, "ink", end=True))
        for at, (part, colour) in enumerate(((share.calls, "baseline"), (share.bytes, "accent"))):
            length = part / longest * _BAR_PX
            y = top + 2 + at * 13
            parts.append(
                f'<rect x="{_LEFT_PX}" y="{y}" width="{length:.1f}" height="11" '
                f'fill="var(--{colour})"/>'
            )
            parts.append(_text(_LEFT_PX + length + 5, y + 10, f"{100 * part:.1f} %", "muted"))
    return resolved("\n".join([*parts, "</svg>", ""]))


def _text(x: float, y: float, text: str, colour: str, *, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    return f'<text x="{x:.1f}" y="{y}" fill="var(--{colour})"{anchor}>{escape(text)}</text>'


def _key(x: int, y: int, colour: str, text: str) -> str:
    return f'<rect x="{x}" y="{y - 10}" width="11" height="11" fill="var(--{colour})"/>' + _text(
        x + 16, y, text, "muted"
    )
