# SPDX-License-Identifier: MIT
"""A group's rounds: why guests take turns."""

from __future__ import annotations

from kdyno.report.charts.time import turns
from kdyno.report.evidence import Evidence
from kdyno.report.html.figure import captioned, drawings
from kdyno.report.show.markup import Html, join

ORDER = 52
TITLE = "Rounds"
TIP = (
    "The case and the group in which the machine’s speed changed most. Above: the speed of each "
    "kernel, turn by turn. Below, on the same scale: its ratio to the baseline within each round, "
    "and the group’s value as a straight line. What is in all lines above is the machine’s doing, "
    "and is gone from the ratios."
)
SLOW = True

WIDTHS_PX = {"wide": 1000, "narrow": 356}


def section(evidence: Evidence) -> Html | None:
    found = turns(evidence)
    if found is None:
        return None
    shown = drawings(WIDTHS_PX, found.chart, found.text)
    return join([captioned(found.title, found.text, shown)])
