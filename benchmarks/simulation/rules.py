# SPDX-License-Identifier: MIT
"""How others decide that two kernels differ; only to be simulated beside kdyno's own rule.

Each rule takes the scores of the two arms, shape (…, n), and gives along the last axis +1 where
it calls the second arm larger, −1 smaller, 0 where it sees no difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kdyno.stats.effect import Floats

Signs = NDArray[np.int64]
Decide = Callable[[Floats, Floats], Signs]


@dataclass(frozen=True)
class Rule:
    name: str
    source: str
    decide: Decide
    all_repetitions: bool = False
    """The rule is given every repetition within every boot instead of one score per boot."""


def _signs(difference: Floats, seen: NDArray[np.bool_]) -> Signs:
    return np.asarray(np.where(seen, np.sign(difference), 0.0), dtype=np.int64)


def _mean_difference(first: Floats, second: Floats) -> Floats:
    return np.asarray(second.mean(axis=-1) - first.mean(axis=-1), dtype=np.float64)


def means_compared(first: Floats, second: Floats) -> Signs:
    """The larger mean wins. It cannot say "no difference"."""
    difference = _mean_difference(first, second)
    return _signs(difference, difference != 0)


def beyond_one_per_cent(first: Floats, second: Floats) -> Signs:
    """Means further apart than 1 % of the first."""
    difference = _mean_difference(first, second)
    return _signs(difference, np.abs(difference) > 0.01 * np.abs(first.mean(axis=-1)))


def ranges_apart(first: Floats, second: Floats) -> Signs:
    """Minimum of one arm above the maximum of the other (then the medians differ as well)."""
    up = second.min(axis=-1) > first.max(axis=-1)
    down = second.max(axis=-1) < first.min(axis=-1)
    return np.asarray(up.astype(np.int64) - down.astype(np.int64))


def two_sigma_bars_apart(first: Floats, second: Floats) -> Signs:
    """Means further apart than 1.96 × (σ₁ + σ₂): bars of 1.96 sample deviations do not touch.

    The deviations are those of single scores, not of the mean, so more boots do not help.
    """
    difference = _mean_difference(first, second)
    bars = 1.96 * (first.std(axis=-1, ddof=1) + second.std(axis=-1, ddof=1))
    return _signs(difference, np.abs(difference) > bars)


def student_t(first: Floats, second: Floats) -> Signs:
    """Student's t with pooled variance at 5 %, arms unpaired."""
    from scipy.special import stdtr

    n, m = first.shape[-1], second.shape[-1]
    difference = _mean_difference(first, second)
    squares = (n - 1) * first.var(axis=-1, ddof=1) + (m - 1) * second.var(axis=-1, ddof=1)
    error = np.sqrt(squares / (n + m - 2)) * math.sqrt(1 / n + 1 / m)
    t = np.abs(difference) / np.maximum(error, np.finfo(np.float64).tiny)
    return _signs(difference, 2.0 * stdtr(n + m - 2, -t) <= 0.05)


def welch_t(first: Floats, second: Floats) -> Signs:
    """Welch's t at 5 %, arms unpaired."""
    from scipy.special import stdtr

    n, m = first.shape[-1], second.shape[-1]
    difference = _mean_difference(first, second)
    part_first = first.var(axis=-1, ddof=1) / n
    part_second = second.var(axis=-1, ddof=1) / m
    tiny = np.finfo(np.float64).tiny
    both = np.maximum(part_first + part_second, tiny)
    freedom = both**2 / np.maximum(part_first**2 / (n - 1) + part_second**2 / (m - 1), tiny)
    return _signs(difference, 2.0 * stdtr(freedom, -np.abs(difference) / np.sqrt(both)) <= 0.05)


RULES: tuple[Rule, ...] = (
    Rule("larger mean wins", "published comparisons that print a mean of three", means_compared),
    Rule("means ±1 % apart", "regression gates with a fixed threshold", beyond_one_per_cent),
    Rule("ranges do not overlap", "comparisons by minimum, median and maximum", ranges_apart),
    Rule("1.96 × (σa + σb)", "suites that compare error bars", two_sigma_bars_apart),
    Rule("Student's t on boots", "FreeBSD's ministat", student_t),
    Rule(
        "Welch's t on all repetitions",
        "repetitions taken for replicates: pseudo-replication",
        welch_t,
        all_repetitions=True,
    ),
)
