# SPDX-License-Identifier: MIT
"""A folder of runs that was sent or is shared, with what a run in jobs would leave there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from arms import NOBODY, Arm, both
from command_line import EXPERIMENT
from fake_tree import make_tree

from kdyno.errors import ToolError
from kdyno.fleet.engine import PYTHON, Engine, Job, Settings
from kdyno.fleet.waves import Place
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Note, create_run, open_run

LIMIT_S = 120


def give(folder: Path, uid: int) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, uid, uid, follow_symlinks=False)


def sent(folder: Path) -> Path:
    """An interrupted run, and beside it an experiment that leaves a mark when it is built."""
    tree, evil = make_tree(folder / "linux"), make_tree(folder / "evil")
    with (evil / "Makefile").open("a") as file:
        file.write(f"$(shell echo ran >{folder}/mark)\n")
    text = EXPERIMENT.replace("debian:linux-source-7.3", f"path:{tree}")
    (folder / "evil.toml").write_text(text.replace(str(tree), str(evil)))
    manifest = Manifest(
        tool="0.1.0", created="2026-01-01T00:00:00", experiment="tiny", baseline="stock", seed=1,
        cases=(CaseInfo(suite="unixbench", case="pipe", unit="loops/s", better="higher"),),
        state="interrupted", stopped="interrupted: terminated", origin=str(folder / "evil.toml"),
    )  # fmt: skip
    with create_run(folder / "runs", text, manifest) as writer:
        return writer.run.path


def beside(run: Path, kind: str, secret: Path) -> None:
    """The record of a controller, as kdyno 0.1.0 wrote it into the folder of runs."""
    place = run.parent / ".fleet" / run.name
    (place / "jobs").mkdir(parents=True)
    outcome = place / "jobs" / "1.json"
    outcome.write_text('{"node": "n", "status": 1, "why": "look"}')
    words = [str(run.parent.parent / "evil.toml"), "--no-sandbox"]
    record = {
        "settings": {"engine": "local", "nodes": 1},
        "words": words,
        "building": words,
        "built": ["stock", "mine"] if kind == "shown" else [],
        "given": [
            {"number": 0, "groups": 1, "name": "1", "outcome": str(outcome), "log": str(secret)}
        ],
    }
    (place / "fleet.json").write_text(json.dumps(record))


@pytest.mark.parametrize("yes", [(), ("--yes",)], ids=["asked", "agreed"])
@pytest.mark.parametrize("kind", ["built", "shown"])
@pytest.mark.needs("sandbox")
@both
@pytest.mark.slow
def test_a_record_beside_a_run_begins_and_shows_nothing(
    arm: Arm, kind: str, yes: tuple[str, ...]
) -> None:
    with arm.place() as folder:
        run = sent(folder)
        secret = folder / "secret"
        secret.write_text("open sesame\n")
        beside(run, kind, secret)
        give(folder, arm.uid)
        homes = {"HOME": str(folder), "KDYNO_CACHE": str(folder / "cache")}
        done = subprocess.run(
            arm.python("-m", "kdyno", "run", "--resume", run.name, "--runs", str(run.parent),
                       "--no-wait", *yes),
            env={"PATH": os.environ["PATH"], **homes},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        message = done.stdout + done.stderr
        assert not (folder / "mark").exists() and "sesame" not in message, message
        if yes:
            # Its own kernels, whose tree is a toy, by a compiler of this machine, in the sandbox.
            assert done.returncode in (1, 2) and "was not begun by you" not in message, message
        else:
            assert done.returncode == 2, message
            assert f"source    path:{folder}/linux" in message and "was not begun by you" in message
            # Nothing of the run; the sandbox has its own filter there.
            assert {path.name for path in (folder / "cache").glob("*")} <= {"sandbox"}


@pytest.mark.slow
def test_a_note_goes_by_what_would_be_built(tmp_path: Path) -> None:
    run = open_run(sent(tmp_path))
    Note(run).write()
    assert Note(run).read() is not None
    manifest = run.manifest()
    for key, value in (
        ("origin", "/elsewhere/tiny.toml"),
        ("overrides", {"variants": ["mine"]}),
        ("created", "2026-01-01T00:00:01"),
        ("seed", 2),
    ):
        other = manifest.model_copy(update={key: value})
        (run.path / "manifest.json").write_text(other.model_dump_json(by_alias=True))
        assert Note(run).read() is None, key


@pytest.mark.slow
@pytest.mark.parametrize("what", ["a colleague's", "open to a group"])
def test_nothing_is_taken_from_a_folder_that_others_write(tmp_path: Path, what: str) -> None:
    run = sent(tmp_path)
    Note(open_run(run)).write()
    Place(run).make()
    for folder in (Path(os.environ["XDG_STATE_HOME"]) / "kdyno" / "runs", run.parent / ".fleet"):
        if what == "open to a group":
            folder.chmod(0o770)
        elif os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        else:  # who cannot give it away shows one of root's in its place
            folder.rename(tmp_path / f"moved{folder.name}")
            folder.symlink_to("/usr/share")
    with pytest.raises(ToolError, match="is not only yours"):
        Note(open_run(run)).read()
    with pytest.raises(ToolError, match="is not only yours"):
        Place(run).make()


def over(folder: Path, command: list[str]) -> Job:
    engine = Engine(Settings(engine="local"), folder)
    (job,) = engine.submit([[command]])
    engine._own[job.name].wait(LIMIT_S)
    assert job.failure() == ""
    return job


@pytest.mark.slow
def test_what_jobs_leave_is_nobody_elses(tmp_path: Path) -> None:
    """Whatever the umask says; and nothing of it is a program, or an object that is unpacked."""
    place = Place(sent(tmp_path))
    before = os.umask(0o002)
    try:
        place.make()
        job = over(place.jobs, ["true"])
    finally:
        os.umask(before)
    for folder in (place.path.parent, place.path, job.outcome.parent):
        assert folder.stat().st_mode & 0o777 == 0o700, folder
    files = [path for path in place.path.rglob("*") if path.is_file()]
    assert {file.suffix for file in files} == {".json", ".log"}


@pytest.mark.slow
def test_a_job_takes_no_module_from_the_folder_that_it_is_begun_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("kdyno", "json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    over(tmp_path / "jobs", [*PYTHON, "kdyno", "--version"])
    assert not (tmp_path / "mark").exists()
