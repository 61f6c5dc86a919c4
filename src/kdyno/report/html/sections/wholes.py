# SPDX-License-Identifier: MIT
"""Effects on groups of cases."""

from __future__ import annotations

from kdyno.report import wholes
from kdyno.report.evidence import Evidence
from kdyno.report.show.html import headed_table
from kdyno.report.show.markup import Html, join, tag

ORDER = 17
TITLE = "Groups"
TIP = (
    "Some suites, such as XBench, combine cases to groups. A group is compared within blocks, as "
    "its cases are, so it has an interval and a verdict."
)


def section(evidence: Evidence) -> Html | None:
    grid = wholes.grid(evidence.verdict)
    if grid is None:
        return None
    return join([headed_table(grid), tag("p", f"{wholes.NOTE}.", class_="legend")])
