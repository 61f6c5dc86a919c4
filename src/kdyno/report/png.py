# SPDX-License-Identifier: MIT
"""The dot chart as a picture."""

from __future__ import annotations

from kdyno.report import svg
from kdyno.report.evidence import Evidence

NAME = "png"
HELP = "the same drawing as a picture, two pixels for one"
SUFFIX = ".png"
IS_TEXT = False


def export_run(evidence: Evidence) -> bytes:
    from kdyno.report.charts.vega import png

    return png(svg.export(evidence.verdict))
