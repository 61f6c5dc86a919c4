# SPDX-License-Identifier: MIT
"""The tables, the same on SQLite and PostgreSQL, and the way from earlier versions of them.

``runs``, ``kernels``, ``machines`` and ``scores`` are what lists, filters and histories ask for: a
few rows a run, however many boots it has. ``samples`` are its figures, for SQL by hand. ``parts``
are its files, byte for byte: what judges, compares or reports a run reads these.

A change here needs a migration: see migrations/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    column,
    inspect,
    select,
    table,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY

from kdyno.errors import UsageError
from kdyno.store.database.facts import Facts, Kernel, Machine
from kdyno.store.samples import Score

HEAD = "0002"
"""The newest migration. Here, too, so that comparing does not load Alembic."""
VERSIONS = "kdyno_version"
"""The table in which Alembic keeps the migration that a database is at."""

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)
_KEY = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite numbers rows by itself in an INTEGER PRIMARY KEY only."""
_TYPES: dict[Any, Any] = {
    **{str: Text, bool: Boolean, int: Integer, float: Float(53)},
    Mapping: JSON,
}


def _of_run(**more: Any) -> Column[Any]:
    return Column("run", _KEY, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False, **more)


def _columns(record: type, **required: dict[str, Any]) -> list[Column[Any]]:
    """One for each field of a row's dataclass; text is "" by default, except for ``required``:
    column → its further options."""
    columns = []
    for name, hint in get_type_hints(record).items():
        kinds = get_args(hint)
        optional = NoneType in kinds
        kind = kinds[0] if optional else get_origin(hint) or hint
        type_ = BigInteger if kind is int and name.endswith("_bytes") else _TYPES[kind]
        options = required.get(name, {"server_default": ""} if kind is str else {})
        columns.append(Column(name, type_, nullable=optional or kind is float, **options))
    return columns


RUNS = Table(
    "runs",
    METADATA,
    Column("id", _KEY, primary_key=True, autoincrement=True),
    *_columns(Facts, identity={"unique": True}, name={"unique": True}, digest={}),
    Index(None, "created"),
    Index(None, "experiment"),
    Index(None, "cpu_model"),
)
"""A run each. ``identity`` is the same wherever the run is copied to; ``digest`` that of its
content. Of an index both speak of the folder: its name, and a stamp of its files."""

KERNELS = Table(
    "kernels",
    METADATA,
    _of_run(primary_key=True),
    *_columns(Kernel, variant={"primary_key": True}),
    Column("place", Integer, nullable=False),
    Index(None, "version"),
)
"""What was booted, the baseline at place 0."""

MACHINES = Table(
    "machines",
    METADATA,
    _of_run(primary_key=True),
    Column("place", Integer, primary_key=True),
    *_columns(Machine),
    Index(None, "cpu_model"),
)
"""Where it was measured, as its verdict calls the machines; a run of one machine has one row."""

SCORES = Table(
    "scores",
    METADATA,
    _of_run(primary_key=True),
    Column("place", Integer, primary_key=True),
    *_columns(Score, suite={}, case={}, variant={}),
    Index(None, "case"),
)
"""A case of a variant each: median over boots and its 95 % interval in ``unit``; variant ÷ baseline
with the verdict's interval."""

SAMPLES = Table(
    "samples",
    METADATA,
    _of_run(primary_key=True),
    Column("suite", Text, primary_key=True),
    Column("case", Text, primary_key=True),
    Column("variant", Text, primary_key=True),
    # An array where there are arrays, else JSON.
    Column("blocks", JSON().with_variant(ARRAY(Integer()), "postgresql"), nullable=False),
    Column("scores", JSON().with_variant(ARRAY(Float(53)), "postgresql"), nullable=False),
)
"""A case of a variant each: its score in each of the ``blocks``, in the case's unit."""

PARTS = Table(
    "parts",
    METADATA,
    _of_run(primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("content", LargeBinary, nullable=False),
)
"""A run's files: tar, compressed by gzip, some hundred boots each."""

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
    version = revision(connection)
    if version is None:
        raise UsageError(f"{where} is empty: the first `kdyno push RUN` makes its tables")
    if version > HEAD:
        raise UsageError(
            f"{where} has tables of a later kdyno ({version}, this one knows up to {HEAD}): "
            "it takes that kdyno"
        )
    if version < HEAD:
        raise UsageError(
            f"{where} has tables of an earlier kdyno ({version}, this one's are {HEAD}); "
            "`kdyno push --upgrade` changes them, and then all who use it need this kdyno"
        )


def prepare(connection: Connection, where: str, *, upgrade: bool = False) -> str | None:
    """Makes the tables of an empty database, or ``upgrade``s older ones, within the transaction.

    The version that was there before; UsageError where it is another and ``upgrade`` is not set."""
    version = revision(connection)
    if version is not None and (version >= HEAD or not upgrade):
        require(connection, where)
        return version
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        version = revision(connection)  # somebody may have been quicker
    if version is None:
        if inspect(connection).has_table(RUNS.name):
            raise UsageError(
                f"{where} has a table {RUNS.name!r} that is not kdyno's; give a database of its own"
            )
        create(connection)
    elif version != HEAD:
        upgrade_tables(connection)
    return version


def create(connection: Connection) -> None:
    """Today's tables, in an empty database."""
    METADATA.create_all(connection)
    versions = Table(VERSIONS, MetaData(), Column("version_num", Text, nullable=False))
    versions.create(connection)
    connection.execute(versions.insert(), {"version_num": HEAD})


def upgrade_tables(connection: Connection) -> None:
    from alembic import command  # slow to import, and hardly ever needed
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, HEAD)
