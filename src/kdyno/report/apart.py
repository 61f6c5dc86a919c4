# SPDX-License-Identifier: MIT
"""What counted operations are made of: one row for each effect, one column for each figure."""

from __future__ import annotations

from kdyno.report import figures
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.store.verdict import Effect, Verdict

HEADING = "an operation is made of"
NOTE = "of the variant, and how many more or fewer than the baseline; medians over boots"
_HEADS = {
    "user": "program",
    "kernel": "kernel",
}
_NOTHING = 5e-4


def grid(verdict: Verdict) -> Grid | None:
    """None where nothing was counted apart."""
    effects = [it for it in verdict.effects if it.apart]
    if not effects:
        return None
    named = {each.figure for it in effects for each in it.apart}
    columns = [
        Column("variant", lambda it: it.variant, "name"),
        Column("case", lambda it: it.case, "name"),
        *(
            _column(name, head, worth)
            for worth, (name, head) in enumerate(_HEADS.items(), start=1)
            if name in named
        ),
    ]
    return Grid(columns, effects, "What an operation is made of", id="apart-table")


def _column(name: str, head: str, worth: int) -> Column:
    """Where a terminal is narrow, what stands last is left out first."""

    def shown(it: Effect) -> Cell:
        found = next((each for each in it.apart if each.figure == name), None)
        return Cell() if found is None else _cell(found.baseline_value, found.value)

    return Column(head, shown, "number", worth=worth)


def _cell(before: float, after: float) -> Cell:
    more = after - before
    text = f"{after:,.1f}"
    if abs(more) >= _NOTHING:
        text += f" ({figures.signed(more)})"
    return Cell(text, after)
