# SPDX-License-Identifier: MIT
"""Groups of guests that take turns: one value a group, and how many rounds are worth their time.

Two levels: rounds within a group, groups within a run. The group is the unit of replication; its
rounds only make its value better. Kalibera & Jones, Rigorous benchmarking in reasonable time (ISMM
2013), have the variances of such levels and the number of repetitions that costs least.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_MAD_TO_SD = 1.4826
"""Of a normal distribution."""
_LEAST_GROUPS = 4


def location(values: ArrayLike) -> float:
    """Pseudomedian of a group's log ratios: the median of all means of two of them.

    values: shape (rounds,), at least one. Heavy tails do not move it (up to 29 % of them may be
    anything) and it wastes less than the median (Hodges & Lehmann 1963).
    """
    return float(locations(values))


def locations(values: ArrayLike) -> NDArray[np.float64]:
    """``location`` along the last axis: shape (…, rounds) to (…)."""
    given = np.asarray(values, dtype=np.float64)
    first, second = np.triu_indices(given.shape[-1])
    return np.asarray(np.median((given[..., first] + given[..., second]) / 2, axis=-1))


@dataclass(frozen=True)
class Spread:
    """Standard deviations of log ratios, robust against outliers."""

    within: float
    """Of one round within its group."""
    between: float
    """Of groups, beyond what their rounds explain: boots of one kernel do differ."""
    of_value: float
    """Of a group's value, as it is: both together."""
    rounds: float
    """Mean number of rounds in a group."""


def spread(groups: Sequence[ArrayLike]) -> Spread | None:
    """From the rounds' log ratios of each group; None with fewer than four groups."""
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    arrays = [group for group in arrays if group.size >= 2]
    if len(arrays) < _LEAST_GROUPS:
        return None
    values = np.array([location(group) for group in arrays])
    within = math.sqrt(float(np.median([_sd(group) ** 2 for group in arrays])))
    count = float(np.mean([group.size for group in arrays]))
    of_value = _sd(values)
    # The pseudomedian of n normal values has 1.047 times the variance of their mean.
    explained = 1.047 * within**2 / count
    return Spread(within, math.sqrt(max(0.0, of_value**2 - explained)), of_value, count)


def machine_spread(groups: Sequence[Sequence[NDArray[np.float64]]]) -> float | None:
    """Standard deviation of what the variants of a round have in common, robust; log scale.

    groups: for each group the log speeds of every variant, shape (variants, rounds). Both parts
    together: rounds within a group, and groups among each other. None with fewer than four groups.
    """
    within, levels = [], []
    for group in groups:
        count = min(len(logs) for logs in group)
        if count < 2:
            continue
        speeds = np.stack([logs[:count] - np.median(logs[:count]) for logs in group])
        within.append(_sd(speeds.mean(axis=0)))
        levels.append(float(np.mean([np.median(logs[:count]) for logs in group])))
    if len(levels) < _LEAST_GROUPS:
        return None
    return math.hypot(float(np.median(within)), _sd(np.array(levels)))


def best_rounds(found: Spread, group_s: float, round_s: float) -> float:
    """The number of rounds a group that gives the narrowest interval in a given time.

    group_s: what a group costs beside its rounds (starting guests, calibration), this case's
    share; round_s: one round of all variants. Infinite where groups do not differ at all.
    Depends on spreads and prices, never on what the effect is.
    """
    if found.between == 0:
        return math.inf
    return math.sqrt(group_s / round_s) * found.within / found.between


def _sd(values: NDArray[np.float64]) -> float:
    """From the median absolute deviation; the plain one where half the values are the same."""
    middle = np.median(values)
    mad = float(np.median(np.abs(values - middle)))
    return _MAD_TO_SD * mad if mad > 0 else float(np.std(values, ddof=1))
