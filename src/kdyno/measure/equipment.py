# SPDX-License-Identifier: MIT
"""What the cases of a run need beside a kernel: programs, a kernel source, a disk."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdyno import whole
from kdyno.command import stream
from kdyno.errors import ToolError
from kdyno.machines.process import ENVIRONMENT
from kdyno.machines.program import programs_folder
from kdyno.sandbox import Sandbox, hand_over
from kdyno.suites.catalogue import Case, in_words
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


_PROGRAMS = "{programs}/"


@dataclass(frozen=True)
class Equipment:
    """The same for every boot of a run."""

    lacking: tuple[str, ...] = ()
    """For each case why it cannot run on this machine; empty where it can."""
    shared: tuple[tuple[Path, str], ...] = ()
    """(folder, name): what a machine shows its cases, read-only."""
    disk_bytes: int = 0
    disk_parent: Path = Path("/var/tmp")


def equip(
    cases: Sequence[Case],
    program: Path,
    tree: Path | None,
    cache: Path,
    places: Mapping[str, str] | None,
    told: Callable[[str], None],
) -> Equipment:
    """Look everything up, and prepare what is to be prepared once.

    program: the guest program. tree: a kernel source, if any. places: where the machine shows
    its cases what they ask for; None where that is not the same in every boot, and then every
    boot prepares for itself. ToolError when not one case can run.
    """
    programs = programs_folder(program)
    lacking = tuple(lacking_for(case, programs, tree) for case in cases)
    if cases and all(lacking):
        raise ToolError(f"no case can run here: {'; '.join(dict.fromkeys(lacking))}")
    shared = [(programs, "programs")] if programs.is_dir() else []
    if tree is not None and any(case.tree for case in cases):
        shared.append((tree, "tree"))
    chosen = [case for case, why in zip(cases, lacking, strict=True) if not why]
    first = next((case for case in chosen if case.prepare), None)
    if first is not None and places is not None:
        made = prepare(first, tuple(shared), places, cache, told)
        shared.append((made, "prepared"))
    disk_bytes = max((case.disk_bytes for case in chosen), default=0)
    return Equipment(lacking, tuple(shared), disk_bytes, cache / "disks")


def lacking_for(case: Case, programs: Path, tree: Path | None) -> str:
    """Why the case cannot run on this machine; empty where it can."""
    missing = [need for need in case.needs if not _found(need, programs)]
    if missing:
        how = f": apt-get install {case.install}" if case.install else ""
        names = ", ".join(it.removeprefix(_PROGRAMS).replace("|", " or ") for it in missing)
        return f"{names} {'is' if len(missing) == 1 else 'are'} not installed{how}"
    if case.tree and tree is None:
        return 'it compiles a kernel source: give [kernel] source = "debian:linux-source-7.3"'
    return ""


def _found(need: str, programs: Path) -> bool:
    if need.startswith(_PROGRAMS):
        return (programs / need.removeprefix(_PROGRAMS)).is_file()
    # apache2|httpd: distributions disagree about the name, and one is enough.
    return any(shutil.which(name, path=ENVIRONMENT["PATH"]) for name in need.split("|"))
