# SPDX-License-Identifier: MIT
"""The shared store on the command line: what goes in, and the verbs that read it."""

from __future__ import annotations

import json
import shutil
import threading
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from command_line import Kdyno, experiment_file, kdyno
from site_runs import at_once, small

from kdyno.report.site.server import SiteServer
from kdyno.report.site.shared import SharedSite
from kdyno.store.database.query import Wanted
from kdyno.store.database.shared import Shared
from kdyno.store.run import Run, open_run

__all__ = ["experiment_file", "kdyno"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Named by the environment, empty."""
    at_once(monkeypatch)
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
    runs = [small(tmp_path / "runs", day) for day in range(2)]
    said = kdyno("push", "last")
    assert (said.status, said.out) == (0, "")
    where = f"the store {store}"
    assert said.err == f"{runs[1].name}: pushed to {where} (14 boots, 0.0 MB)\n"
    said = kdyno("push", runs[0].name, "last", "--json", "-")
    rows = json.loads(said.out)
    assert [(it["run"], it["state"], it["boots"]) for it in rows] == [
        (runs[0].name, "pushed", 14),
        (runs[1].name, "there", 14),
    ]
    assert f"{runs[1].name}: is in {where} as it is here" in said.err
    (runs[0].path / "manifest.json").write_text("{")
    (runs[1].path / "verdict.json").unlink()
    said = kdyno("push", runs[0].name, runs[1].name)
    assert said.status == 1
    assert "manifest.json: damaged" in said.err
    assert f"{runs[1].name}: brought up to date in {where}" in said.err
    said = kdyno("push", "--upgrade")
    assert (said.status, said.err) == (0, f"{where}: tables are those of this kdyno\n")


def test_without_a_store(kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once(monkeypatch)
    monkeypatch.delenv("KDYNO_STORE", raising=False)
    small(tmp_path / "runs")
    file = experiment_file(tmp_path)
    for words in (("push", "last"), ("judge", "last", "--push"), ("run", file, "--push")):
        said = kdyno(*words)
        assert said.status == 2 and "set KDYNO_STORE" in said.err
    monkeypatch.setenv("KDYNO_STORE", "postgresql://me:sesame-7@host/base")
    for words in (("push", "last"), ("list", "runs"), ("report", "zzz"), ("serve",)):
        said = kdyno(*words)
        assert said.status == 2 and "holds a password" in said.err
        assert "sesame" not in said.err + said.out


def test_run_with_push_looks_for_the_store_first(
    kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def executed(*_: object) -> Any:
        raise AssertionError("measured")

    monkeypatch.setattr("kdyno.cli.measuring.executed", executed)
    monkeypatch.setenv("KDYNO_STORE", f"sqlite:///{tmp_path / 'none' / 'store'}")
    said = kdyno("run", experiment_file(tmp_path), "--push")
    assert said.status == 2 and "there is no folder" in said.err


def test_a_run_is_pushed_when_it_is_measured(
    kdyno: Kdyno, tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = small(tmp_path / "runs")
    monkeypatch.setattr("kdyno.cli.measuring.executed", lambda *_: (run, run.verdict()))
    file = experiment_file(tmp_path)
    said = kdyno("run", file, "--push")
    assert said.status == 0 and f"{run.name}: pushed to" in said.err
    for words in (("run", file, "--calibrate", "--push"), ("try", "--push", "--", "true")):
        said = kdyno(*words)
        assert said.status == 0 and f"{run.name}: is in" in said.err
    assert [it.name for it in Shared(store).listed(Wanted())] == [run.name]
    shutil.rmtree(run.path / "boots")
    said = kdyno("run", file, "--push")
    assert said.status == 2
    assert f"measured, but not pushed: `kdyno push {run.name}` tries again" in said.err


def test_list_shows_both_places(kdyno: Kdyno, tmp_path: Path, theirs: Run) -> None:
    mine, both = small(tmp_path / "runs", 0, version="7.4.0"), small(tmp_path / "runs", 5)
    assert kdyno("push", both.name).status == 0

    def listed(*words: str) -> list[tuple[str, str]]:
        rows = json.loads(kdyno("list", "runs", "--json", "-", *words).out)["runs"]
        return [(it["run"], it["where"]) for it in rows]

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
    said = kdyno("list", "cases", "--cpu", "x", "--limit", "1")
    assert said.status == 2 and "--cpu, --limit: go with `kdyno list runs`" in said.err


def test_report_compare_and_judge_read_a_run_of_others(
    kdyno: Kdyno, tmp_path: Path, theirs: Run, store: str
) -> None:
    said = kdyno("report", theirs.name)
    assert said.status == 0 and "faster" in said.out
    said = kdyno("report", "last", "-f", "csv")  # nothing is measured here, so it is theirs
    assert said.status == 0 and "unixbench,pipe" in said.out
    mine = small(tmp_path / "runs", 0)
    said = kdyno("compare", mine.name, theirs.name, "--json", "-")
    assert json.loads(said.out)["baseline"] == mine.name
    said = kdyno("compare", theirs.name, "--against", "stock")
    assert said.status == 0 and "mine" in said.out
    said = kdyno("judge", theirs.name, "--equivalent", "5%", "--json", "-")
    assert said.status == 0 and json.loads(said.out)["effects"][0]["equivalent_too"]
    assert "--push puts this one there" in said.err
    before = Shared(store).find(theirs.name)
    assert kdyno("judge", theirs.name, "--equivalent", "5%", "--push").status == 0
    after = Shared(store).find(theirs.name)
    assert (before.identity, before.boots) == (after.identity, after.boots)
    again = Shared(store).fetch(after, tmp_path / "cache")
    verdict, first = again.verdict(), again.first_verdict()
    assert verdict is not None and first is not None
    assert (first.equivalent, verdict.equivalent) == (0.01, 0.05)
    said = kdyno("report", "zzz")
    assert said.status == 2
    assert said.err.count("no such run in") == 2 and str(store) in said.err
    said = kdyno("report", theirs.name, "--runs", tmp_path / "runs")
    assert said.status == 2 and said.err.count("no such run in") == 1


def test_a_local_run_goes_before_one_in_the_store(
    kdyno: Kdyno, tmp_path: Path, theirs: Run
) -> None:
    mine = small(tmp_path / "runs", 0, effect=0.9)
    said = kdyno("report", "last", "--json", "-")
    assert json.loads(said.out)["effects"][0]["verdict"] == "slower"
    assert open_run(mine.path).verdict() is not None


def test_a_site_of_the_store(kdyno: Kdyno, tmp_path: Path, theirs: Run) -> None:
    site = tmp_path / "site"
    said = kdyno("report", "--all", "-o", site, "--json", "-")
    facts = json.loads(said.out)
    assert (facts["runs"], facts["made"], facts["kept"]) == (1, 1, 0)
    assert theirs.name in (site / "index.html").read_text()
    assert "faster" in (site / "runs" / f"{theirs.name}.html").read_text()
    assert "nightly" in (site / "history.html").read_text()
    facts = json.loads(kdyno("report", "--all", "-o", site, "--json", "-").out)
    assert (facts["made"], facts["kept"], facts["pages"]) == (0, 1, [])


def test_a_server_makes_a_report_when_it_is_asked_for(
    tmp_path: Path, theirs: Run, store: str
) -> None:
    out = tmp_path / "site"
    pages = SharedSite(Shared(store), out, tmp_path / "cache", Wanted(), full=False, live=True)
    built = pages.build()
    page = out / "runs" / f"{theirs.name}.html"
    assert built.runs == 1 and not page.exists()
    with SiteServer(out, "127.0.0.1", 0) as server:
        server.absent = pages.make
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            found = {}
            for name in (theirs.name, "2026-01-01T0000-none-1234"):
                connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
                connection.request("GET", f"/runs/{name}.html")
                answer = connection.getresponse()
                found[name] = (answer.status, answer.read() == (page.read_bytes()))
                connection.close()
        finally:
            server.shutdown()
            thread.join()
    assert list(found.values()) == [(200, True), (404, False)]
    # What was judged again is drawn again, and pages of runs that are gone go.
    assert pages.build().edition == built.edition and page.exists()
    shared = Shared(store)
    run = shared.fetch(shared.find("last"), tmp_path / "other")
    (run.path / "verdict.json").unlink()
    shared.push(run)
    assert pages.build().edition != built.edition and not page.exists()
    pages.make(theirs.name)
    assert not page.exists()  # without a verdict there is nothing to report
