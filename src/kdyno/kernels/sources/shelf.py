# SPDX-License-Identifier: MIT
"""The cache of trees: each whole or absent, however many processes want it or are killed.

``trees/KEY/{tree/,manifest,tree.json}`` are finished trees, ``trees/.partial-KEY-*`` are being
made, ``locks/KEY`` is held while something is made, ``sources/KIND/*.json`` remember which
tree a source became.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kdyno import whole
from kdyno.errors import UsageError
from kdyno.kernels.source import Progress, SourceSpec, Tree
from kdyno.kernels.sources import manifest
from kdyno.reading.checked import values_in
from kdyno.space import PARTIAL

_MAKEFILE_LINES = 40
_MAKEFILE_BYTES = 1 << 16


@contextmanager
def locked(cache: Path, key: str, progress: Progress) -> Iterator[None]:
    """Hold the lock ``key``; while another process has it, say so once and wait."""
    file = cache / "locks" / key

    def waiting(holder: str) -> None:
        who = f"another kdyno ({holder})" if holder.startswith("process") else holder
        progress(f"waiting: {who} is fetching {key}", None)

    with whole.locked(file, waiting):
        yield


@contextmanager
def partial(cache: Path, key: str) -> Iterator[Path]:
    """A folder to make something in, beside the finished trees; gone afterwards."""
    trees = cache / "trees"
    trees.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{key}-{whole.here()}.", dir=trees))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(cache: Path, own_key: str) -> None:
    """Remove what killed processes left half made. Call with the lock ``own_key`` held."""
    for folder in (cache / "trees").glob(f"{PARTIAL}*"):
        key, _, made = folder.name[len(PARTIAL) :].rpartition("-")
        with suppress(OSError):
            by = made.partition(".")[0] if "." in made else whole.here()
            if not whole.is_left(folder, by):
                continue
        if key == own_key:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        with suppress(OSError), (cache / "locks" / key).open("a+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)


def find(cache: Path, key: str) -> Tree | None:
    """The finished tree ``key``, or None."""
    home = cache / "trees" / key
    data = read_json(home / "tree.json")
    if data is None or not (home / "tree").is_dir():
        return None
    return Tree(home / "tree", data["digest"], data["description"], data["version"])


def place(
    cache: Path,
    spec: SourceSpec,
    key: str,
    digest: str,
    description: str,
    fill: Callable[[Path], Path],
    progress: Progress,
    check: Callable[[list[str]], None] = lambda _lines: None,
) -> Tree:
    """The tree ``key``; when absent, made by ``fill``, which unpacks into the folder it is
    given and returns where the source begins. ``check`` may refuse the manifest's lines."""
    with locked(cache, key, progress):
        tree = find(cache, key)
        sweep(cache, key)
        if tree is not None:
            return tree
        home = cache / "trees" / key
        if home.exists():  # without tree.json or tree/: somebody deleted parts by hand
            shutil.rmtree(home)
        with partial(cache, key) as scratch:
            made = fill(scratch)
            version = kernel_version(made, str(spec))
            progress(f"hashing {spec}", None)
            lines = manifest.settle(made, str(spec))
            check(lines)
            ready = scratch / "ready"
            ready.mkdir()
            made.rename(ready / "tree")
            manifest.write(ready / "manifest", lines)
            write_json(
                ready / "tree.json",
                {
                    "schema": 1,
                    "source": str(spec),
                    "digest": digest,
                    "description": description,
                    "version": version,
                },
            )
            whole.into_place(ready, home)
        placed = find(cache, key)
        assert placed is not None
        return placed


def kernel_version(root: Path, asked: str) -> str:
    """``VERSION.PATCHLEVEL.SUBLEVEL`` and EXTRAVERSION; UsageError when it is not a kernel."""
    missing = [name for name in ("Makefile", "Kbuild") if not (root / name).is_file()]
    missing += [] if (root / "arch").is_dir() else ["arch/"]
    fields: dict[str, str] = {}
    if "Makefile" not in missing:
        with (root / "Makefile").open("rb") as makefile:
            text = makefile.read(_MAKEFILE_BYTES).decode("utf-8", "replace")
        for line in text.splitlines()[:_MAKEFILE_LINES]:
            name, equals, value = line.partition("=")
            if equals:
                fields.setdefault(name.strip(), value.strip())
        if not (fields.get("VERSION", "").isdigit() and fields.get("PATCHLEVEL", "").isdigit()):
            missing.append("VERSION and PATCHLEVEL in Makefile")
    if missing:
        top = ", ".join(sorted(entry.name for entry in root.iterdir())[:8]) or "nothing"
        raise UsageError(
            f"source {asked} is not a kernel source: it lacks {', '.join(missing)}. "
            f"At its top there is {top}"
        )
    numbers = [fields["VERSION"], fields["PATCHLEVEL"], fields.get("SUBLEVEL") or "0"]
    return ".".join(numbers) + fields.get("EXTRAVERSION", "")


def recorded(cache: Path, record: Path) -> Tree | None:
    """The tree that ``record`` remembers, if it is still there."""
    data = read_json(record)
    return find(cache, data["tree"]) if data and isinstance(data.get("tree"), str) else None


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object; None when absent or damaged, so that it is made again."""
    try:
        data = values_in(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def write_json(path: Path, data: dict[str, Any]) -> None:
    """The file is whole or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole.write(path, json.dumps(data, indent=1).encode())
