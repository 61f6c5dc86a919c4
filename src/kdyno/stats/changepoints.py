# SPDX-License-Identifier: MIT
"""Where a series of scores changes its level: PELT, by the library ruptures. Whether it drifts.

Method: Killick, Fearnhead & Eckley, "Optimal detection of changepoints with a linear computational
cost" (2012); squared error around each segment's mean of the log scores. The spread is taken from
neighbours, so that the steps that are looked for do not count as spread."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from .effect import Floats

PENALTY = 5.0
"""Each further change must lower the squared error by this many variances × ln(points)."""
LEAST_RUN = 3
"""Points between two changes, at least."""
LEAST_POINTS = 2 * LEAST_RUN
SMALLEST_SPREAD = 0.0005
"""Spread that is assumed at least, on the log scale: equal figures are no proof of no noise."""
FEWEST_FOR_DRIFT = 10
"""Boots below which a drift is not looked for."""
SURE = 3.0
"""Standard errors by which the medians on both sides of a change differ, at least. The mean that
PELT looks at follows a single odd run; the median does not."""


@dataclass(frozen=True)
class Segment:
    """Points ``start`` to ``end`` (excluded) on one level; the level is their median score."""

    start: int
    end: int
    level: float


def available() -> bool:
    """ruptures is there; it says itself for which Pythons it is made."""
    return importlib.util.find_spec("ruptures") is not None


def segments(scores: ArrayLike) -> tuple[Segment, ...]:
    """Positive finite scores in time order, cut at the changes; one segment where there is none.

    Too few points, or no ruptures: one segment."""
    values = np.asarray(scores, dtype=np.float64)
    if not len(values):
        return ()
    cuts = [len(values)]
    if len(values) >= LEAST_POINTS and available():
        from ruptures import KernelCPD  # type: ignore[import-untyped]

        signal = (np.log(values) / spread(values)).reshape(-1, 1)
        # The linear kernel is the squared error around the mean, and its PELT is written in C.
        search = KernelCPD(kernel="linear", min_size=LEAST_RUN, jump=1).fit(signal)
        cuts = [int(cut) for cut in search.predict(pen=PENALTY * math.log(len(values)))]
        cuts = _kept(np.log(values), cuts, spread(values))
    return tuple(
        Segment(start, end, float(np.median(values[start:end])))
        for start, end in pairwise([0, *cuts])
    )


def _kept(logs: Floats, cuts: list[int], sigma: float) -> list[int]:
    """Without the cuts that the medians on their sides do not bear out, the weakest first."""
    while len(cuts) > 1:
        ends = [0, *cuts]
        sizes = np.diff(ends)
        levels = [float(np.median(logs[start:end])) for start, end in pairwise(ends)]
        # π/2 is what the median's variance is to the mean's, for normal noise.
        errors = sigma * np.sqrt(math.pi / 2.0 * (1.0 / sizes[:-1] + 1.0 / sizes[1:]))
        sure = np.abs(np.diff(levels)) / errors
        weakest = int(np.argmin(sure))
        if sure[weakest] >= SURE:
            break
        del cuts[weakest]
    return cuts


def spread(scores: ArrayLike) -> float:
    """Standard deviation of the log scores around their level, from differences of neighbours.

    The median of the differences' sizes ÷ 0.6745 is their deviation for normal noise, and √2 times
    that of a single point."""
    steps = np.abs(np.diff(np.log(np.asarray(scores, dtype=np.float64))))
    return max(SMALLEST_SPREAD, float(np.median(steps)) / 0.6745 / math.sqrt(2.0))


@dataclass(frozen=True)
class Drift:
    """How one kernel's scores of one case moved from boot to boot, in order of time."""

    change: float
    """Change from the first boot to the last by the Theil-Sen line, as a fraction."""
    p_value: float
    """Mann-Kendall's, two-sided, normal approximation, ties corrected."""

    @property
    def drifting(self) -> bool:
        """A trend at the 1 % level; block differences cancel it, boots alone do not."""
        return self.p_value < 0.01


def drift(scores: ArrayLike) -> Drift | None:
    """Drift of one kernel's scores in order of boots; NaN and non-positive ones are left out.

    None with fewer than FEWEST_FOR_DRIFT scores, or when all are the same."""
    from scipy.special import ndtr

    values = np.asarray(scores, dtype=np.float64)
    usable = np.isfinite(values) & (values > 0)
    logs, times = np.log(values[usable]), np.flatnonzero(usable).astype(np.float64)
    n = len(logs)
    if n < FEWEST_FOR_DRIFT or float(np.ptp(logs)) == 0.0:
        return None
    first, second = np.triu_indices(n, k=1)
    rises = logs[second] - logs[first]
    slope = float(np.median(rises / (times[second] - times[first])))
    ties = np.unique(logs, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    z = max(0.0, abs(float(np.sign(rises).sum())) - 1.0) / math.sqrt(variance)
    return Drift(math.expm1(slope * (times[-1] - times[0])), min(1.0, 2.0 * float(ndtr(-z))))
