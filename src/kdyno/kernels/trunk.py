# SPDX-License-Identifier: MIT
"""Trunks: object trees of earlier builds, kept so that the next build starts from one.

A build works on a copy of a trunk and compiles what differs. Time stamps decide what make
compiles again, so whoever starts from a trunk must make every file that differs newer than
the trunk's objects: `Start.fresh` names them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kdyno import whole
from kdyno.errors import KdynoError
from kdyno.kernels.changes import Changes
from kdyno.kernels.foreign import suffix
from kdyno.kernels.leavings import disarm
from kdyno.kernels.recipe import Recipe
from kdyno.kernels.sources.tree import read_manifest
from kdyno.kernels.view import differing
from kdyno.reading.checked import values_in

KEEP = 6
"""Of each architecture."""
# Above this many differing files a build from scratch is the simpler and as quick way.
MOST_FILES = 300


@dataclass(frozen=True)
class Start:
    """Where a build starts: a trunk's object tree, and the files that must look new."""

    objects: Path | None
    fresh: frozenset[str]
    restored: frozenset[str]
    """Files that the trunk had changed and this variant does not: to be shown as in the tree."""
    same_flags: bool


@dataclass(frozen=True)
class _Trunk:
    folder: Path
    source: str
    tree: Path
    arch: str
    compiler: str
    cflags: str
    config: tuple[str, ...]
    changed: dict[str, str]
    foreign: frozenset[str]
    """Whose code had a hand in these objects, see foreign.py."""


def choose(cache: Path, recipe: Recipe) -> Start:
    """The trunk that leaves least to compile; Start(None, …) when there is none to use."""
    best: tuple[int, _Trunk, set[str]] | None = None
    for trunk in _trunks(cache):
        if (trunk.arch, trunk.compiler) != (recipe.arch.name, recipe.compiler.version):
            continue
        if not trunk.foreign <= recipe.foreign:
            continue
        files = _different_files(trunk, recipe)
        if files is None:
            continue
        config = set(trunk.config) ^ {wish.line for wish in recipe.wishes}
        cost = len(files) + 20 * len(config) + (10_000 if trunk.cflags != recipe.cflags else 0)
        if best is None or cost < best[0]:
            best = (cost, trunk, files)
    if best is None:
        return Start(None, frozenset(), frozenset(), False)
    _, trunk, files = best
    os.utime(trunk.folder)
    return Start(
        trunk.folder / "obj",
        frozenset(files),
        frozenset(path for path in files if path not in recipe.changes.files),
        trunk.cflags == recipe.cflags,
    )


def keep(cache: Path, recipe: Recipe, objects: Path) -> None:
    """Move the object tree of a finished build into the trunks; drop the oldest ones."""
    place = cache / "trunks" / f"{recipe.digest}{suffix(recipe.foreign)}"
    if place.exists():
        return
    record = {
        "source": recipe.tree.digest,
        "tree": str(recipe.tree.path),
        "arch": recipe.arch.name,
        "compiler": recipe.compiler.version,
        "cflags": recipe.cflags,
        "config": [wish.line for wish in recipe.wishes],
        "changed": _fingerprints(recipe.changes),
        "foreign": sorted(recipe.foreign),
    }
    disarm(objects)
    aside = objects.parent / "trunk"
    aside.mkdir()
    objects.rename(aside / "obj")
    (aside / "trunk.json").write_text(json.dumps(record), encoding="utf-8")
    place.parent.mkdir(parents=True, exist_ok=True)
    whole.into_place(aside, place)
    alike = (trunk for trunk in _trunks(cache) if trunk.arch == recipe.arch.name)
    newest = sorted((trunk.folder for trunk in alike), key=_age)
    # A trunk that was used in the last hour may be the one another build copies just now.
    for folder in newest[KEEP:]:
        if time.time() - folder.stat().st_mtime > 3600:
            shutil.rmtree(folder, ignore_errors=True)


def _age(folder: Path) -> float:
    return -folder.stat().st_mtime


def _fingerprints(changes: Changes) -> dict[str, str]:
    return {path: changes.only((path,)).digest() for path in changes.files}


def _different_files(trunk: _Trunk, recipe: Recipe) -> set[str] | None:
    mine = _fingerprints(recipe.changes)
    files = differing(trunk.changed, mine)
    if trunk.source != recipe.tree.digest:
        if not trunk.tree.is_dir():
            return None
        try:
            moved = differing(read_manifest(trunk.tree), recipe.tree.manifest())
        except (OSError, KdynoError):
            return None
        # A file changed on both sides in the same way is the same file only if both say so;
        # taking it as different costs one compilation and can never be wrong.
        files |= moved
    if len(files) > MOST_FILES:
        return None
    # A link has no time stamp of its own that make would look at.
    return None if any((recipe.tree.path / path).is_symlink() for path in files) else files


def _trunks(cache: Path) -> Iterator[_Trunk]:
    for record in sorted((cache / "trunks").glob("*/trunk.json")):
        try:
            data = values_in(record)
            yield _Trunk(
                record.parent,
                data["source"],
                Path(data["tree"]),
                data["arch"],
                data["compiler"],
                data["cflags"],
                tuple(data["config"]),
                dict(data["changed"]),
                # Of an earlier version, which did not ask: nobody starts from it.
                frozenset(data.get("foreign", ["unknown, before it was recorded"])),
            )
        except (OSError, ValueError, KeyError, TypeError):
            shutil.rmtree(record.parent, ignore_errors=True)
