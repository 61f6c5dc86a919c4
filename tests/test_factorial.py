# SPDX-License-Identifier: MIT
"""Contrasts of crossed factors: planted effects come back, missing cells are no effects."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from kdyno.stats.factorial import (
    Cell,
    CellScores,
    Contrast,
    analyse,
    contrasts,
    differences,
    missing,
)

# smp makes it 47 % shorter, but only from the second level of jobs on.
SMP, JOBS = 2, 3


def scores(blocks: int = 16, spread: float = 0.004, seed: int = 1) -> dict[Cell, np.ndarray]:
    rng = np.random.default_rng(seed)
    drift = np.cumsum(rng.normal(0, 0.02, blocks))
    found = {}
    for smp, jobs in product(range(SMP), range(JOBS)):
        true = math.log(100.0) + (math.log(0.53) if smp and jobs else 0.0) + 0.01 * jobs
        found[(smp, jobs)] = np.exp(true + drift + rng.normal(0, spread, blocks))
    return found


def outcome(cells: dict[Cell, np.ndarray]) -> CellScores:
    return CellScores((SMP, JOBS), cells, "lower")


def test_every_contrast_of_a_cross_of_two_by_three() -> None:
    assert contrasts(outcome({})) == [
        Contrast("main", 0, 1),
        Contrast("conditional", 0, 1, 1, 0),
        Contrast("conditional", 0, 1, 1, 1),
        Contrast("conditional", 0, 1, 1, 2),
        Contrast("interaction", 0, 1, 1, 1),
        Contrast("interaction", 0, 1, 1, 2),
        Contrast("main", 1, 1),
        Contrast("conditional", 1, 1, 0, 0),
        Contrast("conditional", 1, 1, 0, 1),
        Contrast("main", 1, 2),
        Contrast("conditional", 1, 2, 0, 0),
        Contrast("conditional", 1, 2, 0, 1),
    ]


def test_contrasts_by_hand_in_one_block() -> None:
    cells = {
        cell: np.array([2.0 ** (cell[0] * cell[1] + cell[1])])
        for cell in product((0, 1), (0, 1, 2))
    }
    made = outcome(cells)
    by_hand = {
        Contrast("main", 0, 1): 1.0,  # 0, 1 and 2 doublings
        Contrast("conditional", 0, 1, 1, 2): 2.0,
        Contrast("interaction", 0, 1, 1, 2): 2.0,
        Contrast("main", 1, 1): 1.5,
        Contrast("conditional", 1, 2, 0, 0): 2.0,
        Contrast("conditional", 1, 2, 0, 1): 4.0,
    }
    for contrast, doublings in by_hand.items():
        found, _used, lost = differences(made, contrast)
        assert found == pytest.approx([doublings * math.log(2.0)])
        assert lost == 0


def test_planted_effects_come_back() -> None:
    (rows,) = analyse([outcome(scores())], equivalent=0.02)
    found = {row.contrast: row.judgement for row in rows}
    at_one = found[Contrast("conditional", 0, 1, 1, 0)]
    assert at_one.word == "equivalent"
    for jobs in (1, 2):
        there = found[Contrast("conditional", 0, 1, 1, jobs)]
        assert there.word == "faster"
        assert there.lo < 0.53 < there.hi and there.hi - there.lo < 0.02
        assert found[Contrast("interaction", 0, 1, 1, jobs)].word == "faster"
    main = found[Contrast("main", 0, 1)].effect
    assert main.ratio == pytest.approx(0.53 ** (2 / 3), rel=0.01)


def test_drift_of_the_blocks_cancels() -> None:
    (rows,) = analyse([outcome(scores(spread=1e-9))])
    assert rows[0].judgement.effect.ratio == pytest.approx(0.53 ** (2 / 3), rel=1e-6)


def test_a_missing_cell_is_named_and_is_no_effect() -> None:
    cells = scores(spread=1e-6)
    del cells[(1, 2)]
    made = outcome(cells)
    assert missing(made) == {(1, 2): 0}
    (rows,) = analyse([made])
    found = {row.contrast: row for row in rows}
    main = found[Contrast("main", 0, 1)]
    # The jobs level that has no smp cell counts on neither side.
    assert main.judgement.effect.ratio == pytest.approx(0.53**0.5, rel=1e-3)
    assert (main.strata, main.strata_missing) == (2, 1)
    assert Contrast("conditional", 0, 1, 1, 2) not in found
    assert Contrast("interaction", 0, 1, 1, 2) not in found
    jobs = found[Contrast("main", 1, 2)]
    assert jobs.judgement.effect.ratio == pytest.approx(math.exp(0.02), rel=1e-3)
    assert (jobs.strata, jobs.strata_missing) == (1, 1)


def test_a_cell_with_few_blocks_does_not_take_the_others_blocks_away() -> None:
    cells = scores()
    cells[(1, 1)] = np.where(np.arange(16) < 3, cells[(1, 1)], np.nan)
    made = outcome(cells)
    assert missing(made) == {(1, 1): 3}
    (rows,) = analyse([made])
    assert rows[0].judgement.effect.n == 16


def test_a_failed_boot_costs_its_block_only() -> None:
    cells = scores()
    cells[(1, 1)][5] = np.nan
    (rows,) = analyse([outcome(cells)])
    assert {row.judgement.effect.n for row in rows} == {15, 16}


def test_nothing_at_all_and_too_few_blocks() -> None:
    assert analyse([outcome({})]) == [[]]
    (rows,) = analyse([outcome(scores(blocks=4))])
    assert {row.judgement.word for row in rows} == {"inconclusive"}
    assert all(row.judgement.lo is None for row in rows)


@pytest.mark.slow
def test_false_alarms_of_a_whole_table_stay_rare() -> None:
    alarms = 0
    experiments = 300
    for seed in range(experiments):
        rng = np.random.default_rng(seed)
        cells = {cell: np.exp(rng.standard_t(3, 12) * 0.01) for cell in product((0, 1), (0, 1, 2))}
        (rows,) = analyse([outcome(cells)])
        alarms += any(row.judgement.word in ("faster", "slower") for row in rows)
    # 5 % are allowed; three standard errors above for 300 experiments.
    assert alarms / experiments <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / experiments)


def test_all_outcomes_share_one_correction() -> None:
    alone = analyse([outcome(scores())])[0]
    together = analyse([outcome(scores()), outcome(scores(seed=2))])[0]
    for one, two in zip(alone, together, strict=True):
        assert one.judgement.effect == two.judgement.effect
        assert one.judgement.hi is not None and two.judgement.hi is not None
        assert two.judgement.hi >= one.judgement.hi * (1 - 1e-4)
