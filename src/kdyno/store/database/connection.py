# SPDX-License-Identifier: MIT
"""Connections to a database, and their errors as messages that help."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL, make_url

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.store.database.address import location, masked, sqlite_file

_PATIENCE_S = 10
"""For a server to answer a first time."""
_SILENCE_MS = 60_000
"""For which a server that was reached may say nothing at all before it counts as gone."""
_LOCKED_S = 30.0
"""For which somebody else may be writing an SQLite file."""
_ODD = (ValueError, TypeError, OverflowError, RecursionError)
"""Of values that are not what their column says: SQLite keeps anything in it."""
_DENIED = ("InsufficientPrivilege", "ReadOnlySqlTransaction")


def engine_of(address: str) -> Engine:
    """Nothing is reached yet."""
    file = sqlite_file(address)
    if file is not None:
        return sqlite_engine(file, _LOCKED_S)
    url = make_url(address).set(drivername="postgresql+psycopg")
    own: dict[str, Any] = {
        "connect_timeout": _PATIENCE_S,
        "tcp_user_timeout": _SILENCE_MS,
        "keepalives_idle": 20,
        "application_name": "kdyno",
    }
    wanted = {name: value for name, value in own.items() if name not in url.query}
    # A server that is started again between two looks of `serve` is asked first.
    return create_engine(url, connect_args=wanted, pool_pre_ping=True, pool_size=2)


def sqlite_engine(file: Path, timeout_s: float) -> Engine:
    """A file that may not be there yet."""
    url = URL.create("sqlite", database=str(file))
    engine = create_engine(url, connect_args={"timeout": timeout_s})

    @event.listens_for(engine, "connect")
    def _connected(connection: sqlite3.Connection, _record: object) -> None:
        # Python's own idea of when a transaction begins leaves CREATE TABLE outside of them.
        connection.isolation_level = None
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def _begun(connection: Connection) -> None:
        # Between a read and a later write another process could write.
        reads = connection.get_execution_options().get("reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine


@contextmanager
def reading(engine: Engine, address: str) -> Iterator[Connection]:
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
def writing(engine: Engine, address: str) -> Iterator[Connection]:
    """All of it at the end, or nothing."""
    with _in_our_words(address, "written"), engine.begin() as connection:
        yield connection


@contextmanager
def _in_our_words(address: str, what: str) -> Iterator[None]:
    try:
        yield
    except KdynoError:
        raise
    except (exc.DBAPIError, exc.SQLAlchemyError) as problem:
        raise problem_of(problem, address, what) from problem
    except _ODD as problem:
        raise ToolError(
            f"the store {location(address)} holds what no kdyno writes: {str(problem)[:200]}"
        ) from problem


def problem_of(problem: exc.SQLAlchemyError, address: str, what: str) -> KdynoError:
    """A database's error for people: which store, what became of the data, what to do."""
    where = f"the store {location(address)}"
    original = getattr(problem, "orig", None)
    message = masked(" ".join(str(original or problem).split()))[:500]
    kept = "nothing of it was kept" if what == "written" else "nothing was read"
    if type(original).__name__ in _DENIED:
        return UsageError(f"{where}: this user may not do that ({message}); {kept}")
    if isinstance(problem, exc.DBAPIError) and (
        problem.connection_invalidated or isinstance(problem, exc.OperationalError)
    ):
        again = "try again: a run is put there once, however often it is pushed"
        return ToolError(
            f"{where} cannot be reached, or went away: {message}. "
            f"{again if what == 'written' else 'Try again, or unset KDYNO_STORE'}"
        )
    return ToolError(f"{where}: {message}; {kept}")
