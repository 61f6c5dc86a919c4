# SPDX-License-Identifier: MIT
"""The columns of effects: what every table says of a variant against the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from kdyno.report import figures, plain
from kdyno.report.show.grid import Cell, Column
from kdyno.store.manifest import CaseInfo
from kdyno.store.verdict import CaseValue, Effect, FactorEffect, GroupEffect, Verdict
from kdyno.suites.catalogue import UNIT

OfCase = Effect | CaseValue | CaseInfo
OfAny = Effect | FactorEffect | GroupEffect

_RANK = {"slower": 0, "faster": 1, "failed": 2, "inconclusive": 3, "equivalent": 4}


def case(it: OfCase, suite: Literal["", "before", "beside"] = "") -> Cell:
    """The name of the case; its suite before it, beside it, or told elsewhere."""
    control = not isinstance(it, CaseValue) and it.control
    notes = [plain.short(it.suite)] if suite == "beside" else []
    notes += ["lower is better"] if it.better == "lower" else []
    notes += ["control"] if control else []
    signs = ("↓" if it.better == "lower" else "", "*" if control else "")
    whole = f"{plain.name(it.suite)}/{plain.name(it.case)}"
    return Cell(
        whole if suite == "before" else plain.name(it.case),
        whole,
        tuple(notes),
        sign=" ".join(filter(None, signs)),
        style="italic" if control else "",
    )


def effect(it: OfAny) -> Cell:
    how = figures.exact if isinstance(it, Effect) and it.exact else figures.effect
    text = how(it.ratio) if it.ratio is not None else ""
    return Cell(text, it.ratio, tone=it.verdict)


UNCORRECTED = "the interval of this effect alone: too few blocks to correct it for all of them"


def uncorrected(effect: Effect) -> bool:
    """Whether ``interval`` shows the effect's own one, in brackets."""
    return effect.ci is None and effect.ci_raw is not None


def interval(it: OfAny) -> Cell:
    if isinstance(it, Effect) and it.exact and it.ci is not None:
        return Cell(figures.same_in(it.blocks), it.ci[0])
    if isinstance(it, Effect) and it.ci is None and it.ci_raw is not None:
        return Cell(f"({figures.interval(it.ci_raw)})", it.ci_raw[0])
    return Cell(figures.interval(it.ci), it.ci[0]) if it.ci is not None else Cell()


def word(it: OfAny) -> str:
    """verdict.json's own word, with ≈ where the difference is real and too little to matter."""
    return f"{it.verdict} ≈" if it.equivalent_too else it.verdict


def word_cell(it: OfAny, blocks: bool = True) -> Cell:
    """``blocks``: the signs say as well how many blocks would settle it."""
    notes, sign = [], ""
    if it.equivalent_too:
        notes.append("too little to matter")
        sign += "≈"
    if isinstance(it, Effect) and it.inside_noise_floor:
        notes.append("inside the noise floor")
        sign += "?"
    if isinstance(it, Effect) and it.throughput is not None and it.throughput.decides:
        notes.append("by summed times")
        sign += "Σ"
    if it.verdict == "inconclusive" and it.predicted_blocks:
        notes.append(f"about {it.predicted_blocks} blocks would settle it")
        sign = f"{sign} ({it.predicted_blocks})".strip() if blocks else sign
    why = it.reason or "" if isinstance(it, Effect) else ""
    return Cell(it.verdict, _RANK[it.verdict], tuple(notes), sign, why, it.verdict)


def amount(it: OfCase, value: float | None, room: int = 200) -> Cell:
    """A value with its unit; ``room``: of the unit, in characters."""
    unit = plain.name(it.unit)[:room]
    return Cell(figures.quantity(value, unit) if value is not None else "", value)


def value(it: Effect, room: int = 200) -> Cell:
    """Baseline × effect, which cannot contradict the effect beside it; a median by itself where
    there is no effect."""
    return amount(it, it.value if it.paired_value is None else it.paired_value, room)


def columns(
    verdict: Verdict, effects: Sequence[OfAny], names: str, unit_room: int = 200
) -> list[Column]:
    """The columns of these names, in their order: ``instructions`` and ``floor`` only where there
    are any. unit_room: of units, in characters."""

    def baseline(it: Effect) -> Cell:
        return amount(it, it.baseline_value, unit_room)

    def instructions(it: Effect) -> Cell:
        """Of a count: how many more or fewer."""
        more = figures.more(it.baseline_value, it.paired_value) if it.unit == UNIT else None
        return Cell(figures.signed(more), more) if more is not None else Cell()

    known = {
        "variant": Column("variant", lambda it: it.variant, "name"),
        "baseline": Column("baseline", baseline, "number", worth=5),
        "value": Column("value", lambda it: value(it, unit_room), "number", worth=5),
        "effect": Column("effect", effect, "effect"),
        "interval": Column(f"{100 * verdict.confidence:g} % interval", interval, "number", worth=1),
        "verdict": Column("verdict", word_cell, "verdict"),
        "blocks": Column("blocks", lambda it: it.blocks, "number", quiet=True, worth=2),
    }
    if any(isinstance(it, Effect) and it.unit == UNIT for it in effects):
        known["instructions"] = Column("instructions", instructions, "number", worth=1)
    if any(isinstance(it, Effect) and it.noise_floor is not None for it in effects):
        floor = Column("noise floor", lambda it: it.noise_floor, "number", figures.share)
        known["floor"] = replace(floor, quiet=True, worth=3)
    return [known[name] for name in names.split() if name in known]
