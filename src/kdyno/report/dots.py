# SPDX-License-Identifier: MIT
"""The dot chart of effects in characters, as wide as the terminal."""

from __future__ import annotations

import textwrap

from rich.cells import cell_len, set_cell_size

from kdyno.report import figures, plain
from kdyno.report.chart import ASCII, UNICODE, Scale, draw, scale
from kdyno.report.groups import Group, cut_short, groups, shown
from kdyno.store.verdict import Effect, Verdict

NARROWEST, WIDEST = 40, 120
_CHART_LEAST, _CHART_MOST = 15, 81


def lines(verdict: Verdict, width: int, *, unicode: bool = True) -> list[str]:
    """One row a case: its name, dot and interval on a common axis, the effect. At most ``width``
    columns, of which 40 to 120 are used."""
    told, verdict = cut_short(verdict), shown(verdict)
    width = max(NARROWEST, min(width, WIDEST))
    found = [
        group for group in groups(verdict) if any(it.ratio is not None for it in group.effects)
    ]
    if not found:
        return ["nothing was measured"]
    effects = [it for group in found for it in group.effects]
    figure_cells = max(cell_len(_figure(it)) for it in effects)
    names = max(cell_len(_name(it)) for it in effects)
    # A name is cut before the chart gets too small to be read.
    names = min(names, max(8, min(2 * width // 5, width - figure_cells - _CHART_LEAST - 4)))
    chart_cells = min(_CHART_MOST, max(_CHART_LEAST, width - names - figure_cells - 4))
    on = scale(effects, verdict.equivalent, chart_cells)
    drawn: list[str] = []
    for group in found:
        if drawn:
            drawn.append("")
        drawn += _group(verdict, group, on, names, unicode)
    low, high = (figures.percent(side * on.limit) for side in (-1, 1))
    middle = on.width // 2
    axis = low.ljust(middle) + "0"
    axis += high.rjust(on.width - len(axis))
    found_lines = [*drawn, "", f"{'':{names}}  {axis}", *_keys(verdict, unicode)]
    found_lines += textwrap.wrap(told, width)
    return [it if cell_len(it) <= width else set_cell_size(it, width) for it in found_lines]


def _group(verdict: Verdict, group: Group, on: Scale, names: int, unicode: bool) -> list[str]:
    marks = UNICODE if unicode else ASCII
    against = "itself (A/A)" if group.is_copy else plain.short(verdict.baseline)
    found = [f"{plain.short(group.variant)} ÷ {against}"]
    for suite in group.suites:
        if len(group.suites) > 1:
            found.append(f" {plain.short(suite)}")
        for it in group.effects:
            if it.suite == suite:
                name = set_cell_size(_name(it, names), names)
                found.append(f"{name}  {draw(it, on, marks)}  {_figure(it)}".rstrip())
    return found


def _keys(verdict: Verdict, unicode: bool) -> list[str]:
    marks = UNICODE if unicode else ASCII
    band = figures.tolerance(verdict.equivalent)
    level = f"{100 * verdict.confidence:g} %"
    return [
        f"{marks.dot} effect  {marks.line} {level} interval  {marks.band} {band}",
        f"{marks.left} {marks.right} beyond the edge",
    ]


def _name(it: Effect, cells: int = 1000) -> str:
    """Cut to ``cells`` columns, its marks kept."""
    marks = (" ↓" if it.better == "lower" else "") + (" *" if it.control else "")
    case = f"  {plain.short(it.case)}"
    room = cells - cell_len(marks)
    if cell_len(case) > room:
        case = set_cell_size(case, room - 1) + "…"
    return case + marks


def _figure(it: Effect) -> str:
    if it.ratio is None:
        return "no figure"
    glyph = {"faster": "▲", "slower": "▼"}.get(it.verdict, " ")
    return f"{glyph} {figures.effect(it.ratio)}"
