# SPDX-License-Identifier: MIT
"""How others decide that two kernels differ; only to be simulated beside kdyno's own rule.

Each rule takes the scores of the two arms, shape (…, n), and gives along the last axis +1 where
it calls the second arm larger, −1 smaller, 0 where it sees no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from kdyno.stats.effect import Floats

Signs = NDArray[np.int64]


@dataclass(frozen=True)
class Rule:
    name: str
    decide: Callable[[Floats, Floats], Signs]
    all_repetitions: bool = False
    """The rule is given every repetition within every boot instead of one score per boot."""


def _signs(first: Floats, second: Floats, beyond: Floats | float) -> Signs:
    """Of the difference of means, where it is larger than that."""
    difference = second.mean(axis=-1) - first.mean(axis=-1)
    return np.where(np.abs(difference) > beyond, np.sign(difference), 0.0).astype(np.int64)


def means_compared(first: Floats, second: Floats) -> Signs:
    """The larger mean wins. It cannot say "no difference"."""
    return _signs(first, second, 0.0)


def beyond_one_per_cent(first: Floats, second: Floats) -> Signs:
    """Means further apart than 1 % of the first."""
    return _signs(first, second, 0.01 * np.abs(first.mean(axis=-1)))


def ranges_apart(first: Floats, second: Floats) -> Signs:
    """Minimum of one arm above the maximum of the other (then the medians differ as well)."""
    up = second.min(axis=-1) > first.max(axis=-1)
    down = second.max(axis=-1) < first.min(axis=-1)
    return np.asarray(up.astype(np.int64) - down.astype(np.int64))


def two_sigma_bars_apart(first: Floats, second: Floats) -> Signs:
    """Means further apart than 1.96 × (σ₁ + σ₂): bars of 1.96 sample deviations do not touch.

    The deviations are those of single scores, not of the mean, so more boots do not help.
    """
    return _signs(first, second, 1.96 * (first.std(axis=-1, ddof=1) + second.std(axis=-1, ddof=1)))


def _t(first: Floats, second: Floats, equal_var: bool) -> Signs:
    """At 5 %, arms unpaired: Student's t with pooled variance, or Welch's."""
    test = ttest_ind(second, first, axis=-1, equal_var=equal_var)
    return np.where(test.pvalue < 0.05, np.sign(test.statistic), 0.0).astype(np.int64)


RULES: tuple[Rule, ...] = (
    Rule("larger mean wins", means_compared),
    Rule("means ±1 % apart", beyond_one_per_cent),
    Rule("ranges do not overlap", ranges_apart),
    Rule("1.96 × (σa + σb)", two_sigma_bars_apart),
    Rule("Student's t on boots", partial(_t, equal_var=True)),
    Rule("Welch's t on all repetitions", partial(_t, equal_var=False), all_repetitions=True),
)
"""Whose they are: docs/research/statistics.md."""
