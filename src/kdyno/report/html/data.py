# SPDX-License-Identifier: MIT
"""The samples as the page's script reads them: for the download and the words at a point."""

from __future__ import annotations

from typing import Any

from kdyno.report import plain
from kdyno.report.evidence import Evidence
from kdyno.store.manifest import CaseInfo


def page_data(evidence: Evidence) -> dict[str, Any]:
    """Boots once, scores by case: ``scores[case][boot]`` is a number or null.

    Nine significant digits: a clock that ticks in nanoseconds has no more to say about a case.
    """
    variants = {name: at for at, name in enumerate(evidence.variants)}
    kinds = list(dict.fromkeys(kind for boot in evidence.boots for kind in boot.disturbed))
    boots = [
        [
            boot.index,
            boot.block,
            variants[boot.variant],
            boot.started_at,
            [kinds.index(kind) for kind in boot.disturbed],
        ]
        for boot in evidence.boots
    ]
    cases = measured_cases(evidence)
    rows: dict[tuple[str, str], list[float | None]] = {
        (case.suite, case.case): [None] * len(boots) for case in cases
    }
    for case, _, points in evidence.cells:
        for point in points:
            rows[case.suite, case.case][point.boot.position] = float(f"{point.score:.9g}")
    return {
        "run": plain.name(evidence.name),
        "variants": [plain.name(variant) for variant in variants],
        "kinds": [plain.name(kind) for kind in kinds],
        "boots": boots,
        "cases": [
            [*map(plain.name, (case.suite, case.case, case.unit)), case.better] for case in cases
        ],
        "scores": list(rows.values()),
    }


def measured_cases(evidence: Evidence) -> list[CaseInfo]:
    """Those that have scores, in their order; the page's script knows them by their place."""
    return list({(case.suite, case.case): case for case, _, _ in evidence.cells}.values())
