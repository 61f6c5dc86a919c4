# SPDX-License-Identifier: MIT
"""Means of quantities that add up, such as seconds per function, and their differences.

Effects on scores are ratios (effect.py). Seconds at fixed work are added and subtracted, and a
function may well take none at all, so here nothing is divided and nothing has a logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .effect import FEWEST_BLOCKS


@dataclass(frozen=True)
class Estimate:
    """A mean over n boots (or blocks) with Student's t interval; limits are None below 6."""

    n: int
    mean: float
    lo: float | None = None
    hi: float | None = None

    @property
    def clear(self) -> bool:
        """The interval leaves zero out."""
        return self.lo is not None and self.hi is not None and (self.lo > 0 or self.hi < 0)


def mean_of(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Of independent values, one a boot; any that is not finite is a mistake (ValueError).

    Values that agree to the last digit have no spread to judge by, and no interval.
    """
    from scipy.special import stdtrit

    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise ValueError("expected one finite number per boot")
    n = len(array)
    if n == 0:
        return Estimate(0, 0.0)
    mean = float(array.mean())
    if n < FEWEST_BLOCKS or float(np.ptp(array)) == 0.0:
        return Estimate(n, mean)
    deviation = float(array.std(ddof=1))
    half = float(stdtrit(n - 1, 0.5 + confidence / 2.0)) * deviation / math.sqrt(n)
    return Estimate(n, mean, mean - half, mean + half)


def difference_of(
    baseline: Mapping[int, float], variant: Mapping[int, float], confidence: float = 0.95
) -> Estimate:
    """variant − baseline within the blocks that both have, so that slow drift cancels."""
    common = sorted(baseline.keys() & variant.keys())
    return mean_of([variant[block] - baseline[block] for block in common], confidence)


def relative(
    baseline: Mapping[int, float], variant: Mapping[int, float], confidence: float = 0.95
) -> Estimate | None:
    """The difference as a share of the baseline's mean; None where that is zero.

    The baseline's mean is taken as known, which is right while its own spread is small.
    """
    common = sorted(baseline.keys() & variant.keys())
    base = sum(baseline[block] for block in common) / len(common) if common else 0.0
    if base <= 0:
        return None
    absolute = difference_of(baseline, variant, confidence)
    lo, hi = (None if end is None else end / base for end in (absolute.lo, absolute.hi))
    return Estimate(absolute.n, absolute.mean / base, lo, hi)
