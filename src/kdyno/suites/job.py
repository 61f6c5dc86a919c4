# SPDX-License-Identifier: MIT
"""The job that a guest is given: which cases to run, how long, in which order."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CaseJob:
    """One case as the guest program runs it. Exactly one of seconds, operations is set."""

    suite: str
    case: str
    bench: str
    """Name of a native benchmark of the guest program; ``run`` for any command line."""
    args: tuple[str, ...] = ()
    seconds: float | None = 0.5
    operations: int | None = None
    timeout_s: float = 60.0


@dataclass(frozen=True)
class Job:
    """Everything one boot does. ``cases`` may be empty: boot, say hello, power off."""

    cases: tuple[CaseJob, ...] = ()
    sysctl: tuple[tuple[str, str], ...] = ()
