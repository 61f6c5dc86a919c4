# SPDX-License-Identifier: MIT
"""The figures of a run that compares nothing."""

from __future__ import annotations

from kdyno.report import effects, figures, plain
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.store.verdict import CaseValue, Verdict


def grid(verdict: Verdict) -> Grid:
    """A row a case: name, median with unit, its interval, repetitions, half-width."""
    columns = [
        Column("case", lambda it: effects.case(it, "before"), "name"),
        Column("median", _median, "number"),
        Column("interval", _interval, "number"),
        Column("repetitions", lambda it: it.repetitions, "number"),
        Column("±", _half, "number", figures.share),
    ]
    facets = {"suite": lambda it: plain.short(it.suite)}
    return Grid(columns, verdict.values, "Values", id="values-table", facets=facets)


def _median(it: CaseValue) -> Cell:
    if it.value is None:
        return Cell(f"no figure: {plain.sentence(it.reason or 'it was never begun')}")
    return effects.amount(it, it.value)


def _interval(it: CaseValue) -> Cell:
    return Cell(" … ".join(map(figures.amount, it.ci)), it.ci[0]) if it.ci is not None else Cell()


def _half(it: CaseValue) -> float | None:
    return (it.ci[1] - it.ci[0]) / 2 / it.value if it.ci is not None and it.value else None
