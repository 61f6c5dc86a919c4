# SPDX-License-Identifier: MIT
"""What a kernel copies: tables of who, how much, in which sizes and how aligned; and a drawing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from html import escape
from operator import itemgetter

from kdyno.labs.memcpy.count.distribution import Distribution, Site
from kdyno.labs.memcpy.count.shares import aligned, by_size, size_quantile
from kdyno.report import plain
from kdyno.report.charts.vega import resolved
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.terminal import Part

_BAR = 24
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def amount(number: float) -> str:
    """1234567 as "1.23 M": three digits, decimal."""
    for unit in ("", "k", "M", "G", "T"):
        if number < 999.5 or unit == "T":
            digits = 0 if not unit or number >= 99.95 else 1 if number >= 9.995 else 2
            return f"{number:.{digits}f} {unit}".rstrip()
        number /= 1000
    raise AssertionError


def volume(number: float) -> str:
    """1234567 bytes as "1.23 MB"."""
    text = amount(number)
    return f"{text}B" if " " in text else f"{text} B"


def bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """A bar of at most ``width`` columns; something that is not nothing shows."""
    if ascii_only:
        return ("#" * max(round(share * width), share > 0)).ljust(width)
    eighths = max(round(share * width * 8), int(share > 0))
    whole, part = divmod(eighths, 8)
    return ("█" * whole + (_EIGHTHS[part] if part else "")).ljust(width)


def sites_grid(sites: Iterable[Site], copies: Distribution, top: int) -> Grid:
    """The ``top`` sites with most calls, and the rest in one line."""
    ranked = list(sites)
    rows = [(it.site, it.calls, it.bytes) for it in ranked[:top]]
    if rest := ranked[top:]:
        calls, size = sum(it.calls for it in rest), sum(it.bytes for it in rest)
        rows.append((f"{len(rest)} more", calls, size))
    columns = [
        Column("call site", itemgetter(0), "name"),
        Column("calls", itemgetter(1), "number", amount),
        Column("share", lambda it: it[1] / copies.calls, "number", percent),
        Column("bytes", itemgetter(2), "number", volume),
        Column("share", lambda it: it[2] / (copies.bytes or 1), "number", percent),
        Column("bytes a call", lambda it: f"{it[2] / it[1]:.0f}" if it[1] else "", "number"),
    ]
    return Grid(columns, rows)


def sizes_grid(copies: Distribution, *, ascii_only: bool = False) -> Grid:
    """Sizes in classes: share of calls and of bytes as bars."""
    drawn = partial(bar, width=_BAR, ascii_only=ascii_only)
    columns = [
        Column("bytes a copy", lambda it: it.label, "number"),
        Column("of all calls", lambda it: drawn(it.calls)),
        Column("", lambda it: it.calls, "number", percent),
        Column("of all bytes", lambda it: drawn(it.bytes)),
        Column("", lambda it: it.bytes, "number", percent),
    ]
    return Grid(columns, by_size(copies))


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def sentences(copies: Distribution) -> list[str]:
    """The same in a few words."""
    half, most = size_quantile(copies, 0.5), size_quantile(copies, 0.9)
    weight = size_quantile(copies, 0.5, of_bytes=True)
    lines, words = aligned(copies, 64), aligned(copies, 8)
    return [
        f"Half of the calls copy at most {half} bytes, nine of ten at most {most}; half of the "
        f"bytes move in copies of {weight} bytes or less.",
        f"Target at a multiple of 64: {100 * lines.target:.0f} % of calls, source: "
        f"{100 * lines.source:.0f} %, both: {100 * lines.both:.0f} %; of 8: "
        f"{100 * words.target:.0f} %, {100 * words.source:.0f} %, {100 * words.both:.0f} %.",
    ]


def parts(
    copies: Distribution, notes: Iterable[str] = (), top: int = 20, *, ascii_only: bool = False
) -> Iterator[Part]:
    """The whole report, for a terminal."""
    said = f"{plain.sentence(copies.source)}: {amount(copies.calls)} copies, {volume(copies.bytes)}"
    yield from [said, *notes, ""]
    if copies.sites:
        yield sites_grid(copies.sites, copies, top)
        yield ""
    yield sizes_grid(copies, ascii_only=ascii_only)
    yield from ("", *sentences(copies))


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
