# SPDX-License-Identifier: MIT
"""Changes of level and drift: found where they were put, and nowhere else."""

from __future__ import annotations

import builtins
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kdyno.stats import changepoints
from kdyno.stats.changepoints import LEAST_POINTS, LEAST_RUN, drift, segments, spread

needs_ruptures = pytest.mark.skipif(
    not changepoints.available(), reason="no ruptures for this Python: pip install ruptures"
)


def noise(count: int, seed: int = 2, sigma: float = 0.005) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, sigma, count)


@needs_ruptures
@pytest.mark.parametrize("at", [3, 8, 15, 27])
@pytest.mark.parametrize("ratio", [0.9, 1.05])
def test_a_step_is_found_where_it_is(at: int, ratio: float) -> None:
    scores = 1000.0 * np.exp(noise(30)) * np.where(np.arange(30) < at, 1.0, ratio)
    first, second = segments(scores)
    assert (first.start, first.end, second.start, second.end) == (0, at, at, 30)
    assert second.level / first.level == pytest.approx(ratio, rel=0.01)
    there_and_back = np.exp(noise(40)) * np.repeat([1.0, 1.1, 1.0, 0.8], 10)
    assert [part.start for part in segments(there_and_back)] == [0, 10, 20, 30]


def test_drift_sees_a_trend_and_not_noise() -> None:
    still, moving = (drift(np.exp(noise(40, 3, 0.01) - a * np.arange(40))) for a in (0, 0.002))
    assert moving.drifting and not still.drifting
    assert moving.change == pytest.approx(np.exp(-0.002 * 39) - 1, abs=0.01)
    level, rising = drift(np.exp([1.0, -1.0] * 5)), drift(np.exp(np.arange(10.0)))
    assert level is not None and (level.change, level.drifting) == (0.0, False)
    assert rising is not None and rising.drifting
    assert drift([100.0] * 20) is None and drift([100.0, np.nan, 101.0]) is None


@pytest.mark.parametrize("at", [0, 1, 7, 18, 19])
def test_one_odd_run_is_no_change_and_equal_scores_have_one_level(at: int) -> None:
    scores = np.exp(noise(20))
    scores[at] *= 1.5
    assert len(segments(scores)) == 1
    (only,) = segments([5.0] * 20)
    assert (only.start, only.end, only.level) == (0, 20, 5.0)
    assert segments([]) == () and [part.level for part in segments([2.0])] == [2.0]


@pytest.mark.slow
@needs_ruptures
def test_false_changes_are_as_rare_as_the_page_says() -> None:
    for count in (8, 20, 50):
        seen = sum(len(segments(np.exp(noise(count, seed)))) > 1 for seed in range(400))
        assert seen / 400 < 0.06, count


def test_too_few_points_or_no_library_give_one_level(monkeypatch: pytest.MonkeyPatch) -> None:
    step = [1.0] * (LEAST_POINTS - 3) + [2.0] * 2
    assert len(segments(step)) == 1
    real = builtins.__import__

    def refuse(name: str, *rest: object) -> object:
        assert not name.startswith("ruptures")
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(changepoints, "available", lambda: False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    assert len(segments([1.0] * 10 + [2.0] * 10)) == 1


def test_spread_does_not_see_the_steps() -> None:
    flat, stepped = np.exp(noise(200)), np.exp(noise(200)) * np.repeat([1.0, 2.0], 100)
    assert spread(flat) == pytest.approx(0.005, rel=0.2)
    assert spread(stepped) == pytest.approx(spread(flat), rel=0.05)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(min_value=1e-9, max_value=1e12), min_size=1, max_size=60),
    st.floats(min_value=1e-3, max_value=1e3),
)
def test_segments_cover_everything_and_know_no_unit(scores: list[float], unit: float) -> None:
    result = segments(scores)
    assert result[0].start == 0 and result[-1].end == len(scores)
    assert all(a.end == b.start for a, b in pairwise(result))
    assert len(result) == 1 or min(each.end - each.start for each in result) >= LEAST_RUN
    again = segments([score * unit for score in scores])
    assert len(again) == len(result) or spread(scores) == changepoints.SMALLEST_SPREAD
