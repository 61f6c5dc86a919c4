# SPDX-License-Identifier: MIT
"""The list of a folder's runs, and the run that a person's words mean.

The list is kept in SQLite so that a thousand runs are listed at once. The folders are the truth.
The index remembers what it read from each, beside the stamp of the files that it came from; a
wrong, damaged or unwritable index costs time and nothing else. Its tables are those of the store
that a team shares, see database/tables.py."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdyno.errors import KdynoError, UsageError
from kdyno.reading.mistakes import meant
from kdyno.store.run import MANIFEST, VERDICT, Run, list_runs

if TYPE_CHECKING:
    from sqlalchemy import Table

    from kdyno.store.database.query import Wanted
    from kdyno.store.database.tables import Facts

INDEX = ".index.sqlite"
_PATIENCE_S = 2.0


class _Odd(Exception):
    """An index that this kdyno did not write."""


def entries(runs: Path, wanted: Wanted | None = None) -> tuple[tuple[Run, Facts], ...]:
    """All runs of a folder, or those wanted, oldest first. A running one whose writer is gone is
    interrupted."""
    listed = list_runs(runs)
    if not listed:
        return ()
    from sqlalchemy.exc import OperationalError, SQLAlchemyError

    path = runs / INDEX
    for _ in range(0 if path.is_symlink() else 2):
        try:
            return _through(path, listed, wanted)
        except (OperationalError, sqlite3.OperationalError):
            break  # Locked, read-only or a full disk: somebody else's index stays as it is.
        except (_Odd, SQLAlchemyError, sqlite3.Error, ValueError, TypeError, OverflowError):
            with suppress(OSError):
                path.unlink()
    return _through(Path(":memory:"), listed, wanted)


class NoSuchRun(UsageError):
    """A name that no run has here; there may be one elsewhere."""


def resolve(text: str, runs: Path) -> Path:
    """A path, a run's name, the only run that begins or ends so, or ``last`` (the newest)."""
    if text == "last":
        from kdyno.store.database.query import Wanted

        listed = entries(runs, Wanted(limit=1))
        if not listed:
            raise NoSuchRun(f"last: there is no run in {runs}; `kdyno run EXPERIMENT` makes one")
        return listed[-1][0].path
    if not text.strip() or "\0" in text:
        raise UsageError(f"{text!r}: names no run; `kdyno list runs` shows them")
    path = Path(text).expanduser()
    if "/" in text or text in (".", ".."):
        return _checked(path)
    names = {run.name: run.path for run in list_runs(runs)}
    if text in names:
        return names[text]
    ends = [name for name in names if name.startswith(text) or name.endswith(text)]
    matches = ends or [name for name in names if text in name]
    if len(matches) == 1:
        return names[matches[0]]
    if matches:
        listing = "\n  ".join(matches[:10] + (["…"] if len(matches) > 10 else []))
        raise UsageError(f"{text}: {len(matches)} runs match; give more of the name:\n  {listing}")
    if path.is_dir():
        return _checked(path)
    hint = meant(text, names)
    raise NoSuchRun(f"{text}: no such run in {runs}{hint}; `kdyno list runs` shows them")


def _checked(path: Path) -> Path:
    try:
        if (path / MANIFEST).is_file():
            return path
        exists = path.is_dir()
    except OSError as error:  # a name that is too long
        raise UsageError(f"{str(path)[:100]}: {error.strerror}") from error
    if not exists:
        raise UsageError(f"{path}: there is no such folder; `kdyno list runs` shows the runs")
    raise UsageError(f"{path}: is not a run (there is no {MANIFEST} in it)")


def _through(
    path: Path, runs: tuple[Run, ...], wanted: Wanted | None
) -> tuple[tuple[Run, Facts], ...]:
    """The list as an index has it that says what the folders say."""
    from sqlalchemy import delete, func, insert, inspect, select

    from kdyno.store.database import query
    from kdyno.store.database.tables import HEAD, RUNS, create, revision, row_of, rows_of

    # A folder's name may hold bytes that are no text: those are told apart all the same.
    by_name = {run.name.encode("utf-8", "backslashreplace").decode(): run for run in runs}
    stamps = {name: stamp(run, MANIFEST, VERDICT) for name, run in by_name.items()}
    engine = query.sqlite_engine(path, _PATIENCE_S)
    try:
        with engine.begin() as connection:
            version = revision(connection)
            if version is None and not inspect(connection).get_table_names():
                create(connection)
            elif version != HEAD:
                raise _Odd
            current = set()
            there = select(RUNS.c.id, RUNS.c.name, RUNS.c.identity, RUNS.c.digest)
            for row in connection.execute(there).all():
                if stamps.get(row.name) == row.digest and row.identity == row.name:
                    current.add(row.name)
                else:
                    connection.execute(delete(RUNS).where(RUNS.c.id == row.id))
            first = (connection.scalar(select(func.max(RUNS.c.id))) or 0) + 1
            tables: dict[Table, list[Mapping[str, Any]]] = {RUNS: []}
            fresh = [name for name in by_name if name not in current]
            for number, name in enumerate(fresh, first):
                facts, records = _read(by_name[name], name, stamps[name])
                tables[RUNS].append({**row_of(facts), "id": number})
                for table, own in records.items():
                    tables.setdefault(table, []).extend(rows_of(table, own, number))
            for table, all_rows in tables.items():
                if all_rows:
                    connection.execute(insert(table), all_rows)
            listed = query.listed(connection, wanted or query.Wanted())
    finally:
        engine.dispose()
    entries = []
    for facts in reversed(listed):
        if not facts.digest:  # as of an odd row; every other one has a stamp
            raise _Odd
        run = by_name[facts.name]
        entries.append((run, replace(facts, state=run.state(facts.state))))
    return tuple(entries)


def _read(run: Run, name: str, stamp: str) -> tuple[Facts, dict[Table, Sequence[object]]]:
    from kdyno.store.database import tables

    created = run.name[:15]
    try:
        manifest = run.manifest()
        created = manifest.created
        verdict = run.verdict()
    except KdynoError as problem:  # little but its folder's name is known
        return tables.Facts(name, name, stamp, created, reason=str(problem)), {}
    return tables.facts_of(manifest, verdict, name, name, stamp), {
        tables.KERNELS: tables.kernels_of(run, manifest, verdict),
        tables.MACHINES: tables.machines_of(run, manifest),
        tables.SCORES: tables.scores_of_verdict(verdict) if verdict else (),
    }


def stamp(run: Run, *names: str) -> str:
    """Changes whenever one of these files of a run is replaced."""
    parts = []
    for name in names:
        try:
            status = os.lstat(run.path / name)
            parts.append(f"{status.st_ino}.{status.st_mtime_ns}.{status.st_size}")
        except OSError:
            parts.append("-")
    return " ".join(parts)
