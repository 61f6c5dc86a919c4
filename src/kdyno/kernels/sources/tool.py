# SPDX-License-Identifier: MIT
"""External programs of the fetch: they die with kdyno, speak English, and their errors show."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from kdyno.command import capture, dying_with_us, shown
from kdyno.confined import plain_status
from kdyno.errors import ToolError

_FULL = ("no space left on device", "disk quota exceeded", "file too large", "file size limit")
_KILLED_BY_LIMIT = "terminated by signal 25"
_SHOWN_LINES = 15
_SIGXFSZ = 25
_GITS_PLACES = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"),
        *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE"),
        *("GIT_GRAFT_FILE", "GIT_ATTR_SOURCE", "GIT_CONFIG"),
    )
)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment with untranslated messages and nobody asked for passwords.

    Nothing in it makes another repository git's, as it does for a program that git started.
    """
    return {
        **{name: value for name, value in os.environ.items() if name not in _GITS_PLACES},
        "LC_ALL": "C.UTF-8",
        "LANGUAGE": "",
        "GIT_TERMINAL_PROMPT": "0",
        "DEBIAN_FRONTEND": "noninteractive",
        **(extra or {}),
    }


def refuse_full(status: int, stderr: str) -> None:
    """OSError(ENOSPC) when a program failed because the disk is full."""
    full = any(word in stderr.lower() for word in (*_FULL, _KILLED_BY_LIMIT))
    if full or plain_status(status) == -_SIGXFSZ:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def raise_failure(argv: Sequence[str], status: int, stderr: str) -> None:
    """ToolError with the program's own last lines; OSError(ENOSPC) when the disk is full."""
    refuse_full(status, stderr)
    lines = [line for line in stderr.splitlines() if line.strip()][-_SHOWN_LINES:]
    said = "\n  ".join(lines) if lines else "(it printed nothing)"
    ended = f"status {status}" if status >= 0 else f"signal {-status}"
    raise ToolError(f"`{shown(argv)}` failed with {ended}:\n  {said}")


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    allowed: tuple[int, ...] = (0,),
    called: Sequence[str] | None = None,
) -> bytes:
    """Standard output of a finished program; raises as ``raise_failure`` for other statuses.

    called: what a message calls the command, where that is long.
    """
    ours = dying_with_us(argv)
    done = capture(ours, cwd=cwd, env=environment(env), stdin=stdin, apart=True)
    if done.status not in allowed:
        raise_failure(called or argv, done.status, done.complaint)
    return done.stdout
