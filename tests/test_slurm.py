# SPDX-License-Identifier: MIT
"""Jobs on a real Slurm with two nodes: given out, failed, lost with their node, cancelled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import slurm

from kdyno.cli.doctor import nodes_of
from kdyno.errors import ToolError
from kdyno.fleet.engine import Engine, Job, Settings

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Cluster]:
    with slurm.cluster() as running:
        yield running


def engine_of(cluster: slurm.Cluster, monkeypatch: pytest.MonkeyPatch, *words: Any) -> Engine:
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    return Engine(Settings(engine="slurm", partition=slurm.PARTITION, minutes=5), *words)


@pytest.fixture
def engine(cluster: slurm.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    return engine_of(cluster, monkeypatch, tmp_path / "jobs", f"kdyno-{tmp_path.name[-20:]}")


def given(engine: Engine, *commands: list[str]) -> list[Job]:
    """A job for each command."""
    return engine.submit([[command] for command in commands])


def ended(cluster: slurm.Cluster, engine: Engine, *jobs: Job) -> list[str]:
    """What each of them says of its failure, when all are done."""

    def done() -> bool:
        engine.look(jobs)
        return all(job.done for job in jobs)

    cluster.wait(f"jobs {', '.join(job.name for job in jobs)}", done)
    return [job.failure() for job in jobs]


def test_a_job_has_a_node_for_itself(cluster: slurm.Cluster) -> None:
    command = ["srun", "--exclusive", "-N2", "printenv", "SLURMD_NODENAME"]
    done = subprocess.run(
        command, env=cluster.environment, capture_output=True, timeout=slurm.LIMIT_S
    )
    assert sorted(done.stdout.decode().split()) == list(slurm.NODES), done.stderr.decode()


def test_jobs_that_end_well_or_badly(
    cluster: slurm.Cluster, engine: Engine, tmp_path: Path
) -> None:
    good = [["sh", "-c", f"echo $SLURMD_NODENAME >{tmp_path}/{number}"] for number in range(3)]
    bad = ["sh", "-c", "echo the disk is full >&2; exit 3"]
    jobs = given(engine, *good, bad)
    *fine, failed = ended(cluster, engine, *jobs)
    assert fine == ["", "", ""] and {job.node for job in jobs} <= set(slurm.NODES)
    assert {(tmp_path / str(number)).read_text().strip() for number in range(3)} <= set(slurm.NODES)
    assert "the disk is full" in failed and "exit status 3" in failed


def test_jobs_are_cancelled_by_themselves_or_by_the_label_of_a_killed_controller(
    cluster: slurm.Cluster, engine: Engine, tmp_path: Path
) -> None:
    """And no others."""
    waits = ["sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.1; done"]
    other = Engine(engine.settings, tmp_path / "other", f"{engine.label}-more")
    (mine, labelled), (theirs,) = given(engine, waits, waits), given(other, waits)
    engine.cancel([mine])
    assert "it ended without a result" in ended(cluster, engine, mine)[0]
    engine.look([labelled])
    assert not labelled.over
    Engine(engine.settings, tmp_path / "again", engine.label).cancel_label()
    assert "it ended without a result" in ended(cluster, engine, labelled)[0]
    other.look([theirs])
    assert not theirs.over
    (tmp_path / "go").touch()
    assert ended(cluster, other, theirs) == [""]


def test_a_job_lost_with_its_node(cluster: slurm.Cluster, engine: Engine, tmp_path: Path) -> None:
    where = tmp_path / "where"
    (job,) = given(engine, ["sh", "-c", f"echo $SLURMD_NODENAME >{where}; exec sleep 300"])
    cluster.wait("a node", lambda: where.exists() and where.read_text().strip())
    node = where.read_text().strip()
    cluster.kill(node)
    assert "it ended without a result (node_fail)" in ended(cluster, engine, job)[0]
    cluster.start_node(node)
    assert ended(cluster, engine, *given(engine, ["true"], ["true"])) == ["", ""]


def test_a_folder_whose_name_speaks_to_slurm_and_to_the_shell(
    cluster: slurm.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = tmp_path / "x\n#SBATCH --output=mark\n';touch mark;$(touch mark)`touch mark`%j,%u"
    top.mkdir()
    engine = engine_of(cluster, monkeypatch, top / "jobs", "kdyno-x")
    words = f"$(touch {tmp_path}/mark)\n'"
    jobs = given(engine, ["sh", "-c", 'test "$0" = "$1"', words, words], ["true"])
    assert ended(cluster, engine, *jobs) == ["", ""]
    assert not list(Path(tmp_path).rglob("mark")) and not Path("mark").exists()


def test_a_folder_of_jobs_that_was_replaced_is_not_written_to(
    cluster: slurm.Cluster, engine: Engine, tmp_path: Path
) -> None:
    (job,) = engine.submit([[["touch", str(tmp_path / "ran")]]], {"hold": True})
    own = job.outcome.parent
    own.rename(tmp_path / "aside")
    if os.geteuid() == 0:
        own.mkdir()
        job.log.symlink_to(tmp_path / "victim")
        os.chown(own, 65534, 65534)
    else:
        own.symlink_to("/tmp")

    def is_over() -> bool:
        cluster.do("scontrol", "release", job.name)  # a busy controller refuses at times
        return job.name not in cluster.do("squeue", "-h", "-o", "%i").split()

    cluster.wait("its end", is_over)
    assert not (tmp_path / "victim").exists() and not (tmp_path / "ran").exists()
    assert not Path("/tmp", job.log.name).exists()


def test_an_engine_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none"))
    with pytest.raises(ToolError, match="no job could be submitted"):
        Engine(Settings(), tmp_path / "jobs").submit([[["true"]]])


def doctor(cluster: slurm.Cluster, folder: Path, *words: str, **more: str) -> dict[str, Any]:
    environment = {**cluster.environment, "XDG_CONFIG_HOME": str(folder), **more}
    environment = {"KDYNO_CACHE": str(folder / "cache"), "KDYNO_RUNS": str(folder), **environment}
    command = [sys.executable, "-m", "kdyno", "doctor", "--on", "slurm:lab", "--json", "-", *words]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=slurm.LIMIT_S)
    data: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if data["ok"] else 1), done.stderr
    return data


def test_doctor_asks_every_node(cluster: slurm.Cluster, tmp_path: Path) -> None:
    report = doctor(cluster, tmp_path)
    assert [each["node"] for each in report["nodes"]] == list(slurm.NODES)
    assert [each["problems"] for each in report["nodes"]] == [[], []]
    assert {each["cpus"] for each in report["nodes"]} == {1} and report["notes"] == []
    # A job has said all before Slurm, on a busy machine, knows that it has ended.
    cluster.wait("the queue to be empty", lambda: cluster.do("squeue", "-h") == "")


def test_doctor_names_a_cache_that_is_not_shared(cluster: slurm.Cluster, tmp_path: Path) -> None:
    """Where jobs get an environment of their own, and with it another cache."""
    (tmp_path / "kdyno").mkdir()
    (tmp_path / "kdyno" / "fleet.toml").write_text(
        f'[fleet.sbatch]\nexport = "ALL,PATH=/usr/bin:/bin,KDYNO_CACHE={tmp_path}/other"\n'
    )
    cluster.wait("n2 to be drained", lambda: cluster.becomes("n2", "drain", "reason=test"))
    try:
        report = doctor(cluster, tmp_path)
    finally:
        cluster.wait("n2 to be back", lambda: cluster.becomes("n2", "resume", result="idle"))
    assert report["nodes"][1]["problems"][0].startswith("Slurm says it is drain")
    assert report["nodes"][0]["problems"] == [
        f"the cache {tmp_path / 'cache'} is another folder there: {tmp_path / 'other'}"
    ]


def test_doctor_without_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    sinfo = tmp_path / "sinfo"
    for script, says in (
        ("echo 'unable to contact the controller' >&2; exit 1", "unable to contact"),
        ("exit 0", "there is no node in it"),
    ):
        sinfo.write_text(f"#!/bin/sh\n{script}\n")
        sinfo.chmod(0o755)
        with pytest.raises(ToolError, match=f"--on slurm: .*{says}"):
            nodes_of(Settings())
    sinfo.unlink()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="Slurm cannot be reached"):
        nodes_of(Settings())
