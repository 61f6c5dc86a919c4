# SPDX-License-Identifier: MIT
"""What a kernel copies, on a terminal: who, how much, in which sizes, how aligned."""

from __future__ import annotations

from collections.abc import Iterable

from kdyno.memcpy.distribution import Distribution, Site
from kdyno.memcpy.shares import aligned, by_size, size_quantile
from kdyno.report import plain

_NAME_WIDTH = 34
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


def sites_table(sites: Iterable[Site], copies: Distribution, top: int) -> list[str]:
    """The ``top`` sites with most calls, and the rest in one line."""
    ranked = list(sites)
    shown, rest = ranked[:top], ranked[top:]
    head = f"{'call site':<{_NAME_WIDTH}} {'calls':>8}  share   bytes       share  bytes a call"
    rows = [head]
    for site in shown:
        name = plain.name(site.site)
        name = name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 1] + "…"
        rows.append(_row(name, site.calls, site.bytes, copies))
    if rest:
        calls, size = sum(it.calls for it in rest), sum(it.bytes for it in rest)
        rows.append(_row(f"{len(rest)} more", calls, size, copies))
    return rows


def _row(name: str, calls: int, size: int, copies: Distribution) -> str:
    by_calls, by_bytes = calls / copies.calls, size / copies.bytes if copies.bytes else 0.0
    mean = f"{size / calls:12.0f}" if calls else " " * 12
    return (
        f"{name:<{_NAME_WIDTH}} {amount(calls):>8} {100 * by_calls:5.1f} %  {volume(size):>8} "
        f"{100 * by_bytes:9.1f} % {mean}"
    )


def sizes_table(copies: Distribution, width: int = 24, *, ascii_only: bool = False) -> list[str]:
    """Sizes in classes: share of calls and of bytes as bars."""
    rows = [f"{'bytes a copy':>14}  {'of all calls':<{width + 8}}  {'of all bytes':<{width + 8}}"]
    for share in by_size(copies):
        rows.append(
            f"{share.label:>14}  {bar(share.calls, width, ascii_only=ascii_only)} "
            f"{100 * share.calls:5.1f} %  {bar(share.bytes, width, ascii_only=ascii_only)} "
            f"{100 * share.bytes:5.1f} %"
        )
    return [row.rstrip() for row in rows]


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


def copies_text(
    copies: Distribution,
    notes: Iterable[str] = (),
    *,
    top: int = 20,
    ascii_only: bool = False,
) -> str:
    """The whole report, for stdout."""
    said = f"{plain.sentence(copies.source)}: {amount(copies.calls)} copies, {volume(copies.bytes)}"
    lines = [said, *(plain.sentence(note) for note in notes), ""]
    if copies.sites:
        lines += [*sites_table(copies.sites, copies, top), ""]
    lines += [*sizes_table(copies, ascii_only=ascii_only), "", *sentences(copies)]
    return "\n".join(lines)
