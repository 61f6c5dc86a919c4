# SPDX-License-Identifier: MIT
"""The stopping rule, alone and inside simulated experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.simulation import simulate, synthetic
from kdyno.stats.effect import PairedEffect, effect_of_differences
from kdyno.stats.stopping import before, enough, is_look, minimum_blocks
from kdyno.stats.verdict import Claim, judge


def effect(half_width: float, n: int, ratio: float = 1.0) -> PairedEffect:
    lo, hi = ratio * math.exp(-half_width), ratio * math.exp(half_width)
    return PairedEffect(n, ratio, lo, hi)


@pytest.mark.parametrize(
    ("widths", "pairs", "blocks", "done"),
    [
        ((0.004, 0.0049), 10, 10, True),
        ((0.004, 0.0051), 10, 10, False),
        ((0.001,), 6, 6, False),  # before the minimum
        ((0.001,), 9, 9, False),
        ((0.001,), 11, 11, False),  # between two looks
        ((0.001,), 9, 12, False),  # pairs were lost to failed boots
        ((0.001,), 10, 12, True),
    ],
)
def test_stops_at_a_look_when_every_width_is_small(
    widths: tuple[float, ...], pairs: int, blocks: int, done: bool
) -> None:
    for ratio in (0.5, 1.0, 1.003, 2.0):  # whether an effect is there does not matter
        progress = enough([effect(width, pairs, ratio) for width in widths], blocks, 0.005)
        assert progress.enough is done
        assert progress.widest == pytest.approx(math.expm1(max(widths)))


def test_minimum_and_looks() -> None:
    assert [minimum_blocks(each) for each in (1, 6, 20)] == [6, 6, 20]
    assert minimum_blocks() == 10
    assert [n for n in range(15) if is_look(n, 9)] == [9, 11, 13]
    predicted = [enough([effect(0.001, n)], n, 0.005).predicted_blocks for n in (6, 11)]
    assert predicted == [10, 12]
    with pytest.raises(ValueError, match="precision"):
        enough([], 1, 0.0)


def test_a_width_must_have_been_small_with_four_fifths_of_the_blocks() -> None:
    assert [before(n) for n in (10, 12, 20)] == [8, 10, 16]
    now = [effect(0.004, 10)]
    assert enough(now, 10, 0.005, earlier=[effect(0.0049, 8)]).enough
    assert not enough(now, 10, 0.005, earlier=[effect(0.006, 8)]).enough
    assert not enough(now, 10, 0.005, earlier=[effect_of_differences(np.zeros(3))]).enough


def test_an_effect_without_interval_keeps_the_run_going() -> None:
    progress = enough([effect(0.001, 10), effect_of_differences(np.zeros(3))], 10, 0.005)
    assert (progress.enough, progress.widest, progress.predicted_blocks) == (False, None, None)
    assert not enough([], 10, 0.005).enough


def test_prediction_follows_the_root_law() -> None:
    progress = enough([effect(2 * math.log1p(0.005), 10)], 10, 0.005)
    # Four times the blocks, and narrow with four fifths of them.
    assert progress.predicted_blocks == 50
    with_losses = enough([effect(2 * math.log1p(0.005), 10)], 20, 0.005)
    assert with_losses.predicted_blocks == 100


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
            then = [effect_of_differences(each[: before(blocks)]) for each in experiment]
            if enough(raw, blocks, plan.precision, earlier=then).enough:
                break
        assert outcome.blocks[index] == blocks
        judged = judge([Claim(each[:blocks], "higher") for each in experiment])
        held = [(each.effect.lo or 2.0) <= 1.0 <= (each.effect.hi or 0.0) for each in judged]
        assert held == list(outcome.covered[index])
        moved = [each.word in ("faster", "slower") for each in judged]
        assert moved == list(outcome.moved[index])
        same = [each.word == "equivalent" or each.equivalent_too for each in judged]
        assert same == list(outcome.equivalent[index])
        shifted = experiment[:, :blocks].copy()
        shifted[index % len(shifted)] += shift
        judged = judge([Claim(each, "higher") for each in shifted])
        result = judged[index % len(shifted)].word == "faster"
        assert result == outcome.power[0][index]


def test_a_constant_ratio_changes_neither_stop_nor_coverage() -> None:
    draw = synthetic.drifting()
    plan = simulate.Plan(precision=0.01, max_blocks=40)
    none = simulate.measure(simulate.differences(np.random.default_rng(1), draw, 200, 1, 40), plan)
    some = simulate.measure(
        simulate.differences(np.random.default_rng(1), draw, 200, 1, 40, effect=0.03),
        plan,
        truth=0.03,
    )
    assert (none.blocks == some.blocks).all()
    assert (none.covered == some.covered).mean() > 0.999
