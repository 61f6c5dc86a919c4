# SPDX-License-Identifier: MIT
"""Very many pairs: counting averages gives what making them gives, in little memory."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kdyno.stats import effect
from kdyno.stats.effect import (
    MANY,
    CountedWalsh,
    Floats,
    bounds,
    effect_of_differences,
    p_values,
    walsh_averages,
)

# Sixteenths, so that there are ties and zeros, and doubles of any size.
TIED = arrays(np.int64, st.integers(1, 40), elements=st.integers(-30, 30)).map(lambda it: it / 16)
ANY = arrays(np.float64, st.integers(1, 40), elements=st.floats(-2.0, 2.0))


@pytest.mark.slow
@given(st.one_of(TIED, ANY))
def test_every_average_is_found(differences: Floats) -> None:
    made = np.sort(walsh_averages(differences))
    counted = CountedWalsh(differences)
    assert counted.count == len(made)
    for rank in range(0, len(made), max(1, len(made) // 7)):
        assert counted.ordered(rank) == pytest.approx(made[rank], rel=1e-12, abs=1e-15)
    assert counted.median() == pytest.approx(float(np.median(made)), rel=1e-12, abs=1e-15)


@given(TIED, st.integers(-8, 8))
def test_counts_and_p_values_with_ties(differences: Floats, sixteenths: int) -> None:
    made, counted, value = walsh_averages(differences), CountedWalsh(differences), sixteenths / 16
    assert counted.up_to(value) == np.count_nonzero(made <= value)
    assert counted.up_to(value, "left") == np.count_nonzero(made < value)
    assert counted.p_value(value) == float(p_values(made, len(differences), value))


@pytest.mark.parametrize("n", [5, 6, 30, 250])
def test_the_interval(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.01, 0.02, n)
    wanted = bounds(walsh_averages(differences), n, 0.95)
    found = CountedWalsh(differences).bounds(0.95)
    assert (wanted is None) == (found is None) == (n < 6)
    if wanted is not None and found is not None:
        assert found == pytest.approx([float(limit) for limit in wanted], rel=1e-12)


def test_an_effect_is_the_same_on_both_sides_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = np.random.default_rng(1).normal(0.003, 0.02, 700)
    made = effect_of_differences(differences)
    monkeypatch.setattr(effect, "MANY", 100)
    counted = effect_of_differences(differences)
    for name in ("ratio", "lo", "hi", "p_value", "mean_ratio", "mean_lo"):
        assert getattr(counted, name) == pytest.approx(getattr(made, name), rel=1e-12), name


def test_5000_pairs_take_little_memory() -> None:
    differences = np.random.default_rng(2).normal(0.001, 0.02, 5 * MANY)
    tracemalloc.start()
    found = effect_of_differences(differences)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 5e6
    assert found.n == 5000 and found.lo is not None and found.hi is not None
    assert found.lo < math.exp(0.001) < found.hi
    assert found.half_width == pytest.approx(1.96 * 0.02 / math.sqrt(5000), rel=0.1)
