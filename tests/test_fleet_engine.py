# SPDX-License-Identifier: MIT
"""What an engine's word about a job is worth, and how often it is asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdyno.fleet.engine import LATE_S, Engine, Job, Settings


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
