# SPDX-License-Identifier: MIT
"""From the samples of a crossed experiment to the table of its factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from kdyno.experiment.cross import VARIANT
from kdyno.judge.pairs import scores
from kdyno.judge.question import Question
from kdyno.stats.effect import interval
from kdyno.stats.factorial import (
    Cell,
    CellScores,
    FactorJudgement,
    analyse,
    blocks,
    missing,
    rows_of,
)
from kdyno.stats.signedrank import Floats
from kdyno.stats.verdict import Claim
from kdyno.store.manifest import CaseInfo
from kdyno.store.samples import Samples
from kdyno.store.verdict import FactorEffect, FactorTable

_MISSING_SHOWN = 8

Levels = tuple[str, ...]


@dataclass(frozen=True)
class _Crossed:
    """One case with all factors that it is crossed with."""

    case: CaseInfo
    name: str
    factors: dict[str, Levels]
    outcome: CellScores


def factor_claims(data: Samples, question: Question) -> list[Claim]:
    """What the rows of the table claim."""
    return [row.claim for row in rows_of([each.outcome for each in _crossed(data, question)])]


def factor_table(
    data: Samples, question: Question, beside: Sequence[Claim] = ()
) -> FactorTable | None:
    """None where no case has two factors: then the variants' own effects say everything.

    Negative controls are left out. The reference of a factor of kernels is the baseline's level,
    that of a factor of cases its first. ``beside``: what else the run claims.
    """
    crossed = _crossed(data, question)
    if not crossed:
        return None
    alpha = 1.0 - question.confidence
    judged = analyse([each.outcome for each in crossed], question.equivalent, alpha, beside)
    factors: dict[str, Levels] = {}
    for each in crossed:
        factors.update(each.factors)
    return FactorTable(
        factors=factors,
        of_cases=tuple(dict.fromkeys(name for each in crossed for name in each.case.levels)),
        effects=tuple(
            _effect(each, row)
            for each, rows in zip(crossed, judged, strict=True)
            for row in rows
        ),
        missing=_warnings(crossed),
    )  # fmt: skip


def _crossed(data: Samples, question: Question) -> list[_Crossed]:
    families: dict[tuple[str, str], list[CaseInfo]] = {}
    for case in question.cases:
        if not case.control:
            families.setdefault((case.suite, case.of or case.case), []).append(case)
    variants = (question.baseline, *question.variants)
    of_variants = {name: dict(question.levels.get(name, ())) for name in variants}
    found = []
    for (_suite, name), cases in families.items():
        of_cases = [case.levels for case in cases]
        if len({(case.unit, case.better) for case in cases}) > 1:
            continue  # levels that are measured in different units have no ratio
        mine = of_variants
        if not any(of_variants.values()) and any(of_cases):
            mine = {variant: {VARIANT: variant} for variant in variants}
        factors = {**_varying(list(mine.values())), **_varying(of_cases)}
        if len(factors) < 2:
            continue
        cells: dict[Cell, Floats] = {}
        for variant, case in product(variants, cases):
            levels = {**mine[variant], **case.levels}
            cell = tuple(factors[factor].index(levels[factor]) for factor in factors)
            cells[cell] = scores(data, question, case, variant)
        outcome = CellScores(tuple(map(len, factors.values())), cells, cases[0].better)
        found.append(_Crossed(cases[0], name, factors, outcome))
    return found


def _varying(cells: list[dict[str, str]]) -> dict[str, Levels]:
    """Factor → levels in order of appearance, for factors that every cell has and that vary."""
    names = [name for name in (cells[0] if cells else {}) if all(name in cell for cell in cells)]
    found = {name: tuple(dict.fromkeys(cell[name] for cell in cells)) for name in names}
    return {name: levels for name, levels in found.items() if len(levels) > 1}


def _effect(crossed: _Crossed, row: FactorJudgement) -> FactorEffect:
    contrast, judged = row.contrast, row.judgement
    names = list(crossed.factors)
    levels = crossed.factors[names[contrast.factor]]
    other = None if contrast.other is None else names[contrast.other]
    others = crossed.factors[other] if other is not None else ()
    raw = judged.effect
    return FactorEffect(
        suite=crossed.case.suite,
        case=crossed.name,
        unit=crossed.case.unit,
        better=crossed.case.better,
        kind=contrast.kind,
        factor=names[contrast.factor],
        level=levels[contrast.level],
        reference=levels[0],
        other=other,
        at=None if contrast.at is None else others[contrast.at],
        at_reference=others[0] if contrast.kind == "interaction" else None,
        ratio=raw.ratio,
        ci=interval(judged.lo, judged.hi),
        ci_raw=interval(raw.lo, raw.hi),
        blocks=raw.n,
        verdict=judged.word,
        equivalent_too=judged.equivalent_too,
        predicted_blocks=judged.predicted_blocks,
        averaged=row.strata,
        left_out=row.strata_missing,
    )


def _warnings(crossed: list[_Crossed]) -> tuple[str, ...]:
    """One line for each missing cell, the cases that lack it together."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for each in crossed:
        absent = missing(each.outcome)
        most = max(blocks(each.outcome).values(), default=0)
        for cell, n in absent.items():
            named = zip(each.factors.items(), cell, strict=True)
            text = ", ".join(f"{name}={levels[level]}" for (name, levels), level in named)
            why = f"{n} of {most} blocks" if n else "no score"
            lacking.setdefault((text, why), []).append(f"{each.case.suite}/{each.name}")
    told = [
        f"the cell {cell} is missing ({why}) in {', '.join(dict.fromkeys(cases))}; effects are "
        "taken where both levels were measured"
        for (cell, why), cases in lacking.items()
    ]
    if len(told) > _MISSING_SHOWN:
        told = [*told[:_MISSING_SHOWN], f"{len(told) - _MISSING_SHOWN} more cells are missing"]
    return tuple(told)
