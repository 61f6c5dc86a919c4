# SPDX-License-Identifier: MIT
"""How others decide that two kernels differ; only to be simulated beside kdyno's own rule.

Each rule takes the scores of the two arms, shape (…, n), and gives along the last axis +1 where
it calls the second arm larger, −1 smaller, 0 where it sees no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

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


def _t(first: Floats, second: Floats, error: Floats, freedom: Floats | int) -> Signs:
    """At 5 %. ``error``: of the difference of means."""
    return _signs(first, second, -stdtrit(freedom, 0.025) * error)


def student_t(first: Floats, second: Floats) -> Signs:
    """Student's t with pooled variance at 5 %, arms unpaired."""
    n, m = first.shape[-1], second.shape[-1]
    squares = (n - 1) * first.var(axis=-1, ddof=1) + (m - 1) * second.var(axis=-1, ddof=1)
    return _t(first, second, np.sqrt(squares / (n + m - 2) * (1 / n + 1 / m)), n + m - 2)


def welch_t(first: Floats, second: Floats) -> Signs:
    """Welch's t at 5 %, arms unpaired."""
    n, m = first.shape[-1], second.shape[-1]
    parts = first.var(axis=-1, ddof=1) / n, second.var(axis=-1, ddof=1) / m
    both = np.maximum(parts[0] + parts[1], np.finfo(np.float64).tiny)
    freedom = both**2 / np.maximum(parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (m - 1), 1e-300)
    return _t(first, second, np.sqrt(both), freedom)


RULES: tuple[Rule, ...] = (
    Rule("larger mean wins", means_compared),
    Rule("means ±1 % apart", beyond_one_per_cent),
    Rule("ranges do not overlap", ranges_apart),
    Rule("1.96 × (σa + σb)", two_sigma_bars_apart),
    Rule("Student's t on boots", student_t),
    Rule("Welch's t on all repetitions", welch_t, all_repetitions=True),
)
"""Whose they are: docs/research/statistics.md."""
