# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_run import record

from kdyno.errors import UsageError
from kdyno.store.index import INDEX, entries, resolve
from kdyno.store.manifest import State
from kdyno.store.run import write_run
from kdyno.store.verdict import Verdict


def add(runs: Path, experiment: str, created: str, state: State = "finished") -> Path:
    judged = Verdict(experiment=experiment, baseline="stock", boots={}, answer="Faster.")
    verdict = judged if state == "finished" else None
    return record(runs, (), verdict, created=created, experiment=experiment, state=state).path


def test_entries_are_what_the_folders_say(tmp_path: Path) -> None:
    second = add(tmp_path, "b", "2026-11-21T09:15:02+00:00")
    first = add(tmp_path, "a", "2026-11-21T09:15:01+00:00", "running")
    rows = entries(tmp_path)
    assert [(each.path, each.experiment, each.state, each.answer) for each in rows] == [
        (first, "a", "interrupted", ""),
        (second, "b", "finished", "Faster."),
    ]
    assert (tmp_path / INDEX).is_file()
    assert entries(tmp_path) == rows


def test_the_index_follows_changes(tmp_path: Path) -> None:
    path = add(tmp_path, "a", "2026-11-21T09:15:01+00:00", "running")
    with write_run(path) as writer:
        assert [entry.state for entry in entries(tmp_path)] == ["running"]
        writer.save_manifest(
            writer.run.manifest().model_copy(update={"state": "failed", "stopped": "no disk"})
        )
    assert [(entry.state, entry.answer) for entry in entries(tmp_path)] == [("failed", "no disk")]
    (path / "manifest.json").write_bytes(b"\xff{")
    (result,) = entries(tmp_path)
    assert result.state == "damaged" and "manifest.json" in result.answer
    path.rename(tmp_path / "renamed")
    assert [entry.name for entry in entries(tmp_path)] == ["renamed"]


@pytest.mark.slow
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(max_size=300), keep=st.integers(0, 9000))
def test_a_damaged_index_is_made_again(tmp_path: Path, data: bytes, keep: int) -> None:
    if not list(tmp_path.iterdir()):
        add(tmp_path, "a", "2026-11-21T09:15:01+00:00")
    expected = entries(tmp_path)
    path = tmp_path / INDEX
    path.write_bytes(path.read_bytes()[:keep] + data)
    assert entries(tmp_path) == expected
    path.unlink(missing_ok=True)


def test_an_index_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    add(tmp_path, "a", "2026-11-21T09:15:01+00:00")
    (tmp_path / INDEX).mkdir()
    assert len(entries(tmp_path)) == 1
    (tmp_path / INDEX).rmdir()
    outside = tmp_path / "outside"
    (tmp_path / INDEX).symlink_to(outside)
    assert len(entries(tmp_path)) == 1
    assert not outside.exists()


def test_a_folder_that_is_closed_to_this_person_hides_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(tmp_path, "a", "2026-11-21T09:15:01+00:00")
    (tmp_path / "lost+found").mkdir()
    look = os.stat

    def closed(path: Any, **more: Any) -> os.stat_result:
        if "lost+found/" in str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path, **more)

    monkeypatch.setattr(os, "stat", closed)
    assert [entry.experiment for entry in entries(tmp_path)] == ["a"]


def test_resolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = add(tmp_path, "simd", "2026-11-21T09:15:09+00:00")
    older = add(tmp_path, "simd", "2026-11-21T09:15:01+00:00")
    other = add(tmp_path, "umask", "2026-11-20T09:15:01+00:00")
    assert resolve("last", tmp_path) == newest
    assert resolve(older.name, tmp_path) == older
    assert resolve(str(older), tmp_path / "x") == older
    assert resolve(older.name[-7:], tmp_path) == older
    assert resolve("umask", tmp_path) == other
    monkeypatch.chdir(tmp_path)
    assert resolve(f"./{older.name}", tmp_path / "x") == Path(older.name)
    assert resolve(older.name, tmp_path / "x") == Path(older.name)
    for text, says in [
        ("simd", "2 runs match"),
        ("zzz", "no such run"),
        (older.name[:-4] + "zzzz", "did you mean"),
        ("/", "is not a run"),
        ("a/b", "no such folder"),
        ("", "names no run"),
        ("a\0b", "names no run"),
        ("/" + "x" * 300, "too long"),
    ]:
        with pytest.raises(UsageError, match=says):
            resolve(text, tmp_path)
    with pytest.raises(UsageError, match="there is no run"):
        resolve("last", tmp_path / "x")
