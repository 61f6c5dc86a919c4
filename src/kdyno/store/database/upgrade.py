# SPDX-License-Identifier: MIT
"""Which version of the tables a database has, and the way to today's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, column, inspect, select, table, text

from kdyno.errors import UsageError
from kdyno.store.database.schema import HEAD, RUNS, VERSIONS

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent / "migrations"
_LOCK = 0x6B64796E6F
"""Of PostgreSQL's advisory locks, for those who change tables: "kdyno"."""


def revision(connection: Connection) -> str | None:
    """The migration that the database is at; None where there are no tables of kdyno."""
    if not inspect(connection).has_table(VERSIONS):
        return None
    return connection.scalar(select(column("version_num")).select_from(table(VERSIONS)))


def require(connection: Connection, where: str) -> None:
    """UsageError unless the tables are today's."""
    found = revision(connection)
    if found == HEAD:
        return
    if found is None:
        raise UsageError(f"{where} is empty: the first `kdyno push RUN` makes its tables")
    _refuse_later(found, where)
    raise UsageError(
        f"{where} has tables of an earlier kdyno ({found}, this one's are {HEAD}); "
        "`kdyno push --upgrade` changes them, and then all who use it need this kdyno"
    )


def prepare(connection: Connection, where: str, *, upgrade: bool = False) -> str | None:
    """Makes the tables of an empty database, or ``upgrade``s older ones, within the transaction.

    The version that was there before; UsageError where it is another and ``upgrade`` is not asked.
    """
    found = revision(connection)
    if found == HEAD or (found is not None and not upgrade):
        require(connection, where)
        return found
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        found = revision(connection)  # somebody may have been quicker
    if found is None and inspect(connection).has_table(RUNS.name):
        raise UsageError(
            f"{where} has a table {RUNS.name!r} that is not kdyno's; give a database of its own"
        )
    if found is not None:
        _refuse_later(found, where)
    migrate(connection, HEAD)
    return found


def migrate(connection: Connection, to: str) -> None:
    """Up or down to a version; "base" is none."""
    from alembic import command

    config = configured(connection)
    if to == "base" or (to != HEAD and (revision(connection) or "") > to):
        command.downgrade(config, to)
    else:
        command.upgrade(config, to)


def configured(connection: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _refuse_later(found: str, where: str) -> None:
    if found > HEAD:
        raise UsageError(
            f"{where} has tables of a later kdyno ({found}, this one knows up to {HEAD}): "
            "it takes that kdyno"
        )
