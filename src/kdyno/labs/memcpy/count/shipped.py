# SPDX-License-Identifier: MIT
"""The distributions that come with kdyno: ``kernel/distributions/NAME.json``."""

from __future__ import annotations

from pathlib import Path

from kdyno.labs.memcpy.count.distribution import Distribution, read_distribution
from kdyno.paths import data_root

USUAL = "unixbench"


def shipped_folder() -> Path:
    return data_root() / "kernel" / "distributions"


def shipped_distribution(name: str = USUAL) -> Distribution | None:
    """What a kernel was seen to copy under UnixBench; None where none was shipped."""
    path = shipped_folder() / f"{name}.json"
    return read_distribution(path) if path.is_file() else None
