# SPDX-License-Identifier: MIT
"""Effects by machine and by CPU model, for runs on several machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kdyno.report import figures, plain
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.store.verdict import Effect, StratumEffect, Verdict

HEADING = "effects by machine"
NOTE = "intervals are not corrected for their number; machines of fewer than six blocks have none"
FEW = 16
"""Machines that a text shows; a page has them all."""
_TITLE = "Effects by machine"


@dataclass(frozen=True)
class _Row:
    effect: Effect
    kind: Literal["all", "CPU", "machine"]
    of: StratumEffect


def grid(verdict: Verdict, most: int = 10_000) -> Grid | None:
    """For each effect the common one, then by CPU model, then by machine; None for one machine.

    ``most``: machines of an effect that are shown; of more than that those at both ends.
    """
    found = []
    for it in verdict.effects:
        if it.strata is None:
            continue
        common = StratumEffect(stratum="all together", ratio=it.ratio, ci=it.ci, blocks=it.blocks)
        found.append(_Row(it, "all", common))
        found += [_Row(it, "CPU", each) for each in it.strata.cpu_models]
        found += [_Row(it, "machine", each) for each in _ends(it.strata.machines, most)]
    return Grid(_COLUMNS, found, _TITLE, id="strata-table") if found else None


def _ends(machines: Sequence[StratumEffect], most: int) -> list[StratumEffect]:
    if len(machines) <= most:
        return list(machines)
    ordered = sorted(machines, key=lambda each: each.ratio or 1.0)
    between = ordered[most // 2 : -(most // 2)]
    blocks = sum(each.blocks for each in between)
    words = f"and {len(between)} machines between"
    rest = StratumEffect(stratum=words, ratio=None, ci=None, blocks=blocks)
    return [*ordered[: most // 2], rest, *ordered[-(most // 2) :]]


def span(it: Effect) -> tuple[StratumEffect, StratumEffect, float]:
    """(smallest, largest, largest ÷ smallest) of an effect that has strata: of the CPU models
    where there are several, else of the machines."""
    assert it.strata is not None
    found = sorted(it.strata.cpu_models or it.strata.machines, key=lambda each: each.ratio or 1.0)
    return found[0], found[-1], (found[-1].ratio or 1.0) / (found[0].ratio or 1.0)


def _once(it: _Row, name: str) -> Cell:
    """In the first row of an effect."""
    return Cell(plain.name(name), name) if it.kind == "all" else Cell()


def _ratio(it: _Row) -> Cell:
    return Cell(figures.effect(it.of.ratio), it.of.ratio) if it.of.ratio is not None else Cell()


def _interval(it: _Row) -> Cell:
    ci = it.of.ci
    return Cell(figures.interval(ci), ci[0]) if ci is not None else Cell()


def _differs(it: _Row) -> str:
    strata = it.effect.strata
    if it.kind != "all" or strata is None or strata.p_value is None:
        return ""
    return "differs" if strata.differs else "no difference seen"


_COLUMNS = (
    Column("variant", lambda it: _once(it, it.effect.variant)),
    Column("case", lambda it: _once(it, it.effect.case)),
    Column("machine", lambda it: it.of.stratum, "name"),
    Column("effect", _ratio, "effect"),
    Column("interval", _interval, "number", worth=1),
    Column("blocks", lambda it: it.of.blocks, "number", quiet=True, worth=2),
    Column("by machine", _differs),
)
