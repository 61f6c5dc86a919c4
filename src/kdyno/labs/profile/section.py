# SPDX-License-Identifier: MIT
"""Where the time goes: seconds per function at fixed work, differences, a flame graph."""

from __future__ import annotations

from html import escape

from kdyno.errors import KdynoError
from kdyno.labs.profile.export import flame_data
from kdyno.labs.profile.record import WHERES, Profile, stored_profiles
from kdyno.labs.profile.tables import (
    Change,
    Difference,
    differences,
    limits,
    rows,
    seconds,
    total,
)
from kdyno.report import figures, plain
from kdyno.report.evidence import Evidence
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.html import Html, data, join, name, short, table, tag

ORDER = 60
ID = "profile"
TITLE = "Where the time goes"
TIP = (
    "Every kernel did the same work in boots of their own, so seconds of one can be taken from "
    "those of another."
)

_BARS = 12
_ROW_PX, _LABEL_PX, _PLOT_PX, _FIGURE_PX = 24, 290, 420, 260
_ROWS_MOST = 400


def section(evidence: Evidence) -> Html | None:
    if evidence.run is None or evidence.manifest is None:
        return None
    try:
        profiles = {key: it for key, it in stored_profiles(evidence.run).items() if it.boots}
        changes = differences(profiles, evidence.verdict.baseline)
    except KdynoError as problem:
        return tag("p", f"The profile cannot be shown: {plain.sentence(str(problem))}")
    if not profiles:
        return None
    parts = [_intro(profiles), *(_bars(it) for it in changes), _table(profiles), _flames(profiles)]
    notes = dict.fromkeys(note for it in profiles.values() for note in it.notes)
    if notes:
        parts.append(tag("ul", [tag("li", plain.sentence(note)) for note in notes]))
    return join(parts)


def _intro(profiles: dict[str, Profile]) -> Html:
    parts = [
        tag(
            "li",
            name(key),
            f": {it.method} ({it.event}), {figures.count(len(it.boots), 'boot')}, "
            f"{seconds(total(it).mean)} s a boot seen",
        )
        for key, it in profiles.items()
    ]
    return tag("ul", parts)


def _bars(it: Difference) -> Html:
    """The largest changes as bars from zero, with their intervals; figures at the right."""
    shown = [each for each in it.changes[:_BARS] if each.delta.mean]
    heading = tag("h3", short(it.variant), " − ", short(it.baseline))
    if not shown:
        return join([heading, tag("p", "No function's seconds differ.")])
    reach = max(_reach(each) for each in shown) or 1.0
    height = _ROW_PX * len(shown) + 8
    middle, half = _LABEL_PX + _PLOT_PX / 2, _PLOT_PX / 2
    width = _LABEL_PX + _PLOT_PX + _FIGURE_PX
    words = "; ".join(
        f"{plain.short(each.function)} {seconds(each.delta.mean, True)} s" for each in shown[:5]
    )
    text = escape(f"Seconds of {plain.short(it.variant)} minus the baseline's: {words}")
    parts = [
        f'<svg class="delta" role="img" aria-label="{text}" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}">',
        f'<path class="zero" d="M{middle} 0V{height}"/>',
    ]
    for number, each in enumerate(shown):
        y = number * _ROW_PX + _ROW_PX / 2 + 4
        size = abs(each.delta.mean) / reach * half
        left = middle - (size if each.delta.mean < 0 else 0)
        better = "faster" if each.delta.mean < 0 else "slower"
        kind = f"{better}{'' if each.delta.clear else ' unclear'}"
        label = escape(f"{_cut(each.function)}, {WHERES[each.where]}")
        parts.append(f'<text class="label" x="{_LABEL_PX - 10}" y="{y + 4:.1f}">{label}</text>')
        parts.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{y - 7:.1f}" width="{max(size, 1):.1f}" '
            'height="14"/>'
        )
        if each.delta.lo is not None and each.delta.hi is not None:
            ends = [middle + end / reach * half for end in (each.delta.lo, each.delta.hi)]
            parts.append(f'<path class="ends" d="M{ends[0]:.1f} {y:.1f}H{ends[1]:.1f}"/>')
        figure = escape(f"{seconds(each.delta.mean, True)} s  ({_interval(each)})")
        place = _LABEL_PX + _PLOT_PX + 10
        parts.append(f'<text x="{place}" y="{y + 4:.1f}">{figure}</text>')
    parts.append("</svg>")
    drawing = tag("div", Html("".join(parts)), class_="frame", tabindex=0, role="region")
    return join([heading, tag("figure", drawing), _sum(it)])


def _reach(each: Change) -> float:
    ends = [each.delta.mean, each.delta.lo or 0.0, each.delta.hi or 0.0]
    return max(map(abs, ends))


def _sum(it: Difference) -> Html:
    text = f"All functions: {_with_limits(it.sampled)}"
    if it.measured is not None:
        text += f"; CPU time measured without the profiler’s help: {_with_limits(it.measured)}"
    if it.unexplained_s is not None:
        text += f"; in no function: {seconds(it.unexplained_s, True)} s"
    return tag("p", f"{text}. Pale bars: the interval contains zero.", class_="legend")


def _with_limits(change: Change) -> str:
    share = "" if change.relative is None else f", {figures.percent(change.relative.mean)}"
    return f"{seconds(change.delta.mean, True)} s ({_interval(change)}){share}"


def _interval(change: Change) -> str:
    return limits(change.delta, True).replace("none from", "no interval from")


def _cut(function: str) -> str:
    text = plain.name(function)
    return text if len(text) <= 30 else f"{text[:29]}…"


def _table(profiles: dict[str, Profile]) -> Html:
    items = [(key, row) for key, profile in profiles.items() for row in rows(profile)[:_ROWS_MOST]]
    columns = [
        Column("Function", lambda it: it[1].function, "name"),
        Column("Where", lambda it: WHERES[it[1].where]),
        Column("Kernel", lambda it: it[0], "name"),
        Column("Seconds a boot", lambda it: it[1].seconds.mean, "number", seconds),
        Column("Share", lambda it: it[1].share, "number", figures.share),
        Column("Interval", lambda it: limits(it[1].seconds)),
        Column("Calls", lambda it: it[1].calls, "number", figures.amount),
    ]
    facets = {"kernel": lambda it: plain.short(it[0]), "where": lambda it: WHERES[it[1].where]}
    grid = Grid(columns, items, "Seconds per function", id="profile-table", facets=facets)
    return tag("details", tag("summary", "Every function of every kernel"), table(grid))


def _flames(profiles: dict[str, Profile]) -> Html | None:
    trees = {plain.name(key): flame_data(it) for key, it in profiles.items() if it.stacks}
    if not trees:
        return None
    options = [tag("option", key, value=key) for key in trees]
    note = (
        "Width is time, the callee stands below its caller. Click or press Enter to look into a "
        "frame; arrow keys move, Escape goes back out."
    )
    return join(
        [
            tag("h3", "Flame graph"),
            tag("p", note, class_="tip"),
            tag(
                "div",
                tag("label", "Kernel ", tag("select", options), class_="flame-kernel"),
                tag("output", "", aria_live="polite"),
                tag("div", "", class_="flame-rows", role="tree", aria_label="Flame graph"),
                class_="flame",
            ),
            data(trees, "flame-data"),
        ]
    )
