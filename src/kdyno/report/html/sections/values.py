# SPDX-License-Identifier: MIT
"""The figures of a run that compares nothing."""

from __future__ import annotations

from kdyno.report import values
from kdyno.report.evidence import Evidence
from kdyno.report.show.html import headed_table
from kdyno.report.show.markup import Html

ORDER = 15
TITLE = "Values"
TIP = (
    "One boot of one kernel: the intervals show how steady its repetitions were, not how another "
    "boot would come out."
)


def section(evidence: Evidence) -> Html | None:
    if not evidence.verdict.values:
        return None
    grid = values.grid(evidence.verdict)
    return headed_table(grid)
