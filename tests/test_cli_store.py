# SPDX-License-Identifier: MIT
"""The shared store on the command line: what goes in, and the verbs that read it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import Kdyno, experiment_file
from serving import answer
from site_runs import small

from kdyno.errors import ToolError
from kdyno.report.site import build
from kdyno.report.site.build import SharedSite
from kdyno.report.site.server import SiteServer
from kdyno.store.database.query import Wanted
from kdyno.store.database.shared import Shared
from kdyno.store.run import FIRST_VERDICT, Run

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Named by the environment, empty."""
    address = f"sqlite:///{tmp_path / 'store.sqlite'}"
    monkeypatch.setenv("KDYNO_STORE", address)
    return address


@pytest.fixture
def theirs(tmp_path: Path, store: str) -> Run:
    """A run that somebody else pushed; its folder is gone."""
    run = small(tmp_path / "theirs", 3)
    Shared(store).push(run)
    shutil.rmtree(tmp_path / "theirs")
    return run


def test_push_says_what_became_of_each(kdyno: Kdyno, tmp_path: Path, store: str) -> None:
    first, second = (small(tmp_path / "runs", day) for day in range(2))
    where = f"the store {store}"
    done = kdyno("push", "last")
    pushed = f"{second.name}: pushed to {where} (14 boots, 0.0 MB)\n"
    assert (done.status, done.out, done.err) == (0, "", pushed)
    done = kdyno("push", first.name, "last", "--json", "-")
    assert [(entry["run"], entry["state"], entry["boots"]) for entry in json.loads(done.out)] == [
        (first.name, "pushed", 14),
        (second.name, "there", 14),
    ]
    assert f"{second.name}: is in {where} as it is here" in done.err
    (first.path / "manifest.json").write_text("{")
    (second.path / "verdict.json").unlink()
    done = kdyno("push", first.name, second.name)
    assert done.status == 1
    assert "manifest.json: damaged" in done.err
    assert f"{second.name}: brought up to date in {where}" in done.err
    done = kdyno("push", "--upgrade")
    assert (done.status, done.err) == (0, f"{where}: tables are those of this kdyno\n")


def test_without_a_store(kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KDYNO_STORE", raising=False)
    small(tmp_path / "runs")
    file = experiment_file(tmp_path)

    def measured(*_: object) -> Any:
        raise AssertionError("measured")

    monkeypatch.setattr("kdyno.cli.measuring.executed", measured)
    run_and_push = ("run", file, "--push")
    for address, message, verbs in (
        ("", "set KDYNO_STORE", (("push", "last"), ("judge", "last", "--push"), run_and_push)),
        (
            "postgresql://me:sesame-7@host/base",
            "holds a password",
            (("push", "last"), ("list", "runs"), ("report", "zzz"), ("serve",)),
        ),
        (f"sqlite:///{tmp_path / 'none' / 'store'}", "there is no folder", (run_and_push,)),
    ):
        monkeypatch.setenv("KDYNO_STORE", address)
        for words in verbs:
            done = kdyno(*words)
            assert done.status == 2 and message in done.err, words
            assert "sesame" not in done.err + done.out


def test_a_run_is_pushed_when_it_is_measured(
    kdyno: Kdyno, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small(tmp_path / "runs")
    monkeypatch.setattr("kdyno.cli.measuring.executed", lambda *_: (run, run.verdict()))
    file = experiment_file(tmp_path)
    done = kdyno("run", file, "--push")
    assert done.status == 0 and f"{run.name}: pushed to" in done.err
    for words in (("run", file, "--calibrate", "--push"), ("try", "--push", "--", "true")):
        done = kdyno(*words)
        assert done.status == 0 and f"{run.name}: is in" in done.err
    assert [fact.name for fact in Shared(store).listed(Wanted())] == [run.name]
    # A gate of the one that confirms it needs both.
    again = small(tmp_path / "runs", 5, overrides={"confirms": run.name})
    monkeypatch.setattr("kdyno.cli.measuring._end", lambda *_: (again, 0))
    done = kdyno("run", file, "--push")
    assert f"{run.name}: is in" in done.err and f"{again.name}: pushed to" in done.err
    shutil.rmtree(run.path / "boots")
    for words, where in (((), ""), (("--runs", tmp_path), f" --runs {tmp_path}")):
        done = kdyno("run", file, "--push", *words)
        assert done.status == 2
        assert f"measured, but not pushed: `kdyno push {run.name}{where}` tries again" in done.err


def test_a_gate_finds_what_a_run_of_the_store_confirms_there(
    kdyno: Kdyno, tmp_path: Path, store: str
) -> None:
    first = small(tmp_path / "runs", 0, 1.0, 0.95)
    second = small(tmp_path / "runs", 5, 1.0, 0.95, overrides={"confirms": first.name, "seed": 2})
    assert kdyno("push", second.name).status == 0
    for run in (first, second):
        shutil.move(run.path, tmp_path)
    alone = kdyno("report", second.name, "--fail-on", "slower")
    assert alone.status == 2 and "the same folder or store" in alone.err
    assert kdyno("push", first.name, "--runs", tmp_path).status == 0
    for verb in ("report", "judge"):
        assert kdyno(verb, second.name, "--fail-on", "slower").status == 10


def test_list_shows_both_places(kdyno: Kdyno, tmp_path: Path, theirs: Run) -> None:
    mine, both = small(tmp_path / "runs", 0, version="7.4.0"), small(tmp_path / "runs", 5)
    assert kdyno("push", both.name).status == 0

    def listed(*words: str) -> list[tuple[str, str]]:
        rows = json.loads(kdyno("list", "runs", "--json", "-", *words).out)["runs"]
        return [(row["run"], row["where"]) for row in rows]

    expected = [
        (mine.name, ""),
        (theirs.name, "in the store"),
        (both.name, "here and in the store"),
    ]
    assert listed() == expected
    assert listed("--limit", "2") == expected[1:]
    assert listed("--kernel", "v7.3*", "--case", "pipe", "--cpu", "a cpu") == expected[1:]
    assert listed("--experiment", "none") == []
    assert listed("--runs", str(tmp_path / "runs")) == [(mine.name, ""), (both.name, "")]


def test_report_compare_and_judge_read_a_run_of_others(
    kdyno: Kdyno, tmp_path: Path, theirs: Run, store: str
) -> None:
    done = kdyno("report", theirs.name)
    assert done.status == 0 and "faster" in done.out
    done = kdyno("report", "last", "-f", "csv")  # nothing is measured here, so it is theirs
    assert done.status == 0 and "unixbench,pipe" in done.out
    mine = small(tmp_path / "runs", 0, effect=0.9)
    done = kdyno("report", "last", "--json", "-")  # a local run goes before one in the store
    assert json.loads(done.out)["effects"][0]["verdict"] == "slower"
    done = kdyno("compare", mine.name, theirs.name, "--json", "-")
    assert json.loads(done.out)["baseline"] == mine.name
    done = kdyno("compare", theirs.name, "--against", "stock")
    assert done.status == 0 and "mine" in done.out
    done = kdyno("judge", theirs.name, "--equivalent", "5%", "--json", "-")
    assert done.status == 0 and json.loads(done.out)["effects"][0]["equivalent_too"]
    assert "--push puts this one there" in done.err
    before = Shared(store).find(theirs.name)
    assert kdyno("judge", theirs.name, "--equivalent", "5%", "--push").status == 0
    after = Shared(store).find(theirs.name)
    assert (before.identity, before.boots) == (after.identity, after.boots)
    again = Shared(store).fetch(after, tmp_path / "cache")
    verdict, first = again.verdict(), again.verdict(FIRST_VERDICT)
    assert verdict is not None and first is not None
    assert (first.equivalent, verdict.equivalent) == (0.01, 0.05)
    done = kdyno("report", "zzz")
    assert done.status == 2
    assert done.err.count("no such run in") == 2 and str(store) in done.err
    done = kdyno("report", theirs.name, "--runs", tmp_path / "runs")
    assert done.status == 2 and done.err.count("no such run in") == 1


def test_a_site_of_the_store(kdyno: Kdyno, tmp_path: Path, theirs: Run, store: str) -> None:
    site = tmp_path / "site"
    done = kdyno("report", "--all", "-o", site, "--json", "-")
    facts = json.loads(done.out)
    assert (facts["runs"], facts["made"], facts["kept"]) == (1, 1, 0)
    assert theirs.name in (site / "index.html").read_text()
    assert "faster" in (site / "runs" / f"{theirs.name}.html").read_text()
    assert "nightly" in (site / "history.html").read_text()
    facts = json.loads(kdyno("report", "--all", "-o", site, "--json", "-").out)
    assert (facts["made"], facts["kept"], facts["pages"]) == (0, 1, [])
    # A run that is damaged there takes no other away.
    damaged, other = (small(tmp_path / "others", day) for day in (2, 1))
    for run in (damaged, other):
        Shared(store).push(run)
    with closing(sqlite3.connect(tmp_path / "store.sqlite")) as base, base:
        base.execute("UPDATE parts SET content = x'616263' WHERE run = 2")
    done = kdyno("report", "--all", "-o", site)
    assert done.status == 1 and f"{damaged.name}: an archive of a run is damaged" in done.err
    assert (site / "runs" / f"{other.name}.html").is_file()
    # Of a disk that is full all of them are.
    (tmp_path / "file").touch()
    pages = SharedSite(Shared(store), site, tmp_path / "file")
    with pytest.raises(ToolError, match=r"^cannot write or read .*KDYNO_CACHE"):
        pages.build_all(lambda *_: None)


def test_a_report_of_the_store_that_cannot_be_drawn_is_told(
    tmp_path: Path, theirs: Run, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **__: object) -> str:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr(build, "page", breaks)
    pages = SharedSite(Shared(store), tmp_path / "site", tmp_path / "cache")
    message = f"^{theirs.name}: its report could not be made: ZeroDivisionError: odd$"
    with pytest.raises(ToolError, match=message):
        pages.build_all(lambda *_: None)


def test_a_server_makes_a_report_when_it_is_asked_for(
    tmp_path: Path, theirs: Run, store: str
) -> None:
    out = tmp_path / "site"
    pages = SharedSite(Shared(store), out, tmp_path / "store.sqlite", live=True)
    built = pages.build()
    page = out / "runs" / f"{theirs.name}.html"
    assert built.runs == 1 and not page.exists()
    with SiteServer(out, "127.0.0.1", 0) as server:
        server.absent = pages.make
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            port = server.server_address[1]
            status, headers, body = answer(port, f"/runs/{theirs.name}.html")
            assert (status, headers["Content-Type"]) == (503, "text/plain")
            assert str(tmp_path) not in body.decode() and str(tmp_path) in server.problem
            pages.cache = tmp_path / "cache"
            status, _, body = answer(port, f"/runs/{theirs.name}.html")
            assert (status, server.problem, body) == (200, "", page.read_bytes())
            status, _, body = answer(port, "/runs/2026-01-01T0000-none-1234.html")
            assert status == 404 and body != page.read_bytes()
        finally:
            server.shutdown()
            thread.join()
    # What was judged again is drawn again, and pages of runs that are gone go.
    assert pages.build().edition == built.edition and page.exists()
    shared = Shared(store)
    run = shared.fetch(shared.find("last"), tmp_path / "other")
    (run.path / "verdict.json").unlink()
    shared.push(run)
    assert pages.build().edition != built.edition and not page.exists()
    pages.make(theirs.name)
    assert not page.exists()  # without a verdict there is nothing to report
