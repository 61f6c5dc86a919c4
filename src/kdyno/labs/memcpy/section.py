# SPDX-License-Identifier: MIT
"""Curves of the memory routines, where a bench lies in the run's folder."""

from __future__ import annotations

from kdyno.errors import KdynoError
from kdyno.labs.memcpy import curves, tables
from kdyno.labs.memcpy.results import stored_bench
from kdyno.report import plain
from kdyno.report.evidence import Evidence
from kdyno.report.show.html import Html, join, tag

ORDER = 70
ID = "routines"
TITLE = "Memory routines"
SLOW = True
TIP = "Time per call by size, both axes logarithmic; the ceiling is what the machine can store."


def section(evidence: Evidence) -> Html | None:
    """None without a bench in the run's folder; a damaged one is said so."""
    try:
        bench = stored_bench(evidence.run) if evidence.run is not None else None
    except KdynoError as problem:
        return tag("p", plain.sentence(str(problem)))
    if bench is None:
        return None
    return join([tag("p", tables.answer(bench)), curves.drawings(bench)])
