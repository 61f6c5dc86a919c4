# SPDX-License-Identifier: MIT
"""Names that speak SQL, rows of a store that speak to a terminal, and folders of others as runs."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from command_line import FASTER, Kdyno, kdyno, stored, verdict
from shared_stores import address, server, shared
from site_runs import small
from sqlalchemy import func, inspect, select, text

from kdyno.errors import KdynoError
from kdyno.report.site.build import build_site
from kdyno.report.site.server import SiteServer
from kdyno.store.boot import plain_name
from kdyno.store.database.query import Wanted, reading, writing
from kdyno.store.database.shared import Shared
from kdyno.store.database.tables import METADATA, RUNS
from kdyno.store.run import Run

__all__ = ["address", "kdyno", "server", "shared"]
WORDS = [
    "x'); DROP TABLE runs; --",
    "' OR '1'='1",
    '"; DELETE FROM scores; --',
    "%' OR name LIKE '%",
    "\\'; UPDATE runs SET answer = 'sesame'; --",
    "$1 %(name)s :name ?",
    "E'\\047'||chr(39)",
]
TERMINAL = "\x1b]0;sesame\x07\x1b[2J\x9b31m\u202e\r\x08\n"
CONTROLS = set("\x1b\x07\x9b\u202e\r\x08")


def renamed(value: Any, names: dict[str, str]) -> Any:
    """JSON with other words in place of these, in keys as well."""
    if isinstance(value, str):
        return names.get(value, value)
    if isinstance(value, list):
        return [renamed(each, names) for each in value]
    if isinstance(value, dict):
        return {names.get(key, key): renamed(content, names) for key, content in value.items()}
    return value


def hostile(runs: Path, word: str, day: int = 0) -> Run:
    """A run whose name, experiment, variant, suite, case and CPU are this word."""
    run = small(runs, day, experiment=word, cpu=word)
    names = dict.fromkeys(("mine", "unixbench", "pipe"), word)
    for file in (*run.path.glob("*.json"), *run.path.glob("boots/*/job.json")):
        file.write_text(json.dumps(renamed(json.loads(file.read_text()), names)) + "\n")
    for file in run.path.glob("boots/*/samples.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        file.write_text("".join(json.dumps(renamed(row, names)) + "\n" for row in rows))
    for folder in run.path.glob("boots/*-mine"):
        folder.rename(folder.with_name(f"{folder.name[:4]}-{plain_name(word)}"))
    return Run(run.path.rename(run.path.with_name(word.replace("/", "_"))))


def state_of(shared: Shared) -> tuple[int, set[str]]:
    """(runs, tables) of a store."""
    with reading(shared._engine, shared.address) as connection:
        runs = connection.scalar(select(func.count()).select_from(RUNS)) or 0
        return runs, set(inspect(connection).get_table_names())


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS)
def test_a_name_is_never_sql(tmp_path: Path, shared: Shared, word: str) -> None:
    other = small(tmp_path / "runs", 3)
    shared.push(other)
    run = hostile(tmp_path / "runs", word)
    pushed = shared.push(run)
    assert (pushed.word, pushed.boots) == ("pushed", 14)
    assert state_of(shared) == (2, {*METADATA.tables, "kdyno_version"})
    rows = shared.rows(Wanted())
    mine = next(fact for fact in rows.facts if fact.name == pushed.name)
    assert mine.experiment == mine.cpu_model == word and mine.damaged == 0
    assert {kernel.variant for kernel in rows.kernels[mine.identity]} == {"stock", word}
    scores = [score for score in rows.scores[mine.identity] if score.case == word]
    assert {(score.suite, score.variant) for score in scores} == {(word, "stock"), (word, word)}
    # A pattern means the letters that it has, and * and ? alone more than one text.
    for wanted in (Wanted(experiment=word), Wanted(cpu=word), Wanted(case=f"{word}/{word}")):
        assert [fact.name for fact in shared.listed(wanted)] == [pushed.name], wanted
    for text_ in ("%", "_%", f"{word}%", "' OR 1=1 --"):
        assert shared.listed(Wanted(experiment=text_)) == []
        with pytest.raises(KdynoError, match="no such run"):
            shared.find(text_)
    again = shared.fetch(shared.find(pushed.name), tmp_path / "cache")
    assert again.experiment_text() == run.experiment_text()
    assert [fact.name for fact in shared.listed(Wanted(limit=9))] == [other.name, pushed.name]


COLUMNS = ("answer", "reason", "experiment", "state", "cpu_model", "created", "name", "question")


@pytest.mark.slow
@pytest.mark.parametrize("column", COLUMNS)
def test_a_row_of_a_store_says_nothing_to_a_terminal(
    kdyno: Kdyno, tmp_path: Path, shared: Shared, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    run = small(tmp_path / "theirs")
    shared.push(run)
    # PostgreSQL takes no NUL; all else it keeps.
    with writing(shared._engine, shared.address) as connection:
        change = text(f"UPDATE runs SET {column} = {column} || :odd")
        connection.execute(change, {"odd": TERMINAL})
        for table, own in (("kernels", "version"), ("scores", "case"), ("scores", "unit")):
            odd = {"odd": TERMINAL}
            connection.execute(text(f'UPDATE {table} SET "{own}" = "{own}" || :odd'), odd)
    monkeypatch.setenv("KDYNO_STORE", shared.address)
    for words in (
        ("list", "runs"),
        ("list", "runs", "--experiment", "*"),
        ("report", "last"),
        ("compare", "last", "--against", "stock"),
        ("report", run.name),
        ("report", "--all", "-o", tmp_path / "site"),
    ):
        output = kdyno(*words)
        content = output.out + output.err
        assert output.status in (0, 1, 2) and not set(content) & CONTROLS, (words, content)


def planted(runs: Path, folder: Path) -> dict[str, Path]:
    """Kind → a run's folder that was sent, which says one thing and is another."""
    secret = folder / "secret"
    (secret / "boots").mkdir(parents=True)
    (secret / "manifest.json").write_text('{"tool": "sesame"}')
    (secret / "experiment.toml").write_text("sesame\n")
    kinds = ("link", "linked-boots", "pipe", "huge", "deep", "twice", "\x1b[2Jterminal", "device")
    results = {}
    for day, kind in enumerate(kinds):
        run = stored(runs, verdict(FASTER), created=f"2026-01-02T00:00:{day:02d}")
        results[kind] = place = run.rename(runs / f"run-{kind}")
        manifest = place / "manifest.json"
        if kind == "linked-boots":
            (place / "boots").rmdir()
            (place / "boots").symlink_to(secret / "boots")
        elif kind in ("pipe", "huge", "deep", "device"):
            manifest.unlink()
        if kind == "link":
            manifest.unlink()
            manifest.symlink_to(secret / "manifest.json")
            (place / "experiment.toml").unlink()
            (place / "experiment.toml").symlink_to(secret / "experiment.toml")
        elif kind == "pipe":
            os.mkfifo(manifest)
        elif kind == "huge":
            manifest.touch()
            os.truncate(manifest, 60 << 30)
        elif kind == "deep":
            manifest.write_text('{"a":' * 100_000)
        elif kind == "twice":
            manifest.write_text(manifest.read_text().rstrip()[:-1] + ', "tool": "sesame"}')
        elif kind == "device":
            manifest.symlink_to("/dev/zero")
    (runs / ".index.sqlite").symlink_to(secret / "index")
    return results


@pytest.mark.slow
def test_a_hostile_folder_is_no_way_out_and_holds_nobody_up(
    kdyno: Kdyno, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given to list, push, join, report, judge and compare: an answer in words, of each."""
    runs = tmp_path / "runs"
    good = small(runs, 9)
    result = planted(runs, tmp_path)
    before = sorted(tmp_path.glob("secret/*"))
    monkeypatch.setenv("KDYNO_STORE", f"sqlite:///{tmp_path / 'store.sqlite'}")
    verbs: list[tuple[object, ...]] = [("list", "runs"), ("push", good.name)]
    for place in result.values():
        verbs += [("push", place), ("compare", good.path, place, "--join"), ("report", place)]
        verbs += [("judge", place), ("compare", good.path, place)]
    for words in verbs:
        output = kdyno(*words)
        content = output.out + output.err
        assert output.status in (0, 1, 2) and "Traceback" not in content, (words, content)
        assert "is not a verb" not in content, (words, content)
        assert "sesame" not in content and "\x1b" not in content, (words, content)
    assert sorted(tmp_path.glob("secret/*")) == before
    names = [fact.name for fact in Shared(os.environ["KDYNO_STORE"]).listed(Wanted())]
    assert good.name in names and not {f"run-{each}" for each in ("link", "pipe", "huge")} & {
        *names
    }


@pytest.fixture
def server_of_planted(tmp_path: Path) -> SiteServer:
    planted(tmp_path / "runs", tmp_path)
    small(tmp_path / "runs", 9)
    build_site(tmp_path / "runs", tmp_path / "site", live=True)
    return SiteServer(tmp_path / "site", "127.0.0.1", 0)


@pytest.mark.slow
def test_a_served_folder_shows_nothing_that_lies_elsewhere(
    server_of_planted: SiteServer, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    pages = [path.read_text() for path in site.rglob("*.html")]
    assert pages and not any("sesame" in page or "\x1b" in page for page in pages)
    (site / "out.html").symlink_to(tmp_path / "secret" / "experiment.toml")
    from http.client import HTTPConnection

    with server_of_planted as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        try:
            for path in ("/../secret/experiment.toml", "/out.html", "/%2e%2e/secret/manifest.json"):
                connection = HTTPConnection("127.0.0.1", running.server_address[1], timeout=10)
                connection.request("GET", path, headers={"Host": "localhost:1"})
                answer = connection.getresponse()
                assert b"sesame" not in answer.read() and answer.status == 404, path
                connection.close()
        finally:
            running.shutdown()
            thread.join()
