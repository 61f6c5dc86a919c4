# SPDX-License-Identifier: MIT
"""Disks that are full, or too small for what is to come: who is told what."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kdyno.errors import ToolError

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The system's words for a disk, or somebody's share of it, that is full."""
PARTIAL = ".partial-"
"""How the name of a folder begins that is gone when a message about it is read."""
_ELSEWHERE = "KDYNO_CACHE names another cache folder"


def no_space(path: Path, needed_bytes: int | None = None) -> str:
    """What a person has to know of a full disk: which folder, how much is free and needed."""
    there = path if path.is_dir() else path.parent
    while there != there.parent and (
        not there.exists() or any(part.startswith(PARTIAL) for part in there.parts)
    ):
        there = there.parent
    try:
        free = _amount(shutil.disk_usage(there).free)
    except OSError:
        free = "nothing"
    needed = f", about {_amount(needed_bytes)} needed" if needed_bytes is not None else ""
    return f"no space left in {there} ({free} free{needed}, or a quota or limit is reached)"


def require(where: Path, needed_bytes: int) -> None:
    """ToolError, before the work, where the cache's folder has fewer bytes free."""
    there = where
    while not there.exists() and there != there.parent:
        there = there.parent
    if shutil.disk_usage(there).free < needed_bytes:
        raise ToolError(f"{no_space(where, needed_bytes)}. Free some; {_ELSEWHERE}")


@contextmanager
def told(path: Path, needed_bytes: int | None = None) -> Iterator[None]:
    """A full disk at ``path`` becomes a ToolError that says which and how much."""
    try:
        yield
    except OSError as problem:
        if problem.errno not in NO_SPACE:
            raise
        raise ToolError(f"{path}: not written: {no_space(path, needed_bytes)}") from problem


@contextmanager
def told_of_cache(where: Path, needed_bytes: int | None = None) -> Iterator[None]:
    """A full, read-only or broken disk below ``where`` becomes a ToolError with the way out."""
    try:
        yield
    except OSError as problem:
        full = problem.errno in NO_SPACE
        broken = f"cannot write or read {problem.filename or where}: {problem.strerror}"
        said = f"{no_space(where, needed_bytes)}. Free some" if full else broken
        raise ToolError(f"{said}; {_ELSEWHERE}") from problem


def _amount(size_bytes: int) -> str:
    if size_bytes < 1_000_000:
        return f"{size_bytes / 1e3:,.0f} kB"
    return f"{size_bytes / 1e6:,.0f} MB"
