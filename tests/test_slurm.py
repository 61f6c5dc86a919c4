# SPDX-License-Identifier: MIT
"""Jobs on a real Slurm with two nodes: given out, failed, lost with their node, cancelled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm

from kdyno.fleet.engine import Engine, Job
from kdyno.fleet.settings import Settings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Cluster]:
    with slurm.cluster() as running:
        yield running


@pytest.fixture
def engine(cluster: slurm.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    options = {"no-requeue": True}
    chosen = Settings(engine="slurm", partition=slurm.PARTITION, minutes=5, sbatch=options)
    return Engine(chosen, tmp_path / "jobs")


def ended(cluster: slurm.Cluster, *jobs: Job) -> list[str]:
    """What each of them says of its failure, when all are done."""
    for job in jobs:
        cluster.wait(f"job {job.name}", lambda job=job: job.done)
    return [job.failure() for job in jobs]


def test_a_job_has_a_node_for_itself(cluster: slurm.Cluster) -> None:
    command = ["srun", "--exclusive", "-N2", "printenv", "SLURMD_NODENAME"]
    done = subprocess.run(
        command, env=cluster.environment, capture_output=True, timeout=slurm.LIMIT_S
    )
    assert sorted(done.stdout.decode().split()) == list(slurm.NODES), done.stderr.decode()


def test_jobs_that_end_well_and_badly(
    cluster: slurm.Cluster, engine: Engine, tmp_path: Path
) -> None:
    good = [["sh", "-c", f"echo $SLURMD_NODENAME >{tmp_path}/{it}"] for it in range(3)]
    bad = ["sh", "-c", "echo the disk is full >&2; exit 3"]
    *fine, failed = ended(cluster, *engine.submit([*good, bad]))
    assert fine == ["", "", ""]
    assert {(tmp_path / str(it)).read_text().strip() for it in range(3)} <= set(slurm.NODES)
    assert "the disk is full" in failed and "exit status 3" in failed


def test_a_job_that_is_cancelled_and_one_that_is_not(
    cluster: slurm.Cluster, engine: Engine, tmp_path: Path
) -> None:
    waits = ["sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"]
    mine, other = engine.submit([waits, waits])
    mine.cancel()
    assert "it ended without a result" in ended(cluster, mine)[0]
    assert not other.done
    (tmp_path / "go").touch()
    assert ended(cluster, other) == [""]


def test_a_job_that_is_lost_with_its_node(
    cluster: slurm.Cluster, engine: Engine, tmp_path: Path
) -> None:
    where = tmp_path / "where"
    (job,) = engine.submit([["sh", "-c", f"echo $SLURMD_NODENAME >{where}; exec sleep 300"]])
    cluster.wait("a node", lambda: where.exists() and where.read_text().strip())
    node = where.read_text().strip()
    cluster.kill(node)
    assert "it ended without a result" in ended(cluster, job)[0]
    cluster.start_node(node)
    assert ended(cluster, *engine.submit([["true"], ["true"]])) == ["", ""]


def test_an_engine_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kdyno.errors import ToolError

    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none"))
    with pytest.raises(ToolError, match="no job could be submitted"):
        Engine(Settings(), tmp_path / "jobs").submit([["true"]])
