# SPDX-License-Identifier: MIT
"""One value a group, two levels of spread, and how many rounds are worth their time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.simulation import simulate
from benchmarks.turn_noise import NOISES, Noise, boot_values, group_values
from kdyno.stats.family import FINE, Family
from kdyno.stats.groups import best_rounds, between, locations, machine_spread, precisions, spread


def test_the_location_is_the_median_of_all_pairwise_means() -> None:
    assert locations([3.0]) == 3.0
    assert locations([1.0, 2.0]) == 1.5
    # Walsh averages: 0, 1/2, 1, 5, 11/2, 10 and their median.
    assert locations([0.0, 1.0, 10.0]) == 3.0
    assert locations([[1.0, 2.0], [3.0, 5.0]]).tolist() == [1.5, 4.0]
    # A quarter of wild rounds hardly moves it.
    rounds = 0.02 + 0.001 * np.random.default_rng(1).standard_normal(40)
    rounds[:10] += 0.5
    assert locations(rounds) == pytest.approx(0.02, abs=0.002)


def test_the_two_levels_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    groups = [0.004 * rng.standard_normal() + 0.02 * rng.standard_normal(50) for _ in range(400)]
    spreads = spread(groups)
    assert spreads.within == pytest.approx(0.02, rel=0.1)
    assert spreads.between == pytest.approx(0.004, rel=0.2)
    assert spreads.of_group == pytest.approx(math.hypot(0.004, 0.02 * 1.023 / 50**0.5), rel=0.15)
    assert spreads.rounds == 50
    assert spread(groups[:3]) is None
    # Where tails are heavy: by 1.047 × MAD² ÷ rounds it was 0.0036.
    rng = np.random.default_rng(8)
    groups = [0.003 * rng.standard_normal() + 0.02 * rng.standard_t(2, 60) for _ in range(400)]
    heavy = spread(groups)
    assert heavy is not None and heavy.between == pytest.approx(0.003, rel=0.12)


def test_the_best_number_of_rounds_is_that_of_kalibera_and_jones() -> None:
    rng = np.random.default_rng(3)
    groups = [0.01 * rng.standard_normal() + 0.03 * rng.standard_normal(30) for _ in range(99)]
    spreads = spread(groups)
    assert spreads.error * spreads.rounds**0.5 == pytest.approx(0.03 * 1.023, rel=0.1)
    expected = math.sqrt(0.5 / 0.032 * spreads.rounds) * spreads.error / spreads.between
    assert best_rounds(spreads, 0.5, 0.032) == pytest.approx(expected)
    alike = spread([0.03 * rng.standard_normal(30) * 0 + rng.standard_normal(30)] * 5)
    assert alike is not None and alike.between == 0
    assert best_rounds(alike, 0.5, 0.032) == math.inf


def test_what_guests_have_in_common_is_the_machine() -> None:
    rng = np.random.default_rng(4)
    groups = []
    for _ in range(60):
        machine = 0.1 * rng.standard_normal() + 0.05 * rng.standard_normal(40)
        groups.append([machine + 0.001 * rng.standard_normal(40) for _ in range(3)])
    assert machine_spread(groups) == pytest.approx(math.hypot(0.1, 0.05), rel=0.25)
    assert machine_spread(groups[:3]) is None


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
def test_false_alarms_and_coverage_hold_on_made_up_machines(noise: object) -> None:
    rng = np.random.default_rng(5)
    both = [group_values(rng, noise, 20, 4, 20, 2) for _ in range(300)]  # type: ignore[arg-type]
    ratios = np.stack([values for values, _ in both])
    weights = np.stack([[precisions(*row) for row in zip(*each, strict=True)] for each in both])
    result = simulate.measure(ratios, 1e-9, weights=weights)
    # 300 experiments: three standard errors beyond 5 % and below 95 %.
    assert result.moved.any(axis=1).mean() <= 0.088
    assert result.covered.mean() >= 0.935


def test_a_group_counts_by_its_own_error_and_not_by_an_accident_of_it() -> None:
    values = np.array([0.01, -0.01, 0.0, 0.02, -0.02, 0.0, np.nan])
    off = np.array([0.01, 0.01, 0.01, 0.01, 0.04, 0.0001, np.nan])
    weights = precisions(values, off)
    assert weights[4] < weights[0] < weights[5] < 2.01 * weights[0]
    assert weights[6] == weights[0]
    assert (precisions(values[:5], off[:5]) == 1).all()


@pytest.mark.slow
def test_few_groups_of_uneven_weight_have_intervals() -> None:
    """Of eight groups with weights in full an effect that all agree in could not be refused."""
    rng = np.random.default_rng(11)
    values = 0.01 * rng.standard_normal((200, 8, 8))
    weights = np.exp(0.5 * rng.standard_normal(values.shape))
    for blocks in (6, 8):
        family = Family(values[..., :blocks], weights[..., :blocks])
        lo, hi = family.limits(0.04)
        assert np.isfinite(hi - lo).mean() > 0.99
        assert family.rejected(0.04).any(axis=1).mean() <= 0.05
    # Where every group agrees, an effect is told among the seven others.
    values[:, 0] += 0.2
    assert Family(values, weights).rejected(0.04)[:, 0].mean() > 0.99


@pytest.mark.slow
def test_the_reported_spread_between_groups_is_the_true_one() -> None:
    rng = np.random.default_rng(12)
    boots = Noise("boots", turn=0.01, boot=0.003)
    rows = [group_values(rng, boots, 24, 2, 24) for _ in range(60)]
    results = [between(values[0], off[0]) for values, off in rows]
    assert np.sqrt(np.mean(np.square(results))) == pytest.approx(0.003 * 2**0.5, rel=0.1)


@pytest.mark.slow
def test_turns_are_narrower_than_boots_on_a_machine_that_wanders() -> None:
    rng = np.random.default_rng(6)
    wanders = next(noise for noise in NOISES if noise.name == "drift")
    turns = group_values(rng, wanders, 200, 4, 20)[0].std()
    boots = boot_values(rng, wanders, 200, 4, 20).std()
    assert boots / turns > 2


@pytest.mark.parametrize("blocks", [12, 16, 17, 20])
def test_levels_below_one_pattern_of_the_usual_number_have_limits(blocks: int) -> None:
    values = np.random.default_rng(4).normal(0.5, 0.01, (2, blocks))
    (low, _), (high, _) = Family(values, level=0.0008).limits(0.0008)
    assert 0.4 < low < 0.5 < high < 0.6


@pytest.mark.parametrize("blocks, least", [(11, 2**-10), (14, 2**-13), (40, 1 / FINE)])
def test_a_p_value_is_as_small_as_the_patterns_of_signs_allow(blocks: int, least: float) -> None:
    values = np.random.default_rng(3).normal(0.0, 0.01, (3, blocks))
    values[0] += 1.0
    family = Family(values)
    large, *others = family.p_values()
    assert large == pytest.approx(least)
    # Those that some pattern reaches are those that all verdicts rest on.
    zero = np.zeros_like(family.estimate)
    assert others == family._p(zero, family._alone, 2)[1:].tolist() and min(others) > 0.01
