# SPDX-License-Identifier: MIT
"""A variant's view of a source tree: the pristine tree with changed files laid over it.

Changed files are bound over the originals, one mount each, so a variant costs what it
changes and not a copy of 95,000 files. Only where a file appears or disappears must its
folder be a real one: that folder alone is copied, as hard links. Every build sees its tree
at the same path, so that object files, dependency files and ccache agree between variants.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kdyno.kernels.changes import Changes

BUILD_SOURCE = "/tmp/kdyno/src"
BUILD_OBJECTS = "/tmp/kdyno/obj"


@dataclass(frozen=True)
class View:
    """Binds (path on the host, path in the tree; "" is the tree itself), outermost first."""

    tree: Path
    binds: tuple[tuple[Path, str], ...]

    def mounts(self) -> tuple[tuple[Path, str], ...]:
        """The same as (path on the host, path inside the build's namespace)."""
        inside = [(host, f"{BUILD_SOURCE}/{path}".rstrip("/")) for host, path in self.binds]
        if self.binds and self.binds[0][1] == "":
            return tuple(inside)
        return ((self.tree, BUILD_SOURCE), *inside)


def lay(tree: Path, changes: Changes, folder: Path, fresh: set[str]) -> View:
    """Write the changed files into ``folder`` (empty, on the tree's filesystem) and bind them.

    fresh: paths to be newer than every object; the others keep the tree's old time stamp, so
    that make sees no reason to compile them again.
    """
    structural = {
        _existing_parent(tree, path)
        for path, content in changes.files.items()
        if content is None or not (tree / path).exists()
    }
    roots = {
        root for root in structural if not any(_below(root, other) for other in structural - {root})
    }
    binds: list[tuple[Path, str]] = []
    stamp = (tree / "Makefile").stat().st_mtime_ns
    for number, root in enumerate(sorted(roots)):
        copy = folder / f"folder-{number}"
        shutil.copytree(tree / root, copy, symlinks=True, copy_function=os.link)
        binds.append((copy, root))
    copies = {root: copy for copy, root in binds}
    for number, path in enumerate(sorted(changes.files)):
        above = next((root for root in copies if _below(path, root)), None)
        if above is None:
            place = folder / f"file-{number}"
            binds.append((place, path))
        else:
            place = copies[above] / os.path.relpath(path, above or ".")
        mode = 0o755 if path in changes.executable else 0o644
        _put(place, changes.files[path], mode, None if path in fresh else stamp)
    return View(tree, tuple(binds))


def flatten(tree: Path, changes: Changes, folder: Path, fresh: set[str]) -> Path:
    """The whole view as a real folder of hard links, for builds without a sandbox."""
    copy = folder / "src"
    shutil.copytree(tree, copy, symlinks=True, copy_function=os.link)
    stamp = (tree / "Makefile").stat().st_mtime_ns
    for path, content in changes.files.items():
        mode = 0o755 if path in changes.executable else 0o644
        _put(copy / path, content, mode, None if path in fresh else stamp)
    return copy


def _below(path: str, root: str) -> bool:
    return root == "" or path == root or path.startswith(root + "/")


def _existing_parent(tree: Path, path: str) -> str:
    parent = PurePosixPath(path).parent
    while not (tree / parent).is_dir():
        parent = parent.parent
    return "" if str(parent) == "." else str(parent)


def _put(place: Path, content: bytes | None, mode: int, stamp_ns: int | None) -> None:
    # Unlink first: what lies here may be a hard link to the pristine tree.
    place.unlink(missing_ok=True)
    if content is None:
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    place.chmod(mode)
    if stamp_ns is not None:
        os.utime(place, ns=(stamp_ns, stamp_ns))


def differing(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """Paths whose entry differs between two manifests."""
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}
