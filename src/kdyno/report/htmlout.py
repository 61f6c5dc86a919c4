# SPDX-License-Identifier: MIT
"""The report as one HTML file that needs no network, no server and no other file."""

from __future__ import annotations

from kdyno.report.evidence import Evidence

NAME = "html"
HELP = "the whole report as one file: charts, tables, every boot, how to do it again"
SUFFIX = ".html"


def export_run(evidence: Evidence) -> str:
    from kdyno.report.page import page

    return page(evidence)
