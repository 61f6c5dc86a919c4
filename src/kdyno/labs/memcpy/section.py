# SPDX-License-Identifier: MIT
"""Curves of the memory routines, where a bench lies in the run's folder."""

from __future__ import annotations

from kdyno.errors import KdynoError
from kdyno.labs.memcpy.time import tables
from kdyno.report import plain
from kdyno.report.evidence import Evidence
from kdyno.report.show.markup import Html, join, tag

ORDER = 70
ID = "routines"
TITLE = "Memory routines"
SLOW = True
TIP = "Time per call by size, both axes logarithmic; the ceiling is what the machine can store."


def section(evidence: Evidence) -> Html | None:
    """None without a bench in the run's folder; a damaged one is said so."""
    from kdyno.labs.memcpy.time.page import drawings
    from kdyno.labs.memcpy.time.results import FILE, FOLDER, read_bench

    path = evidence.run.path / FOLDER / FILE if evidence.run is not None else None
    if path is None or not path.is_file():
        return None
    try:
        bench = read_bench(path)
    except KdynoError as problem:
        return tag("p", plain.sentence(str(problem)))
    return join([tag("p", tables.answer(bench)), drawings(bench)])
