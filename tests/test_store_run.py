# SPDX-License-Identifier: MIT
"""Runs and boots on disk: whole or absent, one writer, and nothing of others believed; the index of
a folder of runs."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from synthetic_run import record

from kdyno import whole
from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.store.boot import BootFlag, BootHost, BootJob, BootRecord, Sample, read_boot
from kdyno.store.database.tables import ODD
from kdyno.store.folder import Folder
from kdyno.store.index import INDEX, entries, resolve
from kdyno.store.manifest import CaseInfo, Manifest, State, work_digest
from kdyno.store.run import Damaged, Run, create_run, list_runs, open_run, write_run
from kdyno.store.samples import gather
from kdyno.store.verdict import Verdict

PIPE = ("unixbench", "pipe", "stock")


def manifest(state: State = "running") -> Manifest:
    return Manifest(
        tool="0.1.0",
        created="2026-11-21T09:15:00+00:00",
        experiment="simd-memcpy",
        baseline="stock",
        seed=42,
        host={"cpu": "a CPU", "cpus": 2},
        images={"stock": "ab" * 32},
        cases=(CaseInfo(suite="unixbench", case="pipe", unit="loops/s", better="higher"),),
        blocks=(("stock", "mine"), ("mine", "stock")),
        state=state,
    )


def boot(index: int, block: int, variant: str, score: float | None = None) -> BootRecord:
    status = "failed" if score is None else "ok"
    return BootRecord(
        job=BootJob(index=index, block=block, variant=variant),
        host=BootHost.model_validate({"status": status, "reason": "panic" if not score else ""}),
        samples=(Sample(suite="unixbench", case="pipe", score=score or 1.0),),
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def finished(runs: Path) -> Path:
    with create_run(runs, "name = 'x'\n", manifest()) as writer:
        for index in range(6):
            variant = ("stock", "mine")[index % 2]
            writer.add_boots([(boot(index, index // 2, variant, 100.0 + index), b"console\n")])
        writer.save_image("stock", {"command": "make ARCH=um"})
        writer.save_verdict(
            Verdict(experiment="simd-memcpy", baseline="stock", boots={"stock": 3}, answer="Yes.")
        )
        writer.save_manifest(manifest("finished"))
        return writer.run.path


def test_a_run_comes_back_as_it_was(tmp_path: Path) -> None:
    path = finished(tmp_path / "deep" / "runs")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d{4}-simd-memcpy-[0-9a-f]{4}", path.name)
    run = open_run(path)
    assert run.experiment_text() == "name = 'x'\n"
    assert run.manifest() == manifest("finished")
    assert run.image("stock") == {"command": "make ARCH=um"}
    verdict = run.verdict()
    assert verdict is not None and verdict.answer == "Yes."
    boots = [each for each in run.boots() if isinstance(each, BootRecord)]
    assert [one.index for one in boots] == [0, 1, 2, 3, 4, 5]
    assert run.console(boots[0]) == b"console\n"
    assert gather(run.boots()).scores == {
        PIPE: {0: 100.0, 1: 102.0, 2: 104.0},
        ("unixbench", "pipe", "mine"): {0: 101.0, 1: 103.0, 2: 105.0},
    }
    assert not run.is_being_written()
    with pytest.raises(UsageError, match=r"manifest\.json"):
        open_run(tmp_path)
    assert list_runs(tmp_path / "nothing") == ()


def test_failed_boots_give_no_scores_and_one_index_is_one_boot(tmp_path: Path) -> None:
    with create_run(tmp_path, "", manifest()) as writer:
        for index, score in enumerate((None, 7.0, 8.0)):
            writer.add_boots([(boot(index, 0, "stock", score), b"")])
        data = gather(writer.run.boots())
        assert data.scores == {PIPE: {0: 7.0}} and data.blocks == 1
        assert data.boots == {"stock": 2} and data.failures == {"stock": {"panic": 1}}
        writer.add_boots([(boot(2, 0, "mine", 1.0), b"")])
        with pytest.raises(ToolError):
            writer.add_boots([(boot(2, 0, "stock", 2.0), b"")])
        last = list(writer.run.boots())[-1]
    assert isinstance(last, Damaged) and "twice" in last.reason


def test_a_damaged_boot_hides_no_other(tmp_path: Path) -> None:
    run = Run(finished(tmp_path))
    boots = run.path / "boots"
    (boots / "0001-mine" / "host.json").write_bytes(b'{"status": ')
    (boots / "0004-stock" / "job.json").unlink()
    (boots / ".tmp-123").mkdir()
    (boots / "0009-evil").symlink_to("/")
    (boots / "notes").mkdir()
    data = gather(run.boots())
    assert data.scores[PIPE] == {0: 100.0, 1: 102.0}
    assert [each.name for each in data.damaged] == ["notes", "0001-mine", "0004-stock"]


@pytest.mark.slow
def test_the_second_writer_is_told_who_is_first(tmp_path: Path) -> None:
    with create_run(tmp_path, "", manifest()) as writer:
        path = writer.run.path
        assert writer.run.is_being_written()
        with pytest.raises(ToolError, match=f"process {os.getpid()}"):
            write_run(path)
    with write_run(path) as again:
        again.save_manifest(manifest("finished"))


@pytest.mark.slow
def test_a_killed_writer_leaves_a_run_to_go_on_with(tmp_path: Path) -> None:
    path = finished(tmp_path)
    program = textwrap.dedent("""
        import os
        import signal
        import sys
        from pathlib import Path
        from kdyno.store.run import write_run
        from kdyno.store.boot import BootHost, BootJob, BootRecord
        writer = write_run(Path(sys.argv[1]))
        os.rename = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)
        job = BootJob(index=6, block=3, variant="stock")
        writer.add_boots([(BootRecord(job=job, host=BootHost(status="ok")), b"x")])
    """)
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [file.name[:5] for file in (path / "boots").iterdir() if file.name[0] == "."] == [
        ".tmp-"
    ]
    assert len(list(Run(path).boots())) == 6
    with write_run(path) as writer:
        assert names(path / "boots")[0] == "0000-stock"
        writer.add_boots([(boot(6, 3, "stock", 9.0), b"x")])
    assert gather(Run(path).boots()).scores[PIPE][3] == 9.0


def test_a_run_killed_before_its_name_is_removed(tmp_path: Path) -> None:
    """By its age: another machine's lock may not be seen, and who begins has none yet."""
    own = whole.here()
    hours = {f"{own}-gone": 2, f"{own}-young": 0, f"{own}-bare": 0, "n2-alive": 2, "n2-gone": 25}
    for name, age in hours.items():
        folder = tmp_path / f".tmp-{name}"
        folder.mkdir()
        if name != f"{own}-bare":
            (folder / ".lock").write_text("1\n")
        os.utime(folder, (time.time() - 3600 * age,) * 2)
    path = finished(tmp_path)
    assert [run.path for run in list_runs(tmp_path)] == [path]
    left = {file.name.rpartition("-")[2] for file in tmp_path.glob(".tmp-*")}
    assert left == {"young", "bare", "alive"}


def test_who_looks_at_a_run_refuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = finished(tmp_path)
    with (path / ".lock").open() as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(look, fcntl.LOCK_UN))
        write_run(path).close()


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "mkdir"])
def test_a_full_disk_leaves_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = finished(tmp_path)

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with write_run(path) as writer:
        before = names(path), names(path / "boots")
        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            why = r"boots/0006-stock: not written, no space left in \S*boots \(.* and try again; "
            with pytest.raises(ToolError, match=why):
                writer.add_boots([(boot(6, 3, "stock", 9.0), b"x")])
            if call != "mkdir":
                with pytest.raises(ToolError, match="manifest"):
                    writer.save_manifest(manifest("failed"))
        assert (names(path), names(path / "boots")) == before
        assert writer.run.manifest().state == "finished"
        writer.add_boots([(boot(6, 3, "stock", 9.0), b"x")])


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    path = finished(tmp_path / "runs")
    outside, kept = tmp_path / "outside", tmp_path / "kept"
    outside.mkdir()
    kept.write_text("mine")
    (path / "verdict.json").unlink()
    (path / "verdict.json").symlink_to(kept)
    (path / "profile").symlink_to(outside)
    with pytest.raises(ToolError, match="link"), write_run(path) as writer:
        writer.save_verdict(Verdict(experiment="x", baseline="stock", boots={}))
        assert not (path / "verdict.json").is_symlink()
        writer.save_file("a.txt", b"x", "profile")
    assert list(outside.iterdir()) == []
    (path / ".lock").unlink()
    (path / ".lock").symlink_to(kept)
    with pytest.raises(ToolError, match="link"):
        write_run(path)
    assert kept.read_text() == "mine"
    (path / ".lock").unlink()
    (path / "boots").rename(tmp_path / "elsewhere")
    (path / "boots").symlink_to(tmp_path / "elsewhere")
    data = gather(Run(path).boots())
    assert data.scores == {} and "link" in data.damaged[0].reason
    with pytest.raises(ToolError):
        write_run(path)


def test_work_is_equal_wherever_temporary_folders_lie() -> None:
    one = work_digest("run", None, ("sh", "/tmp/kdyno-x1/y"))
    assert one == work_digest("run", None, ("sh", "/var/kdyno-other/z"))
    assert len({one, *(work_digest("pipe", each, ()) for each in (7, 8, None))}) == 4


BOOT = BootRecord(
    job=BootJob(index=7, block=2, variant="stock", command=("linux", "mem=1G")),
    host=BootHost(
        status="ok",
        wall_s=3.25,
        before={"steal": 0.0, "governor": "performance", "temperature": None},
        flags=(BootFlag(kind="steal", text="2 % of the time was stolen"),),
    ),
    samples=(
        Sample(suite="unixbench", case="pipe", score=2.5, reps=((100.0, 4e7),), user_ns=5),
        Sample(suite="unixbench", case="execl", status="error", text="exit status 3"),
    ),
)


def written(folder: Path, name: str = "", data: bytes = b"") -> Path:
    """The boot's folder, with other content in one of its files."""
    path = folder / BOOT.folder_name
    path.mkdir()
    for file, own in BOOT.files(b"booting\n").items():
        (path / file).write_bytes(data if file == name else own)
    return path


def read(path: Path) -> BootRecord:
    with Folder.open(path) as folder:
        return read_boot(folder)


def test_a_boot_comes_back_as_it_was(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path.name == "0007-stock"
    assert names(path) == ["console.log", "host.json", "job.json", "samples.jsonl"]
    assert read(path) == BOOT


JOB, HOST, SAMPLES = "job.json", "host.json", "samples.jsonl"


@pytest.mark.parametrize(
    ("part", "data", "says"),
    [
        (JOB, b"{", "EOF"),
        (JOB, b"[" * 100_000, "recursion"),
        (JOB, b'{"index": -1, "block": 0, "variant": "stock"}', "index"),
        (JOB, b'{"index": 7, "block": "2", "variant": "stock"}', "block"),
        (JOB, b'{"index": 8, "block": 2, "variant": "stock"}', "belongs to 0008-stock"),
        (JOB, b'{"index": 7, "block": 2, "variant": "%s"}' % (b"x" * 300), "200"),
        (HOST, b'{"status": "fine"}', "status"),
        (HOST, b'{"status": "ok", "wall_s": -1}', "wall_s"),
        (HOST, b'{"status": "ok", "wall_s": Infinity}', "wall_s"),
        (HOST, b"null", "host.json"),
        (SAMPLES, b'{"suite": "u", "case": "pipe", "score": NaN}\n', "score"),
        (SAMPLES, b'{"suite": "u", "case": "pipe", "score": 0}\n', "score"),
        (SAMPLES, b'{"suite": "u", "case": "pipe", "score": "9"}\n', "score"),
        (SAMPLES, b'{"suite": "u", "case": "pipe", "score": 1e999}\n', "score"),
        (SAMPLES, b'{"suite": "u", "case": "pipe"}\n', "without a score"),
        (SAMPLES, b'{"suite": "u", "case": "pipe", "status": "skip", "score": 1}\n', "with a"),
        (SAMPLES, b'{"suite": "u", "case": "pipe", "score": 1}', "middle of a line"),
        (SAMPLES, b'{"suite": "u", "case": "pipe", "score": 1}\n' * 2, "twice"),
        (SAMPLES, b'{"suite": "u", "case": "p", "score": 1, "reps": [[1]]}\n', "reps"),
        (SAMPLES, b"\n" * 20_000, "lines"),
        (SAMPLES, b"\xff\n", "samples.jsonl"),
    ],
)
def test_damage_is_told_with_its_place(tmp_path: Path, part: str, data: bytes, says: str) -> None:
    path = written(tmp_path, part, data)
    with pytest.raises(ToolError) as error:
        read(path)
    assert says in str(error.value) and str(path) in str(error.value)


def test_links_pipes_and_huge_files_are_not_read(tmp_path: Path) -> None:
    path = written(tmp_path)
    host, secret = path / HOST, tmp_path / "secret"
    secret.write_text('{"status": "ok"}')
    host.unlink()
    host.symlink_to(secret)
    with pytest.raises(ToolError, match="symbolic link"):
        read(path)
    host.unlink()
    os.mkfifo(host)
    with pytest.raises(ToolError, match="not a regular file"):
        read(path)
    host.unlink()
    host.mkdir()
    with pytest.raises(ToolError):
        read(path)
    host.rmdir()
    host.touch()
    os.truncate(host, 1 << 40)
    with pytest.raises(ToolError, match="at most"):
        read(path)
    for name in ("a\0b", "\ud800"):
        with Folder.open(path) as inside, pytest.raises(ToolError):
            inside.read(name, 1)


def test_a_kernels_last_words_can_be_stored() -> None:
    host = BootHost(
        status="failed",
        reason="panic",
        console_tail="\ud800\x1b[2J" + "x" * 100_000,
        before={"temperature": float("nan")},
    )
    assert host.before == {"temperature": None}
    assert len(host.console_tail) == 1 << 16
    assert BootHost.model_validate_json(host.model_dump_json()) == host


@pytest.mark.parametrize(
    ("variant", "folder"),
    [("../../etc/x y", "etc-x-y"), ("漢字", "unnamed"), ("v" * 200, "v" * 80)],
)
def test_a_variants_name_cannot_leave_the_folder(variant: str, folder: str) -> None:
    assert boot(7, 0, variant).folder_name == f"0007-{folder}"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
keys = st.sampled_from(
    sorted({*BootJob.model_fields, *BootHost.model_fields, *Sample.model_fields})
)
contents = (
    st.binary(max_size=300)
    | st.sampled_from([b"[" * 200_000, b'{"schema": 2}'])
    | st.dictionaries(keys, json_values, max_size=12).map(
        lambda value: json.dumps(value).encode() + b"\n"
    )
)
BOOT_FOLDER = "boots/0000-stock"
FILES = (
    *("manifest.json", "verdict.json", "experiment.toml", "images/stock.json"),
    *(f"{BOOT_FOLDER}/{part}" for part in (JOB, HOST, SAMPLES)),
)


@pytest.mark.slow
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), data=contents)
def test_no_content_of_a_run_raises_anything_else(tmp_path: Path, name: str, data: bytes) -> None:
    rows = list_runs(tmp_path)
    run = rows[0] if rows else Run(finished(tmp_path))
    before = (run.path / name).read_bytes()
    (run.path / name).write_bytes(data)
    for part in (
        run.manifest,
        run.verdict,
        run.experiment_text,
        lambda: run.image("stock"),
        lambda: read(run.path / BOOT_FOLDER),
    ):
        try:
            part()
        except KdynoError as error:
            assert str(run.path) in str(error)
    (run.path / name).write_bytes(before)


def add(runs: Path, experiment: str, created: str, state: State = "finished") -> Path:
    judged = Verdict(experiment=experiment, baseline="stock", boots={}, answer="Faster.")
    verdict = judged if state == "finished" else None
    return record(runs, (), verdict, created=created, experiment=experiment, state=state).path


def test_entries_are_what_the_folders_say(tmp_path: Path) -> None:
    second = add(tmp_path, "b", "2026-11-21T09:15:02+00:00")
    first = add(tmp_path, "a", "2026-11-21T09:15:01+00:00", "running")
    rows = entries(tmp_path)
    listed = [(run.path, own.experiment, own.state, own.sentence) for run, own in rows]
    assert listed == [(first, "a", "interrupted", ""), (second, "b", "finished", "Faster.")]
    assert (tmp_path / INDEX).is_file()
    assert entries(tmp_path) == rows


def test_the_index_follows_changes(tmp_path: Path) -> None:
    path = add(tmp_path, "a", "2026-11-21T09:15:01+00:00", "running")
    with write_run(path) as writer:
        assert [facts.state for _, facts in entries(tmp_path)] == ["running"]
        writer.save_manifest(
            writer.run.manifest().model_copy(update={"state": "failed", "stopped": "no disk"})
        )
    ((_, facts),) = entries(tmp_path)
    assert (facts.state, facts.sentence) == ("failed", "no disk")
    (path / "manifest.json").write_bytes(b"\xff{")
    ((_, facts),) = entries(tmp_path)
    assert facts.state == "damaged" and "manifest.json" in facts.sentence
    path.rename(tmp_path / "renamed")
    assert [run.name for run, _ in entries(tmp_path)] == ["renamed"]


@pytest.mark.slow
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=300), keep=st.integers(0, 9000))
def test_a_damaged_index_is_made_again(tmp_path: Path, data: bytes, keep: int) -> None:
    if not list(tmp_path.iterdir()):
        add(tmp_path, "a", "2026-11-21T09:15:01+00:00")
    expected = entries(tmp_path)
    path = tmp_path / INDEX
    path.write_bytes(path.read_bytes()[:keep] + data)
    assert entries(tmp_path) == expected
    path.unlink(missing_ok=True)


@pytest.mark.parametrize("column", ["identity", "name", "created", "digest", "counts", "boots"])
def test_an_odd_row_of_the_index_is_made_again(tmp_path: Path, column: str) -> None:
    # As a manifest of somebody else may say it: no row is odd by that.
    run = record(tmp_path, stopped=ODD)
    expected = entries(tmp_path)
    assert [facts.reason for _, facts in expected] == [ODD]
    with closing(sqlite3.connect(tmp_path / INDEX)) as index, index:
        index.execute(f"UPDATE runs SET {column} = x'ff'")
    assert entries(tmp_path) == expected == ((run, expected[0][1]),)


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
    assert [facts.experiment for _, facts in entries(tmp_path)] == ["a"]


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
