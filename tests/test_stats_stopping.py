# SPDX-License-Identifier: MIT
"""The stopping rule, alone and inside simulated experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.simulation import simulate, synthetic
from kdyno.stats.effect import PairedEffect, effect_of_differences
from kdyno.stats.stopping import enough, is_look, minimum_blocks
from kdyno.stats.verdict import Claim, judge


def effect(half_width: float, n: int, ratio: float = 1.0) -> PairedEffect:
    lo, hi = ratio * math.exp(-half_width), ratio * math.exp(half_width)
    return PairedEffect(n, ratio, lo, hi, ratio, lo, hi, 0.5, 0.95, 0.95)


def test_minimum_lets_holms_strictest_step_have_an_interval() -> None:
    assert [minimum_blocks(m, asked=6) for m in (1, 3, 9, 60)] == [6, 7, 9, 12]
    assert minimum_blocks(3) == 8
    assert minimum_blocks(3, asked=20) == 20
    assert minimum_blocks(1, confidence=0.99, asked=1) == 8


def test_looks() -> None:
    assert [n for n in range(15) if is_look(n, 9)] == [9, 11, 13]


def test_stops_when_every_width_is_small() -> None:
    assert enough([effect(0.004, 10), effect(0.0049, 10)], 10, 0.005).enough
    progress = enough([effect(0.004, 10), effect(0.0051, 10)], 10, 0.005)
    assert not progress.enough
    assert progress.widest == pytest.approx(math.expm1(0.0051))


def test_never_before_the_minimum_or_between_looks() -> None:
    assert not enough([effect(0.001, 6)], 6, 0.005).enough
    assert not enough([effect(0.001, 9)], 9, 0.005).enough
    assert enough([effect(0.001, 6)], 6, 0.005).predicted_blocks == 8
    assert enough([effect(0.001, 9)], 9, 0.005).predicted_blocks == 10


def test_pairs_lost_to_failed_boots_count_as_missing() -> None:
    assert not enough([effect(0.001, 7)], 10, 0.005).enough
    assert enough([effect(0.001, 8)], 10, 0.005).enough


def test_an_effect_without_interval_keeps_the_run_going() -> None:
    progress = enough([effect(0.001, 10), effect_of_differences(np.zeros(3))], 10, 0.005)
    assert (progress.enough, progress.widest, progress.predicted_blocks) == (False, None, None)
    assert not enough([], 10, 0.005).enough


def test_prediction_follows_the_root_law() -> None:
    progress = enough([effect(2 * math.log1p(0.005), 10)], 10, 0.005)
    assert progress.predicted_blocks == 40
    with_losses = enough([effect(2 * math.log1p(0.005), 10)], 20, 0.005)
    assert with_losses.predicted_blocks == 80


def test_whether_an_effect_is_there_does_not_matter() -> None:
    for ratio in (0.5, 1.0, 1.003, 2.0):
        assert enough([effect(0.004, 10, ratio)], 10, 0.005).enough
        assert not enough([effect(0.006, 10, ratio)], 10, 0.005).enough


def test_precision_must_be_positive() -> None:
    with pytest.raises(ValueError, match="precision"):
        enough([], 1, 0.0)


@pytest.mark.slow
def test_simulator_and_real_functions_are_one_rule() -> None:
    rng = np.random.default_rng(5)
    plan = simulate.Plan(variants=2, precision=0.01, max_blocks=30)
    logs = simulate.differences(rng, synthetic.heavy_lower_tail(), 25, 2, 30)
    shift = 0.02
    outcome = simulate.measure(logs, plan, [shift])
    for index, experiment in enumerate(logs):
        for blocks in range(1, 31):
            raw = [effect_of_differences(each[:blocks]) for each in experiment]
            if enough(raw, blocks, plan.precision).enough:
                break
        assert outcome.blocks[index] == blocks
        assert [each.lo for each in raw] == pytest.approx(list(np.exp(outcome.lo[index])))
        ones = np.ones(blocks)
        judged = judge([Claim.of_scores(ones, np.exp(e[:blocks]), "higher") for e in experiment])
        moved = [each.word in ("faster", "slower") for each in judged]
        assert moved == list(outcome.false_alarms()[index])
        shifted = experiment[:, :blocks].copy()
        shifted[index % len(shifted)] += shift
        judged = judge([Claim.of_scores(ones, np.exp(each), "higher") for each in shifted])
        found = judged[index % len(shifted)].word == "faster"
        assert found == outcome.found(0)[index]


def test_a_constant_ratio_changes_neither_stop_nor_coverage() -> None:
    draw = synthetic.drifting()
    plan = simulate.Plan(precision=0.01, max_blocks=40)
    none = simulate.measure(simulate.differences(np.random.default_rng(1), draw, 200, 1, 40), plan)
    some = simulate.measure(
        simulate.differences(np.random.default_rng(1), draw, 200, 1, 40, effect=0.03), plan
    )
    assert (none.blocks == some.blocks).all()
    assert (none.covered() == some.covered(0.03)).all()
