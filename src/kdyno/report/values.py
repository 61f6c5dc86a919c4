# SPDX-License-Identifier: MIT
"""The figures of a run that compares nothing, as lines of text."""

from __future__ import annotations

from kdyno.report import figures, plain
from kdyno.store.verdict import CaseValue, Verdict


def lines(verdict: Verdict) -> list[str]:
    """One line a case: name, median with unit, half-width of its interval, repetitions."""
    if not verdict.values:
        return []
    names = [f"{plain.name(it.suite)}/{plain.name(it.case)}" for it in verdict.values]
    width = max(map(len, names))
    return [
        f"  {name:{width}}  {_value(it)}" for name, it in zip(names, verdict.values, strict=True)
    ]


def _value(it: CaseValue) -> str:
    if it.value is None:
        return f"no figure: {plain.sentence(it.reason or 'it was never begun')}"
    text = f"{figures.amount(it.value)} {plain.name(it.unit)}"
    if it.ci is not None:
        half = (it.ci[1] - it.ci[0]) / 2 / it.value
        text += f"  ± {figures.percent(half, signed=False)}"
    arrow = "  ↓" if it.better == "lower" else ""
    return f"{text}  ({figures.count(it.repetitions, 'repetition')}){arrow}"
