# SPDX-License-Identifier: MIT
"""Groups given out to jobs: until enough is known, whatever becomes of the nodes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_fleet import FakeEngine, Fleet, option, shard
from site_runs import at_once

from kdyno.errors import ToolError
from kdyno.fleet import waves
from kdyno.fleet.engine import Job, Settings
from kdyno.fleet.union import Shard
from kdyno.fleet.waves import Place, Record
from kdyno.paths import state_root
from kdyno.store.boot import BootRecord
from kdyno.store.run import Run, write_run


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    at_once(monkeypatch)
    return Fleet(tmp_path / "runs", FakeEngine(tmp_path / "jobs"))


def options(fleet: Fleet, name: str) -> list[str]:
    """Of each job so far."""
    return [option(it, name) for it in fleet.engine.commands]


def boots(run: Run) -> list[BootRecord]:
    return [it for it in run.boots() if isinstance(it, BootRecord)]


def ran(fleet: Fleet, **measure: Any) -> tuple[Run, str]:
    """A new run to its end, and why it stopped."""
    with fleet.new() as writer:
        return writer.run, fleet.controller(writer, **measure).run()


def test_until_the_budget(fleet: Fleet) -> None:
    run, why = ran(fleet)
    assert why == "max_boots = 20 reached"
    found, manifest = boots(run), run.manifest()
    assert len(found) == 40 and len({it.job.shard for it in found}) == 40
    assert [it.index for it in found] == list(range(40))
    assert Counter(it.block for it in found) == dict.fromkeys(range(20), 2)
    assert sorted(manifest.machines) == ["A CPU n0", "A CPU n1"]
    assert manifest.images == {"stock": "a", "mine": "b"} and len(manifest.blocks) == 20
    command = fleet.engine.commands[0]
    assert command[1:6] == ["-P", "-m", "kdyno", "run", "mine.toml"]
    assert option(command, "--variant") == "mine"
    assert options(fleet, "--seed") == ["100", "101", "102", "103"]
    assert options(fleet, "--max-boots") == ["8", "8", "2", "2"]
    assert fleet.engine.cancelled == []


def test_until_the_widths_are_small_or_the_minutes_are_over(fleet: Fleet) -> None:
    run, why = ran(fleet, precision=0.01, max_boots=1000)
    # The first look is after 8 groups: four looks at two nodes.
    assert why == "precision reached" and len(boots(run)) == 2 * 8
    assert fleet.engine.cancelled == ["0", "1"]
    assert fleet.shown[-1].variant == "on 2 nodes" and fleet.shown[-1].block == 6
    run, why = ran(fleet, max_minutes=0.05, max_boots=1000)
    # Three seconds, two groups at a look each half second.
    assert why == "max_minutes = 0.05 reached" and len(boots(run)) == 2 * 14


def test_a_node_that_dies_loses_what_it_was_at_and_no_more(fleet: Fleet) -> None:
    fleet.engine.dies = {1: 5}
    run, _ = ran(fleet)
    lost = [it for it in boots(run) if it.job.shard.startswith("1/")]
    assert len(lost) == 10 and len(boots(run)) == 40
    assert fleet.said == ["job 1: it ended without a result (node_fail)"]
    assert len(fleet.engine.jobs) == 4


@pytest.mark.slow
def test_what_is_seen_late_is_not_measured_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job has said that all went well, and its groups are not seen here yet."""
    fresh, ended = Shard.fresh, Shard.manifest

    def hidden(it: Shard) -> bool:
        return it.number == 0 and fleet.now_s < 20

    monkeypatch.setattr(Shard, "fresh", lambda it: [] if hidden(it) else fresh(it))
    monkeypatch.setattr(Shard, "manifest", lambda it: None if hidden(it) else ended(it))
    assert ran(fleet)[1] == "max_boots = 20 reached"
    assert options(fleet, "--max-boots") == ["8", "8", "2", "2"]
    assert 20 <= fleet.now_s < 25 and fleet.said == []


def test_jobs_that_only_fail_end_it_in_the_nodes_words(fleet: Fleet) -> None:
    fleet.engine.fails = frozenset(range(100))
    words = r"3 jobs in a row failed, the last: job 2 on n0.*(\n.*)*full"
    with pytest.raises(ToolError, match=words):
        ran(fleet)


def test_a_failure_now_and_then_does_not_end_it(fleet: Fleet) -> None:
    fleet.engine.fails = frozenset({1, 2, 4, 5})
    assert ran(fleet)[1] == "max_boots = 20 reached" and len(fleet.said) == 4


@pytest.mark.slow
def test_an_engine_that_is_away_for_a_while(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = fleet.engine.submit

    def refused(*given: Any) -> list[Job]:
        if fleet.engine.jobs and fleet.now_s < 60:
            fleet.engine.refuses = 1
        return submit(*given)

    monkeypatch.setattr(fleet.engine, "submit", refused)
    assert ran(fleet)[1] == "max_boots = 20 reached"
    assert fleet.said == ["no job could be submitted: the controller is away; trying again"]
    monkeypatch.setattr(waves, "_PATIENCE_S", 10.0)
    fleet.now_s = 0.0
    fleet.engine.jobs.clear()
    fleet.engine.commands.clear()
    with pytest.raises(ToolError, match="the controller is away"):
        ran(fleet, max_boots=100)


def record_of(run: Run) -> Record:
    found = Place(run.path).read()
    assert found is not None
    return found


def killed(fleet: Fleet, at_s: float, how: type[BaseException]) -> Run:
    """A run whose controller ends at that time; SystemExit: without a word to anybody."""
    with fleet.new() as writer:
        own = fleet.controller(writer)
        sleep = own.sleep

        def ends(seconds: float) -> None:
            sleep(seconds)
            if fleet.now_s >= at_s:
                own.sleep = sleep
                raise how

        own.sleep = ends
        if how is SystemExit:
            own._end = lambda _parts: None  # type: ignore[method-assign]
        with pytest.raises(how):
            own.run()
        return writer.run


def resumed(fleet: Fleet, run: Run, count: int = 40) -> None:
    """To its end; each of its boots is there once."""
    with write_run(run.path) as writer:
        why = fleet.controller(writer, record_of(run)).run()
    assert why == "max_boots = 20 reached"
    assert len({it.job.shard for it in boots(run)}) == len(boots(run)) == count


@pytest.mark.slow
def test_leaving_cancels_its_own_jobs_and_keeps_their_groups(fleet: Fleet) -> None:
    run = killed(fleet, 2.0, KeyboardInterrupt)
    assert fleet.engine.cancelled == ["0", "1"] and len(boots(run)) == 16
    assert (record_of(run).next, record_of(run).spent_s) == (2, 2.0)
    resumed(fleet, run)
    assert options(fleet, "--max-boots")[2:] == ["6", "6"]


@pytest.mark.slow
def test_what_the_jobs_of_a_killed_controller_measured_counts(fleet: Fleet) -> None:
    run = killed(fleet, 2.0, SystemExit)
    assert len(boots(run)) == 16
    # They go on meanwhile, until whoever goes on with the run cancels them.
    for _ in range(2):
        fleet.engine.look(fleet.engine.jobs)
    assert fleet.engine.cancelled == [] and record_of(run).next == 2
    resumed(fleet, run)
    assert fleet.engine.cancelled == ["0", "1"]
    assert options(fleet, "--max-boots")[2:] == ["4", "4"]


ENGINE = """
import sys, time
from pathlib import Path
from kdyno.fleet.engine import Engine, Settings
engine = Engine(Settings(engine="local"), Path(sys.argv[1]))
engine.submit([[["sh", "-c", f"echo $$ >{sys.argv[1]}/number; exec sleep 600"]]])
time.sleep(600)
"""


@pytest.mark.slow
def test_jobs_on_this_machine_end_with_a_controller_that_is_killed(tmp_path: Path) -> None:
    controller = subprocess.Popen([sys.executable, "-c", ENGINE, str(tmp_path / "jobs")])
    number = tmp_path / "jobs" / "number"
    wait_for(lambda: number.exists() and number.read_text().strip() != "")
    job = Path("/proc") / number.read_text().strip()
    assert job.exists()
    controller.kill()
    controller.wait()
    # Where nobody reaps what has lost its parent, a dead process stays listed.
    wait_for(lambda: not job.exists() or ") Z " in (job / "stat").read_text())


def wait_for(happened: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_nodes_that_measure_something_else(fleet: Fleet) -> None:
    with fleet.new() as writer:
        place = Place(writer.run.path)
        shard(place.shard(0), 0, 1)
        shard(place.shard(1), 1, 1, mine="c")
        words = r"A CPU n1 measured something else .*: the kernels are"
        with pytest.raises(ToolError, match=words):
            fleet.controller(writer).run()
        (file,) = place.shard(1).glob("*/experiment.toml")
        file.write_text("#")
        with pytest.raises(ToolError, match="was changed since the run began"):
            fleet.controller(writer).run()


@pytest.mark.slow
def test_boots_that_say_of_no_job_that_they_are_its(fleet: Fleet) -> None:
    """Of a run that somebody changed; an odd text is no job's number."""
    run = killed(fleet, 2.0, KeyboardInterrupt)
    for name, said in (("0000-stock", "x/0/0000-stock"), ("0001-mine", "²/0/0001-mine")):
        job = run.path / "boots" / name / "job.json"
        job.write_text(json.dumps({**json.loads(job.read_text()), "shard": said}))
    resumed(fleet, run, 42)
    assert {it.job.shard for it in boots(run)} >= {"x/0/0000-stock", "0/0/0000-stock"}


def test_what_jobs_leave_is_not_read_through_links(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"node": "sesame", "status": 1, "why": "sesame"}')
    for name in ("it.json", "it.log"):
        (tmp_path / name).symlink_to(secret)
    job = Job("1", tmp_path / "it.json", "COMPLETED")
    assert job.failure() == "job 1: it ended without a result" and job.node == ""
    for name in ("it.json", "it.log"):
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
    assert job.failure() == "job 1: it ended without a result"
    (tmp_path / "it.log").unlink()
    (tmp_path / "it.log").write_bytes(b"x" * (100 << 20) + b"\nthe disk is full\n")
    assert job.failure().endswith("\n  the disk is full")


def test_the_record_of_a_run(fleet: Fleet, tmp_path: Path) -> None:
    with fleet.new() as writer:
        place = Place(writer.run.path)
    assert place.path == fleet.runs / ".fleet" / writer.run.name and place.read() is None
    record = Record(settings=Settings(), file="a", next=3)
    place.make()
    place.write(record)
    assert Place(writer.run.path).read() == record
    # By whoever moves the run as well, and not once it would build something else.
    moved = writer.run.path.rename(tmp_path / "moved")
    assert Place(moved).read() == record
    file = moved / "experiment.toml"
    file.write_text(file.read_text() + "#")
    assert Place(moved).read() is None
    file.write_text(file.read_text()[:-1])
    (note,) = state_root().glob("runs/*.json")
    for text in ("{}", "[" * 100_000, "\0", note.read_text().replace(": 3", ': "3"')):
        note.write_text(text)
        with pytest.raises(ToolError, match="damaged"):
            place.read()
    place.remove()
    assert not place.path.exists() and list(state_root().glob("runs/*")) == []
