# SPDX-License-Identifier: MIT
"""Which columns of the terminal's table fit, and what each says of an effect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len

from kdyno.report import figures, plain
from kdyno.report.chart import Marks, draw, scale
from kdyno.report.groups import Group
from kdyno.store.verdict import Effect, Verdict

_GAP = 2
_ROOMY = 80
_CHART_LEAST, _CHART_MOST = 21, 51
_CASE_LEAST, _CASE_MOST = 12, 34


@dataclass(frozen=True)
class Column:
    kind: str
    head: str
    justify: Literal["left", "right"]
    cell: Callable[[Effect], str]
    width: int


@dataclass(frozen=True)
class Layout:
    """The same columns for every table of a report, so that they line up."""

    columns: tuple[Column, ...]
    names_suites: bool
    baseline: str
    chart_head: str

    def title(self, group: Group) -> str:
        against = "itself (A/A)" if group.is_copy else self.baseline
        suite = "" if self.names_suites else f" · {plain.short(group.suites[0])}"
        return f"{plain.short(group.variant)} ÷ {against}{suite}"


def fit(verdict: Verdict, groups: Sequence[Group], width: int, marks: Marks) -> Layout:
    """Columns in the order of their worth, as many as there is room for."""
    effects = [it for group in groups for it in group.effects]
    names_suites = len({it.suite for it in effects}) > 1
    indent = "  " if names_suites else " "

    def case(it: Effect) -> str:
        lower = " ↓" if it.better == "lower" else ""
        return f"{indent}{plain.short(it.case)}{lower}{' *' if it.control else ''}"

    level = f"{100 * verdict.confidence:g} % interval"
    # In the order of worth; the first three are always there.
    wanted = [
        _column("case", "", "left", case, effects),
        _column("effect", "effect", "right", _effect, effects),
        _column("verdict", "verdict", "left", _word if width >= _ROOMY else _bare_word, effects),
        _column("interval", level, "right", _interval, effects),
        _column("blocks", "blocks", "right", lambda it: str(it.blocks), effects),
    ]
    if any(it.noise_floor is not None for it in effects):
        wanted.append(_column("floor", "noise", "right", _floor, effects))
    values = [
        _column("values", "baseline", "right", lambda it: _amount(it, it.baseline_value), effects),
        _column("values", "value", "right", lambda it: _amount(it, it.value), effects),
    ]
    natural = max(wanted[0].width, _CASE_LEAST)
    rest = width - sum(column.width + _GAP for column in wanted[1:3])
    # On a narrow terminal a long name wraps before the interval is left out.
    keep = min(natural, _CASE_MOST)
    least = min(keep, max(_CASE_LEAST, rest - wanted[3].width - _GAP)) if width < _ROOMY else keep
    case_width = max(8, min(least, rest))
    left = rest - case_width
    chosen = [_resized(wanted[0], case_width), *wanted[1:3]]
    for column in wanted[3:]:
        if column.width + _GAP <= left:
            chosen.append(column)
            left -= column.width + _GAP
    if left >= sum(column.width + _GAP for column in values) + _CHART_LEAST + _GAP:
        chosen += values
        left -= sum(column.width + _GAP for column in values)
    chart_head = ""
    if left >= _CHART_LEAST + _GAP and any(it.ratio is not None for it in effects):
        on = scale(effects, verdict.equivalent, min(left - _GAP, _CHART_MOST))
        chart_head = _axis(on.limit, on.width)
        chosen.append(Column("chart", chart_head, "left", lambda it: draw(it, on, marks), on.width))
    order = ["case", "values", "effect", "interval", "chart", "verdict", "floor", "blocks"]
    chosen.sort(key=lambda column: order.index(column.kind))
    return Layout(tuple(chosen), names_suites, plain.short(verdict.baseline), chart_head)


def _column(
    kind: str,
    head: str,
    justify: Literal["left", "right"],
    cell: Callable[[Effect], str],
    effects: Sequence[Effect],
) -> Column:
    width = max([cell_len(head), *(cell_len(cell(it)) for it in effects)])
    return Column(kind, head, justify, cell, width)


def _resized(column: Column, width: int) -> Column:
    return Column(column.kind, column.head, column.justify, column.cell, width)


def _axis(limit: float, width: int) -> str:
    low, high = (figures.percent(side * limit, decimals=_places(limit)) for side in (-1, 1))
    middle = width // 2
    line = low.ljust(middle) + "0"
    return line + high.rjust(width - len(line))


def _places(limit: float) -> int:
    return 0 if limit >= 0.02 else 1 if limit >= 0.001 else 2


def _effect(it: Effect) -> str:
    return figures.effect(it.ratio) if it.ratio is not None else ""


def _interval(it: Effect) -> str:
    return figures.interval(it.ci) if it.ci is not None else ""


def _floor(it: Effect) -> str:
    return figures.percent(it.noise_floor, signed=False) if it.noise_floor is not None else ""


def _amount(it: Effect, value: float | None) -> str:
    return figures.quantity(value, plain.name(it.unit)[:12]) if value is not None else ""


def _bare_word(it: Effect) -> str:
    mark = "≈" if it.equivalent_too else ""
    mark += "?" if it.inside_noise_floor else ""
    return f"{it.verdict} {mark}".rstrip()


def _word(it: Effect) -> str:
    open_ = it.verdict == "inconclusive" and it.predicted_blocks
    return f"inconclusive ({it.predicted_blocks})" if open_ else _bare_word(it)
