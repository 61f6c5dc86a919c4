# SPDX-License-Identifier: MIT
"""Rows as a database gives them, looked at before they are believed.

Whoever may write to a store may write anything: SQLite keeps text where a number belongs, and
PostgreSQL's figures may be NaN. What is odd in one run must not keep the others from being shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from kdyno.store.database.facts import Facts, Kernel
from kdyno.store.samples import Score
from kdyno.store.verdict import RATIO_MOST, SCORE_MOST

ODD = "its row in the store holds what no kdyno writes"
_FIGURES = ("cpus", "memory_bytes")
_COUNTS = ("boots", "damaged", "files", "size_bytes")


def facts(row: Iterable[Any]) -> Facts | None:
    """A row of ``runs``. One that is odd is a damaged run of that name; None: it has no name."""
    it = Facts(*row)
    if not (_texts(it.identity, it.name) and it.name):
        return None
    if _is_sound(it):
        return it
    created, experiment = (text if _texts(text) else "" for text in (it.created, it.experiment))
    return Facts(it.identity, it.name, "", created, experiment, reason=ODD)


def kernel(row: Iterable[Any]) -> Kernel | None:
    """None for one that is odd."""
    found = tuple(row)
    return Kernel(*found) if _texts(*found) else None


def score(row: Iterable[Any]) -> Score | None:
    """None for one without a figure. An interval or a ratio that says nothing is not there."""
    it = Score(*row)
    texts = (it.suite, it.case, it.unit, it.better, it.variant, it.work, it.verdict)
    if not (_texts(*texts) and _within(it.value, SCORE_MOST) and _whole(it.boots)):
        return None
    level = _both(it.low, it.high, SCORE_MOST)
    ratio = _both(it.ratio_low, it.ratio_high, RATIO_MOST)
    if level and ratio and (it.ratio is None or _within(it.ratio, RATIO_MOST)):
        return it
    low, high = (it.low, it.high) if level else (None, None)
    own = it.ratio if _within(it.ratio, RATIO_MOST) else None
    ends = (it.ratio_low, it.ratio_high) if ratio and own is not None else (None, None)
    return Score(*texts[:6], it.boots, it.value, low, high, own, *ends, it.verdict)


def _is_sound(it: Facts) -> bool:
    texts = (value for key, value in vars(it).items() if key not in _OTHERS)
    figures = (getattr(it, key) for key in _FIGURES)
    guest = (it.guest_cpus, it.guest_memory_bytes)
    return (
        _texts(*texts)
        and all(value is None or _is_figure(value) for value in figures)
        and all(value is None or _whole(value) for value in guest)
        and all(_whole(getattr(it, key)) for key in _COUNTS)
        and isinstance(it.counts, dict)
        and _texts(*it.counts)
        and all(map(_whole, it.counts.values()))
        and isinstance(it.judged, bool)
        and isinstance(it.outside, bool)
    )


_OTHERS = {*_FIGURES, *_COUNTS, "guest_cpus", "guest_memory_bytes", "counts", "judged", "outside"}


def _texts(*values: Any) -> bool:
    return set(map(type, values)) <= {str}


def _whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_figure(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _within(value: Any, most: float) -> bool:
    return type(value) in (int, float) and 1 / most <= value <= most


def _both(low: Any, high: Any, most: float) -> bool:
    """An interval, or none."""
    if low is None or high is None:
        return low is None and high is None
    return _within(low, most) and _within(high, most) and low <= high
