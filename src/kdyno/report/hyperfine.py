# SPDX-License-Identifier: MIT
"""hyperfine's JSON (``--export-json``), for the scripts that plot and compare such files."""

from __future__ import annotations

import json
import statistics
from typing import Any

from kdyno.report import plain
from kdyno.report.duration import pieces, seconds_each
from kdyno.report.evidence import Evidence, Point
from kdyno.store.manifest import CaseInfo

NAME = "hyperfine"
HELP = "hyperfine's JSON, for its scripts; rates as the time of one operation"
SUFFIX = ".hyperfine.json"


def export_run(evidence: Evidence) -> str:
    """One result per case and variant, one time per boot. What is not a time is left out."""
    results = []
    for case, variant, points in evidence.cells:
        if seconds_each(case, points[0].score) is not None:
            result = _result(case, variant, points)
            if evidence.verdict.outside:
                result["parameters"]["sandbox"] = "none"
            results.append(result)
    return json.dumps({"results": results}, indent=2) + "\n"


def _result(case: CaseInfo, variant: str, points: tuple[Point, ...]) -> dict[str, Any]:
    times_s = [seconds_each(case, point.score) or 0.0 for point in points]
    suite, name = plain.name(case.suite), plain.name(case.case)
    return {
        "command": f"{suite}/{name} on {plain.name(variant)}",
        "mean": statistics.fmean(times_s),
        # hyperfine writes null for a single run.
        "stddev": statistics.stdev(times_s) if len(times_s) > 1 else None,
        "median": statistics.median(times_s),
        "user": _cpu_s(case, points, "user_ns"),
        "system": _cpu_s(case, points, "sys_ns"),
        "min": min(times_s),
        "max": max(times_s),
        "times": times_s,
        "exit_codes": [0] * len(times_s),
        "parameters": {"suite": suite, "case": name, "variant": plain.name(variant)},
    }


def _cpu_s(case: CaseInfo, points: tuple[Point, ...], kind: str) -> float:
    """Mean CPU seconds of the same, by the guest's accounting; 0 where it is unknown."""
    each_s = [
        getattr(point, kind) / 1e9 / pieces(case, point.operations)
        for point in points
        if getattr(point, kind) is not None and point.operations > 0
    ]
    return statistics.fmean(each_s) if each_s else 0.0
