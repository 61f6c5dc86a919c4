# SPDX-License-Identifier: MIT
"""What a case wants made once, before and outside of every measurement."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

from kdyno import whole
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
    with whole.locked(folder.parent / ".lock"):
        if folder.is_dir():
            return folder
        told(f"preparing {case.suite} once")
        with whole.folder(folder) as aside:
            _fill(case, command, shared, places, folder, aside)
    return folder


def _fill(
    case: Case,
    command: tuple[str, ...],
    shared: tuple[tuple[Path, str], ...],
    places: Mapping[str, str],
    folder: Path,
    aside: Path,
) -> None:
    """Runs the command with ``aside`` to write into; its log lies beside ``folder``."""
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
        last = " / ".join(lines[-4:])
        raise ToolError(f"{case.suite}: preparing it failed: {last}. All of it: {log}")


def _digest(command: tuple[str, ...], shared: tuple[tuple[Path, str], ...]) -> str:
    """Both folders are named by a digest of what is in them, so their paths say enough."""
    parts = [*command, *(f"{name}={path}" for path, name in shared)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
