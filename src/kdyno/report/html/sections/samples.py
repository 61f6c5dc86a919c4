# SPDX-License-Identifier: MIT
"""The raw samples, to download from the page itself."""

from __future__ import annotations

from kdyno.report import figures
from kdyno.report.evidence import Evidence
from kdyno.report.show.markup import Html, join, tag

ORDER = 95
TITLE = "Samples"


def section(evidence: Evidence) -> Html | None:
    count = sum(map(len, evidence.points.values()))
    if not count:
        return None
    text = (
        f"{figures.count(count, 'score')} of {figures.count(len(evidence.boots), 'boot')}, to nine "
        "digits: one line per boot and case, with block, time and disturbance. The repetitions "
        "within each boot are in the run’s folder (boots/*/samples.jsonl)."
    )
    button = tag("button", "Save samples.csv", type="button", data_samples=True)
    script = tag("noscript", " Saving needs the page’s script.")
    return join([tag("p", text), tag("p", button, script)])
