# SPDX-License-Identifier: MIT
"""An experiment on real kernels over two nodes of a real Slurm, of which nothing goes well."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import postgres
import pytest
import slurm
from conftest import EXPERIMENT, KDYNO, kdyno, uml_processes

from kdyno.errors import KdynoError
from kdyno.fleet.waves import Place
from kdyno.machines import facts
from kdyno.store.boot import BootRecord
from kdyno.store.run import Run, list_runs
from kdyno.store.verdict import Verdict

pytestmark = [pytest.mark.uml, pytest.mark.slow]
# On a quick machine forty were over before the controller could be killed in the middle. One wave
# has them all: a node that dies between two has no job that is lost.
GROUPS = 200


def hearing() -> None:
    """A shell starts what it puts into the background deaf to Ctrl-C, with all that follows."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass
class Person:
    """At a terminal of the cluster."""

    cluster: slurm.Cluster
    folder: Path
    environment: dict[str, str]
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def begins(self, *words: str | Path) -> subprocess.Popen[bytes]:
        with (self.folder / "output").open("wb") as message:
            process = subprocess.Popen(
                [*KDYNO, "run", *map(str, words), "--runs", str(self.runs)],
                env=self.environment,
                stdout=message,
                stderr=message,
                preexec_fn=hearing,
            )
        self.running.append(process)
        return process

    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")

    def run(self) -> Run:
        (result,) = list_runs(self.runs)
        return result

    def boots(self) -> list[BootRecord]:
        try:
            return [boot for boot in self.run().boots() if isinstance(boot, BootRecord)]
        except (KdynoError, ValueError):
            return []

    def waits(self, what: str, ready: Callable[[], object]) -> None:
        def alive() -> object:
            assert self.running[-1].poll() is None, self.output()
            return ready()

        self.cluster.wait(f"{what}\n{self.output()}", alive)

    def queue(self) -> list[str]:
        return self.cluster.do("squeue", "-h", "-r", "-o", "%j").split()


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with slurm.cluster() as cluster:
        (tmp_path / "kdyno").mkdir()
        (tmp_path / "kdyno" / "fleet.toml").write_text(
            f'[fleet]\npartition = "{slurm.PARTITION}"\nnodes = 2\ngroups = {GROUPS}\n'
            "minutes = 60\nbeside = true\n"
        )
        own = {**cluster.environment, "XDG_CONFIG_HOME": str(tmp_path)}
        result = Person(cluster, tmp_path, own)
        yield result
        for process in result.running:
            process.kill()
            process.wait()


def nodes(boots: list[BootRecord]) -> set[str]:
    return {boot.job.machine.rpartition(" ")[2] for boot in boots}


def test_a_run_on_two_nodes_of_which_nothing_goes_well(
    person: Person, built: object, tmp_path: Path
) -> None:
    person.cluster.do("sbatch", "--hold", "--job-name=others", "--wrap=true")
    options = ("--on", "slurm", "--max-boots", str(GROUPS), "--precision", "0.000001%")
    begun = person.begins(EXPERIMENT, *options, "--seconds", "0.05", "--max-minutes", "30")
    person.waits("a group", lambda: nodes(person.boots()))

    # A node dies. What it had measured stays, and the other goes on. It is one that measures: on a
    # busy machine all groups of one node may be over before the other has a CPU to itself.
    before = person.boots()
    dead = max(nodes(before))
    person.cluster.kill(dead)
    person.waits("the job that is lost", lambda: "(node_fail)" in person.output())

    # The controller dies. Whoever goes on ends its jobs and keeps what they have measured.
    begun.kill()
    begun.wait()
    person.cluster.start_node(dead)
    record = Place(person.run().path).read()
    assert record is not None and record.next > 0 and not person.run().is_being_written()
    begun = person.begins("--resume", person.run().name)
    here = len(person.boots())
    person.waits("boots after that", lambda: len(person.boots()) > here)

    # Ctrl-C ends its jobs and no others.
    begun.send_signal(signal.SIGINT)
    assert begun.wait(slurm.LIMIT_S) == 130, person.output()
    assert "its jobs are cancelled; `kdyno run --resume" in person.output()
    person.cluster.wait("its jobs to end", lambda: person.queue() == ["others"])
    manifest = person.run().manifest()
    assert (manifest.state, manifest.stopped) == ("interrupted", "interrupted by Ctrl-C")
    there = {boot.job.shard for boot in person.boots()}
    assert {each.job.shard for each in before} <= there and len(there) < 2 * GROUPS

    # To the end, and into the store.
    with postgres.server() as server:
        person.environment["KDYNO_STORE"] = store = server.database()
        begun = person.begins("--resume", person.run().name, "--push")
        assert begun.wait(slurm.LIMIT_S) == 0, person.output()
        run, result = person.run(), person.boots()
        manifest, verdict = run.manifest(), run.verdict()
        assert verdict is not None and manifest.state == "finished"
        assert manifest.stopped == f"max_boots = {GROUPS} reached"
        shards = [each.job.shard for each in result]
        assert len(shards) == len(set(shards)) and len({each.block for each in result}) >= GROUPS
        assert there <= set(shards) and nodes(result) == {"n1", "n2"}
        assert len(manifest.machines) == 2 and not Place(run.path).path.exists()
        model = facts.machine()["cpu_model"]
        strata = [effect.strata.machines for effect in verdict.effects if effect.strata]
        names = {machine.stratum for machines in strata for machine in machines}
        assert {f"{model} n1", f"{model} n2"} <= names

        def stored(*words: str) -> str:
            return kdyno(*words, runs=tmp_path / "elsewhere", KDYNO_STORE=store).stdout

        assert run.name in stored("list", "runs")
        again = stored("judge", run.name, "--json", "-").encode()
        judged = Verdict.from_bytes(again, Path("judged"))
        assert [effect.ratio for effect in judged.effects] == [
            effect.ratio for effect in verdict.effects
        ]
        assert "umask" in stored("compare", run.name, "--against", "stock")
    assert person.queue() == ["others"] and uml_processes() == []
