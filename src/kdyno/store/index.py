# SPDX-License-Identifier: MIT
"""The list of runs, kept in SQLite so that a thousand of them are listed at once.

The folders are the truth. The index remembers what it read from each, beside the stamp of the
files that it came from; a wrong, damaged or unwritable index costs time and nothing else.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from kdyno.errors import KdynoError
from kdyno.store.run import MANIFEST, VERDICT, Run, list_runs

INDEX = ".index.sqlite"
_VERSION = 1

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    name TEXT PRIMARY KEY, stamp TEXT NOT NULL, created TEXT NOT NULL, experiment TEXT NOT NULL,
    state TEXT NOT NULL, answer TEXT NOT NULL
) WITHOUT ROWID
"""


@dataclass(frozen=True)
class Entry:
    """One line of ``kdyno list runs``."""

    name: str
    path: Path
    created: str
    """UTC, ISO 8601."""
    experiment: str
    state: str
    """running, finished, interrupted, failed, or damaged."""
    answer: str
    """The verdict's sentence, or why there is none."""


def entries(runs: Path) -> tuple[Entry, ...]:
    """All runs of a folder, oldest first. A running one whose writer is gone is interrupted."""
    found = list_runs(runs)
    if not found:
        return ()
    path = runs / INDEX
    result = None
    for _ in range(2):
        try:
            result = _through(path, found)
            break
        except sqlite3.OperationalError:
            break  # Locked, read-only or a full disk: somebody else's index stays as it is.
        except (sqlite3.Error, ValueError, TypeError, OverflowError):
            with suppress(OSError):
                path.unlink()
    if result is None:
        result = [_read(run) for run in found]
    alive = [_alive(entry) for entry in result]
    return tuple(sorted(alive, key=lambda entry: (entry.created, entry.name)))


def _through(path: Path, found: tuple[Run, ...]) -> list[Entry]:
    if path.is_symlink():
        raise sqlite3.OperationalError("the index is a link")
    result = []
    with closing(sqlite3.connect(path, timeout=2.0)) as base, base:
        if base.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
            base.execute("DROP TABLE IF EXISTS runs")
            base.execute(f"PRAGMA user_version = {_VERSION}")
        base.execute(_SCHEMA)
        known = {row[0]: row[1:] for row in base.execute("SELECT * FROM runs")}
        fresh = []
        for run in found:
            stamp = _stamp(run)
            row = known.pop(run.name, None)
            if row is not None and row[0] == stamp and all(isinstance(it, str) for it in row):
                result.append(Entry(run.name, run.path, *row[1:]))
                continue
            entry = _read(run)
            result.append(entry)
            fresh.append(
                (run.name, stamp, entry.created, entry.experiment, entry.state, entry.answer)
            )
        if fresh:
            base.executemany("REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?)", fresh)
        if known:
            base.executemany("DELETE FROM runs WHERE name = ?", [(name,) for name in known])
    return result


def _stamp(run: Run) -> str:
    """Changes whenever one of the files behind an entry is replaced."""
    parts = []
    for name in (MANIFEST, VERDICT):
        try:
            seen = os.lstat(run.path / name)
            parts.append(f"{seen.st_ino}.{seen.st_mtime_ns}.{seen.st_size}")
        except OSError:
            parts.append("-")
    return " ".join(parts)


def _read(run: Run) -> Entry:
    created = run.name[:15]
    try:
        manifest = run.manifest()
        created = manifest.created
        verdict = run.verdict()
    except KdynoError as error:
        return Entry(run.name, run.path, created, "", "damaged", _text(str(error)))
    answer = verdict.answer if verdict is not None else manifest.stopped
    return Entry(
        run.name,
        run.path,
        _text(created),
        _text(manifest.experiment),
        manifest.state,
        _text(answer),
    )


def _alive(entry: Entry) -> Entry:
    if entry.state != "running":
        return entry
    with suppress(KdynoError):
        if Run(entry.path).is_being_written():
            return entry
    return Entry(
        entry.name, entry.path, entry.created, entry.experiment, "interrupted", entry.answer
    )


def _text(text: str) -> str:
    """SQLite takes no lone surrogates."""
    return text.encode("utf-8", "replace").decode()[:4000]
