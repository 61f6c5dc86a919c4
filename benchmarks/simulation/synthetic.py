# SPDX-License-Identifier: MIT
"""Noise for simulated experiments: what one unchanged kernel scores, boot after boot.

A ``Draw`` gives log scores of shape (experiments, boots, cases), boots in order of time. Sizes
are standard deviations of log scores, so 0.015 is about 1.5 %.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from kdyno.stats.effect import Floats

Draw = Callable[[Generator, int, int], Floats]

CASES = 3
"""Cases of a synthetic source."""

_SHARED = 0.5
"""Share of a boot's variance that all its cases have in common."""


def resampled(log_scores: Floats, mean_run: float = 8.0) -> Draw:
    """Recorded boots, shape (boots, cases), drawn again in runs of neighbouring boots.

    Stationary bootstrap (Politis & Romano 1994): runs of random length, on average
    ``mean_run`` boots, from random places of the recording, joined end to end (the recording's
    end joins its start). All cases of a boot stay together, so drift, autocorrelation, tails
    and what the cases have in common survive.
    """
    recorded = len(log_scores)

    def draw(rng: Generator, experiments: int, boots: int) -> Floats:
        places = rng.integers(recorded, size=(experiments, boots))
        jumps = rng.random((experiments, boots)) < 1.0 / mean_run
        jumps[:, 0] = True
        turns = np.arange(boots)
        since = turns - np.maximum.accumulate(np.where(jumps, turns, 0), axis=1)
        start = np.take_along_axis(places, turns - since, axis=1)
        return np.asarray(log_scores[(start + since) % recorded], dtype=np.float64)

    return draw


def _boots(rng: Generator, experiments: int, boots: int) -> Floats:
    """Standard normal, cases of one boot correlated."""
    shared = rng.standard_normal((experiments, boots, 1))
    own = rng.standard_normal((experiments, boots, CASES))
    return np.asarray(_SHARED**0.5 * shared + (1.0 - _SHARED) ** 0.5 * own, dtype=np.float64)


def normal(sd: float = 0.015) -> Draw:
    """Independent normal boots."""
    return lambda rng, experiments, boots: sd * _boots(rng, experiments, boots)


def heavy_lower_tail(sd: float = 0.008, share: float = 0.15, loss: float = 0.04) -> Draw:
    """Normal boots, of which ``share`` are disturbed and lose an exponential ``loss`` more."""

    def draw(rng: Generator, experiments: int, boots: int) -> Floats:
        shape = (experiments, boots, CASES)
        lost = (rng.random(shape) < share) * rng.exponential(loss, shape)
        return np.asarray(sd * _boots(rng, experiments, boots) - lost, dtype=np.float64)

    return draw


def drifting(
    sd: float = 0.015, autocorrelation: float = 0.4, slope_per_boot: float = 0.0005
) -> Draw:
    """Autocorrelated boots (AR(1)) on a machine that slows down by 0.05 % at every boot."""

    def draw(rng: Generator, experiments: int, boots: int) -> Floats:
        fresh = _boots(rng, experiments, boots)
        scores = np.empty_like(fresh)
        scores[:, 0] = fresh[:, 0]
        keep = (1.0 - autocorrelation**2) ** 0.5
        for boot in range(1, boots):
            scores[:, boot] = autocorrelation * scores[:, boot - 1] + keep * fresh[:, boot]
        fall = slope_per_boot * np.arange(boots)[None, :, None]
        return np.asarray(sd * scores - fall, dtype=np.float64)

    return draw


def two_states(
    sd: float = 0.008, share: float = 0.25, apart: float = -0.08, cases: int = 1
) -> Draw:
    """Boots of which a share is in another state, that far from the first: in all cases at once, as
    where the layout of memory is settled at boot, or with CASES in each by itself. Of few that are
    far off, or of many at even chances, blocks that agree by chance look narrow."""

    def draw(rng: Generator, experiments: int, boots: int) -> Floats:
        state = rng.random((experiments, boots, cases)) < share
        return np.asarray(sd * _boots(rng, experiments, boots) + apart * state, dtype=np.float64)

    return draw
