# SPDX-License-Identifier: MIT
"""The three ways in which kdyno itself ends badly. A slow kernel is none of them. Every message
says what happened, where, and what to do next."""

from __future__ import annotations

from collections.abc import Sequence


class KdynoError(Exception):
    """Base of what the command line turns into a message and an exit status."""

    exit_status = 1


class UsageError(KdynoError):
    """The person asked for something that cannot be: a bad experiment, flag or file."""

    exit_status = 2

    def __init__(self, text: str, *, key: str = "", mistakes: Sequence[str] = ()) -> None:
        """key: of the experiment file, where the text does not say it. mistakes: one a line, of a
        text that lists several."""
        super().__init__(text)
        self.key = key
        self.mistakes = tuple(mistakes) or (text,)


class ToolError(KdynoError):
    """The machine or a program that kdyno needs failed; nothing is known about the kernel."""


class BuildError(KdynoError):
    """A variant's kernel did not build; the text carries the compiler's own lines."""


class Interrupted(KeyboardInterrupt):
    """SIGTERM; the run can be resumed. As Ctrl-C it is no error: whoever goes on after one of those
    above, with the next run or without a cache, must not go on after this."""

    exit_status = 130


def interruption(problem: BaseException) -> str:
    """Why a run stopped, as its manifest says it."""
    if isinstance(problem, KeyboardInterrupt) and not isinstance(problem, Interrupted):
        return "interrupted by Ctrl-C"
    return f"interrupted: {str(problem) or type(problem).__name__}"
