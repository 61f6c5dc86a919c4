# SPDX-License-Identifier: MIT
"""Wilcoxon's signed-rank distribution and the Walsh averages that turn it into intervals.

Source of method: Hollander, Wolfe & Chicken, Nonparametric Statistical Methods, sections 3.1-3.3
(test, Hodges-Lehmann estimate, Tukey's interval).

5,000 pairs have 12.5 million averages, 100 MB, and more for the copies that selecting from them
takes. How many averages lie at or below a number can be counted from the sorted differences alone,
and bisection on that number finds any of them. Source of method: Monahan, Algorithm 616 (ACM TOMS
10, 1984), in its simplest form.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXACT_UP_TO = 200
"""Pairs up to which the null distribution is computed exactly; beyond, the normal law."""


@cache
def _cumulative(n: int) -> Floats:
    """P(W ≤ w) for w = 0 … n(n+1)/2 under the null hypothesis, n pairs, no ties."""
    probability = np.zeros(n * (n + 1) // 2 + 1)
    probability[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(probability)
        shifted[rank:] = probability[:-rank]
        probability = 0.5 * (probability + shifted)
    cumulative = np.minimum(np.cumsum(probability), 1.0)
    cumulative.setflags(write=False)
    return cumulative


def _normal_moments(n: int) -> tuple[float, float]:
    return n * (n + 1) / 4.0, math.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)


def tail(n: int, w: NDArray[np.int64] | int) -> Floats:
    """P(W ≤ w) for n pairs; w a whole number or an array of them."""
    counts = np.asarray(w)
    if n <= EXACT_UP_TO:
        cumulative = _cumulative(n)
        inside = cumulative[np.clip(counts, 0, len(cumulative) - 1)]
        return np.asarray(np.where(counts < 0, 0.0, inside), dtype=np.float64)
    from scipy.special import ndtr

    mean, sd = _normal_moments(n)
    return np.asarray(ndtr((counts + 0.5 - mean) / sd), dtype=np.float64)


@cache
def critical_rank(n: int, confidence: float) -> int | None:
    """Walsh averages to cut from each end; None when n pairs cannot reach the confidence.

    The largest k with 2·P(W ≤ k) ≤ 1 − confidence, so the interval errs on the wide side.
    """
    half = (1.0 - confidence) / 2.0
    # 1 - 0.96875 and the like must not lose a rank to the last bit of a double.
    slack = half * (1.0 + 1e-9)
    if n < 1:
        return None
    if n <= EXACT_UP_TO:
        k = int(np.searchsorted(_cumulative(n), slack, side="right")) - 1
    else:
        from scipy.special import ndtri

        mean, sd = _normal_moments(n)
        k = math.floor(mean + sd * float(ndtri(half)) - 0.5)
    return k if k >= 0 else None


def attained_confidence(n: int, k: int) -> float:
    """Confidence of the interval that leaves out k Walsh averages at each end."""
    return 1.0 - 2.0 * float(tail(n, k))


@cache
def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(n)


def walsh_averages(differences: Floats) -> Floats:
    """All (x_i + x_j)/2, i ≤ j: shape (…, n) gives (…, n(n+1)/2), not sorted."""
    first, second = _pairs(differences.shape[-1])
    return 0.5 * (differences[..., first] + differences[..., second])


def bounds(walsh: Floats, n: int, confidence: float) -> tuple[Floats, Floats] | None:
    """Lower and upper limit along the last axis; None when n pairs cannot reach it."""
    k = critical_rank(n, confidence)
    if k is None:
        return None
    last = walsh.shape[-1] - 1
    ordered = np.partition(walsh, (k, last - k), axis=-1)
    return ordered[..., k], ordered[..., last - k]


def p_values(walsh: Floats, n: int, shift: float = 0.0) -> Floats:
    """Two-sided p-values of "the centre is ``shift``", along the last axis.

    The dual of ``bounds``: p ≤ 1 − confidence exactly when the interval leaves ``shift`` out.
    Walsh averages equal to ``shift`` (zeros and ties) count against rejection on both sides,
    so the test is conservative there.
    """
    above = np.count_nonzero(walsh >= shift, axis=-1)
    below = np.count_nonzero(walsh <= shift, axis=-1)
    return np.minimum(1.0, 2.0 * tail(n, np.minimum(above, below)))


MANY = 1000
"""Pairs beyond which averages are counted instead of made: 500,500 averages, 4 MB."""


class CountedWalsh:
    """The averages (x_i + x_j)/2, i ≤ j, of ``differences``, shape (n,), all finite."""

    def __init__(self, differences: Floats) -> None:
        self._x = np.sort(differences)
        self._at = np.arange(len(differences))
        self.n = len(differences)
        self.count = self.n * (self.n + 1) // 2

    def at_most(self, value: float) -> int:
        """Averages ≤ value."""
        return self._up_to(value, "right")

    def below(self, value: float) -> int:
        """Averages < value."""
        return self._up_to(value, "left")

    def _up_to(self, value: float, side: Literal["left", "right"]) -> int:
        ends = np.searchsorted(self._x, 2.0 * value - self._x, side=side)
        return int(np.maximum(ends - self._at, 0).sum())

    def ordered(self, rank: int) -> float:
        """The average with ``rank`` smaller or equal ones before it, to a double's last bits."""
        low, high = float(self._x[0]), float(self._x[-1])
        if self.at_most(low) > rank:
            return low
        while high - low > 4e-16 * max(abs(low), abs(high)):
            middle = low + (high - low) / 2.0
            if not low < middle < high:
                break
            if self.at_most(middle) > rank:
                high = middle
            else:
                low = middle
        return high

    def median(self) -> float:
        """The Hodges-Lehmann estimate."""
        half = self.count // 2
        if self.count % 2:
            return self.ordered(half)
        return 0.5 * (self.ordered(half - 1) + self.ordered(half))

    def bounds(self, confidence: float) -> tuple[float, float] | None:
        """As signedrank.bounds."""
        k = critical_rank(self.n, confidence)
        if k is None:
            return None
        return self.ordered(k), self.ordered(self.count - 1 - k)

    def p_value(self, shift: float = 0.0) -> float:
        """As signedrank.p_values."""
        fewer = min(self.count - self.below(shift), self.at_most(shift))
        return min(1.0, 2.0 * float(tail(self.n, fewer)))
