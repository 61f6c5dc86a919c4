# SPDX-License-Identifier: MIT
"""Two kernels that were measured one after the other: effects without blocks.

Nothing here cancels drift. ``between_runs`` takes whole runs as the sample, so what changes from
one run to the next is in its interval; ``within_runs`` knows only the spread inside the runs and
says nothing about what happened between them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .signedrank import Floats

FEWEST_RUNS = 3
"""Runs of each kernel below which their spread is not known well enough for a verdict."""
FEWEST_SCORES = 6
"""Boots of each kernel below which no interval is given."""


@dataclass(frozen=True)
class UnpairedEffect:
    """Second ÷ first; limits and p-value are None where there are too few."""

    ratio: float | None
    lo: float | None
    hi: float | None
    p_value: float | None


def between_runs(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> UnpairedEffect:
    """From one positive score (a median) for each run, on the log scale.

    Welch's t interval (Welch 1947): the two kernels may spread differently.
    """
    a, b = _logs(first), _logs(second)
    if not len(a) or not len(b):
        return UnpairedEffect(None, None, None, None)
    difference = float(b.mean() - a.mean())
    if min(len(a), len(b)) < FEWEST_RUNS:
        return UnpairedEffect(math.exp(difference), None, None, None)
    from scipy.special import stdtr, stdtrit

    variances = [float(np.var(each, ddof=1)) / len(each) for each in (a, b)]
    error = math.sqrt(sum(variances))
    if error == 0.0:
        # All runs of a kernel agree to the last digit: no spread to judge by.
        return UnpairedEffect(math.exp(difference), None, None, None)
    freedom = sum(variances) ** 2 / sum(
        variance**2 / (len(each) - 1) for variance, each in zip(variances, (a, b), strict=True)
    )
    half = float(stdtrit(freedom, 0.5 + confidence / 2.0)) * error
    p_value = 2.0 * float(stdtr(freedom, -abs(difference) / error))
    low, high = math.exp(difference - half), math.exp(difference + half)
    return UnpairedEffect(math.exp(difference), low, high, p_value)


def within_runs(first: ArrayLike, second: ArrayLike, confidence: float = 0.95) -> UnpairedEffect:
    """From all scores of two kernels: Hodges and Lehmann's shift of the logs, with the interval
    that belongs to the rank sum test (Hollander, Wolfe & Chicken, section 4.3; normal law)."""
    a, b = _logs(first), _logs(second)
    m, n = len(a), len(b)
    if not m or not n:
        return UnpairedEffect(None, None, None, None)
    shifts = np.sort(np.subtract.outer(b, a), axis=None)
    ratio = math.exp(float(np.median(shifts)))
    if min(m, n) < FEWEST_SCORES:
        return UnpairedEffect(ratio, None, None, None)
    from scipy.special import ndtr, ndtri

    mean, sd = m * n / 2.0, math.sqrt(m * n * (m + n + 1) / 12.0)
    cut = math.floor(mean + sd * float(ndtri((1.0 - confidence) / 2.0)) - 0.5)
    above = float((shifts > 0).sum() + 0.5 * (shifts == 0).sum())
    p_value = min(1.0, 2.0 * float(ndtr(-(abs(above - mean) - 0.5) / sd)))
    if cut < 0:
        return UnpairedEffect(ratio, None, None, p_value)
    low, high = math.exp(float(shifts[cut])), math.exp(float(shifts[m * n - 1 - cut]))
    return UnpairedEffect(ratio, low, high, p_value)


def _logs(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64)
    return np.asarray(np.log(values[np.isfinite(values) & (values > 0)]), dtype=np.float64)
