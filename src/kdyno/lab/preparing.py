# SPDX-License-Identifier: MIT
"""What a case wants made once, before and outside of every measurement."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from kdyno.command import stream
from kdyno.errors import ToolError
from kdyno.machines.listening import ENVIRONMENT
from kdyno.sandbox import Sandbox, hand_over
from kdyno.suites.catalogue import Case
from kdyno.suites.wrapping import in_words
from kdyno.views import PREPARE, named


def prepare(
    case: Case,
    shared: tuple[tuple[Path, str], ...],
    places: Mapping[str, str],
    cache: Path,
    told: Callable[[str], None],
) -> Path:
    """The folder that the case's ``prepare`` command filled, made now or found in the cache.

    It runs in the sandbox with everything at the paths that the boots will see it at: what a
    build leaves behind knows its own paths. ToolError with its last lines when it fails.
    """
    command = in_words(case.prepare, places)
    folder = cache / "prepared" / _digest(command, shared)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder
        told(f"preparing {case.suite} once")
        aside = folder.parent / f".{folder.name}.{os.getpid()}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir()
        hand_over(aside, PREPARE)
        argv = Sandbox(
            PREPARE,
            read_only=(*named(command), *((path, places[name]) for path, name in shared)),
            writable=((aside, places["prepared"]),),
        ).argv(list(command))
        lines: list[str] = []
        log = folder.parent / f"{folder.name}.log"
        status = stream(argv, log=log, line=lines.append, env=ENVIRONMENT)
        if status != 0:
            shutil.rmtree(aside, ignore_errors=True)
            last = " / ".join(lines[-4:])
            raise ToolError(f"{case.suite}: preparing it failed: {last}. All of it: {log}")
        aside.rename(folder)
    return folder


def _digest(command: tuple[str, ...], shared: tuple[tuple[Path, str], ...]) -> str:
    """Both folders are named by a digest of what is in them, so their paths say enough."""
    parts = [*command, *(f"{name}={path}" for path, name in shared)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
