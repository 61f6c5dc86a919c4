# SPDX-License-Identifier: MIT
"""Contrasts of crossed factors: planted effects come back, missing cells are no effects."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from kdyno.judge.factors import Cell, Contrast, Cross, Row, rows_of
from kdyno.stats.verdict import Judgement, judge
from kdyno.store.manifest import CaseInfo

# smp makes it 47 % shorter, but only from the second level of jobs on.
SMP, JOBS = 2, 3
LEVELS = {"smp": ("off", "on"), "jobs": ("1", "2", "8")}
CASE = CaseInfo(suite="build", case="whole", unit="s", better="lower")


def logs(blocks: int = 16, spread: float = 0.004, seed: int = 1) -> dict[Cell, np.ndarray]:
    rng = np.random.default_rng(seed)
    drift = np.cumsum(rng.normal(0, 0.02, blocks))
    cells = {}
    for smp, jobs in product(range(SMP), range(JOBS)):
        true = math.log(100.0) + (math.log(0.53) if smp and jobs else 0.0) + 0.01 * jobs
        cells[smp, jobs] = true + drift + rng.normal(0, spread, blocks)
    return cells


def cross(cells: dict[Cell, np.ndarray]) -> Cross:
    blocks = max((len(own) for own in cells.values()), default=0)
    nothing = dict.fromkeys(product(range(SMP), range(JOBS)), np.full(blocks, np.nan))
    return Cross(CASE, "whole", LEVELS, nothing | cells)


def judged(
    *crosses: dict[Cell, np.ndarray], equivalent: float = 0.01
) -> dict[Contrast, tuple[Row, Judgement]]:
    """Of the first one, in one family with the others."""
    rows = rows_of([cross(cells) for cells in crosses])
    pairs = zip(rows, judge([row.claim for row in rows], equivalent), strict=True)
    return {row.contrast: (row, each) for row, each in reversed(list(pairs))}


def test_every_contrast_of_a_cross_of_two_by_three() -> None:
    assert cross({}).contrasts() == [
        Contrast("main", 0, 1),
        *(Contrast("conditional", 0, 1, 1, at) for at in range(3)),
        *(Contrast("interaction", 0, 1, 1, at) for at in (1, 2)),
        Contrast("main", 1, 1),
        *(Contrast("conditional", 1, 1, 0, at) for at in range(2)),
        Contrast("main", 1, 2),
        *(Contrast("conditional", 1, 2, 0, at) for at in range(2)),
    ]


@pytest.mark.parametrize(
    ("contrast", "doublings"),
    [
        (Contrast("main", 0, 1), 1.0),  # 0, 1 and 2 doublings
        (Contrast("conditional", 0, 1, 1, 2), 2.0),
        (Contrast("interaction", 0, 1, 1, 2), 2.0),
        (Contrast("main", 1, 1), 1.5),
        (Contrast("conditional", 1, 2, 0, 0), 2.0),
        (Contrast("conditional", 1, 2, 0, 1), 4.0),
    ],
)
def test_contrasts_by_hand_in_one_block(contrast: Contrast, doublings: float) -> None:
    cells = {
        (smp, jobs): np.array([math.log(2.0) * (smp * jobs + jobs)])
        for smp, jobs in product((0, 1), (0, 1, 2))
    }
    ratios, _used, lost = cross(cells).differences(contrast)
    assert ratios == pytest.approx([doublings * math.log(2.0)])
    assert lost == 0


def test_planted_effects_come_back() -> None:
    rows = judged(logs(), equivalent=0.02)
    assert rows[Contrast("conditional", 0, 1, 1, 0)][1].word == "equivalent"
    for jobs in (1, 2):
        _, there = rows[Contrast("conditional", 0, 1, 1, jobs)]
        assert there.word == "faster" and there.ci is not None
        assert there.ci[0] < 0.53 < there.ci[1] and there.ci[1] - there.ci[0] < 0.02
        assert rows[Contrast("interaction", 0, 1, 1, jobs)][1].word == "faster"
    _, main = rows[Contrast("main", 0, 1)]
    assert main.effect.ratio == pytest.approx(0.53 ** (2 / 3), rel=0.01)
    # Drift of the blocks cancels.
    _, main = judged(logs(spread=1e-9))[Contrast("main", 0, 1)]
    assert main.effect.ratio == pytest.approx(0.53 ** (2 / 3), rel=1e-6)


def test_a_missing_cell_is_named_and_is_no_effect() -> None:
    cells = logs(spread=1e-6)
    del cells[1, 2]
    assert cross(cells).missing == {(1, 2): 0}
    rows = judged(cells)
    row, main = rows[Contrast("main", 0, 1)]
    # The jobs level that has no smp cell counts on neither side.
    assert main.effect.ratio == pytest.approx(0.53**0.5, rel=1e-3)
    assert (row.strata, row.lost) == (2, 1)
    assert Contrast("conditional", 0, 1, 1, 2) not in rows
    assert Contrast("interaction", 0, 1, 1, 2) not in rows
    row, jobs = rows[Contrast("main", 1, 2)]
    assert jobs.effect.ratio == pytest.approx(math.exp(0.02), rel=1e-3)
    assert (row.strata, row.lost) == (1, 1)


def test_missing_blocks() -> None:
    cells = logs()
    cells[1, 1][5] = np.nan  # a failed boot costs its block only
    assert {each.effect.n for _, each in judged(cells).values()} == {15, 16}
    # A cell with few blocks does not take the others' blocks away.
    cells[1, 1] = np.where(np.arange(16) < 3, cells[1, 1], np.nan)
    assert cross(cells).missing == {(1, 1): 3}
    assert judged(cells)[Contrast("main", 0, 1)][1].effect.n == 16
    assert judged({}) == {}
    few = [each for _, each in judged(logs(blocks=4)).values()]
    assert {(each.word, each.lo) for each in few} == {("inconclusive", None)}


@pytest.mark.slow
def test_false_alarms_of_a_whole_table_stay_rare() -> None:
    alarms = 0
    experiments = 300
    for seed in range(experiments):
        rng = np.random.default_rng(seed)
        cells = {cell: rng.standard_t(3, 12) * 0.01 for cell in product((0, 1), (0, 1, 2))}
        alarms += any(each.moved for _, each in judged(cells).values())
    # 5 % are allowed; three standard errors above for 300 experiments.
    assert alarms / experiments <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / experiments)


def test_all_crosses_share_one_correction() -> None:
    alone, together = judged(logs()), judged(logs(), logs(seed=2))
    for contrast, (_, one) in alone.items():
        two = together[contrast][1]
        assert one.effect == two.effect
        assert one.hi is not None and two.hi is not None and two.hi >= one.hi * (1 - 1e-4)
