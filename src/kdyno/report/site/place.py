# SPDX-License-Identifier: MIT
"""The folder that a site is built in: ours alone, written file by file in one step each.

Digests of what a page is made from say which of them are to be made again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from kdyno import __version__, whole
from kdyno.errors import ToolError, UsageError
from kdyno.reading.checked import values_in
from kdyno.store.run import Run

MARKER = ".kdyno-site"
FOLDERS = ("runs", "history", ".data")


def prepare(folder: Path) -> None:
    """Makes the folder. UsageError when it is not a folder of ours or cannot be written."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"-o {folder}: is a file; --all writes a folder, such as -o site/")
        if folder.is_dir() and not (folder / MARKER).exists() and any(folder.iterdir()):
            raise UsageError(
                f"-o {folder}: holds other things than a site of kdyno; name a new or empty folder"
            )
        for inside in (folder, *(folder / name for name in FOLDERS)):
            if link := next((path for path in inside.glob("*") if path.is_symlink()), None):
                raise UsageError(
                    f"-o {folder}: {link} is a link, and a site of kdyno has none: what is written "
                    "would go where it leads. Remove it, or name another folder"
                )
            inside.mkdir(parents=True, exist_ok=True)
        write(folder / ".probe", "")
        (folder / ".probe").unlink()
    except OSError as error:
        where = error.filename or folder
        raise UsageError(
            f"-o {folder}: {where}: {error.strerror}; name a folder that can be written"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One builder at a time; the next waits."""
    with whole.locked(folder / ".lock"):
        yield


def write(path: Path, text: str) -> None:
    """Replaces the file in one step, so that a browser never sees half of it."""
    try:
        whole.write(path, text.encode("utf-8", "replace"))
    except OSError as error:
        if path.name == ".probe":
            raise
        raise ToolError(f"{path}: {error.strerror}") from error


def state(folder: Path) -> dict[str, Any]:
    """What the last build left in the marker; {} when there is none or it is not JSON."""
    try:
        value = values_in(folder / MARKER)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def unchanged(folder: Path, edition: str) -> bool:
    """The last build was of this edition, and its last page is there."""
    return state(folder).get("edition") == edition and (folder / "history.html").is_file()


def save_state(folder: Path, value: dict[str, Any]) -> None:
    write(folder / MARKER, json.dumps(value))


def run_stamp(run: Run) -> str:
    """Changes when a file or folder right inside the run is written, added or removed.

    A boot is a folder that comes whole, so a new one changes its parent's time."""
    parts = []
    try:
        with os.scandir(run.path) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                parts.append(f"{entry.name}/{status.st_ino}/{status.st_mtime_ns}/{status.st_size}")
    except OSError as error:
        parts = [f"unreadable {error.errno}"]
    return sha256("\n".join(sorted(parts)).encode("utf-8", "surrogatepass")).hexdigest()


@cache
def tool_stamp() -> str:
    """Of kdyno itself: another version draws other pages."""
    package = Path(__file__).resolve().parents[2]
    digest = sha256(__version__.encode())
    for room in ("judge", "labs", "report", "stats", "store"):
        for path in sorted((package / room).rglob("*")):
            if path.suffix in (".py", ".js", ".css", ".html", ".json"):
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def joined(*parts: str) -> str:
    return sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
