# SPDX-License-Identifier: MIT
"""Go's benchmark format, one line per boot and case, for ``benchstat -col variant``.

The format is Go proposal 14313 with the unit lines that golang.org/x/perf/benchfmt reads.
"""

from __future__ import annotations

import re

from kdyno.report import plain
from kdyno.report.evidence import Evidence

NAME = "benchstat"
HELP = "Go's benchmark format, for `benchstat -col variant FILE`"
SUFFIX = ".bench"

# A last "-8" is taken for the number of CPUs and cut off, so fscopy-256 and fscopy-1024 would be
# one benchmark; "/size=8" is how Go writes a parameter.
_LAST_NUMBER = re.compile(r"-(?=\d+$)")
_GAPS = re.compile(r"[\s/]+")


def export_run(evidence: Evidence) -> str:
    """Boots in time order, so that benchstat meets the baseline first and divides by it."""
    verdict = evidence.verdict
    lines = [f"experiment: {plain.name(verdict.experiment)}"]
    # A key of its own keeps benchstat from putting such a run beside another without a word.
    lines += ["sandbox: none"] if verdict.outside else []
    units: dict[str, str] = {}
    for case in evidence.cases:
        units.setdefault(_unit(case.unit), case.better)
    lines += [f"Unit {unit} better={better}" for unit, better in units.items()]
    of: dict[str, list[str]] = {variant: [] for variant in evidence.variants}
    for case, variant, points in evidence.cells:
        suite = _word(case.suite)
        name = f"Benchmark{suite[:1].upper()}{suite[1:]}/{_word(case.case)}"
        for point in points:
            count = max(1, round(point.operations))
            of[variant].append(f"{name} {count} {point.score:.17g} {_unit(case.unit)}")
    for variant, measured in of.items():
        lines += ["", f"variant: {plain.name(variant)}", *measured]
    return "\n".join(lines) + "\n"


def _word(text: str) -> str:
    return _LAST_NUMBER.sub("=", _GAPS.sub("_", plain.name(text)))


def _unit(text: str) -> str:
    return re.sub(r"\s+", "_", plain.name(text))
