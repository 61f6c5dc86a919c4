# SPDX-License-Identifier: MIT
"""Words, corrected intervals, predictions, the noise floor."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kdyno.stats.effect import Floats, log_differences, paired_effect
from kdyno.stats.family import Family
from kdyno.stats.verdict import Claim, judge, noise_floor, predict_blocks, word_of

DATA = Path(__file__).parent / "data"


def arms(ratio: float, sd: float = 0.002, blocks: int = 20, seed: int = 1) -> tuple[Floats, Floats]:
    """Two arms whose log ratios spread symmetrically around log(ratio), drift included."""
    rng = np.random.default_rng(seed)
    half = rng.normal(0, sd, blocks // 2)
    baseline = 1e5 * np.exp(np.linspace(0, -0.1, blocks))
    return baseline, baseline * ratio * np.exp(np.concatenate([half, -half]))


def of_scores(baseline: object, variant: object, *rest: object) -> Claim:
    return Claim(log_differences(baseline, variant), *rest)  # type: ignore[arg-type]


def one(ratio: float, better: str = "higher", **more: float) -> Claim:
    baseline, variant = arms(ratio, **more)  # type: ignore[arg-type]
    return of_scores(baseline, variant, better)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "ci, better, word, too",
    [
        ((1.02, 1.04), "higher", "faster", False),
        ((1.02, 1.04), "lower", "slower", False),
        ((0.95, 0.97), "higher", "slower", False),
        ((0.95, 0.97), "lower", "faster", False),
        ((1.001, 1.004), "higher", "faster", True),
        ((0.996, 0.999), "higher", "slower", True),
        ((0.995, 1.005), "higher", "equivalent", False),
        ((0.98, 1.005), "higher", "inconclusive", False),
        ((1.0, 1.005), "higher", "equivalent", False),
        (None, "higher", "inconclusive", False),
    ],
)
def test_words(ci: tuple[float, float] | None, better: str, word: str, too: bool) -> None:
    assert word_of(ci, better, 0.01) == (word, too)  # type: ignore[arg-type]


def test_the_four_words_of_a_run() -> None:
    run = [one(1.05), one(1.05, "lower"), one(1.0), one(1.004, sd=0.03)]
    judged = judge(run)
    assert [each.word for each in judged] == ["faster", "slower", "equivalent", "inconclusive"]
    assert judged[0].effect.ratio == pytest.approx(1.05)
    assert [each.predicted_blocks is None for each in judged] == [True, True, True, False]


@pytest.mark.slow
def test_at_the_edges() -> None:
    (tiny,) = judge([one(1.004)])
    assert (tiny.word, tiny.equivalent_too) == ("faster", True)
    assert judge([of_scores([100] * 10, [100] * 10, "higher")])[0].word == "equivalent"
    few, other = judge([of_scores([100] * 5, [120] * 5, "higher"), one(1.05)])
    assert (few.word, few.ci, few.predicted_blocks) == ("inconclusive", None, 6)
    assert other == judge([one(1.05)])[0]  # five blocks are not in the family
    assert judge([]) == []
    assert judge([of_scores([], [], "higher")])[0].word == "inconclusive"
    # Six blocks have an interval, however many effects there are.
    rng = np.random.default_rng(4)
    run = [Claim(rng.normal(0, 0.01, 6), "higher") for _ in range(59)]
    judged = judge([*run, Claim(rng.normal(-0.4, 0.01, 6), "higher")])
    assert all(each.ci is not None for each in judged) and judged[-1].word == "slower"


@pytest.mark.slow
def test_steps_give_the_last_effects_more_room() -> None:
    run = [one(1.05), one(1.0), one(1.03, seed=2)]
    single, among = judge([run[1]])[0], judge(run)[1]
    # The other two were found before it, so that it has the interval of an effect alone.
    assert among.ci[1] == pytest.approx(single.ci[1], rel=1e-4)
    assert among.ci[1] > single.effect.ci[1]
    # Many siblings take the verdict from a weak effect …
    weak = one(1.015, sd=0.012, blocks=12, seed=8)
    (alone,) = judge([weak])
    among = judge([weak, *[one(1.0, sd=0.012, blocks=12, seed=s) for s in range(20, 50)]])[0]
    assert (alone.word, among.word) == ("faster", "inconclusive") and among.effect == alone.effect
    # … and effects that are one and the same cost no more than one.
    row = Claim(np.random.default_rng(7).normal(0.002, 0.003, 12), "higher")
    (alone,), twins = judge([row]), judge([row] * 20)
    assert twins[0].ci[1] == pytest.approx(alone.ci[1], rel=1e-3)


def test_fifty_effects_in_eleven_blocks_are_decided() -> None:
    """A real run: effects of −36 and −12.7 % were inconclusive, without an interval."""
    scores = json.loads((DATA / "many-effects.json").read_text())["scores"]
    claims = {
        (case, name): of_scores(own["4bsd+1"], values, "higher")
        for case, own in scores.items()
        for name, values in own.items()
        if name != "4bsd+1"
    }
    judged = dict(zip(claims, judge(list(claims.values())), strict=True))
    assert len(judged) == 50
    assert all(value.ci is not None for value in judged.values())
    far = sorted(judged.values(), key=lambda value: value.effect.ratio or 1.0)
    assert far[0].ci is not None and far[0].ci[1] < 0.75
    sure = [value for value in judged.values() if abs((value.effect.ratio or 1.0) - 0.873) < 0.002]
    assert sure and all(each.ci is not None and each.ci[1] < 0.88 for each in sure)
    assert sum(value.word == "inconclusive" for value in judged.values()) < 25


def test_an_effect_of_few_blocks_is_tested_alike_beside_one_of_many() -> None:
    few = [0.05] * 5 + [0.0] * 3
    for blocks in (16, 17, 24):
        rows = np.full((2, blocks), np.nan)
        rows[0, : len(few)] = few
        rows[1] = np.random.default_rng(1).normal(0.0, 0.01, blocks)
        first, _ = judge([Claim(row, "higher") for row in rows])
        assert first.word == "inconclusive" and first.effect.ci is not None
        assert first.effect.ci[0] <= 1.0 and (first.effect.p_value or 0.0) > 0.05


@pytest.mark.slow
def test_equivalence_does_not_depend_on_the_direction() -> None:
    """Of effects that go together, as those that share a baseline do."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        shared = rng.normal(0.0, 0.01, 12)
        rows = rng.normal(0.0, 0.006, (2, 1)) + shared + rng.normal(0.0, 0.003, (2, 12))
        first, second = (Family(values).equivalent(0.01, 0.05).tolist() for values in (rows, -rows))
        assert first == second
        ends = Family(np.stack([rows[0], -rows[1]])).equivalent(0.01, 0.05).tolist()
        assert ends == Family(np.stack([-rows[0], rows[1]])).equivalent(0.01, 0.05).tolist()


@pytest.mark.slow
def test_false_words_of_many_effects_at_the_margin() -> None:
    """With all of fifty effects at 1 % a false ≈ or `equivalent` came out in 71 % of the runs."""
    rng = np.random.default_rng(3)
    runs = rng.normal(np.log(1.01), 0.002, (150, 50, 12))
    named = [any(each.equivalent_too or each.word == "equivalent" for each in judge(
        [Claim(row, "higher") for row in run])) for run in runs]  # fmt: skip
    assert np.mean(named) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 150)


def test_prediction_by_hand() -> None:
    # Estimate log 1.02; half-width 0.04 must halve (to pass 1): four times the blocks.
    logs = np.full(10, np.log(1.02))
    ci = 1.02 ** (1 - 2), 1.02 ** (1 + 2)
    assert predict_blocks(logs, ci, 0.05, 0.01) == pytest.approx(40, abs=1)
    # Estimate 0: the half-width must shrink to the band, here to a third.
    zero = np.zeros(10)
    assert predict_blocks(zero, (1.01**-3, 1.01**3), 0.05, 0.01) == pytest.approx(90, abs=1)
    # Estimate 0 and no band: nothing will ever settle it.
    assert predict_blocks(zero, (0.97, 1.03), 0.05, 0.0) is None
    # Far off in either way: beyond the cap.
    assert predict_blocks(zero, (0.01, 100.0), 0.05, 0.01) is None
    assert predict_blocks(np.zeros(1), None, 0.05, 0.01) is None


def test_predictions_come_true() -> None:
    few = judge([one(1.01, sd=0.02, blocks=12)])[0]
    assert few.word == "inconclusive" and few.predicted_blocks is not None
    more = judge([one(1.01, sd=0.02, blocks=2 * few.predicted_blocks)])[0]
    assert more.word == "faster"


def test_noise_floor() -> None:
    copy = paired_effect(*arms(1.0, sd=0.01))
    floor = noise_floor(copy)
    assert floor == pytest.approx(max(1 - copy.ci[0], copy.ci[1] - 1))
    assert noise_floor(paired_effect([100] * 5, [101] * 5)) is None
    baseline, variant = arms(1.004)
    for given_floor, inside in ((0.005, True), (0.003, False), (None, False)):
        judged = judge([of_scores(baseline, variant, "higher", given_floor)])[0]
        assert judged.inside_noise_floor is inside
        assert judged.word == "faster"


effects = st.lists(
    st.tuples(
        st.lists(st.floats(0.9, 1.1), min_size=8, max_size=14), st.sampled_from(["higher", "lower"])
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.slow
@given(effects)
def test_corrected_intervals_hold_the_raw_ones(family: list[tuple[list[float], str]]) -> None:
    run = [of_scores([1.0] * len(v), v, better) for v, better in family]
    for each in judge(run):
        assert each.effect.ci is not None
        if each.ci is not None:
            assert each.ci[0] <= each.effect.ci[0] and each.effect.ci[1] <= each.ci[1]
        else:
            assert each.word == "inconclusive"


@pytest.mark.slow
@given(effects)
def test_another_direction_or_swapped_arms_swap_words(
    family: list[tuple[list[float], str]],
) -> None:
    swap = {"faster": "slower", "slower": "faster"}
    high = judge([of_scores([1.0] * len(v), v, "higher") for v, _ in family])
    low = judge([of_scores([1.0] * len(v), v, "lower") for v, _ in family])
    back = judge([of_scores(v, [1.0] * len(v), "higher") for v, _ in family])
    words = [swap.get(each.word, each.word) for each in high]
    assert words == [each.word for each in low] == [each.word for each in back]
    assert [each.predicted_blocks for each in high] == [each.predicted_blocks for each in low]
