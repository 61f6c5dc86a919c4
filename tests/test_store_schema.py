# SPDX-License-Identifier: MIT
"""Tables, made and changed by migrations, on both kinds of database; and which one is meant."""

from __future__ import annotations

import json
import sqlite3
from base64 import b85decode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from shared_stores import address, server, shared
from site_runs import at_once, small
from sqlalchemy import Connection, MetaData, inspect, select, text

from kdyno.errors import ToolError, UsageError
from kdyno.judge.judging import Otherwise, judge_again
from kdyno.store.database import schema
from kdyno.store.database.address import checked, masked, shown
from kdyno.store.database.connection import reading, writing
from kdyno.store.database.query import Wanted
from kdyno.store.database.schema import HEAD, METADATA, VERSIONS
from kdyno.store.database.shared import Shared
from kdyno.store.index import INDEX, entries

__all__ = ["address", "server", "shared"]


def difference(connection: Connection) -> list[object]:
    """What the migrations make and what schema.py says."""
    options = {"version_table": VERSIONS, "compare_type": True}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), METADATA))


def test_the_newest_migration_is_the_one_that_is_named() -> None:
    scripts = ScriptDirectory(str(schema.MIGRATIONS))
    assert scripts.get_heads() == [HEAD]
    order = [it.revision for it in scripts.walk_revisions()]
    assert order == sorted(order, reverse=True)  # later ones are told by their names


def test_from_an_empty_database(shared: Shared) -> None:
    with pytest.raises(UsageError, match="is empty: the first `kdyno push RUN`"):
        shared.listed(Wanted())
    assert shared.prepare() is None
    assert shared.listed(Wanted()) == []
    with writing(shared._engine, shared.address) as connection:
        assert difference(connection) == []


BEFORE = "0001"
FILLED = Path(__file__).parent / "data" / f"store-{BEFORE}.json"
"""What kdyno wrote into a store of that version: a run on one machine, and one on two."""


def fill(shared: Shared) -> dict[str, list[dict[str, object]]]:
    """A store of the version before; its rows by table."""
    data: dict[str, list[dict[str, object]]] = json.loads(FILLED.read_text())
    assert data.pop(VERSIONS) == [{"version_num": BEFORE}]
    for part in data["parts"]:
        part["content"] = b85decode(str(part["content"]))
    with writing(shared._engine, shared.address) as connection:
        schema.create(connection)
        schema.MACHINES.drop(connection)
        connection.execute(text(f"UPDATE {VERSIONS} SET version_num = '{BEFORE}'"))
        for table, own in data.items():
            numbered = [{key: it[key] for key in it if key != "id"} for it in own]
            connection.execute(METADATA.tables[table].insert(), numbered)
    found = rows(shared, BEFORE)
    assert found == {table: in_order(own) for table, own in data.items()}
    return found


def rows(shared: Shared, version: str) -> dict[str, list[dict[str, object]]]:
    """All that is in a store, which has to be of that version."""
    there = MetaData()
    with reading(shared._engine, shared.address) as connection:
        assert schema.revision(connection) == version
        there.reflect(connection)
        return {
            name: in_order([dict(it._mapping) for it in connection.execute(select(table))])
            for name, table in there.tables.items()
            if name != VERSIONS
        }


def in_order(found: list[dict[str, object]]) -> list[dict[str, object]]:
    keys = ("id", "run", "place", "number", "suite", "case", "variant")
    return sorted(found, key=lambda row: [str(row.get(key)) for key in keys])


def test_from_the_version_before_with_all_that_is_in_it(
    tmp_path: Path, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    before = fill(shared)
    later = small(tmp_path / "runs", 5)
    for ask in (lambda: shared.listed(Wanted()), shared.prepare, lambda: shared.push(later)):
        with pytest.raises(UsageError, match=r"of an earlier kdyno \(0001, this one's are 0002\)"):
            ask()
    # One that is interrupted leaves it as it was.
    with (
        pytest.raises(KeyboardInterrupt),
        writing(shared._engine, shared.address) as connection,
    ):
        schema.prepare(connection, shared.where, upgrade=True)
        raise KeyboardInterrupt
    assert rows(shared, BEFORE) == before

    assert shared.prepare(upgrade_it=True) == BEFORE
    after = rows(shared, HEAD)
    machines = [(it["run"], it["name"], it["cpu_model"]) for it in after.pop("machines")]
    assert machines == [
        *((1, "AMD EPYC", "AMD EPYC"), (2, "AMD EPYC", "AMD EPYC")),
        (2, "Intel Xeon", "Intel Xeon"),
    ]
    assert after == before
    with writing(shared._engine, shared.address) as connection:
        assert difference(connection) == []

    # What was there is found, read and judged, and not pushed twice; what is new goes in.
    names = [str(it["name"]) for it in before["runs"]]
    assert [it.name for it in shared.listed(Wanted(cpu="amd epyc"))] == names[::-1]
    assert [it.name for it in shared.listed(Wanted(cpu="intel*"))] == names[1:]
    for name in names:
        run = shared.fetch(shared.find(name), tmp_path / "cache")
        assert judge_again(run, Otherwise())[0].boots == {"stock": 2, "mine": 2}
        assert shared.push(run).word == "there"
    assert shared.push(later).word == "pushed"
    assert [it.name for it in shared.listed(Wanted(cpu="a cpu"))] == [later.name]


@pytest.mark.slow
def test_several_bring_a_store_up_to_date_at_once(shared: Shared) -> None:
    before, ready = fill(shared), Barrier(3)

    def prepare(_number: int) -> str | None:
        own = Shared(shared.address)
        ready.wait()
        try:
            return own.prepare(upgrade_it=True)
        finally:
            own.close()

    with ThreadPoolExecutor(3) as pool:
        assert sorted(map(str, pool.map(prepare, range(3)))) == [BEFORE, "None", "None"]
    after = rows(shared, HEAD)
    assert len(after.pop("machines")) == 3 and after == before


@pytest.mark.slow
def test_a_migration_that_fails_changes_nothing(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(connection: Connection) -> None:
        METADATA.create_all(connection)
        connection.execute(text("SELECT nothing_of_that_name"))

    with monkeypatch.context() as patched:
        patched.setattr(schema, "create", broken)
        with pytest.raises(ToolError, match="nothing"):
            shared.prepare()
    with reading(shared._engine, shared.address) as connection:
        assert inspect(connection).get_table_names() == []
    assert shared.prepare() is None


def test_stores_of_other_versions(shared: Shared) -> None:
    shared.prepare()

    def pretend(version: str) -> None:
        with writing(shared._engine, shared.address) as connection:
            connection.execute(text(f"UPDATE {VERSIONS} SET version_num = '{version}'"))

    pretend("9999")
    for ask in (lambda: shared.listed(Wanted()), lambda: shared.prepare(upgrade_it=True)):
        with pytest.raises(UsageError, match=r"later kdyno \(9999, this one knows up to"):
            ask()
    pretend("0000")
    for ask in (lambda: shared.listed(Wanted()), shared.prepare):
        with pytest.raises(UsageError, match="`kdyno push --upgrade` changes them"):
            ask()


def test_a_database_of_somebody_else_is_left_alone(shared: Shared) -> None:
    with writing(shared._engine, shared.address) as connection:
        connection.execute(text("CREATE TABLE runs (mine INTEGER)"))
    with pytest.raises(UsageError, match="a table 'runs' that is not kdyno's"):
        shared.prepare()


def test_the_index_of_an_earlier_kdyno_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    run = small(tmp_path)
    with sqlite3.connect(tmp_path / INDEX) as base:
        base.execute("PRAGMA user_version = 1")
        base.execute(
            "CREATE TABLE runs (name TEXT PRIMARY KEY, stamp TEXT NOT NULL, created TEXT NOT NULL, "
            "experiment TEXT NOT NULL, state TEXT NOT NULL, answer TEXT NOT NULL) WITHOUT ROWID"
        )
        base.execute("INSERT INTO runs VALUES ('old', '', '', '', '', '')")
    base.close()
    assert [it.name for it in entries(tmp_path)] == [run.name]
    with sqlite3.connect(tmp_path / INDEX) as base:
        assert base.execute(f"SELECT version_num FROM {VERSIONS}").fetchall() == [(HEAD,)]
        assert base.execute("SELECT name FROM runs").fetchall() == [(run.name,)]
    base.close()


def test_an_index_finds_runs_by_case_kernel_and_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once(monkeypatch)
    first = small(tmp_path, 0, version="7.3.0-rc1")
    second = small(tmp_path, 1, version="7.4.0", cpu="Another CPU")
    assert [it.name for it in entries(tmp_path, Wanted(kernel="v7.3*"))] == [first.name]
    assert [it.name for it in entries(tmp_path, Wanted(cpu="another*"))] == [second.name]
    assert len(entries(tmp_path, Wanted(case="unixbench/pipe"))) == 2
    assert entries(tmp_path, Wanted(case="unixbench/nothing")) == ()
    assert [it.name for it in entries(tmp_path, Wanted(limit=1))] == [second.name]


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://me:sesame-7@host/base",
        "postgresql://me:@host/base",
        "postgresql://host/base?password=sesame-7",
        "postgresql://host/base?sslmode=require&PassWord=sesame-7",
        "postgresql://host/base?sslpassword=sesame-7",
        "mysql://me:sesame-7@host/base",
    ],
)
def test_a_password_has_no_place_in_an_address(text: str) -> None:
    with pytest.raises(UsageError, match="holds a password; take it out") as said:
        checked(text)
    assert "sesame-7" not in str(said.value) and ".pgpass" in str(said.value)


@pytest.mark.parametrize(
    "text",
    [
        *("base", "mysql://host/base", "sqlite://", "sqlite:///", "postgresql://[::1/base"),
        *("x" * 5000, "postgresql://host:port/base", "postgresql+asyncpg://host/base"),
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="KDYNO_STORE: "):
        checked(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("postgresql://me@host:5433/base?sslmode=require", "postgresql://host:5433/base"),
        ("postgresql:///base?host=/run/pg", "postgresql:///base (/run/pg)"),
        ("postgresql:///?service=lab", "postgresql service lab"),
        ("sqlite:////srv/store.sqlite", "sqlite:////srv/store.sqlite"),
    ],
)
def test_an_address_for_people(text: str, said: str) -> None:
    assert shown(checked(text)) == said


def test_messages_of_others_are_masked() -> None:
    said = 'connection to "postgresql://me:sesame-7@host/base" failed: password=sesame-7 host=x'
    assert masked(said) == (
        'connection to "postgresql://me:***@host/base" failed: password=*** host=x'
    )


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        Shared(f"sqlite:///{tmp_path / 'none' / 'store'}").prepare()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"kernel " * 1000)
    with pytest.raises(ToolError, match="file is not a database"):
        Shared(f"sqlite:///{tmp_path / 'store'}").prepare()
    assert (tmp_path / "store").read_bytes() == b"kernel " * 1000
