# SPDX-License-Identifier: MIT
"""The list of a folder's runs, and the run that a person's words mean.

The list is kept in SQLite so that a thousand runs are listed at once. The folders are the truth.
The index remembers what it read from each, beside the stamp of the files that it came from; a
wrong, damaged or unwritable index costs time and nothing else. Its tables are those of the store
that a team shares, see database/schema.py.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdyno.errors import KdynoError, UsageError
from kdyno.reading.mistakes import meant
from kdyno.store.run import MANIFEST, VERDICT, Run, list_runs

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from kdyno.store.database.facts import Facts
    from kdyno.store.database.query import Wanted

INDEX = ".index.sqlite"
_PATIENCE_S = 2.0
_IN_MEMORY = Path(":memory:")


@dataclass(frozen=True)
class ListedRun:
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


class _Odd(Exception):
    """An index that this kdyno did not write."""


def entries(runs: Path, wanted: Wanted | None = None) -> tuple[ListedRun, ...]:
    """All runs of a folder, or those wanted, oldest first. A running one whose writer is gone is
    interrupted."""
    found = list_runs(runs)
    if not found:
        return ()
    from sqlalchemy.exc import OperationalError, SQLAlchemyError

    path = runs / INDEX
    for _ in range(0 if path.is_symlink() else 2):
        try:
            return _through(path, found, wanted)
        except (OperationalError, sqlite3.OperationalError):
            break  # Locked, read-only or a full disk: somebody else's index stays as it is.
        except (_Odd, SQLAlchemyError, sqlite3.Error, ValueError, TypeError, OverflowError):
            with suppress(OSError):
                path.unlink()
    return _through(_IN_MEMORY, found, wanted)


class NoSuchRun(UsageError):
    """A name that no run has here; there may be one elsewhere."""


def resolve(text: str, runs: Path) -> Path:
    """A path, a run's name, the only run that begins or ends so, or ``last`` (the newest)."""
    if text == "last":
        from kdyno.store.database.query import Wanted

        found = entries(runs, Wanted(limit=1))
        if not found:
            raise NoSuchRun(f"last: there is no run in {runs}; `kdyno run EXPERIMENT` makes one")
        return found[-1].path
    if not text.strip() or "\0" in text:
        raise UsageError(f"{text!r}: names no run; `kdyno list runs` shows them")
    given = Path(text).expanduser()
    if "/" in text or text in (".", ".."):
        return _checked(given)
    names = {run.name: run.path for run in list_runs(runs)}
    if text in names:
        return names[text]
    matches = [name for name in names if name.startswith(text) or name.endswith(text)]
    if not matches:
        matches = [name for name in names if text in name]
    if len(matches) == 1:
        return names[matches[0]]
    if matches:
        shown = "\n  ".join(matches[:10] + (["…"] if len(matches) > 10 else []))
        raise UsageError(f"{text}: {len(matches)} runs match; give more of the name:\n  {shown}")
    if given.is_dir():
        return _checked(given)
    hint = meant(text, names)
    raise NoSuchRun(f"{text}: no such run in {runs}{hint}; `kdyno list runs` shows them")


def _checked(path: Path) -> Path:
    try:
        if (path / MANIFEST).is_file():
            return path
        found = path.is_dir()
    except OSError as error:  # a name that is too long
        raise UsageError(f"{str(path)[:100]}: {error.strerror}") from error
    if not found:
        raise UsageError(f"{path}: there is no such folder; `kdyno list runs` shows the runs")
    raise UsageError(f"{path}: is not a run (there is no {MANIFEST} in it)")


def _through(path: Path, found: tuple[Run, ...], wanted: Wanted | None) -> tuple[ListedRun, ...]:
    from kdyno.store.database import query
    from kdyno.store.database.connection import sqlite_engine

    engine = sqlite_engine(path, _PATIENCE_S)
    by_name = {_stored(run.name): run for run in found}
    try:
        with engine.begin() as connection:
            _make(connection)
            _renew(connection, by_name)
            listed = query.listed(connection, wanted or query.Wanted())
    finally:
        engine.dispose()
    return tuple(_listed(by_name[facts.name], facts) for facts in reversed(listed))


def _make(connection: Connection) -> None:
    from sqlalchemy import Column, MetaData, Table, Text, inspect

    from kdyno.store.database.schema import HEAD, METADATA, VERSIONS, revision

    known = revision(connection)
    if known == HEAD:
        return
    if known is not None or inspect(connection).get_table_names():
        raise _Odd
    METADATA.create_all(connection)
    versions = Table(VERSIONS, MetaData(), Column("version_num", Text, nullable=False))
    versions.create(connection)
    connection.execute(versions.insert(), {"version_num": HEAD})


def _renew(connection: Connection, found: Mapping[str, Run]) -> None:
    """The tables say what the folders say."""
    from sqlalchemy import delete, func, insert, select

    from kdyno.store.database.schema import KERNELS, MACHINES, RUNS, SCORES

    stamps = {name: _stamp(run) for name, run in found.items()}
    rows = connection.execute(select(RUNS.c.id, RUNS.c.name, RUNS.c.digest))
    stale, known = [], set()
    for row in rows:
        if stamps.get(row.name) == row.digest:
            known.add(row.name)
        else:
            stale.append(row.id)
    for number in stale:
        connection.execute(delete(RUNS).where(RUNS.c.id == number))
    first = (connection.scalar(select(func.max(RUNS.c.id))) or 0) + 1
    tables: dict[Any, list[Mapping[str, Any]]] = {RUNS: [], KERNELS: [], MACHINES: [], SCORES: []}
    fresh = [name for name in found if name not in known]
    for number, name in enumerate(fresh, first):
        facts, kernels, machines, scores = _read(found[name], name, stamps[name])
        tables[RUNS].append({**facts[0], "id": number})
        for table, own in ((KERNELS, kernels), (MACHINES, machines), (SCORES, scores)):
            tables[table] += [{**it, "run": number, "place": at} for at, it in enumerate(own)]
    for table, own in tables.items():
        if own:
            connection.execute(insert(table), own)


_Rows = Sequence[Mapping[str, Any]]


def _read(run: Run, name: str, stamp: str) -> tuple[_Rows, _Rows, _Rows, _Rows]:
    """The rows of a run for each table."""
    from kdyno.store.database.facts import (
        damaged_run,
        facts_of,
        kernels_of,
        machines_of,
        rows,
        scores_said,
    )

    own = {"identity": name, "name": name, "digest": stamp}
    try:
        manifest, verdict = run.manifest(), run.verdict()
    except KdynoError as error:
        created = ""
        with suppress(KdynoError):
            created = run.manifest().created
        return rows([damaged_run(run, error, created=created, **own)]), (), (), ()
    return (
        rows([facts_of(manifest, verdict, **own)]),
        rows(kernels_of(run, manifest, verdict)),
        rows(machines_of(run, manifest)),
        rows(scores_said(verdict)) if verdict else (),
    )


def _listed(run: Run, facts: Facts) -> ListedRun:
    from kdyno.store.database.facts import ODD

    answer = facts.answer if facts.judged else facts.reason
    texts = (facts.created, facts.experiment, facts.state, answer)
    if facts.reason == ODD:
        raise _Odd
    return _alive(ListedRun(run.name, run.path, *texts))


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


def _alive(entry: ListedRun) -> ListedRun:
    if entry.state != "running":
        return entry
    with suppress(KdynoError):
        if Run(entry.path).is_being_written():
            return entry
    return replace(entry, state="interrupted")


def _stored(name: str) -> str:
    """A folder's name may hold bytes that are no text: those are told apart all the same."""
    return name.encode("utf-8", "backslashreplace").decode()
