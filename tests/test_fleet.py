# SPDX-License-Identifier: MIT
"""Groups given out to jobs: by an engine in memory, whose nodes die, fail and differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from fake_run import bench, steady
from site_runs import at_once, small

from kdyno.errors import ToolError, UsageError
from kdyno.fleet.controller import Fleet, fleet_folder, forget, measure, why_stop
from kdyno.fleet.settings import settings


@dataclass
class FakeJob:
    name: str
    done: bool = False
    words: str = ""
    cancelled: bool = False

    def failure(self) -> str:
        return self.words

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class FakeEngine:
    """A job ends at the next look; ``dies``: numbers of the jobs that leave nothing."""

    shards: Path
    dies: frozenset[int] = frozenset()
    jobs: list[FakeJob] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)

    def submit(self, commands: Sequence[Sequence[str]]) -> list[FakeJob]:
        made = []
        for command in commands:
            self.commands.append(list(command))
            job = FakeJob(str(len(self.jobs)))
            self.jobs.append(job)
            made.append(job)
        return made

    def step(self, _seconds: float) -> None:
        for number, job in enumerate(self.jobs):
            if job.done:
                continue
            job.done = True
            if number in self.dies:
                job.words = f"job {number}: the node went away"
            else:
                shard(self.shards, number)


def shard(shards: Path, number: int) -> None:
    run = small(shards, number, level=1.0 + number, blocks=8)
    path = run.path / "manifest.json"
    about = json.loads(path.read_text())
    about["images"] = {"stock": "a", "mine": "b"}
    path.write_text(json.dumps(about))


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    at_once(monkeypatch)
    experiment = bench(steady({}), max_boots=40, precision=1e-9, min_boots=8).experiment
    return Fleet(experiment, ("mine.toml",), tmp_path / "fleet", nodes=2, groups=8)


def asked(fleet: Fleet, **measure: object) -> Fleet:
    own = replace(fleet.experiment.measure, **measure)  # type: ignore[arg-type]
    return replace(fleet, experiment=replace(fleet.experiment, measure=own))


def test_until_the_budget(fleet: Fleet) -> None:
    engine = FakeEngine(fleet.shards)
    said: list[str] = []
    found, why = measure(fleet, engine, said.append, engine.step)
    assert why == "max_boots = 40 reached" and len(found) == 6
    assert engine.commands[0][1:5] == ["-m", "kdyno", "run", "mine.toml"]
    seeds = [it[it.index("--seed") + 1] for it in engine.commands]
    assert len(set(seeds)) == len(seeds)
    assert said[-1].startswith("48 groups on 0 nodes; max_boots")


def test_until_the_widths_are_small_whatever_they_say(fleet: Fleet) -> None:
    engine = FakeEngine(fleet.shards)
    found, why = measure(asked(fleet, precision=0.01), engine, lambda _: None, engine.step)
    assert (why, len(found)) == ("precision reached", 2)
    assert why_stop(asked(fleet, precision=0.01), [], 0.0) == ""
    assert why_stop(asked(fleet, max_minutes=1.0), found, 61.0) == "max_minutes = 1 reached"


def test_what_a_node_lost_is_measured_again(fleet: Fleet) -> None:
    engine = FakeEngine(fleet.shards, dies=frozenset({1, 2}))
    said: list[str] = []
    found, _ = measure(fleet, engine, said.append, engine.step)
    assert len(found) >= 5 and len(engine.jobs) >= 7
    assert [it for it in said if "went away" in it] == [
        f"job {number}: the node went away" for number in (1, 2)
    ]


def test_jobs_that_only_fail_end_it(fleet: Fleet) -> None:
    engine = FakeEngine(fleet.shards, dies=frozenset(range(100)))
    with pytest.raises(ToolError, match="3 jobs in a row failed, the last: job 2"):
        measure(fleet, engine, lambda _: None, engine.step)


def test_leaving_cancels_its_own_jobs(fleet: Fleet) -> None:
    engine = FakeEngine(fleet.shards)

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(fleet, engine, lambda _: None, interrupted)
    assert [it.cancelled for it in engine.jobs] == [True, True]


def test_the_next_controller_takes_up_what_is_there(fleet: Fleet) -> None:
    for number in range(100, 104):
        shard(fleet.shards, number)
    half = small(fleet.shards, 200, blocks=2)
    (half.path / "verdict.json").unlink()
    engine = FakeEngine(fleet.shards)
    found, _ = measure(fleet, engine, lambda _: None, engine.step)
    assert len(engine.jobs) == 2 and len(found) == 6 and half.name not in {it.name for it in found}
    forget(fleet)
    assert not fleet.folder.exists()


def test_a_fleets_folder_is_that_of_its_question(fleet: Fleet, tmp_path: Path) -> None:
    one = fleet_folder(tmp_path, fleet.experiment, ("mine.toml",))
    assert one == fleet_folder(tmp_path, fleet.experiment, ("mine.toml",))
    assert one != fleet_folder(tmp_path, fleet.experiment, ("mine.toml", "--quick"))
    assert one != fleet_folder(tmp_path, replace(fleet.experiment, text="#"), ("mine.toml",))


def test_settings(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    assert settings("local", file).nodes == 2
    file.write_text('[fleet]\npartition = "lab"\nnodes = 7\nsbatch = { account = "me" }\n')
    found = settings("slurm", file)
    assert (found.engine, found.partition, found.nodes) == ("slurm", "lab", 7)
    assert found.sbatch == {"account": "me"}
    assert settings("slurm:big", file).partition == "big"
    for on in ("pbs", "local:lab", ""):
        with pytest.raises(UsageError, match="there are slurm"):
            settings(on, file)
    for text, says in [
        ("[fleet]\nnodez = 1\n", 'Did you mean "nodes"'),
        ("[fleet]\nnodes = 0\n", "nodes"),
        ("[fleet", "is not TOML"),
    ]:
        file.write_text(text)
        with pytest.raises(UsageError, match=says):
            settings("slurm", file)
