# SPDX-License-Identifier: MIT
"""Holm's correction for many effects in one run, for tests and for the intervals beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .signedrank import Floats


def step_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """Significance level of each effect's corrected interval, in the order given.

    Holm (1979): the i-th smallest of m p-values is tested at alpha/(m − i + 1), until the first
    that fails. An effect's interval has the level of its own step; from the first failure on,
    all have the level of the step that failed ("Holm on the range", Serlin 1993; Ludbrook 2000).
    So an interval leaves 1 out exactly when Holm's procedure rejects, and the chance of any
    false "faster" or "slower" in a run is at most alpha, however the effects depend on each
    other. What this does not promise: that all intervals of a run cover their true ratios at
    once with 1 − alpha. For that every interval would need alpha/m (Bonferroni).
    """
    m = len(p_values)
    levels = [0.0] * m
    failed_level: float | None = None
    for step, index in enumerate(sorted(range(m), key=lambda i: (p_values[i], i))):
        level = alpha / (m - step)
        # The same slack as in signedrank.critical_rank, or test and interval part at a tie.
        if failed_level is None and p_values[index] > level * (1.0 + 1e-9):
            failed_level = level
        levels[index] = level if failed_level is None else failed_level
    return levels


def adjusted(p_values: Sequence[float]) -> list[float]:
    """The least alpha at which ``step_levels`` would reject each, in the order given; at most 1."""
    m, most = len(p_values), 0.0
    found = [1.0] * m
    for step, index in enumerate(sorted(range(m), key=lambda i: (p_values[i], i))):
        most = max(most, (m - step) * p_values[index])
        found[index] = min(1.0, most)
    return found


def lord_level(discoveries: Sequence[bool], alpha: float = 0.05) -> float:
    """Level of the next test of an endless series, after tests that were discoveries or not.

    LORD++ (Ramdas, Yang, Wainwright & Jordan 2017): of all discoveries at most alpha are false on
    average, however many tests there are. Each discovery earns alpha for later tests, and the level
    falls while there are none.
    """

    def part(tests: int) -> float:
        size = math.log(tests)
        return 0.0722 * max(size, math.log(2.0)) / (tests * math.exp(math.sqrt(size)))

    now = len(discoveries) + 1
    since = [now - at for at, found in enumerate(discoveries, 1) if found]
    first = alpha / 2
    level = first * part(now) + sum(alpha * part(tests) for tests in since[1:])
    return level + (alpha - first) * part(since[0]) if since else level


def rejected(p_values: Floats, alpha: float) -> NDArray[np.bool_]:
    """Holm's rejections along the last axis; shape (…, m) of p-values gives the same shape."""
    m = p_values.shape[-1]
    order = np.argsort(p_values, axis=-1, kind="stable")
    ordered = np.take_along_axis(p_values, order, axis=-1)
    passed = ordered <= alpha / (m - np.arange(m)) * (1.0 + 1e-9)
    result = np.empty(p_values.shape, dtype=np.bool_)
    np.put_along_axis(result, order, np.logical_and.accumulate(passed, axis=-1), axis=-1)
    return result
