# SPDX-License-Identifier: MIT
"""Effects, intervals and Holm levels: by hand, against scipy, by their symmetries; of very many
pairs, whose averages are counted instead of made."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from kdyno.stats import effect as effects
from kdyno.stats.effect import added_by, critical_rank, effect_of_differences, paired_effect, tail
from kdyno.stats.verdict import adjusted, step_levels

Arms = tuple[effects.Floats, effects.Floats]

scores = st.floats(min_value=1e-3, max_value=1e9)
arms = st.lists(st.tuples(scores, scores), min_size=6, max_size=25).map(
    lambda pairs: (np.array([a for a, _ in pairs]), np.array([b for _, b in pairs]))
)


def test_null_distribution() -> None:
    # 2^3 sign patterns of the ranks 1, 2, 3 give the sums 0 1 2 3 3 4 5 6.
    expected = [1 / 8, 2 / 8, 3 / 8, 5 / 8, 6 / 8, 7 / 8, 1.0]
    assert tail(3, np.arange(7)) == pytest.approx(expected)
    assert (float(tail(3, -1)), float(tail(3, 99))) == (0.0, 1.0)
    # The normal law takes over smoothly.
    n = effects.EXACT_UP_TO
    mean, sd = n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
    exact = critical_rank(n, 0.95)
    assert abs(exact - (mean - 1.959964 * sd)) < 2
    beyond = critical_rank(n + 1, 0.95)
    assert beyond is not None and 0 < beyond - exact < n


@pytest.mark.parametrize("n", [6, 9, 17, 40])
def test_against_scipy(n: int) -> None:
    logs = np.random.default_rng(n).normal(0.006, 0.02, n)
    effect = effect_of_differences(logs)
    assert effect.p_value == pytest.approx(scipy.stats.wilcoxon(logs, method="exact").pvalue)
    t = scipy.stats.t.interval(0.95, n - 1, logs.mean(), scipy.stats.sem(logs))
    assert effect.mean_ci == pytest.approx(tuple(np.exp(t)))


def test_by_hand_and_as_published() -> None:
    # Six differences: at 95 % no Walsh average is cut (2/64 < 5 % < 4/64).
    effect = effect_of_differences(np.array([0.01, 0.02, 0.03, 0.04, 0.05, 0.09]))
    assert effect.p_value == pytest.approx(2 / 64)
    assert effect.ci == pytest.approx((math.exp(0.01), math.exp(0.09)))
    assert (effect.ratio, effect.mean_ratio) == pytest.approx((math.exp(0.035), math.exp(0.04)))
    # The depression-scale differences of Hollander & Wolfe, example 3.1: n = 9, T+ = 5,
    # estimate -0.46, interval at 1 - 0.0391 from the sixth Walsh average at either end.
    before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30]
    after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29]
    effect = effect_of_differences(np.array(after) - np.array(before))
    assert effect.ratio == pytest.approx(math.exp(-0.46))
    assert effect.ci == pytest.approx((math.exp(-0.786), math.exp(-0.010)))
    assert float(tail(9, critical_rank(9, 0.95) or 0)) * 2 == pytest.approx(0.0390625)


def test_pairs_that_are_none_and_too_few_of_them() -> None:
    baseline = np.array([100.0, np.nan, 102, 99, 101, 100, 98, 103])
    variant = np.array([110.0, 111, np.nan, 109, 112, 110, 108, 113])
    whole = ~np.isnan(baseline) & ~np.isnan(variant)
    assert paired_effect(baseline, variant) == paired_effect(baseline[whole], variant[whole])
    assert paired_effect([100, 0, -3, math.inf, 100], [100, 100, 100, 100, math.nan]).n == 1
    few = paired_effect([100] * 5, [120] * 5)
    assert few.ratio == pytest.approx(1.2)
    assert (few.ci, few.mean_ci, few.p_value) == (None, None, None)
    nothing = paired_effect([], [])
    assert (nothing.n, nothing.ratio, nothing.half_width) == (0, None, None)
    beyond = paired_effect([100] * 6, [110, 111, 112, 113, 114, 115], confidence=0.99)
    assert beyond.ci is None and beyond.p_value == pytest.approx(2 / 64)
    for ratio, p_value in ((1.0, 1.0), (1.02, 2 / 256)):
        equal = paired_effect([100.0] * 8, [100.0 * ratio] * 8)
        assert (equal.ratio, *(equal.ci or ())) == pytest.approx((ratio, ratio, ratio))
        assert equal.p_value == p_value
    # Ten differences, four of them zero: dropping the zeros would give p = 2/64.
    zeros = effect_of_differences(np.array([0.0] * 4 + [0.01, 0.02, 0.03, 0.04, 0.05, 0.06]))
    assert zeros.p_value is not None and zeros.p_value > 0.05
    assert zeros.ci is not None and zeros.ci[0] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="one length"):
        paired_effect([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="confidence"):
        paired_effect([1, 2], [1, 2], confidence=95)


@pytest.mark.slow
@given(arms, st.integers(-20, 20))
def test_swapped_arms_invert_and_scaled_ones_do_nothing(pair: Arms, power: int) -> None:
    one, other = paired_effect(*pair), paired_effect(pair[1], pair[0])
    assert other.ratio and other.ci and one.p_value == other.p_value
    assert one.ratio == pytest.approx(1 / other.ratio, rel=1e-9)
    assert one.ci == pytest.approx((1 / other.ci[1], 1 / other.ci[0]), rel=1e-9)
    scaled = paired_effect(pair[0] * 2.0**power, pair[1] * 2.0**power)
    assert scaled.ratio == pytest.approx(one.ratio, rel=1e-9)
    assert scaled.ci == pytest.approx(one.ci, rel=1e-9)


@pytest.mark.slow
@given(arms, st.floats(0.5, 0.96), st.floats(0.5, 0.99))
def test_interval_holds_the_estimate_and_grows_with_confidence(
    pair: Arms, first: float, second: float
) -> None:
    narrow = paired_effect(*pair, confidence=min(first, second))
    wide = paired_effect(*pair, confidence=max(first, second))
    assert narrow.ratio and narrow.ci
    assert narrow.ci[0] <= narrow.ratio <= narrow.ci[1]
    if wide.ci is None:
        return
    assert wide.ci[0] <= narrow.ci[0] and narrow.ci[1] <= wide.ci[1]


@given(st.lists(st.integers(-5, 5), min_size=6, max_size=15), st.floats(0.5, 0.96))
def test_interval_and_test_agree_even_with_ties(values: list[int], confidence: float) -> None:
    logs = np.array(values, dtype=np.float64)
    walsh = effects.walsh_averages(logs)
    limits = effects.bounds(walsh, len(logs), confidence)
    p_value = float(effects.p_values(walsh, len(logs)))
    if limits is not None and abs(p_value - (1 - confidence)) > 1e-6:
        excluded = bool(limits[0] > 0 or limits[1] < 0)
        assert excluded == (p_value <= 1 - confidence)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_levels_reject_what_holm_rejects(p: list[float]) -> None:
    # 0.01 <= 0.05/4, 0.015 <= 0.05/3, 0.03 > 0.05/2: the last two share the failed level.
    by_hand = step_levels([0.03, 0.01, 0.04, 0.015], 0.05)
    assert by_hand == pytest.approx([0.025, 0.0125, 0.025, 0.05 / 3])
    assert (step_levels([], 0.05), step_levels([0.2], 0.05)) == ([], [0.05])
    levels = step_levels(p, 0.05)
    by_level = [value <= level * (1 + 1e-9) for value, level in zip(p, levels, strict=True)]
    assert by_level == [value <= 0.05 * (1 + 1e-9) for value in adjusted(p)]
    assert all(0.05 / len(p) <= level <= 0.05 for level in levels)


# Sixteenths, so that there are ties and zeros, and doubles of any size whose half is not zero.
TIED = arrays(np.int64, st.integers(1, 40), elements=st.integers(-30, 30)).map(
    lambda value: value / 16
)
ANY = arrays(np.float64, st.integers(1, 40), elements=st.floats(-2.0, 2.0, allow_subnormal=False))


@pytest.mark.slow
@given(st.one_of(TIED, ANY))
def test_averages_that_are_counted_are_those_that_are_made(differences: effects.Floats) -> None:
    result, counted = effects.ranked(differences, 0.9), effects.ranked_by_counting(differences, 0.9)
    assert counted[0] == pytest.approx(result[0], rel=1e-12, abs=1e-15)
    assert (counted[1] is None) == (result[1] is None)
    assert counted[1] is None or counted[1] == pytest.approx(result[1], rel=1e-12, abs=1e-15)
    assert counted[2] == result[2]


def test_an_effect_is_the_same_on_both_sides_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(1).normal(0.003, 0.02, 700)
    result = effect_of_differences(differences)
    assert effects.ranked_by_counting(differences[:5], 0.95)[1] is None
    monkeypatch.setattr(effects, "MANY", 100)
    counted = effect_of_differences(differences)
    for name in ("ratio", "ci", "p_value", "mean_ratio", "mean_ci"):
        assert getattr(counted, name) == pytest.approx(getattr(result, name), rel=1e-12), name


def test_5000_pairs_take_little_memory() -> None:
    differences = np.random.default_rng(2).normal(0.001, 0.02, 5 * effects.MANY)
    tracemalloc.start()
    effect = effect_of_differences(differences)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 5e6
    assert effect.n == 5000 and effect.ci is not None
    assert effect.ci[0] < math.exp(0.001) < effect.ci[1]
    assert effect.half_width == pytest.approx(1.96 * 0.02 / math.sqrt(5000), rel=0.1)


def test_what_a_mark_adds_is_the_two_sample_t_where_there_is_one_group() -> None:
    generator = np.random.default_rng(4)
    marks = np.arange(24) % 4 == 0
    values = generator.normal(size=24) + 0.5 * marks
    other = scipy.stats.ttest_ind(values[marks], values[~marks]).confidence_interval(0.99)
    group = np.column_stack([values, marks])
    own = added_by([group], 0.99)
    assert own.ci == pytest.approx((other.low, other.high))
    # Levels of groups say nothing, nor do groups of one kind.
    halves = [np.add(group[:12], [5, 0]), np.subtract(group[12:], [5, 0])]
    both = added_by(halves)
    assert both.mean == pytest.approx(own.mean, abs=0.5)
    assert added_by([*halves, group * [9, 0], group[:0]]) == both
    for few in ([], [group * [1, 0]], [group[:4]], [group * [0, 1] + [0.1, 0]]):
        assert added_by(few).ci is None
