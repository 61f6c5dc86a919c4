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


def seconds_each(case: CaseInfo, score: float) -> float | None:
    """A duration in seconds; for a rate per second, the time of one. None: neither."""
    if case.better == "lower":
        factor = _SECONDS.get(case.unit)
        return None if factor is None else factor * score
    return 1.0 / score if case.unit.endswith("/s") else None
