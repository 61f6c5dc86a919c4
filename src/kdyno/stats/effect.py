# SPDX-License-Identifier: MIT
"""The effect of a variant on one case by ranks: a ratio with its interval, from blocks of boots.

Wilcoxon's signed-rank distribution and the Walsh averages (means of two) that turn it into an
estimate and an interval. Source of method: Hollander, Wolfe & Chicken, Nonparametric Statistical
Methods, sections 3.1-3.3 (test, Hodges-Lehmann estimate, Tukey's interval).

5,000 pairs have 12.5 million averages, 100 MB, and more for the copies that selecting from them
takes. How many averages lie at or below a number can be counted from the sorted differences alone,
and bisection on that number finds any of them: Monahan, Algorithm 616 (ACM TOMS 10, 1984), in its
simplest form."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

FEWEST_BLOCKS = 6
"""Below this no interval is given, whatever confidence is asked for."""
EXACT_UP_TO = 200
"""Pairs up to which the null distribution is computed exactly; beyond, the normal law."""
MANY = 1000
"""Pairs beyond which averages are counted instead of made: 500,500 averages, 4 MB."""
_ALIKE = 1e-12
"""Of logarithms: less is rounding."""

Limits = tuple[float, float] | None


@dataclass(frozen=True)
class PairedEffect:
    """Variant ÷ baseline over blocks. Ratios are plain numbers: 1.02 is two per cent more.

    ``ratio``, ``ci``: Hodges-Lehmann estimate and signed-rank interval.
    ``mean_ratio``, ``mean_ci``: geometric mean with Student's t interval.
    There is no interval where n blocks cannot carry the confidence, and no ratio without one."""

    n: int
    """Blocks in which both arms have a score."""
    ratio: float | None = None
    ci: Limits = None
    mean_ratio: float | None = None
    mean_ci: Limits = None
    p_value: float | None = None
    """Two-sided, of "the ratio is 1"; None with fewer than FEWEST_BLOCKS."""
    exact: bool = False
    """Nothing was estimated: every block says the same, and the limits are the ratio."""

    @property
    def half_width(self) -> float | None:
        """Half of the interval's width on the log scale; about a fraction of the ratio."""
        return None if self.ci is None else math.log(self.ci[1] / self.ci[0]) / 2.0


def log_differences(baseline: ArrayLike, variant: ArrayLike) -> Floats:
    """log(variant) − log(baseline) per block, NaN unless both are positive, finite numbers.

    Both arrays have one score per block, in the same order; NaN stands for a failed boot."""
    before = np.asarray(baseline, dtype=np.float64)
    after = np.asarray(variant, dtype=np.float64)
    if before.ndim != 1 or before.shape != after.shape:
        raise ValueError(
            f"scores must be two lists of one length, not {before.shape} and {after.shape}"
        )
    usable = np.isfinite(before) & np.isfinite(after) & (before > 0) & (after > 0)
    logs = np.full(before.shape, np.nan)
    logs[usable] = np.log(after[usable]) - np.log(before[usable])
    return logs


def paired_effect(
    baseline: ArrayLike, variant: ArrayLike, confidence: float = 0.95
) -> PairedEffect:
    """Effect from n scores of each arm, paired by block; pairs without a logarithm are left out.

    Estimate: median of the Walsh averages of the within-block log ratios (Hodges & Lehmann
    1963). Interval: Tukey's, from the exact signed-rank distribution. A variant's scores are
    compared only with the baseline's of the same block, so slow drift cancels."""
    logs = log_differences(baseline, variant)
    return effect_of_differences(logs[np.isfinite(logs)], confidence)


def exact_effect(differences: Floats) -> PairedEffect:
    """Of counts that are the same in every block; at least one."""
    ratio = math.exp(float(differences[0]))
    ci = ratio, ratio
    return PairedEffect(len(differences), ratio, ci, ratio, ci, exact=True)


def effect_of_differences(differences: Floats, confidence: float = 0.95) -> PairedEffect:
    """The same from within-block log ratios, shape (n,), all finite."""
    from scipy.special import stdtrit

    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    n = len(differences)
    if n == 0:
        return PairedEffect(0)
    mean = float(np.mean(differences))
    estimate, limits, p_value = ranked(differences, confidence)
    if n < FEWEST_BLOCKS:
        return PairedEffect(n, math.exp(estimate), mean_ratio=math.exp(mean))
    t = float(stdtrit(n - 1, 0.5 + confidence / 2.0))
    half = t * float(np.std(differences, ddof=1)) / math.sqrt(n)
    ci = None if limits is None else (math.exp(limits[0]), math.exp(limits[1]))
    mean_ci = math.exp(mean - half), math.exp(mean + half)
    return PairedEffect(n, math.exp(estimate), ci, math.exp(mean), mean_ci, p_value)


def ranked(differences: Floats, confidence: float) -> tuple[float, Limits, float]:
    """(Hodges-Lehmann estimate, limits, p-value of 0) of at least one finite number."""
    n = len(differences)
    if n > MANY:
        return ranked_by_counting(differences, confidence)
    walsh = walsh_averages(differences)
    ends = bounds(walsh, n, confidence)
    limits = None if ends is None else (float(ends[0]), float(ends[1]))
    return float(np.median(walsh)), limits, float(p_values(walsh, n))


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


def tail(n: int, w: NDArray[np.int64] | int) -> Floats:
    """P(W ≤ w) for n pairs; w a whole number or an array of them."""
    counts = np.asarray(w)
    if n <= EXACT_UP_TO:
        cumulative = _cumulative(n)
        inside = cumulative[np.clip(counts, 0, len(cumulative) - 1)]
        return np.asarray(np.where(counts < 0, 0.0, inside), dtype=np.float64)
    from scipy.special import ndtr

    mean, sd = n * (n + 1) / 4.0, math.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
    return np.asarray(ndtr((counts + 0.5 - mean) / sd), dtype=np.float64)


@cache
def critical_rank(n: int, confidence: float) -> int | None:
    """Walsh averages to cut from each end; None when n pairs cannot reach the confidence.

    The largest k with 2·P(W ≤ k) ≤ 1 − confidence, so the interval errs on the wide side."""
    half = (1.0 - confidence) / 2.0
    # 1 - 0.96875 and the like must not lose a rank to the last bit of a double.
    slack = half * (1.0 + 1e-9)
    if n < 1:
        return None
    if n <= EXACT_UP_TO:
        k = int(np.searchsorted(_cumulative(n), slack, side="right")) - 1
    else:
        from scipy.special import ndtri

        mean, sd = n * (n + 1) / 4.0, math.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
        k = math.floor(mean + sd * float(ndtri(half)) - 0.5)
    return k if k >= 0 else None


_pairs = cache(np.triu_indices)


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


def p_values(walsh: Floats, n: int) -> Floats:
    """Two-sided p-values of "the centre is 0", along the last axis.

    The dual of ``bounds``: p ≤ 1 − confidence exactly when the interval leaves 0 out. Walsh
    averages of 0 count against rejection on both sides, so the test is conservative there."""
    above = np.count_nonzero(walsh >= 0.0, axis=-1)
    below = np.count_nonzero(walsh <= 0.0, axis=-1)
    return np.minimum(1.0, 2.0 * tail(n, np.minimum(above, below)))


def ranked_by_counting(differences: Floats, confidence: float) -> tuple[float, Limits, float]:
    """As ``ranked``, of any number of differences, without making their averages."""
    x, at, n = np.sort(differences), np.arange(len(differences)), len(differences)
    count = n * (n + 1) // 2

    def up_to(value: float, side: Literal["left", "right"] = "right") -> int:
        """Averages ≤ value; ``left``: < value."""
        return int(np.maximum(np.searchsorted(x, 2.0 * value - x, side=side) - at, 0).sum())

    def ordered(rank: int) -> float:
        """The average with ``rank`` smaller or equal ones before it, to a double's last bits."""
        low, high = float(x[0]), float(x[-1])
        if up_to(low) > rank:
            return low
        while high - low > 4e-16 * max(abs(low), abs(high)):
            middle = low + (high - low) / 2.0
            if not low < middle < high:
                break
            low, high = (low, middle) if up_to(middle) > rank else (middle, high)
        return high

    half, k = count // 2, critical_rank(n, confidence)
    median = ordered(half) if count % 2 else 0.5 * (ordered(half - 1) + ordered(half))
    limits = None if k is None else (ordered(k), ordered(count - 1 - k))
    fewer = min(count - up_to(0.0, "left"), up_to(0.0))
    return median, limits, min(1.0, 2.0 * float(tail(n, fewer)))


# Means of quantities that add up, such as seconds per function, and their differences. Effects on
# scores are ratios. Seconds at fixed work are added and subtracted, and a function may well take
# none at all, so here nothing is divided and nothing has a logarithm.


@dataclass(frozen=True)
class Estimate:
    """A mean over n boots (or blocks) with Student's t interval; there is none below 6."""

    n: int
    mean: float
    ci: Limits = None

    @property
    def clear(self) -> bool:
        """The interval leaves zero out."""
        return self.ci is not None and (self.ci[0] > 0 or self.ci[1] < 0)


def mean_of(values: ArrayLike, confidence: float = 0.95) -> Estimate:
    """Of independent values, one per boot; any that is not finite is a mistake (ValueError).

    Values that agree to the last digit have no spread to judge by, and no interval."""
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
    half = float(stdtrit(n - 1, 0.5 + confidence / 2.0)) * float(array.std(ddof=1)) / math.sqrt(n)
    return Estimate(n, mean, (mean - half, mean + half))


def added_by(groups: Sequence[Floats], confidence: float = 0.95) -> Estimate:
    """What a mark adds to a value, by least squares with a level for each group and Student's t.

    groups: arrays of n × 2, values and their marks of 0 or 1. Those whose marks are all alike are
    left out; values that are all alike within their groups have no interval."""
    from scipy.special import stdtrit

    mixed = [group for group in groups if len(group) and np.ptp(group[:, 1])]
    if not mixed:
        return Estimate(0, 0.0)
    values, marks = np.concatenate([group - group.mean(axis=0) for group in mixed]).T
    free, weight = len(values) - len(mixed) - 1, float(marks @ marks)
    mean = float(marks @ values) / weight
    if free < FEWEST_BLOCKS - 1 or float(np.abs(values).max()) < _ALIKE:
        return Estimate(len(values), mean)
    residual = float(np.square(values - mean * marks).sum()) / free
    half = float(stdtrit(free, 0.5 + confidence / 2.0)) * math.sqrt(residual / weight)
    return Estimate(len(values), mean, (mean - half, mean + half))


def difference_of(baseline: Mapping[int, float], variant: Mapping[int, float]) -> Estimate:
    """variant − baseline within the blocks that both have, so that slow drift cancels."""
    common = sorted(baseline.keys() & variant.keys())
    return mean_of([variant[block] - baseline[block] for block in common])


def relative(baseline: Mapping[int, float], variant: Mapping[int, float]) -> Estimate | None:
    """The difference as a share of the baseline's mean; None where that is zero.

    The baseline's mean is taken as known, which is right while its own spread is small."""
    common = sorted(baseline.keys() & variant.keys())
    base = sum(baseline[block] for block in common) / len(common) if common else 0.0
    if base <= 0:
        return None
    absolute = difference_of(baseline, variant)
    ci = None if absolute.ci is None else (absolute.ci[0] / base, absolute.ci[1] / base)
    return Estimate(absolute.n, absolute.mean / base, ci)
