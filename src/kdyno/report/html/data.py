# SPDX-License-Identifier: MIT
"""The samples as the page's script reads them: for the download and the words at a point."""

from __future__ import annotations

from typing import Any

from kdyno.report import plain
from kdyno.report.evidence import Evidence


def page_data(evidence: Evidence) -> dict[str, Any]:
    """Boots once, scores by case: ``scores[case][boot]`` is a number or null.

    Nine significant digits: a clock that ticks in nanoseconds has no more to say about a case.
    """
    variants = list(evidence.variants)
    kinds = list(dict.fromkeys(kind for boot in evidence.boots for kind in boot.disturbed))
    boots = [
        [
            boot.index,
            boot.block,
            variants.index(boot.variant),
            boot.started_at,
            [kinds.index(kind) for kind in boot.disturbed],
        ]
        for boot in evidence.boots
    ]
    cases = [case for case in evidence.cases if _has_points(evidence, case.suite, case.case)]
    scores: list[list[float | None]] = []
    for case in cases:
        row: list[float | None] = [None] * len(boots)
        for variant in variants:
            for point in evidence.points.get((case.suite, case.case, variant), ()):
                row[point.boot.position] = float(f"{point.score:.9g}")
        scores.append(row)
    return {
        "run": plain.name(evidence.name),
        "variants": [plain.name(variant) for variant in variants],
        "kinds": [plain.name(kind) for kind in kinds],
        "boots": boots,
        "cases": [
            [*map(plain.name, (case.suite, case.case, case.unit)), case.better] for case in cases
        ],
        "scores": scores,
    }


def _has_points(evidence: Evidence, suite: str, case: str) -> bool:
    return any((suite, case, variant) in evidence.points for variant in evidence.variants)
