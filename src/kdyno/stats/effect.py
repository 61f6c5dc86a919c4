# SPDX-License-Identifier: MIT
"""The effect of a variant on one case: a ratio with its interval, from blocks of boots."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kdyno.stats.signedrank import MANY, CountedWalsh

from .signedrank import (
    Floats,
    attained_confidence,
    bounds,
    critical_rank,
    p_values,
    walsh_averages,
)

FEWEST_BLOCKS = 6
"""Below this no interval is given, whatever confidence is asked for."""


def interval(low: float | None, high: float | None) -> tuple[float, float] | None:
    """Both limits, or that there are none."""
    return None if low is None or high is None else (low, high)


@dataclass(frozen=True)
class PairedEffect:
    """Variant ÷ baseline over blocks. Ratios are plain numbers: 1.02 is two per cent more.

    ``ratio``, ``lo``, ``hi``: Hodges-Lehmann estimate and signed-rank interval.
    ``mean_ratio``, ``mean_lo``, ``mean_hi``: geometric mean with Student's t interval.
    Limits are None where n blocks cannot carry the confidence; a ratio is None without a block.
    """

    n: int
    """Blocks in which both arms have a score."""
    ratio: float | None
    lo: float | None
    hi: float | None
    mean_ratio: float | None
    mean_lo: float | None
    mean_hi: float | None
    p_value: float | None
    """Two-sided, of "the ratio is 1"; None with fewer than FEWEST_BLOCKS."""
    confidence: float
    """As asked for."""
    attained: float | None
    """Confidence of [lo, hi] by the exact distribution: at least what was asked for."""
    exact: bool = False
    """Nothing was estimated: every block says the same, and the limits are the ratio."""

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width on the log scale; about a fraction of the ratio."""
        if self.lo is None or self.hi is None:
            return None
        return math.log(self.hi / self.lo) / 2.0


def log_differences(baseline: ArrayLike, variant: ArrayLike, keep: bool = False) -> Floats:
    """log(variant) − log(baseline) of the blocks in which both are positive, finite numbers.

    Both arrays have one score per block, in the same order; NaN stands for a failed boot.
    Any other score that has no logarithm is dropped with its partner too; ``keep``: is NaN.
    """
    before = np.asarray(baseline, dtype=np.float64)
    after = np.asarray(variant, dtype=np.float64)
    if before.ndim != 1 or before.shape != after.shape:
        raise ValueError(
            f"scores must be two lists of one length, not {before.shape} and {after.shape}"
        )
    usable = np.isfinite(before) & np.isfinite(after) & (before > 0) & (after > 0)
    found = np.full(before.shape, np.nan)
    found[usable] = np.log(after[usable]) - np.log(before[usable])
    return found if keep else found[usable]


def paired_effect(
    baseline: ArrayLike, variant: ArrayLike, confidence: float = 0.95
) -> PairedEffect:
    """Effect from n scores of each arm, paired by block; NaN pairs are left out.

    Estimate: median of the Walsh averages of the within-block log ratios (Hodges & Lehmann
    1963). Interval: Tukey's, from the exact signed-rank distribution. A variant's scores are
    compared only with the baseline's of the same block, so slow drift cancels.
    """
    return effect_of_differences(log_differences(baseline, variant), confidence)


def exact_effect(differences: Floats, confidence: float = 0.95) -> PairedEffect:
    """Of counts that are the same in every block; at least one."""
    ratio = math.exp(float(differences[0]))
    n, limits = len(differences), (ratio, ratio, ratio)
    return PairedEffect(n, *limits, *limits, None, confidence, 1.0, exact=True)


def effect_of_differences(differences: Floats, confidence: float = 0.95) -> PairedEffect:
    """The same from within-block log ratios, shape (n,), all finite."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    n = len(differences)
    if n == 0:
        return PairedEffect(0, None, None, None, None, None, None, None, confidence, None)
    estimate, limits, p = _signed_rank(differences, confidence)
    ratio = math.exp(estimate)
    mean, mean_half = _mean_with_half_width(differences, confidence)
    lo = hi = p_value = attained = None
    if n >= FEWEST_BLOCKS:
        p_value = p
        k = critical_rank(n, confidence)
        if limits is not None and k is not None:
            lo, hi = (math.exp(limit) for limit in limits)
            attained = attained_confidence(n, k)
    return PairedEffect(
        n=n,
        ratio=ratio,
        lo=lo,
        hi=hi,
        mean_ratio=math.exp(mean),
        mean_lo=None if mean_half is None else math.exp(mean - mean_half),
        mean_hi=None if mean_half is None else math.exp(mean + mean_half),
        p_value=p_value,
        confidence=confidence,
        attained=attained,
    )


def _signed_rank(
    differences: Floats, confidence: float
) -> tuple[float, tuple[float, float] | None, float]:
    """(Hodges-Lehmann estimate, interval, p-value of 0), all on the log scale."""
    n = len(differences)
    if n > MANY:
        counted = CountedWalsh(differences)
        return counted.median(), counted.bounds(confidence), counted.p_value()
    walsh = walsh_averages(differences)
    limits = bounds(walsh, n, confidence)
    ends = None if limits is None else (float(limits[0]), float(limits[1]))
    return float(np.median(walsh)), ends, float(p_values(walsh, n))


def _mean_with_half_width(differences: Floats, confidence: float) -> tuple[float, float | None]:
    from scipy.special import stdtrit

    n = len(differences)
    mean = float(np.mean(differences))
    if n < FEWEST_BLOCKS:
        return mean, None
    t = float(stdtrit(n - 1, 0.5 + confidence / 2.0))
    return mean, t * float(np.std(differences, ddof=1)) / math.sqrt(n)
