# SPDX-License-Identifier: MIT
"""Effects on groups of a suite's cases, such as XBench's CPU, memory and total."""

from __future__ import annotations

from dataclasses import replace

from kdyno.report import effects, figures, plain
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.store.verdict import GroupEffect, Verdict

HEADING = "effects on groups of cases"
NOTE = (
    "a group is the harmonic mean of its cases' ratios in each block, and above 0 % is better; "
    "intervals are corrected for the number of groups"
)
_TITLE = "Effects on groups"


def grid(verdict: Verdict) -> Grid | None:
    """A row for each group of each variant; None where no suite of the run has groups."""
    if not verdict.groups:
        return None
    interval = replace(_INTERVAL, head=effects.level(verdict))
    named = len({it.variant for it in verdict.groups}) > 1
    columns = [*([_VARIANT] if named else []), _GROUP, _EFFECT, interval, *_REST]
    return Grid(columns, verdict.groups, _TITLE, id="groups-table")


def name(it: GroupEffect) -> str:
    """``xbench/memory.system``."""
    return f"{plain.name(it.suite)}/{plain.name(it.group)}"


def _verdict(it: GroupEffect) -> Cell:
    notes = ["too little to matter"] if it.equivalent_too else []
    sign = "≈" if it.equivalent_too else ""
    if it.verdict == "inconclusive" and it.predicted_blocks:
        notes.append(f"about {it.predicted_blocks} blocks would settle it")
        sign = f"({it.predicted_blocks})"
    return Cell(it.verdict, None, tuple(notes), sign, tone=it.verdict)


def _effect(it: GroupEffect) -> Cell:
    text = figures.effect(it.ratio) if it.ratio is not None else ""
    return Cell(text, it.ratio, tone=it.verdict)


def _interval(it: GroupEffect) -> Cell:
    return Cell(figures.interval(it.ci), it.ci[0]) if it.ci is not None else Cell()


_VARIANT = Column("variant", lambda it: plain.name(it.variant))
_GROUP = Column("group", name, "name")
_EFFECT = Column("effect", _effect, "effect")
_INTERVAL = Column("interval", _interval, "number", worth=1)
_REST = (
    Column("verdict", _verdict, "verdict"),
    Column("blocks", lambda it: it.blocks, "number", quiet=True, worth=2),
)
