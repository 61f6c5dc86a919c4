# SPDX-License-Identifier: MIT
"""Runs in a store that a team shares: whole, once, and the same when they come out again."""

from __future__ import annotations

import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from threading import Barrier

import pytest
from shared_stores import address, server, shared
from site_runs import at_once, small
from sqlalchemy import func, select, text

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.judge.judging import Otherwise, judge_again
from kdyno.report.site.summary import of_rows, summarize
from kdyno.store.database import query
from kdyno.store.database.connection import reading, writing
from kdyno.store.database.push import copy_of, put
from kdyno.store.database.query import Wanted
from kdyno.store.database.schema import KERNELS, MACHINES, PARTS, RUNS, SAMPLES, SCORES
from kdyno.store.database.shared import Shared
from kdyno.store.index import NoSuchRun, entries
from kdyno.store.run import Run, write_run

__all__ = ["address", "server", "shared"]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch)


def counts(shared: Shared) -> dict[str, int]:
    """Table → rows."""
    with reading(shared._engine, shared.address) as connection:
        return {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in (RUNS, KERNELS, MACHINES, SCORES, SAMPLES, PARTS)
        }


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


ONE = {"runs": 1, "kernels": 2, "machines": 1, "scores": 4, "samples": 4, "parts": 1}


def test_a_run_comes_out_as_it_went_in(tmp_path: Path, shared: Shared) -> None:
    run = small(tmp_path / "runs")
    done = shared.push(run)
    assert (done.name, done.word, done.boots, done.left_out) == (run.name, "pushed", 14, ())
    assert counts(shared) == ONE
    again = shared.fetch(shared.find("last"), tmp_path / "cache")
    assert again.name == run.name
    assert files(again.path) == files(run.path)
    # It is there once, and found there.
    assert shared.fetch(shared.find(run.name[-4:]), tmp_path / "cache").path == again.path
    first, _ = judge_again(run, Otherwise())
    second, _ = judge_again(again, Otherwise())
    assert first == second and first.effects[0].verdict == "faster"


def test_a_run_is_there_once(tmp_path: Path, shared: Shared) -> None:
    run = small(tmp_path / "runs")
    assert shared.push(run).word == "pushed"
    assert shared.push(run).word == "there"
    copied = tmp_path / "elsewhere" / "another-name"
    shutil.copytree(run.path, copied)
    done = shared.push(Run(copied))
    assert (done.name, done.word) == (run.name, "there")
    assert counts(shared) == ONE


def test_what_is_new_of_a_run_takes_the_place_of_what_was(tmp_path: Path, shared: Shared) -> None:
    run = small(tmp_path / "runs")
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
    assert shared.push(run).word == "replaced"
    assert shared.find("last").answer == "Otherwise."


def test_two_runs_of_one_name(tmp_path: Path, shared: Shared) -> None:
    first = small(tmp_path / "a", 0)
    other = small(tmp_path / "b", 1)
    second = Run(other.path.rename(tmp_path / "b" / first.name))
    assert shared.push(first).name == first.name
    done = shared.push(second)
    assert done.word == "pushed"
    assert done.name == f"{first.name}-{copy_of(second).facts.identity[:8]}"
    assert shared.push(second).name == done.name
    assert [it.name for it in shared.listed(Wanted())] == [done.name, first.name]
    assert shared.find(first.name).created == first.manifest().created


def test_a_folder_with_an_odd_name(tmp_path: Path, shared: Shared) -> None:
    run = Run(small(tmp_path / "runs").path.rename(tmp_path / "runs" / "my ‮ run"))
    assert shared.push(run).name == "my-run"
    assert shared.fetch(shared.find("my-run"), tmp_path / "cache").name == "my-run"


def test_two_push_at_once(tmp_path: Path, shared: Shared) -> None:
    run = small(tmp_path / "runs")
    shared.prepare()
    ready = Barrier(4)

    def push(_number: int) -> str:
        mine = Shared(shared.address)
        ready.wait()
        try:
            return mine.push(run).word
        finally:
            mine.close()

    with ThreadPoolExecutor(4) as pool:
        words = sorted(pool.map(push, range(4)))
    assert words == ["pushed", "there", "there", "there"]
    assert counts(shared) == ONE


def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path, shared: Shared) -> None:
    run = small(tmp_path / "runs")
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


def test_a_run_that_is_written_is_not_pushed(tmp_path: Path, shared: Shared) -> None:
    run = small(tmp_path / "runs")
    with write_run(run.path), pytest.raises(UsageError, match="still being measured"):
        shared.push(run)


def test_which_runs(tmp_path: Path, shared: Shared) -> None:
    runs = tmp_path / "runs"
    rows = [
        (0, "7.3.0-rc1", "AMD EPYC", "nightly"),
        (1, "7.3.0-rc2", "Intel Xeon", "nightly"),
        (2, "7.4.0", "AMD EPYC", "100%_sure"),
    ]
    names = []
    for day, version, cpu, experiment in rows:
        run = small(runs, day, version=version, cpu=cpu, experiment=experiment)
        names.append(run.name)
        shared.push(run)

    def found(**wanted: object) -> list[str]:
        return [it.name for it in reversed(shared.listed(Wanted(**wanted)))]  # type: ignore[arg-type]

    assert found() == names
    assert found(kernel="v7.3*-rc*") == names[:2]
    assert found(kernel="7.3.0-rc2") == names[1:2]
    assert found(case="pipe", kernel="v7.3*", cpu="*epyc*") == names[:1]
    assert found(case="fio/read", limit=2) == names[1:]
    assert found(case="unixbench/read") == []
    assert found(experiment="100%_*") == names[2:]
    assert found(experiment="1___*") == []
    assert shared.find(names[0]).name == names[0]
    with pytest.raises(UsageError, match="several runs match"):
        shared.find("nightly")
    with pytest.raises(NoSuchRun, match="no such run in the store"):
        shared.find("zzz")


def test_a_run_on_several_machines_is_found_by_each(tmp_path: Path, shared: Shared) -> None:
    run = small(tmp_path / "runs", cpu="AMD EPYC + Intel Xeon")
    manifest = run.manifest()
    hosts = {
        f"{model} {node}": {**manifest.host, "cpu_model": model}
        for model, node in (("AMD EPYC", "n1"), ("Intel Xeon", "n2"), ("Intel Xeon", "n3"))
    }
    with write_run(run.path) as writer:
        writer.save_manifest(manifest.model_copy(update={"machines": hosts}))
    small(tmp_path / "runs", 1, cpu="ARM Neoverse")
    shared.push(run)
    with reading(shared._engine, shared.address) as connection:
        found = connection.execute(select(MACHINES.c.name, MACHINES.c.cpu_model)).all()
    assert [tuple(it) for it in found] == [
        (name, host["cpu_model"]) for name, host in hosts.items()
    ]
    for cpu, names in (("intel xeon", [run.name]), ("AMD EPYC", [run.name]), ("AMD", [])):
        assert [it.name for it in shared.listed(Wanted(cpu=cpu))] == names
        assert [it.name for it in entries(tmp_path / "runs", Wanted(cpu=cpu))] == names


def test_a_page_of_rows_is_that_of_the_folders(tmp_path: Path, shared: Shared) -> None:
    runs = [small(tmp_path / "runs", day, effect=effect) for day, effect in ((0, 1.02), (3, 0.9))]
    for run in runs:
        shared.push(run)
    rows = shared.rows(Wanted())
    pages = [
        of_rows(it, rows.kernels[it.identity], rows.scores[it.identity])
        for it in reversed(rows.facts)
    ]
    assert pages == [summarize(run)[0] for run in runs]
    assert [it.counts for it in pages] == [{"faster": 1, "slower": 1}] * 2


def test_samples_are_there_for_sql(tmp_path: Path, shared: Shared) -> None:
    run = small(tmp_path / "runs", blocks=3)
    shared.push(run)
    with reading(shared._engine, shared.address) as connection:
        row = connection.execute(
            select(SAMPLES).where(SAMPLES.c.case == "pipe", SAMPLES.c.variant == "mine")
        ).one()
    boots = [it for it in run.boots() if it.variant == "mine"]  # type: ignore[union-attr]
    assert row.blocks == [0, 1, 2]
    assert row.scores == [it.samples[0].score for it in boots]  # type: ignore[union-attr]


def test_a_damaged_run_is_kept_as_it_is(tmp_path: Path, shared: Shared) -> None:
    run = small(tmp_path / "runs")
    (run.path / "boots" / "0003-mine" / "host.json").write_bytes(b"{")
    (run.path / "elsewhere").symlink_to("/etc/passwd")
    (run.path / ".hidden").write_text("mine")
    done = shared.push(run)
    assert (done.boots, done.left_out) == (13, ("elsewhere",))
    facts = shared.find("last")
    assert (facts.boots, facts.damaged) == (13, 1)
    again = shared.fetch(facts, tmp_path / "cache")
    assert (again.path / "boots" / "0003-mine" / "host.json").read_bytes() == b"{"
    assert not (again.path / "elsewhere").exists() and not (again.path / ".hidden").exists()


def test_a_fetched_folder_that_lost_something_is_fetched_again(
    tmp_path: Path, shared: Shared
) -> None:
    run = small(tmp_path / "runs")
    shared.push(run)
    again = shared.fetch(shared.find("last"), tmp_path / "cache")
    (again.path / "verdict.json").write_text("")
    again = shared.fetch(shared.find("last"), tmp_path / "cache")
    assert files(again.path) == files(run.path)


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
    tmp_path: Path, shared: Shared, command: str
) -> None:
    odd, well = (small(tmp_path / "runs", day) for day in (0, 1))
    for run in (odd, well):
        shared.push(run)
    with writing(shared._engine, shared.address) as connection:
        connection.execute(text(f"{command} WHERE {_of(command)} = 1"))
    rows = shared.rows(Wanted())
    assert [it.name for it in rows.facts] == [well.name, odd.name]
    kept = {it.name: len(rows.scores.get(it.identity, ())) for it in rows.facts}
    assert kept == {well.name: 4, odd.name: ODD_ROWS[command]}
    for it in rows.facts:
        page = of_rows(it, rows.kernels[it.identity], rows.scores.get(it.identity, ()))
        assert json.dumps(asdict(page), allow_nan=False)
    assert (rows.facts[1].state == "damaged") == command.startswith("UPDATE runs")


def _of(command: str) -> str:
    return "id" if command.startswith("UPDATE runs") else "run"


@pytest.mark.slow
@pytest.mark.parametrize("value", ["'x'", "x'ff'", "NULL", "CAST(x'ff' AS TEXT)"])
@pytest.mark.parametrize("column", ["counts", "boots", "answer", "name", "judged"])
def test_a_file_of_sqlite_holds_anything_in_any_column(
    tmp_path: Path, column: str, value: str
) -> None:
    own = Shared(f"sqlite:///{tmp_path / 'store'}")
    run = small(tmp_path / "runs")
    own.push(run)
    with sqlite3.connect(tmp_path / "store") as base, suppress(sqlite3.IntegrityError):
        base.execute(f"UPDATE runs SET {column} = {value}")
    base.close()
    with suppress(KdynoError):
        for it in own.listed(Wanted()):
            own.fetch(it, tmp_path / "cache")


def test_a_question_is_bounded(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(query, "listed", lambda _connection, wanted: asked.append(wanted.limit))
    shared.prepare()
    for limit in (None, 5, 1 << 40):
        shared.listed(Wanted(limit=limit))
    assert asked == [1000, 5, 100_000]
