# SPDX-License-Identifier: MIT
"""The cluster that tests of runs on Slurm use: two nodes, one job each, jobs by submitit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest
import slurm

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Cluster]:
    with slurm.cluster() as running:
        yield running


def test_a_job_has_a_node_for_itself(cluster: slurm.Cluster) -> None:
    command = ["srun", "--exclusive", "-N2", "printenv", "SLURMD_NODENAME"]
    done = subprocess.run(
        command, env=cluster.environment, capture_output=True, timeout=slurm.LIMIT_S
    )
    assert sorted(done.stdout.decode().split()) == list(slurm.NODES), done.stderr.decode()


def test_jobs_by_submitit(cluster: slurm.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit = pytest.importorskip("submitit")
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    executor = submitit.SlurmExecutor(folder=cluster.folder / "jobs")
    executor.update_parameters(
        partition=slurm.PARTITION, time=5, exclusive=True, array_parallelism=2, use_srun=False
    )
    jobs = executor.map_array(pow, (2, 3, 4), (5, 5, 5))
    assert [it.result() for it in jobs] == [32, 243, 1024]


def test_a_node_that_is_lost_and_comes_back(cluster: slurm.Cluster) -> None:
    cluster.kill("n2")
    cluster.wait("n2 gone", lambda: "down" in cluster.do("sinfo", "-hN", "-n", "n2", "-o", "%T"))
    cluster.start_node("n2")
    assert cluster.do("srun", "-w", "n2", "printenv", "SLURMD_NODENAME").split() == ["n2"]
