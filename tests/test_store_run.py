# SPDX-License-Identifier: MIT
from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Manifest, State, work_digest
from kdyno.store.run import Damaged, Run, create_run, list_runs, open_run, write_run
from kdyno.store.samples import samples
from kdyno.store.verdict import Verdict

PIPE = ("unixbench", "pipe", "stock")


def manifest(state: State = "running", experiment: str = "simd-memcpy") -> Manifest:
    return Manifest(
        tool="0.1.0",
        created=datetime.now(UTC).isoformat(),
        experiment=experiment,
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
            writer.add_boot(boot(index, index // 2, variant, 100.0 + index), b"console\n")
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
    assert run.manifest().state == "finished"
    assert run.manifest().blocks == (("stock", "mine"), ("mine", "stock"))
    assert run.image("stock") == {"command": "make ARCH=um"}
    verdict = run.verdict()
    assert verdict is not None and verdict.answer == "Yes."
    boots = list(run.boots())
    assert [it.index for it in boots if isinstance(it, BootRecord)] == [0, 1, 2, 3, 4, 5]
    assert isinstance(boots[0], BootRecord)
    assert run.console(boots[0]) == b"console\n"
    assert samples(run).scores == {
        PIPE: {0: 100.0, 1: 102.0, 2: 104.0},
        ("unixbench", "pipe", "mine"): {0: 101.0, 1: 103.0, 2: 105.0},
    }
    assert not run.is_being_written()


def test_failed_boots_give_no_scores(tmp_path: Path) -> None:
    with create_run(tmp_path, "", manifest()) as writer:
        writer.add_boot(boot(0, 0, "stock", None), b"")
        writer.add_boot(boot(1, 0, "stock", 7.0), b"")
        writer.add_boot(boot(2, 0, "stock", 8.0), b"")
        found = samples(writer.run)
    assert found.scores == {PIPE: {0: 7.0}}
    assert found.boots == {"stock": 2}
    assert found.failures == {"stock": {"panic": 1}}
    assert found.blocks == 1


def test_a_damaged_boot_hides_no_other(tmp_path: Path) -> None:
    run = Run(finished(tmp_path))
    boots = run.path / "boots"
    (boots / "0001-mine" / "host.json").write_bytes(b'{"status": ')
    (boots / "0004-stock" / "job.json").unlink()
    (boots / ".tmp-123").mkdir()
    (boots / "0009-evil").symlink_to("/")
    (boots / "notes").mkdir()
    found = samples(run)
    assert found.scores[PIPE] == {0: 100.0, 1: 102.0}
    assert [it.name for it in found.damaged] == ["notes", "0001-mine", "0004-stock"]


def test_one_index_is_one_boot(tmp_path: Path) -> None:
    with create_run(tmp_path, "", manifest()) as writer:
        writer.add_boot(boot(3, 0, "mine", 1.0), b"")
        writer.add_boot(boot(3, 0, "stock", 1.0), b"")
        with pytest.raises(ToolError):
            writer.add_boot(boot(3, 0, "stock", 2.0), b"")
        found = list(writer.run.boots())
    assert isinstance(found[0], BootRecord)
    assert isinstance(found[1], Damaged) and "twice" in found[1].reason


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
        writer.add_boot(BootRecord(job=job, host=BootHost(status="ok")), b"x")
    """)
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert [it.name[:5] for it in (path / "boots").iterdir() if it.name[0] == "."] == [".tmp-"]
    assert len(list(Run(path).boots())) == 6
    with write_run(path) as writer:
        assert names(path / "boots")[0] == "0000-stock"
        writer.add_boot(boot(6, 3, "stock", 9.0), b"x")
    assert samples(Run(path)).scores[PIPE][3] == 9.0


def test_a_run_killed_before_its_name_is_removed(tmp_path: Path) -> None:
    gone = tmp_path / ".tmp-gone"
    gone.mkdir()
    (gone / ".lock").write_text("1\n")
    young = tmp_path / ".tmp-young"
    young.mkdir()
    path = finished(tmp_path)
    assert [run.path for run in list_runs(tmp_path)] == [path]
    assert not gone.exists()
    assert young.exists()


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "mkdir"])
def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = finished(tmp_path)
    with write_run(path) as writer:
        before = names(path), names(path / "boots")

        def full(*_: object, **__: object) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            with pytest.raises(
                ToolError,
                match=r"boots/0006-stock: not written, no space left in \S*boots \(",
            ):
                writer.add_boot(boot(6, 3, "stock", 9.0), b"x")
            if call != "mkdir":
                with pytest.raises(ToolError, match="manifest"):
                    writer.save_manifest(manifest("failed"))
        assert (names(path), names(path / "boots")) == before
        assert writer.run.manifest().state == "finished"
        writer.add_boot(boot(6, 3, "stock", 9.0), b"x")


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    path = finished(tmp_path / "runs")
    outside = tmp_path / "outside"
    outside.mkdir()
    kept = tmp_path / "kept"
    kept.write_text("mine")
    (path / "verdict.json").unlink()
    (path / "verdict.json").symlink_to(kept)
    (path / "profile").symlink_to(outside)
    with pytest.raises(ToolError, match="link"), write_run(path) as writer:
        writer.save_verdict(Verdict(experiment="x", baseline="stock", boots={}))
        assert not (path / "verdict.json").is_symlink()
        writer.save_file("a.txt", b"x", "profile")
    assert kept.read_text() == "mine"
    assert list(outside.iterdir()) == []
    (path / ".lock").unlink()
    (path / ".lock").symlink_to(kept)
    with pytest.raises(ToolError, match="link"):
        write_run(path)
    assert kept.read_text() == "mine"


def test_boots_that_are_a_link_are_damage(tmp_path: Path) -> None:
    path = finished(tmp_path / "runs")
    (path / "boots").rename(tmp_path / "elsewhere")
    (path / "boots").symlink_to(tmp_path / "elsewhere")
    found = samples(Run(path))
    assert found.scores == {} and "link" in found.damaged[0].reason
    with pytest.raises(ToolError):
        write_run(path)


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"manifest\.json"):
        open_run(tmp_path)
    assert list_runs(tmp_path / "nothing") == ()


@pytest.mark.slow
@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    name=st.sampled_from(["manifest.json", "verdict.json", "experiment.toml", "images/stock.json"]),
    data=st.binary(max_size=200) | st.just(b"[" * 200_000) | st.just(b'{"schema": 2}'),
)
def test_no_content_raises_anything_else(tmp_path: Path, name: str, data: bytes) -> None:
    found = list_runs(tmp_path)
    run = found[0] if found else Run(finished(tmp_path))
    (run.path / name).write_bytes(data)
    for read in (run.manifest, run.verdict, run.experiment_text, lambda: run.image("stock")):
        try:
            read()
        except KdynoError as error:
            assert str(run.path) in str(error)


def test_work_is_equal_wherever_temporary_folders_lie() -> None:
    one = work_digest("run", None, ("sh", "/tmp/kdyno-x1/y"))
    assert one == work_digest("run", None, ("sh", "/var/kdyno-other/z"))
    assert len({one, *(work_digest("pipe", it, ()) for it in (7, 8, None))}) == 4
