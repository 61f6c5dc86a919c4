# SPDX-License-Identifier: MIT
"""Digests of what a page is made from, so that only what changed is made again."""

from __future__ import annotations

import os
from functools import cache
from hashlib import sha256
from pathlib import Path

from kdyno import __version__
from kdyno.store.run import Run


def run_stamp(run: Run) -> str:
    """Changes when a file or folder right inside the run is written, added or removed.

    A boot is a folder that comes whole, so a new one changes its parent's time.
    """
    parts = []
    try:
        with os.scandir(run.path) as entries:
            for entry in entries:
                seen = entry.stat(follow_symlinks=False)
                parts.append(f"{entry.name}/{seen.st_ino}/{seen.st_mtime_ns}/{seen.st_size}")
    except OSError as error:
        parts = [f"unreadable {error.errno}"]
    return sha256("\n".join(sorted(parts)).encode("utf-8", "surrogatepass")).hexdigest()


@cache
def tool_stamp() -> str:
    """Of kdyno itself: another version draws other pages."""
    package = Path(__file__).resolve().parents[2]
    digest = sha256(__version__.encode())
    for room in ("report", "stats", "store", "profiles"):
        for path in sorted((package / room).rglob("*")):
            if path.suffix in (".py", ".js", ".css", ".html"):
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def joined(*parts: str) -> str:
    return sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
