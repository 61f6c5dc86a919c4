# SPDX-License-Identifier: MIT
"""Text that people see, held against a file. ``KDYNO_GOLDEN=write`` writes the files anew: read
the difference then, and commit it."""

from __future__ import annotations

import os
from pathlib import Path


def held(path: Path, result: str) -> None:
    """``result`` is what the file says, byte for byte."""
    if os.environ.get("KDYNO_GOLDEN") == "write":
        path.write_text(result, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == result
