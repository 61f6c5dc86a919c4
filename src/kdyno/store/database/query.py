# SPDX-License-Identifier: MIT
"""Connections to a database, with errors that help; queries for runs and rows, none for boots."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from kdyno.errors import ToolError, UsageError
from kdyno.store.database.address import location, masked, sqlite_file
from kdyno.store.database.tables import (
    KERNELS,
    MACHINES,
    PARTS,
    RUNS,
    SCORES,
    Facts,
    read_facts,
    text as harmless,
)

_PATIENCE_S = 10
"""For a server to answer a first time."""
_SILENCE_MS = 60_000
"""For which a server that was reached may say nothing at all before it counts as gone."""
_LOCKED_S = 30.0
"""For which somebody else may be writing an SQLite file."""
_ODD = (ValueError, TypeError, OverflowError, RecursionError)
"""Of values that are not what their column says: SQLite keeps anything in it."""
_DENIED = ("InsufficientPrivilege", "ReadOnlySqlTransaction")
NEWEST = 1000
MOST = 100_000
"""Runs of a store that a list or a page shows unless another number is given, and at all."""
_ESCAPE = "\\"
_NEWEST_FIRST = (RUNS.c.created.desc(), RUNS.c.name.desc())
_OUR_OWN = ("run", "place")
T = TypeVar("T")


def engine_of(address: str) -> sa.Engine:
    """Nothing is reached yet."""
    file = sqlite_file(address)
    if file is not None:
        return sqlite_engine(file, _LOCKED_S)
    url = sa.make_url(address).set(drivername="postgresql+psycopg")
    own: dict[str, Any] = {
        "connect_timeout": _PATIENCE_S,
        "tcp_user_timeout": _SILENCE_MS,
        "keepalives_idle": 20,
        "application_name": "kdyno",
    }
    wanted = {name: value for name, value in own.items() if name not in url.query}
    # A server that is started again between two looks of `serve` is asked first.
    return sa.create_engine(url, connect_args=wanted, pool_pre_ping=True, pool_size=2)


def sqlite_engine(file: Path, timeout_s: float) -> sa.Engine:
    """A file that may not be there yet."""
    url = sa.URL.create("sqlite", database=str(file))
    engine = sa.create_engine(url, connect_args={"timeout": timeout_s})

    @sa.event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: object) -> None:
        # Python's own idea of when a transaction begins leaves CREATE TABLE outside of them.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")

    @sa.event.listens_for(engine, "begin")
    def _begun(connection: sa.Connection) -> None:
        # Between a read and a later write another process could write.
        reads = connection.get_execution_options().get("reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def reading(engine: sa.Engine, address: str) -> Iterator[sa.Connection]:
    """One state of the store, however others write meanwhile."""
    with _in_our_words(address, "read"), engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection = connection.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )
        else:
            connection = connection.execution_options(reads=True)
        with connection.begin():
            yield connection


@contextmanager
def writing(engine: sa.Engine, address: str) -> Iterator[sa.Connection]:
    """All of it at the end, or nothing."""
    with _in_our_words(address, "written"), engine.begin() as connection:
        yield connection


@contextmanager
def _in_our_words(address: str, what: str) -> Iterator[None]:
    """A database's errors for people: which store, what became of the data, what to do."""
    where = f"the store {location(address)}"
    kept = "nothing of it was kept" if what == "written" else "nothing was read"
    try:
        yield
    except sa.exc.SQLAlchemyError as problem:
        original = getattr(problem, "orig", None)
        message = masked(" ".join(str(original or problem).split()))[:500]
        if type(original).__name__ in _DENIED or "readonly database" in message:
            text = f"{where}: this user may not do that ({message}); {kept}"
            raise UsageError(text) from problem
        full = type(original).__name__ == "DiskFull" or "disk is full" in message
        lost = isinstance(problem, sa.exc.DBAPIError) and problem.connection_invalidated
        if not full and (lost or isinstance(problem, sa.exc.OperationalError)):
            again = "Try again, or unset KDYNO_STORE"
            if what == "written":
                again = "try again: a run is put there once, however often it is pushed"
            text = f"{where} cannot be reached, or went away: {message}. {again}"
            raise ToolError(text) from problem
        raise ToolError(f"{where}: {message}; {kept}") from problem
    except _ODD as problem:
        text = f"{where} holds what no kdyno writes: {str(problem)[:200]}"
        raise ToolError(text) from problem


@dataclass(frozen=True)
class Wanted:
    """Which runs. Patterns: * is any text, ? any character; capitals do not matter."""

    experiment: str | None = None
    case: str | None = None
    """CASE or SUITE/CASE."""
    kernel: str | None = None
    """A version, with or without v; or a word of the source, such as a git tag."""
    cpu: str | None = None
    """The CPU's model, of any of its machines."""
    limit: int | None = None
    """The newest so many."""


def _numbers(wanted: Wanted) -> Any:
    query = sa.select(RUNS.c.id).order_by(*_NEWEST_FIRST)
    if wanted.experiment:
        query = query.where(_like(RUNS.c.experiment, wanted.experiment))
    if wanted.cpu:
        one = sa.exists().where(
            MACHINES.c.run == RUNS.c.id, _like(MACHINES.c.cpu_model, wanted.cpu)
        )
        query = query.where(sa.or_(_like(RUNS.c.cpu_model, wanted.cpu), one))
    if wanted.kernel:
        kernel = sa.or_(
            _like(KERNELS.c.version, wanted.kernel.removeprefix("v")),
            _like(KERNELS.c.version, wanted.kernel),
            _like(KERNELS.c.source, f"*{wanted.kernel}*"),
        )
        query = query.where(sa.exists().where(KERNELS.c.run == RUNS.c.id, kernel))
    if wanted.case:
        suite, slash, case = wanted.case.rpartition("/")
        named = _like(SCORES.c.case, case)
        if slash:
            named = sa.and_(named, _like(SCORES.c.suite, suite))
        query = query.where(sa.exists().where(SCORES.c.run == RUNS.c.id, named))
    return query.limit(wanted.limit).subquery()


def listed(connection: sa.Connection, wanted: Wanted) -> list[Facts]:
    """Newest first."""
    numbers = _numbers(wanted)
    return _facts(connection, _runs().join(numbers, numbers.c.id == RUNS.c.id))


def of_runs(
    connection: sa.Connection, wanted: Wanted, table: sa.Table, read: Callable[[Any], T | None]
) -> Mapping[str, Sequence[T]]:
    """Identity of a run → its rows of a table, in order; ``read`` gives None for an odd one."""
    numbers = _numbers(wanted)
    query = (
        sa.select(RUNS.c.identity, *(column for column in table.c if column.name not in _OUR_OWN))
        .join(RUNS, RUNS.c.id == table.c.run)
        .join(numbers, numbers.c.id == RUNS.c.id)
        .order_by(table.c.run, table.c.place)
    )
    by_run: dict[str, list[T]] = {}
    for row in connection.execute(query):
        if (own := read(row)) is not None:
            by_run.setdefault(row.identity, []).append(own)
    return by_run


def named(connection: sa.Connection, text: str, most: int) -> list[Facts]:
    """Runs of that name; else that begin or end so; else that have it in. ``last``: the newest."""
    query, name, text = _runs(), RUNS.c.name, harmless(text)
    if text == "last":
        return _facts(connection, query.limit(1))
    begins, ends, has = (
        way(text, autoescape=True) for way in (name.startswith, name.endswith, name.contains)
    )
    for way in (name == text, sa.or_(begins, ends), has):
        if facts := _facts(connection, query.where(way).limit(most)):
            return facts
    return []


def names(connection: sa.Connection, most: int) -> list[str]:
    query = sa.select(RUNS.c.name).order_by(RUNS.c.created.desc()).limit(most)
    return [name for name in connection.scalars(query) if isinstance(name, str)]


def parts(connection: sa.Connection, identity: str) -> Iterator[bytes]:
    """A run's files, one part after the other: each is some megabytes."""
    query = sa.select(PARTS.c.content).join(RUNS, PARTS.c.run == RUNS.c.id).order_by(PARTS.c.number)
    query = query.where(RUNS.c.identity == identity).execution_options(yield_per=1)
    for content in connection.scalars(query):
        if not isinstance(content, bytes):
            raise ToolError("an archive of a run is none")
        yield content


def _runs() -> sa.Select[Any]:
    return sa.select(*(RUNS.c[field.name] for field in fields(Facts))).order_by(*_NEWEST_FIRST)


def _facts(connection: sa.Connection, query: sa.Select[Any]) -> list[Facts]:
    rows = connection.execute(query)
    return [facts for row in rows if (facts := read_facts(row)) is not None]


def _like(column: Any, pattern: str) -> sa.ColumnElement[bool]:
    text = harmless(pattern.lower())
    for letter in (_ESCAPE, "%", "_"):
        text = text.replace(letter, _ESCAPE + letter)
    text = text.replace("*", "%").replace("?", "_")
    return sa.func.lower(column).like(text, escape=_ESCAPE)
