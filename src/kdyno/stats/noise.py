# SPDX-License-Identifier: MIT
"""What tells noise from effects: the floor, drift while a run goes on, and negative controls.

A control is a case that does not depend on the kernel, so it must not move.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from kdyno.stats.effect import PairedEffect
from kdyno.stats.signedrank import Floats
from kdyno.stats.verdict import Judgement

FEWEST_BOOTS_FOR_DRIFT = 10


def noise_floor(copy: PairedEffect) -> float | None:
    """Largest |ratio − 1| that the raw interval of a kernel against its own copy reaches.

    ``copy``: the effect of the A/A copy. A fraction; None when the copy has no interval. A
    precise copy has a small floor: it is what this run could have shown without any cause.
    """
    if copy.lo is None or copy.hi is None:
        return None
    return max(abs(copy.lo - 1.0), abs(copy.hi - 1.0))


@dataclass(frozen=True)
class Drift:
    """How one kernel's scores of one case moved from boot to boot, in order of time."""

    boots: int
    lag1: float
    """Autocorrelation of neighbouring boots' log scores, −1 … 1."""
    change: float
    """Change from the first boot to the last by the Theil-Sen line, as a fraction."""
    trend_p_value: float
    """Mann-Kendall, two-sided, normal approximation."""

    @property
    def drifting(self) -> bool:
        """A trend at the 1 % level; block differences cancel it, boots alone do not."""
        return self.trend_p_value < 0.01


def drift(scores: ArrayLike) -> Drift | None:
    """Drift of one kernel's scores in order of boots; NaN and non-positive ones are left out.

    None with fewer than FEWEST_BOOTS_FOR_DRIFT scores, or when all are the same.
    """
    values = np.asarray(scores, dtype=np.float64)
    usable = np.isfinite(values) & (values > 0)
    logs = np.log(values[usable])
    times = np.flatnonzero(usable).astype(np.float64)
    n = len(logs)
    if n < FEWEST_BOOTS_FOR_DRIFT or float(np.ptp(logs)) == 0.0:
        return None
    centred = logs - logs.mean()
    lag1 = float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())
    slope, p_value = _trend(times, logs)
    return Drift(
        boots=n,
        lag1=lag1,
        change=math.expm1(slope * (times[-1] - times[0])),
        trend_p_value=p_value,
    )


def _trend(times: Floats, logs: Floats) -> tuple[float, float]:
    """Theil-Sen slope and Mann-Kendall p-value (ties corrected)."""
    from scipy.special import ndtr

    n = len(logs)
    first, second = np.triu_indices(n, k=1)
    rises = logs[second] - logs[first]
    slope = float(np.median(rises / (times[second] - times[first])))
    score = float(np.sign(rises).sum())
    ties = np.unique(logs, return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    z = max(0.0, abs(score) - 1.0) / math.sqrt(variance)
    return slope, min(1.0, 2.0 * float(ndtr(-z)))


@dataclass(frozen=True)
class Controls:
    """What a run's controls say about the machine and the images' layout.

    Positions are those of the sequence given.
    """

    moved: tuple[int, ...]
    """Controls called faster or slower: layout, frequency or the machine changed."""
    moved_and_matter: tuple[int, ...]
    """Of these, the ones whose interval is not inside ±equivalent."""


def read_controls(controls: Sequence[Judgement]) -> Controls:
    """Sorts the judgements of the negative controls, taken from a ``judge`` over the whole run.

    They are judged in the same family as all other effects, so a run without any cause moves a
    control, or anything else, with at most alpha.
    """
    moved = [index for index, each in enumerate(controls) if each.word in ("faster", "slower")]
    return Controls(
        moved=tuple(moved),
        moved_and_matter=tuple(index for index in moved if not controls[index].equivalent_too),
    )
