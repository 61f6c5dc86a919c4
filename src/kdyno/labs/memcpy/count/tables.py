# SPDX-License-Identifier: MIT
"""What a kernel copies, on a terminal: who, how much, in which sizes, how aligned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from operator import itemgetter

from kdyno.labs.memcpy.count.distribution import Distribution, Site
from kdyno.labs.memcpy.count.shares import aligned, by_size, size_quantile
from kdyno.report import plain
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.terminal import Part

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


def sizes_grid(copies: Distribution, width: int = 24, *, ascii_only: bool = False) -> Grid:
    """Sizes in classes: share of calls and of bytes as bars."""
    drawn = partial(bar, width=width, ascii_only=ascii_only)
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
