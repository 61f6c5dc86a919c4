# SPDX-License-Identifier: MIT
"""A run as kdyno 0.1.0 left it: its manifest without what that version did not write."""

from __future__ import annotations

import json
from pathlib import Path

NEW = ("machine", "variants", "asked")
NEW_OF_CASES = ("seconds", "work")


def as_0_1_0(run: Path) -> None:
    """Takes the newer keys out of the manifest; says so when one is not there."""
    path = run / "manifest.json"
    data = json.loads(path.read_text())
    for key in NEW:
        del data[key]
    for case in data["cases"]:
        for key in NEW_OF_CASES:
            del case[key]
    path.write_text(json.dumps(data))
