# SPDX-License-Identifier: MIT
"""Which functions counted differences are in."""

from __future__ import annotations

from kdyno.report import functions
from kdyno.report.evidence import Evidence
from kdyno.report.show.html import headed_table
from kdyno.report.show.markup import Html

ORDER = 25
TITLE = "Instructions by function"
TIP = (
    "Every instruction of a case was counted by its address, in a boot of each kernel of its own. "
    "The rows of a case add up to the whole operation."
)


def section(evidence: Evidence) -> Html | None:
    grid = functions.grid(evidence.verdict)
    return None if grid is None else headed_table(grid)
