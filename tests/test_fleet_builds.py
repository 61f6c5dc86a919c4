# SPDX-License-Identifier: MIT
"""Kernels built by jobs, the file of machines, and what an engine says of a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fake_fleet import option

from kdyno.errors import ToolError, UsageError
from kdyno.fleet.engine import LATE_S, Commands, Engine, Job, Settings, settings
from kdyno.fleet.waves import Building


@dataclass
class Builder:
    """Nodes on which `kdyno build` says what there is. ``lost``: jobs that leave nothing."""

    folder: Path
    digests: dict[str, str]
    there: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    lost: frozenset[int] = frozenset()
    asked: list[str] = field(default_factory=list)

    def submit(
        self, work: Sequence[Commands], sbatch: dict[str, Any] | None = None, cpus: Any = ()
    ) -> list[Job]:
        made = []
        self.folder.mkdir(exist_ok=True)
        for ((*command,),) in work:
            number = len(self.asked)
            what = "plan" if "--dry-run" in command else option(command, "--variant")
            self.asked.append(what)
            job = Job(str(number), self.folder / f"{number}.json")
            made.append(job)
            job.state, job.lost = "NODE_FAIL", True
            if number in self.lost:
                continue
            job.outcome.write_text('{"node": "n1", "status": 0}')
            self.say(what, Path(option(command, "--json")))
        return made

    def say(self, what: str, file: Path) -> None:
        if what == "plan":
            images: dict[str, Any] = {
                name: {"digest": digest, "built": digest in self.there}
                for name, digest in self.digests.items()
            }
            file.write_text(json.dumps({"images": images, "failed": {"avx": "skipped: no AVX"}}))
        else:
            failed = {what: f"{what} did not build"} if what in self.broken else {}
            images = {} if failed else {what: {"seconds": 3.2}}
            file.write_text(json.dumps({"images": images, "failed": failed}))

    def look(self, jobs: Iterable[Job]) -> None: ...

    def cancel(self, jobs: Iterable[Job]) -> None: ...

    def cancel_label(self) -> None: ...


def built(builder: Builder, said: Callable[[str], None] = lambda _: None) -> Building:
    return Building(builder, ["mine.toml"], "stock", builder.folder / "b", said, lambda _s: None)


DIGESTS = {"mine": "2", "stock": "1", "same": "2", "copy": "1", "other": "3"}


def test_the_trunk_is_built_first_and_no_image_twice(tmp_path: Path) -> None:
    builder = Builder(tmp_path / "jobs", DIGESTS)
    found = built(builder).run()
    assert builder.asked == ["plan", "stock", "mine", "other"]
    assert found == (list(DIGESTS), {"avx": "skipped: no AVX"})
    builder = Builder(tmp_path / "jobs", DIGESTS, there=frozenset("12"))
    built(builder).run()
    assert builder.asked == ["plan", "other"]


def test_a_kernel_that_does_not_build(tmp_path: Path) -> None:
    said: list[str] = []
    builder = Builder(tmp_path / "jobs", DIGESTS, broken=frozenset({"mine"}))
    names, failed = built(builder, said.append).run()
    assert names == ["stock", "copy", "other"]
    assert failed["same"] == failed["mine"] == "mine did not build"
    assert said == [
        "kernels: plan by job 0",
        "kernels: stock by job 1",
        "stock: built in 3 s",
        "kernels: mine by job 2, other by job 3",
        "mine did not build",
        "other: built in 3 s",
    ]


def test_a_building_node_that_dies(tmp_path: Path) -> None:
    builder = Builder(tmp_path / "jobs", DIGESTS, lost=frozenset({1, 3}))
    assert built(builder).run()[0] == list(DIGESTS)
    assert builder.asked == ["plan", "stock", "stock", "mine", "other", "mine"]
    builder = Builder(tmp_path / "more", DIGESTS, lost=frozenset({1, 2, 3}))
    with pytest.raises(ToolError, match=r"not built: job 3: it ended .* \(node_fail\)"):
        built(builder).run()


@pytest.mark.parametrize("late_s", [30.0, 90.0])
def test_an_answer_that_is_seen_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late_s: float
) -> None:
    builder, now_s = Builder(tmp_path / "jobs", DIGESTS), 0.0
    building = built(builder)
    answer = building._answer

    def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    building.sleep, building.clock = sleep, lambda: now_s
    monkeypatch.setattr(building, "_answer", lambda name: None if now_s < late_s else answer(name))
    if late_s < 60:
        assert building.run()[0] == list(DIGESTS)
    else:
        with pytest.raises(ToolError, match=r"not built: .* is not seen here"):
            building.run()
    assert builder.asked[:2] == (["plan", "stock"] if late_s < 60 else ["plan"])


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"[" * 100_000,
        b'{"images": {"mine": {"digest": 1}}, "failed": {}}',
        b'{"images": {"mine": {"digest": "2", "built": true}}, "failed": []}',
        b'{"images": {"other": {"seconds": 3}}, "failed": {}}',
        b'{"images": {"mine": {"seconds": 1e999}}, "failed": {}}',
    ],
)
def test_an_answer_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    builder = Builder(tmp_path / "jobs", DIGESTS)
    say = builder.say

    def odd(what: str, file: Path) -> None:
        say(what, file)
        if what == "mine":
            file.write_bytes(answer)

    monkeypatch.setattr(builder, "say", odd)
    with pytest.raises(ToolError, match=r"\.json: damaged: "):
        built(builder).run()


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
    mistakes = {"[fleet]\nnodez = 1\n": 'Did you mean "nodes"', "[fleet]\nnodes = 0\n": "nodes"}
    for text, message in {**mistakes, "[fleet": "is not TOML"}.items():
        file.write_text(text)
        with pytest.raises(UsageError, match=message):
            settings("slurm", file)


class Slurm(Engine):
    """That says of all jobs the same, at a time that the test sets."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Settings(engine="slurm"), folder, clock=lambda: self.now_s)
        self.now_s, self.word, self.asked = 0.0, "RUNNING", 0

    def _states(self) -> dict[str, str] | None:
        self.asked += 1
        return {"1": self.word} if self.word else None

    def until_done(self, job: Job, most_s: float) -> float | None:
        """Seconds after which a job is done."""
        began_s = self.now_s
        while self.now_s - began_s <= most_s:
            self.look([job])
            if job.done:
                return self.now_s - began_s
            self.now_s += 0.5
        return None


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job("1", tmp_path / "outcome.json")


def test_slurm_is_not_asked_all_the_time(slurm: Slurm, job: Job) -> None:
    assert slurm.until_done(job, 60) is None
    assert slurm.asked == 31 and job.state == "RUNNING"


def test_a_job_that_its_node_lost_is_soon_known(slurm: Slurm, job: Job) -> None:
    slurm.word = "NODE_FAIL"
    assert slurm.until_done(job, 60) == 2
    assert job.failure() == "job 1: it ended without a result (node_fail)"


@pytest.mark.parametrize("word", ["COMPLETED", "SOMETHING ELSE"])
def test_a_job_that_ended_well_may_be_seen_late(slurm: Slurm, job: Job, word: str) -> None:
    """Its outcome is in a folder that this machine shows as it was some seconds ago."""
    slurm.word = word
    if word != "COMPLETED":
        job.name, job.state = "2", ""  # Slurm does not know it any more
    assert slurm.until_done(job, 30) is None
    job.outcome.write_text('{"node": "n1", "status": 0}')
    assert job.done and job.well and job.failure() == ""
    job.outcome.unlink()
    assert slurm.until_done(job, 60) == LATE_S - 30.5
    assert "ended without a result" in job.failure()


def test_who_cannot_be_asked_has_not_said_that_it_is_over(slurm: Slurm, job: Job) -> None:
    slurm.word = ""
    assert slurm.until_done(job, 2 * LATE_S) is None
    # And one that goes on after all is none of those that were over.
    slurm.word = "COMPLETED"
    assert slurm.until_done(job, 10) is None and job.over_s is not None
    slurm.word = "RUNNING"
    assert slurm.until_done(job, 10) is None and job.over_s is None
