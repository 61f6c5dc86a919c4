# SPDX-License-Identifier: MIT
"""Levels of variance: rounds within a group, groups within a link or a machine, all in a run.

The group is the unit of replication; its rounds only make its value better. Kalibera & Jones,
Rigorous benchmarking in reasonable time (ISMM 2013), have the variances of such levels and the
number of repetitions that costs least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .effect import FEWEST_BLOCKS, Floats, bounds, walsh_averages

_MAD_TO_SD = 1.4826
"""Of a normal distribution."""
_LEAST_GROUPS = 4
_AT_ONCE = 256
"""Groups whose means of two are in memory together."""


def locations(values: ArrayLike) -> Floats:
    """Pseudomedian of a group's log ratios, the median of all means of two of them, along the last
    axis: shape (…, rounds) to (…).

    Heavy tails do not move it (up to 29 % of the rounds may be anything) and it wastes less than
    the median (Hodges & Lehmann 1963)."""
    return np.asarray(np.median(walsh_averages(np.asarray(values, dtype=np.float64)), axis=-1))


def errors(values: ArrayLike) -> Floats:
    """Standard error of ``locations`` along the last axis, by its rounds alone: from the width of
    its signed-rank interval, which knows the tails. From standard deviations where six rounds are
    too many to ask for."""
    array = np.asarray(values, dtype=np.float64)
    count = array.shape[-1]
    limits = bounds(walsh_averages(array), count, 0.95) if count >= FEWEST_BLOCKS else None
    if limits is None:
        return np.asarray(_sds(array) / math.sqrt(count))
    return np.asarray((limits[1] - limits[0]) / (2 * 1.96))


def locations_of(groups: Sequence[Floats]) -> Floats:
    """``locations`` of each, shape (groups,). Those with the same number of rounds at once: a call
    for each would cost ten times as much."""
    return _each(groups, locations)


def errors_of(groups: Sequence[Floats]) -> Floats:
    """``errors`` of each, shape (groups,); NaN of a single round."""
    return _each(groups, lambda own: errors(own) if own.shape[-1] > 1 else own[:, 0] * np.nan)


def between(values: Floats, off: Floats) -> float:
    """Standard deviation of groups beyond what their own ``errors`` explain."""
    return math.sqrt(max(0.0, float(_sds(values)) ** 2 - float(np.median(off**2))))


def precisions(values: Floats, off: Floats) -> Floats:
    """Weights of groups, 1 ÷ what each is off by: ``between`` and its own error together.

    values, off: shape (groups,), NaN where there is none; that counts as the middle one. No error
    counts as less than half of the middle one: what few rounds agree on is itself an accident."""
    finite = np.isfinite(values) & np.isfinite(off)
    if np.count_nonzero(finite) < FEWEST_BLOCKS:
        return np.ones_like(values)
    middle = float(np.median(off[finite]))
    own = np.maximum(np.where(finite, off, middle), middle / 2)
    total = np.hypot(between(values[finite], off[finite]), own)
    return np.asarray(1.0 / total if (total > 0).all() else np.ones_like(total))


def _each(groups: Sequence[Floats], work: Callable[[Floats], Floats]) -> Floats:
    """``work``, which takes (groups, rounds) to (groups,), on groups of any numbers of rounds."""
    result = np.empty(len(groups))
    sizes: dict[int, list[int]] = {}
    for at, group in enumerate(groups):
        sizes.setdefault(group.size, []).append(at)
    for places in sizes.values():
        for begin in range(0, len(places), _AT_ONCE):
            some = places[begin : begin + _AT_ONCE]
            result[some] = work(np.stack([groups[at] for at in some]))
    return result


@dataclass(frozen=True)
class Spread:
    """Standard deviations of log ratios, robust against outliers."""

    within: float
    """Of one round within its group."""
    between: float
    """Of groups, beyond what their rounds explain: boots of one kernel do differ."""
    of_group: float
    """Of a group's value, as it is: both together."""
    rounds: float
    """Mean number of rounds in a group."""
    error: float
    """Of a group's value by its rounds alone; more than ``within`` says where tails are heavy."""


def spread(groups: Sequence[ArrayLike]) -> Spread | None:
    """From the rounds' log ratios of each group; None with fewer than four groups."""
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    arrays = [group for group in arrays if group.size >= 2]
    if len(arrays) < _LEAST_GROUPS:
        return None
    values, off = locations_of(arrays), _each(arrays, errors)
    within, error = (math.sqrt(np.median(own**2)) for own in (_each(arrays, _sds), off))
    count = float(np.mean([group.size for group in arrays]))
    return Spread(within, between(values, off), float(_sds(values)), count, error)


@dataclass(frozen=True)
class Nested:
    """What values of groups within links differ by, on the log scale."""

    links: int
    between: float
    """Standard deviation of links, beyond what their groups explain; with one group of each link,
    of both together."""
    within: float | None
    """Of groups within a link; None with one group of each."""
    further: float
    """|value| that one link more exceeds in one case of twenty by chance, or in fewer."""
    worst: float
    """The mean of the link that lies farthest from 0."""
    worst_alone: bool
    """Its own groups say that it is not 0."""


def nested(values: ArrayLike, links: ArrayLike) -> Nested | None:
    """Components of variance of one value a group; None with fewer than two links.

    values, links: shape (groups,), the second says which link a group had. Analysis of variance of
    one random factor, unbalanced (Searle, Casella & McCulloch, Variance Components, section 3.6).
    """
    from scipy.special import stdtrit

    array, labels = np.asarray(values, dtype=np.float64), np.asarray(links)
    _names, place, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    k, n = len(sizes), len(array)
    if k < 2:
        return None
    means = np.bincount(place, array) / sizes
    between = float(np.sum(sizes * (means - array.mean()) ** 2) / (k - 1))
    within, free = None, n - k
    if free:
        within = float(np.sum((array - means[place]) ** 2) / free)
        between = max(0.0, between - within) / ((n - np.sum(sizes**2) / n) / (k - 1))
    at = int(np.argmax(np.abs(means)))
    alone = False
    if within is not None and sizes[at] > 1:
        reach = float(stdtrit(free, 1 - 0.025 / k)) * math.sqrt(within / sizes[at])
        alone = abs(float(means[at])) > reach
    return Nested(
        links=k,
        between=math.sqrt(between),
        within=None if within is None else math.sqrt(within),
        # With what their groups leave open, so that few groups promise no little.
        further=float(stdtrit(k - 1, 0.975)) * float(np.std(means, ddof=1)),
        worst=float(means[at]),
        worst_alone=alone,
    )


def machine_spread(groups: Sequence[Sequence[Floats]]) -> float | None:
    """Standard deviation of what the variants of a round have in common, robust; log scale.

    groups: for each group the log speeds of every variant, shape (variants, rounds). Both parts
    together: rounds within a group, and groups among each other. None with fewer than four groups.
    """
    alike: dict[tuple[int, int], list[Floats]] = {}
    for group in groups:
        count = min(len(logs) for logs in group)
        if count >= 2:
            stacked = np.stack([logs[:count] for logs in group])
            alike.setdefault(stacked.shape, []).append(stacked)
    if sum(map(len, alike.values())) < _LEAST_GROUPS:
        return None
    within, levels = [], []
    for logs in map(np.stack, alike.values()):
        middle = np.median(logs, axis=-1, keepdims=True)
        within.append(_sds((logs - middle).mean(axis=1)))
        levels.append(middle.mean(axis=(1, 2)))
    within_sd = float(np.median(np.concatenate(within)))
    return math.hypot(within_sd, float(_sds(np.concatenate(levels))))


@dataclass(frozen=True)
class Heterogeneity:
    """Whether an effect is the same on all machines that it was measured on."""

    p_value: float
    i_squared: float
    """0 to 1: the share of the scatter between strata beyond what their own spread explains."""


def heterogeneity(strata: Sequence[Floats]) -> Heterogeneity | None:
    """Of the log ratios of each machine's groups, shape (groups,) each.

    Machines with fewer than six groups, or without any spread, cannot tell and are left out; None
    where fewer than two are left. The test is that of Alexander & Govern (A New and Simpler
    Approximation for ANOVA Under Variance Heterogeneity, J. Educational Statistics 19, 1994), which
    takes means with unequal, estimated variances as they are. Cochran's Q (Biometrics 10, 1954)
    takes the variances for known and says "differs" of 16 equal machines with 6 to 20 groups
    each in 18 % of the cases instead of 5 %; see benchmarks/strata.py. I² is Higgins & Thompson's
    (Statistics in Medicine 21, 2002), of A in place of Q."""
    usable = [own for own in strata if len(own) >= FEWEST_BLOCKS and np.ptp(own) > 0]
    if len(usable) < 2:
        return None
    from scipy.stats import alexandergovern

    test = alexandergovern(*usable)
    statistic = float(test.statistic)
    beyond = statistic - (len(usable) - 1)
    i_squared = max(0.0, beyond / statistic) if statistic > 0 else 0.0
    return Heterogeneity(float(test.pvalue), i_squared)


def best_rounds(spread: Spread, group_s: float, round_s: float) -> float:
    """The number of rounds a group that gives the narrowest interval in a given time.

    group_s: what a group costs beside its rounds (starting guests, calibration), this case's
    share; round_s: one round of all variants. Infinite where groups do not differ at all.
    Depends on spreads and prices, never on what the effect is."""
    if spread.between == 0:
        return math.inf
    return math.sqrt(group_s / round_s * spread.rounds) * spread.error / spread.between


def _sds(values: Floats) -> Floats:
    """From the median absolute deviation, along the last axis; the plain one where half the values
    are the same."""
    middle = np.median(values, axis=-1, keepdims=True)
    mad = np.median(np.abs(values - middle), axis=-1)
    plain = np.std(values, axis=-1, ddof=1)
    return np.asarray(np.where(mad > 0, _MAD_TO_SD * mad, plain))
