# SPDX-License-Identifier: MIT
"""The dot chart as a picture."""

from __future__ import annotations

from kdyno.report import drawings
from kdyno.report.evidence import Evidence

NAME = "png"
HELP = "the same drawing as a picture, two pixels for one"
SUFFIX = ".png"
IS_TEXT = False


def export_run(evidence: Evidence) -> bytes:
    picture = drawings.picture("effects", Evidence(evidence.verdict), "png")
    assert isinstance(picture, bytes)
    return picture
