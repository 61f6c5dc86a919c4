# SPDX-License-Identifier: MIT
"""What builds leave in the cache: images, and trunks.

An image is a bootable file, named by the digest of everything that went into it. A trunk is the
object tree of an earlier build, kept so that the next build starts from it: it works on a copy and
compiles what differs. Time stamps decide what make compiles again, so whoever starts from a trunk
must make every file that differs newer than the trunk's objects: `Start.fresh` names them.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from kdyno import whole
from kdyno.errors import KdynoError, ToolError
from kdyno.kernels.changes import Changes
from kdyno.kernels.leavings import disarm
from kdyno.kernels.recipe import Recipe, foreign_suffix, image_folder
from kdyno.kernels.scheduler import Scheduler
from kdyno.kernels.sources.tree import read_manifest
from kdyno.reading.checked import values_in

KEEP = 6
"""Trunks of each architecture."""
# Above this many differing files a build from scratch is the simpler and as quick way.
MOST_FILES = 300
_IN_USE_S = 3600
"""A trunk that was used in the last hour may be the one another build copies just now."""


@dataclass(frozen=True)
class Image:
    """A built kernel. ``kernel`` is the file that a machine boots."""

    digest: str
    folder: Path
    arch: str
    word_bits: int
    version: str
    build: dict[str, Any]
    """How it was built: inputs, commands, seconds, objects compiled."""
    scheduler: Scheduler | None = None
    """The program that is to decide in it who runs; None: the kernel itself."""
    links: tuple[Image, ...] = ()
    """The same code linked in other orders, where [layout] asks for them."""

    def link(self, number: int) -> Image:
        """Of its links, which go round; itself where it has none."""
        return self.links[number % len(self.links)] if self.links else self

    @property
    def kernel(self) -> Path:
        return self.folder / "linux"

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @cached_property
    def smp(self) -> bool:
        """Whether it can use more than one CPU."""
        return "\nCONFIG_SMP=y\n" in self.config.read_text(encoding="utf-8")


def find(cache: Path, recipe: Recipe) -> Image | None:
    """The image of ``recipe`` when it was built before."""
    folder = image_folder(cache, recipe)
    try:
        build = values_in(folder / "build.json")
    except (OSError, ValueError):
        return None
    if not (folder / "linux").is_file():
        return None
    with suppress(OSError):  # a cache that others own and this user only reads
        os.utime(folder)
    return Image(
        recipe.digest, folder, recipe.arch.name, recipe.arch.word_bits, recipe.tree.version, build
    )


@contextmanager
def building(cache: Path, digest: str, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold the image's lock: one process builds, the others wait and find it built."""

    def holder(who: str) -> None:
        waiting(f"{who} is building the same image; waiting for it")

    with whole.locked(cache / "images" / f".{digest}.lock", holder):
        yield


def install(cache: Path, recipe: Recipe, work: Path, files: dict[str, Path]) -> Image:
    """Put the finished files of a build under the image's name, whole or not at all."""
    folder = image_folder(cache, recipe)
    if (there := find(cache, recipe)) is not None:
        # The same image was built before: it may be booting, and only lacks a file beside it.
        for name, file in files.items():
            if not (folder / name).exists():
                os.link(file, folder / name)
        return there
    aside = work / f"image-{recipe.layout}"
    aside.mkdir()
    for name, file in files.items():
        os.link(file, aside / name)
    for name in files:
        with (aside / name).open("rb") as handle:
            os.fsync(handle.fileno())
    if folder.exists():
        # Where locks do not hold, another node may have put it there since; else it is damaged.
        if (there := find(cache, recipe)) is not None:
            return there
        folder.rename(work / f"damaged-{time.monotonic_ns()}")
    whole.into_place(aside, folder)
    image = find(cache, recipe)
    if image is None:
        raise ToolError(f"{folder}: written, but it cannot be read back")
    return image


@dataclass(frozen=True)
class Extract:
    """``flags`` ask the compiler to write more than objects, and must not change the code: the
    image keeps the name that it has without them."""

    name: str
    """Of the file that is kept beside the image."""
    flags: str
    collect: Callable[[Path, Path], None]
    """(object tree, file to write), after make and before the tree is kept or deleted."""

    def compiled_by(self, recipe: Recipe) -> Recipe:
        """The recipe as make sees it; its objects are no start for a build without the flags."""
        return replace(recipe, cflags=f"{recipe.cflags} {self.flags}".strip())


def has(image: Image, extract: Extract | None) -> bool:
    """Whether the file of ``extract`` lies beside the image."""
    return extract is None or (image.folder / extract.name).is_file()


@dataclass(frozen=True)
class Start:
    """Where a build starts: a trunk's object tree, and the files that must look new."""

    objects: Path | None = None
    fresh: frozenset[str] = frozenset()
    restored: frozenset[str] = frozenset()
    """Files that the trunk had changed and this variant does not: to be shown as in the tree."""
    same_flags: bool = False


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
    """Whose code had a hand in these objects, see recipe.py."""


def choose(cache: Path, recipe: Recipe) -> Start:
    """The trunk that leaves least to compile; Start() when there is none to use."""
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
        return Start()
    _, trunk, files = best
    os.utime(trunk.folder)
    restored = frozenset(files) - recipe.changes.files.keys()
    return Start(trunk.folder / "obj", frozenset(files), restored, trunk.cflags == recipe.cflags)


def keep(cache: Path, recipe: Recipe, objects: Path) -> None:
    """Move the object tree of a finished build into the trunks; drop the oldest ones."""
    place = cache / "trunks" / f"{recipe.digest}{foreign_suffix(recipe.foreign)}"
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
    alike = (trunk.folder for trunk in _trunks(cache) if trunk.arch == recipe.arch.name)
    newest = sorted(alike, key=lambda folder: folder.stat().st_mtime, reverse=True)
    for folder in newest[KEEP:]:
        if time.time() - folder.stat().st_mtime > _IN_USE_S:
            shutil.rmtree(folder, ignore_errors=True)


def _fingerprints(changes: Changes) -> dict[str, str]:
    return {path: changes.only((path,)).digest() for path in changes.files}


def _different_files(trunk: _Trunk, recipe: Recipe) -> set[str] | None:
    """Between the trunk's tree and the recipe's; None where they are too many, or not known."""
    files = _differing(trunk.changed, _fingerprints(recipe.changes))
    if trunk.source != recipe.tree.digest:
        if not trunk.tree.is_dir():
            return None
        try:
            moved = _differing(read_manifest(trunk.tree), recipe.tree.manifest())
        except (OSError, KdynoError):
            return None
        # A file changed on both sides in the same way is the same file only if both say so;
        # taking it as different costs one compilation and can never be wrong.
        files |= moved
    if len(files) > MOST_FILES:
        return None
    # A link has no time stamp of its own that make would look at.
    return None if any((recipe.tree.path / path).is_symlink() for path in files) else files


def _differing(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Paths whose entry differs between two manifests."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


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
                frozenset(data["foreign"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            shutil.rmtree(record.parent, ignore_errors=True)
