# SPDX-License-Identifier: MIT
"""Effects by machine and by CPU model."""

from __future__ import annotations

from kdyno.report import strata
from kdyno.report.evidence import Evidence
from kdyno.report.show.html import headed_table
from kdyno.report.show.markup import Html

ORDER = 12
TITLE = "Effects by machine"
TIP = (
    "The run was measured on several machines. Every block lies on one of them, so that a slow "
    "machine biases nothing; whether all have the same effect is tested."
)


def section(evidence: Evidence) -> Html | None:
    grid = strata.grid(evidence.verdict)
    return None if grid is None else headed_table(grid)
