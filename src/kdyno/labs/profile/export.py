# SPDX-License-Identifier: MIT
"""The run's profile for speedscope, a viewer of flame graphs that runs in a browser."""

from __future__ import annotations

from kdyno.errors import UsageError
from kdyno.labs.profile.record import stored_profiles
from kdyno.labs.profile.stacks import speedscope
from kdyno.report.evidence import Evidence

NAME = "speedscope"
HELP = "the profile of every kernel, for the viewer speedscope"
SUFFIX = ".speedscope.json"


def export_run(evidence: Evidence) -> str:
    """UsageError where the run was not profiled; a bare verdict gives a file without profiles."""
    if evidence.run is None:
        return speedscope({}) + "\n"
    found = stored_profiles(evidence.run)
    if not found:
        raise UsageError(f"{evidence.name} has no profile; `kdyno profile RUN` makes one")
    return speedscope(found) + "\n"
