# SPDX-License-Identifier: MIT
"""Scores as seconds, for formats that know nothing else."""

from __future__ import annotations

from kdyno.store.manifest import CaseInfo

_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "μs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "s/run": 1.0,
    "seconds": 1.0,
    "min": 60.0,
    "h": 3600.0,
}


_RATES = {"/s": 1.0, "/min": 60.0}
"""How a rate's unit ends → seconds that it counts over."""


def seconds_each(case: CaseInfo, score: float) -> float | None:
    """A duration in seconds; for a rate, the time of one. None: it is neither."""
    if case.better == "lower":
        factor = _SECONDS.get(case.unit)
        return None if factor is None else factor * score
    over_s = _over(case.unit)
    return None if over_s is None else over_s / score


def pieces(case: CaseInfo, operations: float) -> float:
    """How many of what ``seconds_each`` tells the time of, behind this many operations."""
    if case.better == "lower":
        return operations / (case.scale * _SECONDS.get(case.unit, 1.0))
    return operations * case.scale / (_over(case.unit) or 1.0)


def _over(unit: str) -> float | None:
    return next((over_s for end, over_s in _RATES.items() if unit.endswith(end)), None)
