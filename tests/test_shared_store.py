# SPDX-License-Identifier: MIT
"""Runs in a store that a team shares: whole, once, and the same when they come out again; and the
archives that their files are in, ours and those that others made."""

from __future__ import annotations

import gzip
import json
import shutil
import sqlite3
import tarfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import asdict, replace
from pathlib import Path
from random import randbytes
from threading import Barrier

import pytest
from fake_run import boots_of
from shared_stores import address, server, shared
from site_runs import MACHINE, small
from sqlalchemy import func, select, text

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.judge.judging import judge_again
from kdyno.report.site.summary import of_rows, summarize
from kdyno.store.database import query
from kdyno.store.database.query import Wanted, reading, writing
from kdyno.store.database.shared import Packed, Shared, copy_of, pack, put, unpack, weighed
from kdyno.store.database.tables import METADATA, SAMPLES
from kdyno.store.index import NoSuchRun, entries
from kdyno.store.run import Run, write_run

__all__ = ["address", "server", "shared"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return small(tmp_path / "runs")


def counts(shared: Shared) -> dict[str, int]:
    """Table → rows."""
    with reading(shared._engine, shared.address) as connection:
        return {
            name: connection.scalar(select(func.count()).select_from(table)) or 0
            for name, table in METADATA.tables.items()
        }


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


ONE = {"runs": 1, "kernels": 2, "machines": 1, "scores": 4, "samples": 4, "parts": 1}


@pytest.mark.slow
def test_a_run_is_there_once_and_as_it_was(tmp_path: Path, run: Run, shared: Shared) -> None:
    pushed = shared.push(run)
    assert (pushed.name, pushed.word, pushed.boots, pushed.left_out) == (run.name, "pushed", 14, ())
    assert shared.push(run).word == "there"
    copied = tmp_path / "elsewhere" / "another-name"
    shutil.copytree(run.path, copied)
    again = shared.push(Run(copied))
    assert (again.name, again.word) == (run.name, "there") and counts(shared) == ONE
    fetched = shared.fetch(shared.find("last"), tmp_path / "cache")
    assert fetched.name == run.name and files(fetched.path) == files(run.path)
    # It is there once, and found there.
    assert shared.fetch(shared.find(run.name[-4:]), tmp_path / "cache").path == fetched.path
    first, _ = judge_again(run)
    second, _ = judge_again(fetched)
    assert first == second and first.effects[0].verdict == "faster"
    (fetched.path / "verdict.json").write_text("")  # one that lost something is fetched again
    fetched = shared.fetch(shared.find("last"), tmp_path / "cache")
    assert files(fetched.path) == files(run.path)


def test_a_run_that_is_judged_while_it_is_read_is_not_pushed(
    run: Run, shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge_and_pack(folder: Path) -> Packed:
        verdict, _manifest = judge_again(run, equivalent=0.2)
        with write_run(run.path) as writer:
            writer.save_later_verdict(verdict)
        return pack(folder)

    monkeypatch.setattr("kdyno.store.database.shared.pack", judge_and_pack)
    with pytest.raises(ToolError, match="changed while it was read"):
        shared.push(run)


@pytest.mark.slow
def test_what_is_new_of_a_run_replaces_the_old(tmp_path: Path, run: Run, shared: Shared) -> None:
    early = tmp_path / "early" / run.name
    shutil.copytree(run.path, early)
    for left in ("0012-stock", "0013-mine"):
        shutil.rmtree(early / "boots" / left)
    assert shared.push(Run(early)).word == "pushed"
    before = shared.fetch(shared.find("last"), tmp_path / "cache")
    assert shared.push(run).word == "replaced"
    assert counts(shared) == ONE
    after = shared.fetch(shared.find("last"), tmp_path / "cache")
    assert files(after.path) == files(run.path) and not before.path.exists()
    with pytest.raises(UsageError, match="14 boots, here are 12"):
        shared.push(Run(early))
    verdict = run.verdict()
    assert verdict is not None
    with write_run(run.path) as writer:
        writer.save_later_verdict(verdict.model_copy(update={"answer": "Otherwise."}))
        with pytest.raises(UsageError, match="still being measured"):
            shared.push(run)
    assert shared.push(run).word == "replaced"
    assert shared.find("last").answer == "Otherwise."


@pytest.mark.slow
def test_names_of_runs(tmp_path: Path, run: Run, shared: Shared) -> None:
    second = Run(small(tmp_path / "b", 1).path.rename(tmp_path / "b" / run.name))
    odd = Run(small(tmp_path / "c", 2).path.rename(tmp_path / "c" / "my \u202e run"))
    assert shared.push(run).name == run.name
    pushed = shared.push(second)
    assert pushed.word == "pushed"
    assert pushed.name == f"{run.name}-{copy_of(second).facts.identity[:8]}"
    assert shared.push(second).name == pushed.name
    assert shared.push(odd).name == "my-run"
    assert [fact.name for fact in shared.listed(Wanted())] == ["my-run", pushed.name, run.name]
    assert shared.find(run.name).created == run.manifest().created
    assert shared.fetch(shared.find("my-run"), tmp_path / "cache").name == "my-run"


@pytest.mark.slow
def test_several_push_at_once(run: Run, shared: Shared) -> None:
    shared.prepare()
    ready = Barrier(4)

    def push(_number: int) -> str:
        with closing(Shared(shared.address)) as own:
            ready.wait()
            return own.push(run).word

    with ThreadPoolExecutor(4) as pool:
        words = sorted(pool.map(push, range(4)))
    assert words == ["pushed", "there", "there", "there"]
    assert counts(shared) == ONE


@pytest.mark.slow
def test_an_error_in_the_middle_leaves_nothing(run: Run, shared: Shared) -> None:
    shared.prepare()
    copy = copy_of(run)
    broken = replace(copy, packed=replace(copy.packed, parts=(*copy.packed.parts, None)))  # type: ignore[arg-type]
    with (
        pytest.raises(ToolError, match="nothing of it was kept"),
        writing(shared._engine, shared.address) as connection,
    ):
        put(connection, broken, shared.where)
    assert counts(shared) == dict.fromkeys(ONE, 0)
    assert shared.push(run).word == "pushed"


@pytest.mark.parametrize(
    ("pragma", "kind", "message"),
    [
        ("query_only = ON", UsageError, r"this user may not do that .*; nothing of it was kept"),
        ("max_page_count = 1", ToolError, r"store\.sqlite: .*is full; nothing of it was kept"),
    ],
)
def test_a_store_that_takes_nothing(
    tmp_path: Path, run: Run, pragma: str, kind: type[KdynoError], message: str
) -> None:
    (run.path / "noise").write_bytes(randbytes(1 << 16))  # more than the pages there have room for
    with closing(Shared(f"sqlite:///{tmp_path / 'store.sqlite'}")) as own:
        own.prepare()
        with (
            pytest.raises(kind, match=message),
            writing(own._engine, own.address) as connection,
        ):
            connection.exec_driver_sql(f"PRAGMA {pragma}")
            put(connection, copy_of(run), own.where)


@pytest.mark.slow
def test_which_runs(tmp_path: Path, shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [
        small(tmp_path / "runs", 0, version="7.3.0-rc1", cpu="AMD EPYC"),
        small(tmp_path / "runs", 1, version="7.3.0-rc2", cpu="Intel Xeon"),
        small(tmp_path / "runs", 2, version="7.4.0", cpu="AMD EPYC", experiment="100%_sure"),
    ]
    names = [shared.push(run).name for run in runs]
    for wanted, expected in (
        (Wanted(), names),
        (Wanted(kernel="v7.3*-rc*"), names[:2]),
        (Wanted(kernel="7.3.0-rc2"), names[1:2]),
        (Wanted(case="pipe", kernel="v7.3*", cpu="*epyc*"), names[:1]),
        (Wanted(case="fio/read", limit=2), names[1:]),
        (Wanted(case="unixbench/read"), []),
        (Wanted(experiment="100%_*"), names[2:]),
        (Wanted(experiment="1___*"), []),
    ):
        assert [fact.name for fact in reversed(shared.listed(wanted))] == expected, wanted
        assert [run.name for run, _ in entries(tmp_path / "runs", wanted)] == expected, wanted
    assert shared.find(names[0]).name == names[0]
    with pytest.raises(UsageError, match="several runs match"):
        shared.find("nightly")
    with pytest.raises(NoSuchRun, match="no such run in the store"):
        shared.find("zzz")
    limits: list[int | None] = []
    monkeypatch.setattr(query, "listed", lambda _connection, wanted: limits.append(wanted.limit))
    for limit in (None, 5, 1 << 40):
        shared.listed(Wanted(limit=limit))
    assert limits == [1000, 5, 100_000]


@pytest.mark.slow
def test_a_run_on_several_machines_is_found_by_each(tmp_path: Path, shared: Shared) -> None:
    hosts = {
        f"{model} {node}": {**MACHINE, "cpu_model": model}
        for model, node in (("AMD EPYC", "n1"), ("Intel Xeon", "n2"), ("Intel Xeon", "n3"))
    }
    run = small(tmp_path / "runs", cpu="AMD EPYC + Intel Xeon", machines=hosts)
    small(tmp_path / "runs", 1, cpu="ARM Neoverse")
    shared.push(run)
    with reading(shared._engine, shared.address) as connection:
        machines = connection.execute(text("SELECT name, cpu_model FROM machines ORDER BY place"))
        assert [tuple(row) for row in machines] == [
            (name, host["cpu_model"]) for name, host in hosts.items()
        ]
    for cpu, names in (("intel xeon", [run.name]), ("AMD EPYC", [run.name]), ("AMD", [])):
        assert [fact.name for fact in shared.listed(Wanted(cpu=cpu))] == names
        assert [run.name for run, _ in entries(tmp_path / "runs", Wanted(cpu=cpu))] == names


@pytest.mark.slow
def test_rows_are_what_the_folders_say(tmp_path: Path, shared: Shared) -> None:
    runs = [small(tmp_path / "runs", day, effect=effect) for day, effect in ((0, 1.02), (3, 0.9))]
    for run in runs:
        shared.push(run)
    rows = shared.rows(Wanted())
    pages = [
        of_rows(fact, rows.kernels[fact.identity], rows.scores[fact.identity])
        for fact in reversed(rows.facts)
    ]
    assert pages == [summarize(run)[0] for run in runs]
    assert [page.counts for page in pages] == [{"faster": 1, "slower": 1}] * 2
    of_mine = select(SAMPLES).where(SAMPLES.c.case == "pipe", SAMPLES.c.variant == "mine")
    with reading(shared._engine, shared.address) as connection:
        row = connection.execute(of_mine.order_by(SAMPLES.c.run)).first()
    boots = [boot for boot in boots_of(runs[0]) if boot.variant == "mine"]
    assert row is not None and row.blocks == list(range(7))
    assert row.scores == [boot.samples[0].score for boot in boots]


@pytest.mark.slow
def test_a_damaged_run_is_kept_as_it_is(tmp_path: Path, run: Run, shared: Shared) -> None:
    (run.path / "boots" / "0003-mine" / "host.json").write_bytes(b"{")
    (run.path / "elsewhere").symlink_to("/etc/passwd")
    (run.path / ".hidden").write_text("mine")
    pushed = shared.push(run)
    assert (pushed.boots, pushed.left_out) == (13, ("elsewhere",))
    facts = shared.find("last")
    assert (facts.boots, facts.damaged) == (13, 1)
    again = shared.fetch(facts, tmp_path / "cache")
    assert (again.path / "boots" / "0003-mine" / "host.json").read_bytes() == b"{"
    assert not (again.path / "elsewhere").exists() and not (again.path / ".hidden").exists()


ODD_ROWS = {
    "UPDATE scores SET high = 'NaN'": 4,
    "UPDATE scores SET ratio = 'Infinity'": 4,
    "UPDATE scores SET value = -1": 0,
    "UPDATE scores SET value = NULL": 0,
    "UPDATE runs SET boots = -1": 4,
    "UPDATE runs SET counts = '[]'": 4,
}
"""Command → scores that are left of the run's four."""


@pytest.mark.slow
@pytest.mark.parametrize("command", ODD_ROWS)
def test_an_odd_row_keeps_no_other_run_from_being_shown(
    tmp_path: Path, run: Run, shared: Shared, command: str
) -> None:
    well = small(tmp_path / "runs", 1)
    for each in (run, well):
        shared.push(each)
    of_run = command.startswith("UPDATE runs")
    with writing(shared._engine, shared.address) as connection:
        connection.execute(text(f"{command} WHERE {'id' if of_run else 'run'} = 1"))
    rows = shared.rows(Wanted())
    assert [fact.name for fact in rows.facts] == [well.name, run.name]
    kept = {fact.name: len(rows.scores.get(fact.identity, ())) for fact in rows.facts}
    assert kept == {well.name: 4, run.name: ODD_ROWS[command]}
    for one in rows.facts:
        page = of_rows(one, rows.kernels[one.identity], rows.scores.get(one.identity, ()))
        assert json.dumps(asdict(page), allow_nan=False)
    assert (rows.facts[1].state == "damaged") == of_run


@pytest.mark.slow
@pytest.mark.parametrize("value", ["'x'", "x'ff'", "NULL", "CAST(x'ff' AS TEXT)"])
@pytest.mark.parametrize("column", ["counts", "boots", "answer", "name", "judged"])
def test_sqlite_holds_anything_in_any_column(
    tmp_path: Path, run: Run, column: str, value: str
) -> None:
    own = Shared(f"sqlite:///{tmp_path / 'store'}")
    own.push(run)
    with closing(sqlite3.connect(tmp_path / "store")) as base, suppress(sqlite3.IntegrityError):
        base.execute(f"UPDATE runs SET {column} = {value}")
        base.commit()
    with suppress(KdynoError):
        for fact in own.listed(Wanted()):
            own.fetch(fact, tmp_path / "cache")


@pytest.mark.slow
def test_many_boots_in_parts(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.path / "zero").touch()  # alone in the last part
    whole = pack(run.path)
    monkeypatch.setattr("kdyno.store.database.shared._PART_BYTES", 1)
    packed = pack(run.path)
    assert len(packed.parts) >= 3 and packed.digest == whole.digest
    into = tmp_path / "into"
    for part in packed.parts:
        unpack(part, into)
    assert files(into) == files(run.path)
    assert weighed(into) == (packed.files, packed.size_bytes)


def member(name: str, data: bytes = b"", **about: object) -> bytes:
    """As it lies in an archive; ``size`` may be another than the data's."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for key, value in about.items():
        setattr(info, key, value)
    return info.tobuf(tarfile.GNU_FORMAT) + data.ljust(-(-len(data) // 512) * 512, b"\0")


PAX = {"type": tarfile.XHDTYPE}
OUTSIDE = ("/etc/x", "../x", "a/../x", "a/b/c/d", ".lock", "boots/.tmp-1/x", "")


@pytest.mark.parametrize(
    "plain",
    [
        *(member(name, b"1") for name in OUTSIDE),
        # A header may give a size below 0: Python's own reader goes round in a circle for ever.
        member("a", b"1") + member("b", size=-1536),
        member("p", b"14 size=-1024\n", **PAX) + member("a", b"1"),
        # Some bytes that say that they are a file of a terabyte.
        member("a", type=tarfile.GNUTYPE_SPARSE, size=1 << 40),
        member("p", b"22 GNU.sparse.major=1\n", **PAX) + member("a", b"1"),
        member("a", size=1 << 33),
        # Names and contents twice over.
        member("a", b"1") + member("a", b"2"),
        member("a", b"1") + member("a/b", b"2"),
        member("p", b"18 path=../outside\n", **PAX) + member("a", b"1"),
        member("p", b"99999999 path=a\n", **PAX) + member("a", b"1"),
        member("p", b"-9 path=a\n", **PAX) + member("a", b"1"),
        member("p", b"0 path=a\n", **PAX) + member("a", b"1"),
        member("p", b"9 path=a\n", **PAX) * 3000 + member("a", b"1"),
        member("a", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        member("a", type=tarfile.DIRTYPE),
        member("a" * 90 + "/" + "b", b"1")[:300],
        member("é" * 49 + "/x", b"1") + b"x" * 512,
    ],
)
def test_an_archive_that_kdyno_did_not_write(tmp_path: Path, plain: bytes) -> None:
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(ToolError, match=r"^an archive of a run (holds|is damaged)"):
        unpack(gzip.compress(plain, 1), into)
    assert list(tmp_path.iterdir()) == [into]
    assert not any(path.is_symlink() for path in into.rglob("*"))
    if plain in [member(name, b"1") for name in OUTSIDE]:
        assert list(into.iterdir()) == []


@pytest.mark.parametrize("name", ["n" * 200, "a" * 99 + "/" + "b" * 101, "é\udcff x", "boots/é/x"])
def test_names_that_do_not_fit_into_an_archives_header(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "run"
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_bytes(b"1")
    unpack(pack(folder).parts[0], tmp_path / "into")
    assert files(tmp_path / "into") == {name: b"1"}


@pytest.mark.slow
def test_an_archive_that_is_none(tmp_path: Path) -> None:
    for data in (b"", b"x" * 100, gzip.compress(b"x" * 100)[:-5], gzip.compress(bytes(1 << 27))):
        with pytest.raises(ToolError, match=r"archive of a run is (damaged|larger)"):
            unpack(data, tmp_path / "into")
