# SPDX-License-Identifier: MIT
"""Effects of crossed factors from blocks that hold every cell of the cross once.

Everything is on the log scale, so effects are ratios and "no interaction" means that two effects
multiply. Each effect is a contrast that is taken within every block and then treated like any
other within-block difference (effect.py): slow drift cancels, and no cell's spread is assumed to
be like another's. The estimate of a main effect gives every combination of the other factors'
levels the same weight, whatever the number of boots behind it (Yates's weighted squares of means
in a balanced cross); where a cell is missing, the combinations that lack it are left out for both
levels, so that a missing cell is never mistaken for an effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .signedrank import Floats
from .verdict import Better, Claim, Judgement, judge

Cell = tuple[int, ...]
"""The number of each factor's level; 0 is the reference."""
Kind = Literal["main", "conditional", "interaction"]

PRESENT = 0.5
"""Share of the blocks of the fullest cell that a cell needs to be taken into a contrast."""


@dataclass(frozen=True)
class CellScores:
    """One case's scores in the cells of a cross."""

    levels: tuple[int, ...]
    """How many levels each factor has."""
    scores: Mapping[Cell, ArrayLike]
    """Cell → one score per block, NaN for a failed boot; a cell that never ran may be absent."""
    better: Better


@dataclass(frozen=True)
class Contrast:
    """Level ``level`` of ``factor`` against its reference.

    main: averaged over all other factors. conditional: at level ``at`` of ``other``, averaged
    over the rest. interaction: the effect at level ``at`` of ``other`` ÷ that at the reference.
    """

    kind: Kind
    factor: int
    level: int
    other: int | None = None
    at: int | None = None


@dataclass(frozen=True)
class FactorJudgement:
    contrast: Contrast
    judgement: Judgement
    strata: int
    """Combinations of the remaining factors' levels that it averages over."""
    strata_missing: int
    """Combinations that were left out because a cell of theirs is missing."""


def contrasts(outcome: CellScores) -> list[Contrast]:
    """Main effects, conditional effects and two-way interactions, factor by factor."""
    found = []
    factors = range(len(outcome.levels))
    for factor, level in ((f, x) for f in factors for x in range(1, outcome.levels[f])):
        found.append(Contrast("main", factor, level))
        for other in factors:
            if other == factor:
                continue
            found += [
                Contrast("conditional", factor, level, other, at)
                for at in range(outcome.levels[other])
            ]
            if other > factor:
                found += [
                    Contrast("interaction", factor, level, other, at)
                    for at in range(1, outcome.levels[other])
                ]
    return found


def blocks(outcome: CellScores) -> dict[Cell, int]:
    """How many blocks every cell of the cross has a score in, in the cross's order."""
    cells = product(*map(range, outcome.levels))
    return {cell: int(np.isfinite(_logs(outcome, cell)).sum()) for cell in cells}


def missing(outcome: CellScores) -> dict[Cell, int]:
    """Cells without enough blocks to be used → how many they have."""
    found = blocks(outcome)
    most = max(found.values(), default=0)
    return {cell: n for cell, n in found.items() if n == 0 or n < PRESENT * most}


def differences(outcome: CellScores, contrast: Contrast) -> tuple[Floats, int, int]:
    """(the contrast's log ratio in every block or NaN, strata used, strata left out)."""
    absent = missing(outcome)
    fixed = {contrast.factor, contrast.other} - {None}
    if contrast.kind == "conditional":
        signs = {contrast.at: 1.0}
    else:
        signs = {contrast.at: 1.0, 0: -1.0} if contrast.kind == "interaction" else {None: 1.0}
    free = [range(n) if i not in fixed else (0,) for i, n in enumerate(outcome.levels)]
    used: list[Floats] = []
    strata = 0
    for rest in product(*free):
        strata += 1
        terms = []
        for at, sign in signs.items():
            cell = list(rest)
            if contrast.other is not None and at is not None:
                cell[contrast.other] = at
            for level, side in ((contrast.level, sign), (0, -sign)):
                cell[contrast.factor] = level
                terms.append((tuple(cell), side))
        if not any(cell in absent for cell, _sign in terms):
            used.append(np.sum([sign * _logs(outcome, cell) for cell, sign in terms], axis=0))
    if not used:
        return np.empty(0), 0, strata
    return np.asarray(np.mean(used, axis=0)), len(used), strata - len(used)


@dataclass(frozen=True)
class Row:
    """A contrast of outcome number ``outcome``, to be judged."""

    outcome: int
    contrast: Contrast
    claim: Claim
    strata: int
    lost: int


def rows_of(outcomes: Sequence[CellScores]) -> list[Row]:
    """Every contrast of every outcome that any stratum carries."""
    rows = []
    for index, outcome in enumerate(outcomes):
        for contrast in contrasts(outcome):
            found, strata, lost = differences(outcome, contrast)
            if strata:
                rows.append(Row(index, contrast, Claim(found, outcome.better), strata, lost))
    return rows


def analyse(
    outcomes: Sequence[CellScores],
    equivalent: float = 0.01,
    alpha: float = 0.05,
    beside: Sequence[Claim] = (),
) -> list[list[FactorJudgement]]:
    """Every contrast of every outcome, judged; one list for each outcome, in its order.

    All of them and what else the run claims (``beside``) are one family.
    """
    rows = rows_of(outcomes)
    judged = judge([*(row.claim for row in rows), *beside], equivalent, alpha)
    result: list[list[FactorJudgement]] = [[] for _ in outcomes]
    for row, judgement in zip(rows, judged, strict=False):
        result[row.outcome].append(FactorJudgement(row.contrast, judgement, row.strata, row.lost))
    return result


def _logs(outcome: CellScores, cell: Cell) -> Floats:
    values = np.asarray(outcome.scores.get(cell, ()), dtype=np.float64)
    if values.ndim != 1:
        raise ValueError(f"scores of cell {cell} must be a list, not {values.shape}")
    if not len(values):
        length = max((len(np.atleast_1d(it)) for it in outcome.scores.values()), default=0)
        values = np.full(length, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values)
    return np.where(np.isfinite(logs), logs, np.nan)
