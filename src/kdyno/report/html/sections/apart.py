# SPDX-License-Identifier: MIT
"""What counted operations are made of."""

from __future__ import annotations

from kdyno.report import apart
from kdyno.report.evidence import Evidence
from kdyno.report.show.html import headed_table
from kdyno.report.show.markup import Html

ORDER = 24
TITLE = "What an operation is made of"
TIP = "Of the variant, in brackets how many more or fewer than the baseline."


def section(evidence: Evidence) -> Html | None:
    grid = apart.grid(evidence.verdict)
    return None if grid is None else headed_table(grid)
