# SPDX-License-Identifier: MIT
"""Load timelines: how many tasks were runnable while a parallel case ran."""

from __future__ import annotations

from functools import partial

from kdyno.report.charts.time import loads
from kdyno.report.evidence import Evidence
from kdyno.report.html.figure import captioned, drawings
from kdyno.report.show.markup import Html, join, tag

ORDER = 55
TITLE = "Load"
TIP = (
    "Runnable tasks over time, in the boot nearest to the median of its kernel. Where they stay "
    "low, the case waits for itself, and more CPUs or a larger -j would not help."
)
SLOW = True

WIDTHS_PX = {"wide": 400, "narrow": 280}


def section(evidence: Evidence) -> Html | None:
    found = loads(evidence)
    if not found:
        return None
    top = max(load.highest for load in found)
    parts = []
    for load in found:
        chart = partial(load.chart, highest=top)
        parts.append(captioned(load.title, load.text, drawings(WIDTHS_PX, chart, load.text)))
    keys = "Dashed: as many as were asked for (-j). Shaded: fewer than half of that."
    return join([tag("p", keys, class_="legend"), tag("div", parts, class_="pair")])
