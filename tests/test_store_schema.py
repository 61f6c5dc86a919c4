# SPDX-License-Identifier: MIT
"""Tables of today and of before, on both kinds of database; and which database is meant."""

from __future__ import annotations

import json
import sqlite3
from base64 import b85decode
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from shared_stores import address, server, shared
from site_runs import small
from sqlalchemy import Connection, MetaData, inspect, select, text

from kdyno.errors import ToolError, UsageError
from kdyno.judge.judging import judge_again
from kdyno.store.database import tables
from kdyno.store.database.address import checked, location, masked
from kdyno.store.database.query import Wanted, reading, writing
from kdyno.store.database.shared import Shared
from kdyno.store.database.tables import HEAD, METADATA, VERSIONS
from kdyno.store.index import INDEX, entries

__all__ = ["address", "server", "shared"]

BEFORE = "0001"
FILLED = Path(__file__).parent / "data" / f"store-{BEFORE}.json"
"""What kdyno wrote into a store of that version: a run on one machine, and one on two."""
Rows = dict[str, list[dict[str, object]]]


def is_todays(shared: Shared) -> bool:
    """Its tables are those of tables.py."""
    options = {"version_table": VERSIONS, "compare_type": True}
    with reading(shared._engine, shared.address) as connection:
        context = MigrationContext.configure(connection, opts=options)
        return not list(compare_metadata(context, METADATA))


def rows(shared: Shared, version: str) -> Rows:
    """All that is in a store, which has to be of that version, by table."""
    keys = ("id", "run", "place", "number", "suite", "case", "variant")
    there = MetaData()
    with reading(shared._engine, shared.address) as connection:
        assert tables.revision(connection) == version
        there.reflect(connection)
        return {
            name: sorted(
                [dict(row._mapping) for row in connection.execute(select(table))],
                key=lambda row: [str(row.get(key)) for key in keys],
            )
            for name, table in there.tables.items()
            if name != VERSIONS
        }


def fill(shared: Shared) -> Rows:
    """A store of the version before; what it holds."""
    data: Rows = json.loads(FILLED.read_text())
    assert data.pop(VERSIONS) == [{"version_num": BEFORE}]
    for part in data["parts"]:
        part["content"] = b85decode(str(part["content"]))
    with writing(shared._engine, shared.address) as connection:
        tables.create(connection)
        tables.MACHINES.drop(connection)
        connection.execute(text(f"UPDATE {VERSIONS} SET version_num = '{BEFORE}'"))
        for table, own in data.items():
            numbered = [{key: row[key] for key in row if key != "id"} for row in own]
            connection.execute(METADATA.tables[table].insert(), numbered)
    filled = rows(shared, BEFORE)
    assert {name: len(own) for name, own in filled.items()} == {
        name: len(own) for name, own in data.items()
    }
    return filled


@pytest.mark.slow
def test_from_an_empty_database(shared: Shared) -> None:
    scripts = ScriptDirectory(str(tables.MIGRATIONS))
    assert scripts.get_heads() == [HEAD]
    order = [script.revision for script in scripts.walk_revisions()]
    assert order == sorted(order, reverse=True)  # which is later is known by their names
    with pytest.raises(UsageError, match="is empty: the first `kdyno push RUN`"):
        shared.listed(Wanted())
    assert shared.prepare() is None
    assert shared.listed(Wanted()) == [] and is_todays(shared)


@pytest.mark.slow
def test_from_the_version_before_with_all_that_is_in_it(tmp_path: Path, shared: Shared) -> None:
    before = fill(shared)
    later = small(tmp_path / "runs", 5)
    for ask in (lambda: shared.listed(Wanted()), shared.prepare, lambda: shared.push(later)):
        with pytest.raises(UsageError, match=r"of an earlier kdyno \(0001, this one's are 0002\)"):
            ask()
    # An upgrade that is interrupted leaves it as it was.
    with pytest.raises(KeyboardInterrupt), writing(shared._engine, shared.address) as connection:
        tables.prepare(connection, shared.where, upgrade=True)
        raise KeyboardInterrupt
    assert rows(shared, BEFORE) == before

    assert shared.prepare(upgrade_it=True) == BEFORE
    after = rows(shared, HEAD)
    machines = [(row["run"], row["name"], row["cpu_model"]) for row in after.pop("machines")]
    models = [(1, "AMD EPYC"), (2, "AMD EPYC"), (2, "Intel Xeon")]
    assert machines == [(run, model, model) for run, model in models]
    assert after == before and is_todays(shared)

    # What was there is found, read and judged, and not pushed twice; what is new goes in.
    names = [str(row["name"]) for row in before["runs"]]
    assert [fact.name for fact in shared.listed(Wanted(cpu="amd epyc"))] == names[::-1]
    assert [fact.name for fact in shared.listed(Wanted(cpu="intel*"))] == names[1:]
    for name in names:
        run = shared.fetch(shared.find(name), tmp_path / "cache")
        assert judge_again(run)[0].boots == {"stock": 2, "mine": 2}
        assert shared.push(run).word == "there"
    assert shared.push(later).word == "pushed"
    assert [fact.name for fact in shared.listed(Wanted(cpu="a cpu"))] == [later.name]


@pytest.mark.slow
def test_several_bring_a_store_up_to_date_at_once(shared: Shared) -> None:
    before, ready = fill(shared), Barrier(3)

    def prepare(_number: int) -> str | None:
        with closing(Shared(shared.address)) as own:
            ready.wait()
            return own.prepare(upgrade_it=True)

    with ThreadPoolExecutor(3) as pool:
        assert sorted(map(str, pool.map(prepare, range(3)))) == [BEFORE, "None", "None"]
    after = rows(shared, HEAD)
    assert len(after.pop("machines")) == 3 and after == before


@pytest.mark.slow
def test_tables_that_cannot_be_made(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(connection: Connection) -> None:
        METADATA.create_all(connection)
        connection.execute(text("SELECT nothing_of_that_name"))

    with monkeypatch.context() as patched:
        patched.setattr(tables, "create", broken)
        with pytest.raises(ToolError, match="nothing"):
            shared.prepare()
    with reading(shared._engine, shared.address) as connection:
        assert inspect(connection).get_table_names() == []
    assert shared.prepare() is None


def test_stores_of_other_versions(shared: Shared) -> None:
    shared.prepare()
    for version, message, upgrade in (
        ("9999", r"later kdyno \(9999, this one knows up to", True),
        ("0000", "`kdyno push --upgrade` changes them", False),
    ):
        with writing(shared._engine, shared.address) as connection:
            connection.execute(text(f"UPDATE {VERSIONS} SET version_num = '{version}'"))
        with pytest.raises(UsageError, match=message):
            shared.listed(Wanted())
        with pytest.raises(UsageError, match=message):
            shared.prepare(upgrade_it=upgrade)


def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path, shared: Shared) -> None:
    with writing(shared._engine, shared.address) as connection:
        connection.execute(text("CREATE TABLE runs (mine INTEGER)"))
    with pytest.raises(UsageError, match="a table 'runs' that is not kdyno's"):
        shared.prepare()
    with pytest.raises(UsageError, match="there is no folder"):
        Shared(f"sqlite:///{tmp_path / 'none' / 'store'}").prepare()
    (tmp_path / "store").write_bytes(b"kernel " * 1000)
    with pytest.raises(ToolError, match="file is not a database"):
        Shared(f"sqlite:///{tmp_path / 'store'}").prepare()
    assert (tmp_path / "store").read_bytes() == b"kernel " * 1000


def test_the_index_of_an_earlier_kdyno_is_made_again(tmp_path: Path) -> None:
    run = small(tmp_path)
    with closing(sqlite3.connect(tmp_path / INDEX)) as base, base:
        base.execute("PRAGMA user_version = 1")
        base.execute("CREATE TABLE runs (name TEXT PRIMARY KEY, stamp TEXT NOT NULL) WITHOUT ROWID")
        base.execute("INSERT INTO runs VALUES ('old', '')")
    assert [own.name for own, _ in entries(tmp_path)] == [run.name]
    with closing(sqlite3.connect(tmp_path / INDEX)) as base:
        assert base.execute(f"SELECT version_num FROM {VERSIONS}").fetchall() == [(HEAD,)]
        assert base.execute("SELECT name FROM runs").fetchall() == [(run.name,)]


PASSWORD = "holds a password; take it out.*pgpass"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgresql://me:sesame-7@host/base", PASSWORD),
        ("postgresql://me:@host/base", PASSWORD),
        ("postgresql://host/base?password=sesame-7", PASSWORD),
        ("postgresql://host/base?sslmode=require&PassWord=sesame-7", PASSWORD),
        ("postgresql://host/base?sslpassword=sesame-7", PASSWORD),
        ("mysql://me:sesame-7@host/base", PASSWORD),
        *((text, "KDYNO_STORE: ") for text in ("base", "mysql://host/base", "x" * 5000)),
        *((text, "KDYNO_STORE: ") for text in ("sqlite://", "sqlite:///", "postgresql://[::1/b")),
        ("postgresql://host:port/base", "KDYNO_STORE: "),
        ("postgresql+asyncpg://host/base", "KDYNO_STORE: "),
    ],
)
def test_what_is_no_address_or_holds_a_password(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as error:
        checked(text)
    assert "sesame-7" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("postgresql://me@host:5433/base?sslmode=require", "postgresql://host:5433/base"),
        ("postgresql:///base?host=/run/pg", "postgresql:///base (/run/pg)"),
        ("postgresql:///?service=lab", "postgresql service lab"),
        ("sqlite:////srv/store.sqlite", "sqlite:////srv/store.sqlite"),
    ],
)
def test_an_address_for_people(text: str, words: str) -> None:
    assert location(checked(text)) == words


def test_messages_of_others_are_masked() -> None:
    message = 'connection to "postgresql://me:sesame-7@host/base" failed: password=sesame-7 host=x'
    assert masked(message) == (
        'connection to "postgresql://me:***@host/base" failed: password=*** host=x'
    )
