# SPDX-License-Identifier: MIT
"""Runs on many machines: ``python -m benchmarks.fleet [scale] [nodes] [start]``, all without words.

``scale``: 10,000 groups of made-up figures by 1,000 nodes in memory: what giving out and taking up
costs, and what judging and the pages take. ``nodes``: groups a minute by two virtual nodes of a
Slurm, each with a CPU of its own, against one. ``start``: until the first turn, on Slurm and as
processes. The last two boot real kernels and want a machine on which nothing else runs.
"""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from benchmarks.speed import Figure, finish, options, timed
from kdyno.experiment.model import Experiment
from kdyno.fleet.engine import Commands, Job, Settings
from kdyno.fleet.union import Union
from kdyno.fleet.waves import Controller, Place, Record
from kdyno.judge.judging import verdict_of
from kdyno.judge.pairs import Question
from kdyno.measure.execution import manifest_of
from kdyno.report.sentence import worded
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run, RunWriter, create_run, list_runs
from kdyno.verbs.subject import load

ROOT = Path(__file__).resolve().parent.parent
MINE = ROOT / "tests" / "uml" / "umask.toml"
NODES, GROUPS, ROUNDS = 1000, 10, 24
_GROUP_S = 12.0
AT_ONCE = 50
"""Groups that come from one look of the controller to the next."""
PATTERNS = 20
"""Nodes with figures of their own; the others repeat them."""


def shard_of(runs: Path, number: int, experiment: Experiment, groups: int) -> Run:
    """What a job leaves: groups that took turns, a node's speed and a scatter of its own."""
    dice = random.Random(number)
    names = [variant.name for variant in experiment.variants]
    cases = tuple(
        CaseInfo(suite=use.name, case=case, unit="loops/s", better="higher")
        for use in experiment.suites
        for case in use.cases
    )
    manifest = _manifest(experiment, dict(zip(names, "ab", strict=True)), cases).model_copy(
        update={
            "blocks": (tuple(names),) * groups,
            "interleave": "turns",
            "state": "finished",
            "stopped": "max_boots",
        }
    )
    speed = dice.lognormvariate(0, 0.3)
    with create_run(runs, experiment.text, manifest) as writer:
        for name in names:
            writer.save_image(name, {"version": "7.3.0"})
        for block in range(groups):
            drift = [dice.lognormvariate(0, 0.05) for _ in range(ROUNDS)]
            for at, name in enumerate(names):
                samples = []
                for case in cases:
                    own = [dice.lognormvariate(0, 0.01) * (1 + 0.01 * at) for _ in drift]
                    reps = tuple(
                        (1000.0, round(4e6 * more * its / speed))
                        for more, its in zip(drift, own, strict=True)
                    )
                    score = median(1e9 * done / ns for done, ns in reps)
                    sample = Sample(
                        suite=case.suite,
                        case=case.case,
                        score=score,
                        reps=reps,
                        interleave="turns",
                        cpu_ns=tuple(int(ns) for _, ns in reps),
                    )
                    samples.append(sample)
                job = BootJob(index=2 * block + at, block=block, variant=name)
                host = BootHost(status="ok", group_s=12.0)
                boot = BootRecord(job=job, host=host, samples=tuple(samples))
                writer.add_boot(boot, b"a console\n" * 100)
        return writer.run


def _manifest(
    experiment: Experiment, images: dict[str, str], cases: Iterable[CaseInfo]
) -> Manifest:
    from kdyno.experiment.overrides import Overrides

    # Nothing is booted, and fuzzing makes such runs where no second sandbox can be.
    with mock.patch("kdyno.sandbox.require", return_value=True):
        return manifest_of(experiment, Overrides(), images=images, failed={}, cases=tuple(cases))


class Nodes:
    """An engine in memory: jobs leave shards that were made before. ``spent_s``: its own time."""

    def __init__(self, patterns: Path, folder: Path) -> None:
        self._made = sorted(patterns.iterdir())
        self._folder = folder
        self._jobs: dict[str, tuple[Job, Path]] = {}
        self._at = 0
        self.spent_s = self.now_s = 0.0
        folder.mkdir()

    def submit(
        self, work: Sequence[Commands], sbatch: dict[str, Any] | None = None, cpus: Any = ()
    ) -> list[Job]:
        with self._own():
            jobs = []
            for ((*command,),) in work:
                name = str(len(self._jobs))
                job = Job(name, self._folder / f"{name}.json", "RUNNING")
                runs = Path(command[command.index("--runs") + 1])
                self._jobs[name] = (job, runs)
                jobs.append(job)
            return jobs

    def look(self, jobs: Iterable[Job]) -> None:
        """The next nodes, one after the other, have each measured a group."""
        with self._own():
            self.now_s += _GROUP_S * AT_ONCE / len(self._jobs or " ")
            for _ in range(AT_ONCE if self._jobs else 0):
                job, runs = self._jobs[str(self._at % len(self._jobs))]
                group = self._at // len(self._jobs)
                self._at += 1
                if group < GROUPS:
                    self._leave(runs, group)
                if group == GROUPS - 1:
                    job.outcome.write_text('{"status": 0}')

    def cancel(self, jobs: Iterable[Job]) -> None: ...

    def cancel_label(self) -> None: ...

    def _leave(self, runs: Path, group: int) -> None:
        pattern = self._made[self._at % len(self._made)] if group == 0 else next(runs.iterdir())
        run = runs / pattern.name
        if group == 0:
            runs.mkdir(parents=True)
            subprocess.run(["cp", "-rl", pattern, run], check=True)
            (run / "boots").rename(run / ".later")
            (run / "boots").mkdir()
            file = run / "manifest.json"
            about = json.loads(file.read_text())
            about["host"]["node"] = f"n{self._at}"
            file.unlink()
            file.write_text(json.dumps(about))
        for boot in sorted((run / ".later").iterdir())[:2]:
            boot.rename(run / "boots" / boot.name)

    @contextmanager
    def _own(self) -> Iterator[None]:
        began_s = time.monotonic()
        try:
            yield
        finally:
            self.spent_s += time.monotonic() - began_s


def scale(folder: Path) -> list[Figure]:
    from kdyno.report.site.build import build_site

    groups = NODES * GROUPS
    experiment, _suites = load(MINE)
    measure = replace(experiment.measure, max_boots=groups, precision=1e-9, max_minutes=None)
    experiment = replace(experiment, measure=measure)
    for number in range(PATTERNS):
        shard_of(folder / "made", number, experiment, GROUPS)
    engine = Nodes(folder / "made", folder / "jobs")
    settings = Settings(nodes=NODES, groups=GROUPS)
    record = Record(settings=settings, file="x", built=["stock", "slow-umask"])
    with create_run(folder / "runs", experiment.text, _manifest(experiment, {}, ())) as writer:
        union = Union(writer)
        place = Place(writer.run.path)
        controller = Controller(
            experiment,
            union,
            place,
            record,
            [record.file],
            engine,
            lambda _text: None,
            clock=lambda: engine.now_s,
            sleep=lambda _s: None,
        )
        engine.spent_s = 0.0
        given_s = timed(controller.run) - engine.spent_s
        assert len(union.blocks) == groups, (len(union.blocks), controller.failures[-3:])
        judged_s = timed(lambda: _judge(writer, union))
    site_s = timed(lambda: build_site(folder / "runs", folder / "site"))
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    how = f"{NODES} nodes, {groups} groups of 2 × {len(union.manifest.cases)} cases"
    return [
        Figure("giving out and taking up, a group", 1000 * given_s / groups, "ms", most=5, how=how),
        Figure("judging all of it", judged_s, "s", most=60),
        Figure("the site, with its report", site_s, "s", most=60),
        Figure("union, judging and site together", given_s + judged_s + site_s, "s", most=60),
        Figure("memory at most", most_mb, "MB", most=500),
    ]


def _judge(writer: RunWriter, union: Union) -> None:
    verdict = verdict_of(writer.run, Question.of(union.manifest), "max_boots")
    writer.save_verdict(worded(verdict, union.manifest))
    union.save(state="finished", stopped="max_boots")


class Desk:
    """Where runs are begun. ``slurm``: the cluster's environment; None: this machine alone."""

    def __init__(self, folder: Path, slurm: dict[str, str] | None = None) -> None:
        self._folder = folder
        self._environment = {**(slurm or os.environ), "XDG_CONFIG_HOME": str(folder)}
        self._on = "slurm" if slurm else "local"
        self._runs = 0

    def measured(self, nodes: int, groups: int) -> tuple[float, list[BootRecord]]:
        """(when it was begun, by the clock; its boots)."""
        settings = self._folder / "kdyno" / "fleet.toml"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(f"[fleet]\nnodes = {nodes}\nbeside = true\n")
        self._runs += 1
        runs = self._folder / f"runs-{self._on}-{self._runs}"
        words = ("--on", self._on, "--max-boots", groups, "--precision", "0.000001%")
        words = (*words, "--seconds", "0.1", "--max-minutes", "30", "--runs", runs)
        command = [sys.executable, "-m", "kdyno", "run", MINE, *words]
        began_s = time.time()
        done = subprocess.run(
            list(map(str, command)), env=self._environment, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        (run,) = list_runs(runs)
        return began_s, [boot for boot in run.boots() if isinstance(boot, BootRecord)]


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[Desk, dict[str, str]]]:
    sys.path.insert(0, str(ROOT / "tests"))
    import slurm

    with slurm.cluster() as running:
        yield Desk(folder, running.environment), running.environment


def started_s(boot: BootRecord) -> float:
    return datetime.fromisoformat(boot.job.started_at).timestamp()


def groups_a_minute(boots: Sequence[BootRecord]) -> float:
    """From the start of the first guest to the end of the last group."""
    end_s = max(started_s(boot) + (boot.host.group_s or 0.0) for boot in boots)
    spent_s = end_s - min(map(started_s, boots))
    return 60 * len({boot.block for boot in boots}) / spent_s


def nodes(folder: Path) -> list[Figure]:
    rates: dict[int, list[float]] = {1: [], 2: []}
    with cluster(folder) as (desk, _environment):
        for _ in range(2):
            for count in rates:
                rates[count].append(groups_a_minute(desk.measured(count, 16 * count)[1]))
    one, two = median(rates[1]), median(rates[2])
    how = f"{two:.1f} and {one:.1f} groups a minute"
    return [Figure("two virtual nodes ÷ one, groups a minute", two / one, "", least=1.8, how=how)]


def start(folder: Path) -> list[Figure]:
    local, by_slurm, empty = [], [], []
    here = Desk(folder)
    wait = ["sbatch", "--wait", "--output=/dev/null", "--wrap=true"]
    with cluster(folder) as (desk, environment):
        for _ in range(3):
            for own, times in ((here, local), (desk, by_slurm)):
                began_s, boots = own.measured(1, 1)
                times.append(min(map(started_s, boots)) - began_s)
            empty.append(timed(lambda: subprocess.run(wait, env=environment, check=True)))
    bare_s = median(local) + median(empty)
    how = f"{median(by_slurm):.1f} s; local {median(local):.1f}, empty job {median(empty):.1f}"
    name = "to the first guest on Slurm ÷ (local + an empty job)"
    return [Figure(name, median(by_slurm) / bare_s, "", most=1.3, how=how)]


if __name__ == "__main__":
    parts = {"scale": scale, "nodes": nodes, "start": start}
    given = options(__doc__, parts)
    os.fsync = lambda _descriptor: None  # all of it is thrown away
    rows: list[Figure] = []
    for part in given.parts or parts:
        with tempfile.TemporaryDirectory(prefix="kdyno-bench-") as folder:
            rows += parts[part](Path(folder))
    sys.exit(finish(rows, given.json))
