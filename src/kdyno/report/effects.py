# SPDX-License-Identifier: MIT
"""The columns of effects: what every table says of a variant against the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from kdyno.report import figures, plain
from kdyno.report.show.grid import Cell, Column
from kdyno.store.manifest import CaseInfo
from kdyno.store.verdict import (
    CaseValue,
    Effect,
    FactorEffect,
    Flag,
    GroupEffect,
    StratumEffect,
    Verdict,
    by_sums,
    deciding,
)
from kdyno.suites.catalogue import UNIT

OfCase = Effect | CaseValue | CaseInfo
OfAny = Effect | FactorEffect | GroupEffect

_RANK = {"slower": 0, "faster": 1, "failed": 2, "inconclusive": 3, "equivalent": 4}


def case(item: OfCase, suite: Literal["", "before", "beside"] = "") -> Cell:
    """The name of the case; its suite before it, beside it, or not at all."""
    control = not isinstance(item, CaseValue) and item.control
    notes = [plain.short(item.suite)] if suite == "beside" else []
    notes += ["lower is better"] if item.better == "lower" else []
    notes += ["control"] if control else []
    signs = ("↓" if item.better == "lower" else "", "*" if control else "")
    whole = f"{plain.name(item.suite)}/{plain.name(item.case)}"
    text = whole if suite == "before" else plain.name(item.case)
    style = "italic" if control else ""
    return Cell(text, whole, tuple(notes), " ".join(filter(None, signs)), style=style)


def effect(item: OfAny) -> Cell:
    how = figures.exact if isinstance(item, Effect) and item.exact else figures.effect
    text = how(item.ratio) if item.ratio is not None else ""
    return Cell(text, item.ratio, tone=item.verdict)


UNCORRECTED = "the interval of this effect alone: too few blocks to correct it for all of them"


def uncorrected(effect: Effect) -> bool:
    """Whether ``interval`` shows the effect's own one, in brackets."""
    return effect.ci is None and effect.ci_raw is not None


def interval(item: OfAny | StratumEffect) -> Cell:
    if isinstance(item, Effect) and item.exact and item.ci is not None:
        return Cell(f"same in {figures.count(item.blocks, 'boot')}", item.ci[0])
    if isinstance(item, Effect) and item.ci is None and item.ci_raw is not None:
        return Cell(f"({figures.interval(item.ci_raw)})", item.ci_raw[0])
    return Cell(figures.interval(item.ci), item.ci[0]) if item.ci is not None else Cell()


def place(item: Effect | Flag) -> str:
    """``unixbench/pipe in mine``, or as much of it as the item says."""
    words = "/".join(plain.name(part) for part in (item.suite, item.case) if part)
    return f"{words}{' in ' if words else ''}{plain.name(item.variant)}" if item.variant else words


def about(item: Effect | Flag) -> str:
    """Where it is, before its text: ``unixbench/pipe in mine: ``."""
    return f"{place(item)}: " if place(item) else ""


def word(item: OfAny) -> str:
    """verdict.json's own word, with ≈ where the difference is real and too little to matter."""
    return f"{item.verdict} ≈" if item.equivalent_too else item.verdict


def in_figures(item: OfAny) -> str:
    """``−1.20 % (−1.62 … −0.85 %)``."""
    ends = f" ({interval(item).text})" if item.ci is not None else ""
    return f"{effect(item).text or '?'}{ends}"


def word_cell(item: OfAny, blocks: bool = True) -> Cell:
    """``blocks``: the signs say as well how many blocks would settle it."""
    marks = (
        ("≈", "too little to matter", item.equivalent_too),
        ("?", "inside the noise floor", isinstance(item, Effect) and item.inside_noise_floor),
        ("Σ", "by summed times", by_sums(item)),
    )
    notes = [note for _, note, there in marks if there]
    sign = "".join(sign for sign, _, there in marks if there)
    if item.verdict == "inconclusive" and item.predicted_blocks:
        notes.append(f"about {item.predicted_blocks} blocks would settle it")
        sign = f"{sign} ({item.predicted_blocks})".strip() if blocks else sign
    why = item.reason or "" if isinstance(item, Effect) else ""
    return Cell(item.verdict, _RANK[item.verdict], tuple(notes), sign, why, item.verdict)


def amount(item: OfCase, value: float | None, room: int = 200) -> Cell:
    """A value with its unit; ``room``: of the unit, in characters."""
    unit = plain.name(item.unit)[:room]
    return Cell(figures.quantity(value, unit) if value is not None else "", value)


def value(item: Effect, room: int = 200) -> Cell:
    """Baseline × effect, which cannot contradict the effect beside it; without one the median."""
    return amount(item, item.value if item.paired_value is None else item.paired_value, room)


def columns(
    verdict: Verdict, effects: Sequence[OfAny], names: str, unit_room: int = 200
) -> list[Column]:
    """The columns of these names, in their order: ``instructions`` and ``floor`` only where there
    are any. unit_room: of units, in characters."""

    def baseline(item: Effect) -> Cell:
        return amount(item, item.baseline_value, unit_room)

    def instructions(item: Effect) -> Cell:
        """Of a count: how many more or fewer."""
        more = figures.more(item.baseline_value, item.paired_value) if item.unit == UNIT else None
        return Cell(figures.signed(more), more) if more is not None else Cell()

    every = {
        "variant": Column("variant", lambda item: item.variant, "name"),
        "baseline": Column("baseline", baseline, "number", worth=5),
        "value": Column("value", lambda item: value(item, unit_room), "number", worth=5),
        "effect": Column("effect", effect, "effect"),
        "interval": Column(f"{100 * verdict.confidence:g} % interval", interval, "number", worth=1),
        "verdict": Column("verdict", word_cell, "verdict"),
        "blocks": Column("blocks", lambda item: item.blocks, "number", quiet=True, worth=2),
    }
    if any(isinstance(item, Effect) and item.unit == UNIT for item in effects):
        every["instructions"] = Column("instructions", instructions, "number", worth=1)
    if any(isinstance(item, Effect) and item.noise_floor is not None for item in effects):
        floor = Column("noise floor", lambda item: item.noise_floor, "number", figures.share)
        every["floor"] = replace(floor, quiet=True, worth=3)
    return [every[name] for name in names.split() if name in every]


def limit(verdict: Verdict) -> float:
    """Half the axis of a verdict's charts, as a distance from the ratio 1: wide enough for all
    intervals, or four times as far as four in five go, where a wild one would squeeze the rest."""
    effects = map(deciding, verdict.effects)
    ratios = ((*(item.ci or item.ci_raw or ()), item.ratio) for item in effects)
    every = [[abs(ratio - 1.0) for ratio in own if ratio is not None] for own in ratios]
    reaches = sorted(map(max, filter(None, every)))
    limit = max(1.5 * verdict.equivalent, 1e-4)
    if reaches:
        limit = max(limit, min(reaches[-1], 4.0 * reaches[int(0.8 * (len(reaches) - 1))]))
    power = 10.0 ** math.floor(math.log10(limit))
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
    return power * next((step for step in steps if limit <= step * power * (1 + 1e-9)), 10.0)
