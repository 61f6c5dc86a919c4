# SPDX-License-Identifier: MIT
"""kdyno watch: what may be said on its command line. The work is in branch.py, which is imported
when it begins."""

from __future__ import annotations

from dataclasses import dataclass

from kdyno import deferred
from kdyno.verbs.options import Bundle, ExperimentFile, Working, option


@dataclass(frozen=True)
class Request(Bundle):
    """Which branch, and how often; or what is known of it."""

    experiment: ExperimentFile = None
    every: str | None = option(
        "--every TIME", "Repeat at this interval, such as 30m, 6h or 1d; default: once.", None
    )
    junit: str | None = option("--junit FILE", "Write what is new as JUnit XML; - is stdout.", None)
    list_: bool = option(
        "--list", "List the differences on watched branches, measuring nothing.", False
    )
    acknowledge: str | None = option(
        "--acknowledge ID", "Mark a difference as known to a person.", None
    )


_watch = deferred("kdyno.cli.branch:watch")


def watch(request: Request, working: Working) -> int:
    """Measure new commits of a branch, and report each difference once.

    Examples:
      kdyno watch nightly.toml
      kdyno watch nightly.toml --every 6h
      kdyno watch --list
      kdyno watch --acknowledge 1f0c9a77d2
    """
    status: int = _watch(request, working)
    return status


VERBS = {"watch": watch}
