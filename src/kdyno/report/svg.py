# SPDX-License-Identifier: MIT
"""The dot chart of all variants as one SVG, for papers, slides and pages."""

from __future__ import annotations

from kdyno.report import drawings
from kdyno.report.evidence import Evidence
from kdyno.store.verdict import Verdict

NAME = "svg"
HELP = "the dot chart of effects with intervals, as a drawing"
SUFFIX = ".svg"


def export(verdict: Verdict) -> str:
    """One panel per variant; without any figure, the words that there is none."""
    return str(drawings.picture("effects", Evidence(verdict), "svg"))
