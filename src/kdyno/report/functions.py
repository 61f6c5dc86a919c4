# SPDX-License-Identifier: MIT
"""Which functions counted differences are in, and by how many instructions: one row for each."""

from __future__ import annotations

from dataclasses import dataclass

from kdyno.report import figures
from kdyno.report.show.grid import Column, Grid
from kdyno.store.verdict import Effect, FunctionCounts, Verdict

HEADING = "instructions by function"
NOTE = "counted by function in a boot of each kernel of its own; the rows of a case add up"
_TITLE = "Instructions by function"
_NOTHING = 5e-4


@dataclass(frozen=True)
class _Row:
    effect: Effect
    of: FunctionCounts

    @property
    def more(self) -> float:
        return self.of.value - self.of.baseline_value


def grid(verdict: Verdict) -> Grid | None:
    """Of effects that differ; None where none does or nothing was counted by function."""
    found = [
        _Row(effect, of)
        for effect in verdict.effects
        if any(abs(each.value - each.baseline_value) >= _NOTHING for each in effect.functions)
        for of in effect.functions
    ]
    return Grid(_COLUMNS, found, _TITLE, id="functions-table") if found else None


def _function(it: _Row) -> str:
    if it.of.where == "others":
        return figures.count(it.of.functions, "other")
    return it.of.function if it.of.where == "kernel" else f"{it.of.function} (program)"


def _amount(value: float) -> str:
    return f"{value:,.3f}"


_COLUMNS = (
    Column("variant", lambda it: it.effect.variant, "name"),
    Column("case", lambda it: it.effect.case, "name"),
    Column("function", _function, "name"),
    Column("baseline", lambda it: it.of.baseline_value, "number", _amount, worth=1),
    Column("value", lambda it: it.of.value, "number", _amount, worth=1),
    Column("difference", lambda it: it.more, "number", figures.signed),
)
