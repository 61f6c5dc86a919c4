# SPDX-License-Identifier: MIT
"""The three ways in which kdyno itself ends badly. A slow kernel is none of them.

Every message says what happened, where, and what to do next.
"""

from __future__ import annotations


class KdynoError(Exception):
    """Base of what the command line turns into a message and an exit status."""

    exit_status = 1


class UsageError(KdynoError):
    """The person asked for something that cannot be: a bad experiment, flag or file."""

    exit_status = 2


class ToolError(KdynoError):
    """The machine or a program that kdyno needs failed; nothing is known about the kernel."""

    exit_status = 1


class BuildError(KdynoError):
    """A variant's kernel did not build; the text carries the compiler's own lines."""

    exit_status = 1


class Interrupted(KdynoError):
    """Ctrl-C or SIGTERM; the run can be resumed."""

    exit_status = 130
