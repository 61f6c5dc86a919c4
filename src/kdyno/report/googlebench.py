# SPDX-License-Identifier: MIT
"""Google Benchmark's JSON, as its compare.py reads it.

Its tools compare times, less being better. A rate is therefore given as the time of one unit of
work, with the rate itself as a counter beside it; anything else where less is better stands as it
is, called nanoseconds only because the format knows no other unit.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

from kdyno.report import plain
from kdyno.report.duration import seconds_each
from kdyno.report.evidence import Evidence, Point
from kdyno.store.manifest import CaseInfo

NAME = "googlebench"
HELP = "Google Benchmark's JSON: compare.py filters FILE BASELINE VARIANT"
SUFFIX = ".googlebench.json"


def export_run(evidence: Evidence) -> str:
    """Benchmarks are named VARIANT/SUITE/CASE; boots are repetitions."""
    manifest = evidence.manifest
    host = manifest.host if manifest else {}
    context = {
        "date": manifest.created if manifest else "",
        "host_name": "",
        "executable": "kdyno",
        "num_cpus": int(cpus) if isinstance(cpus := host.get("cpus"), int | float) else 1,
        "mhz_per_cpu": 0,
        "cpu_scaling_enabled": False,
        "caches": [],
        "load_avg": [],
        "library_build_type": "release",
        "experiment": plain.name(evidence.verdict.experiment),
        "baseline": plain.name(evidence.verdict.baseline),
        **({"sandbox": "none"} if evidence.verdict.outside else {}),
    }
    benchmarks: list[dict[str, Any]] = []
    places = {name: at for at, name in enumerate(evidence.variants)}
    by_variant = sorted(evidence.cells, key=lambda cell: places[cell[1]])
    for family, (case, variant, points) in enumerate(by_variant):
        name = "/".join(map(_part, (variant, case.suite, case.case)))
        benchmarks += _runs(name, family, case, points)
    return json.dumps({"context": context, "benchmarks": benchmarks}, indent=1) + "\n"


def _runs(
    name: str, family: int, case: CaseInfo, points: tuple[Point, ...]
) -> list[dict[str, Any]]:
    common = {
        "name": name,
        "family_index": family,
        "per_family_instance_index": 0,
        "run_name": name,
        "repetitions": len(points),
        "threads": 1,
    }
    times_ns = [_nanoseconds(case, point) for point in points]
    runs = [
        {
            **common,
            "run_type": "iteration",
            "repetition_index": index,
            "iterations": max(1, round(point.operations)),
            "real_time": time_ns,
            "cpu_time": time_ns,
            "time_unit": "ns",
            plain.name(case.unit): point.score,
        }
        for index, (point, time_ns) in enumerate(zip(points, times_ns, strict=True))
    ]
    middle = statistics.median(times_ns)
    runs.append(
        {
            **common,
            "name": f"{name}_median",
            "run_type": "aggregate",
            "aggregate_name": "median",
            "aggregate_unit": "time",
            "iterations": len(points),
            "real_time": middle,
            "cpu_time": middle,
            "time_unit": "ns",
        }
    )
    return runs


def _nanoseconds(case: CaseInfo, point: Point) -> float:
    each_s = seconds_each(case, point.score)
    if each_s is not None:
        return 1e9 * each_s
    return point.score if case.better == "lower" else 1e9 / point.score


def _part(text: str) -> str:
    return plain.name(text).replace("/", "_")
