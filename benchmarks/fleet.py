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
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from benchmarks.figure import Figure, boots_of, main, run_of, timed
from kdyno.experiment.model import Experiment
from kdyno.experiment.overrides import Overrides
from kdyno.fleet.engine import Commands, Job, Settings
from kdyno.fleet.waves import Controller, Place, Record, Union
from kdyno.judge.judging import verdict_of
from kdyno.judge.pairs import Question
from kdyno.measure.execution import manifest_of
from kdyno.report.sentence import worded
from kdyno.report.site.build import build_site
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run, create_run
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
    blocks = (tuple(names),) * groups
    ended = {"interleave": "turns", "state": "finished", "stopped": "max_boots", "blocks": blocks}
    manifest = manifest_for(experiment, dict(zip(names, "ab", strict=True)), cases)
    speed = dice.lognormvariate(0, 0.3)
    with create_run(runs, experiment.text, manifest.model_copy(update=ended)) as writer:
        for name in names:
            writer.save_image(name, {"version": "7.3.0"})
        for index in range(groups * len(names)):
            block, at = divmod(index, len(names))
            if at == 0:
                drift = [dice.lognormvariate(0, 0.05) for _ in range(ROUNDS)]
            samples = []
            for case in cases:
                own = [dice.lognormvariate(0, 0.01) * (1 + 0.01 * at) for _ in drift]
                ns = [round(4e6 * a * b / speed) for a, b in zip(drift, own, strict=True)]
                sample = Sample(
                    suite=case.suite,
                    case=case.case,
                    score=median(1e12 / each for each in ns),
                    reps=tuple((1000.0, each) for each in ns),
                    interleave="turns",
                    cpu_ns=tuple(ns),
                )
                samples.append(sample)
            job = BootJob(index=index, block=block, variant=names[at])
            host = BootHost(status="ok", group_s=_GROUP_S)
            boot = BootRecord(job=job, host=host, samples=tuple(samples))
            writer.add_boot(boot, b"a console\n" * 100)
        return writer.run


def manifest_for(
    experiment: Experiment, images: dict[str, str], cases: Iterable[CaseInfo]
) -> Manifest:
    # Nothing is booted, and fuzzing makes such runs where no second sandbox can be.
    with mock.patch("kdyno.sandbox.require", return_value=True):
        return manifest_of(experiment, Overrides(), images=images, failed={}, cases=tuple(cases))


class Nodes:
    """An engine in memory: jobs leave shards that were made before. ``spent_s``: its own time."""

    def __init__(self, patterns: Path, folder: Path) -> None:
        self._patterns = sorted(patterns.iterdir())
        self._folder = folder
        self._jobs: dict[str, tuple[Job, Path]] = {}
        self._at = 0
        self.spent_s = self.now_s = 0.0
        folder.mkdir()

    def submit(
        self, work: Sequence[Commands], sbatch: dict[str, Any] | None = None, cpus: Any = ()
    ) -> list[Job]:
        jobs = []
        for ((*command,),) in work:
            name = str(len(self._jobs))
            job = Job(name, self._folder / f"{name}.json", "RUNNING")
            self._jobs[name] = (job, Path(command[command.index("--runs") + 1]))
            jobs.append(job)
        return jobs

    def look(self, jobs: Iterable[Job]) -> None:
        """The next nodes, one after the other, have each measured a group."""
        self.spent_s += timed(self._look)

    def _look(self) -> None:
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
        patterns = self._patterns
        pattern = patterns[self._at % len(patterns)] if group == 0 else next(runs.iterdir())
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


def scale(request: Any) -> Iterator[Figure]:
    folder, groups = request.folder, NODES * GROUPS
    experiment, _suites = load(MINE)
    measure = replace(experiment.measure, max_boots=groups, precision=1e-9, max_minutes=None)
    experiment = replace(experiment, measure=measure)
    for number in range(PATTERNS):
        shard_of(folder / "made", number, experiment, GROUPS)
    engine = Nodes(folder / "made", folder / "jobs")
    settings = Settings(nodes=NODES, groups=GROUPS)
    record = Record(settings=settings, file="x", built=["stock", "slow-umask"])
    with create_run(folder / "runs", experiment.text, manifest_for(experiment, {}, ())) as writer:
        union = Union(writer)
        controller = Controller(
            experiment,
            union,
            Place(writer.run.path),
            record,
            [record.file],
            engine,
            lambda _text: None,
            clock=lambda: engine.now_s,
            sleep=lambda _s: None,
        )
        given_s = timed(controller.run) - engine.spent_s
        assert len(union.blocks) == groups, (len(union.blocks), controller.failures[-3:])

        def judge() -> None:
            verdict = verdict_of(writer.run, Question.of(union.manifest), "max_boots")
            writer.save_verdict(worded(verdict, union.manifest))
            union.save(state="finished", stopped="max_boots")

        judged_s = timed(judge)
    site_s = timed(lambda: build_site(folder / "runs", folder / "site"))
    most_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    how = f"{NODES} nodes, {groups} groups of 2 × {len(union.manifest.cases)} cases"
    yield Figure("giving out and taking up, a group", 1e3 * given_s / groups, "ms", 5, how=how)
    yield Figure("judging all of it", judged_s, "s", 60)
    yield Figure("the site, with its report", site_s, "s", 60)
    yield Figure("union, judging and site together", given_s + judged_s + site_s, "s", 60)
    yield Figure("memory at most", most_mb, "MB", 500)


def boots_on(
    slurm: dict[str, str] | None, folder: Path, nodes: int, groups: int
) -> tuple[float, list[BootRecord]]:
    """(when it was begun, by the clock; its boots). ``slurm``: the cluster's environment; None:
    this machine alone."""
    settings = folder / "kdyno" / "fleet.toml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(f"[fleet]\nnodes = {nodes}\nbeside = true\n")
    words = ("--on", "slurm" if slurm else "local", "--max-boots", groups)
    words += ("--precision", "0.000001%", "--seconds", "0.1", "--max-minutes", "30")
    environment = {**(slurm or os.environ), "XDG_CONFIG_HOME": str(folder)}
    with mock.patch.dict(os.environ, environment, clear=True):
        began_s = time.time()
        return began_s, boots_of(run_of(MINE, folder, *words))


def started_s(boot: BootRecord) -> float:
    return datetime.fromisoformat(boot.job.started_at).timestamp()


def groups_a_minute(boots: Sequence[BootRecord]) -> float:
    """From the start of the first guest to the end of the last group."""
    end_s = max(started_s(boot) + (boot.host.group_s or 0.0) for boot in boots)
    spent_s = end_s - min(map(started_s, boots))
    return 60 * len({boot.block for boot in boots}) / spent_s


def nodes(request: Any) -> Iterator[Figure]:
    rates: dict[int, list[float]] = {1: [], 2: []}
    with slurm.cluster() as running:
        for count in (1, 2, 1, 2):
            _, boots = boots_on(running.environment, request.folder, count, 16 * count)
            rates[count].append(groups_a_minute(boots))
    one, two = median(rates[1]), median(rates[2])
    how = f"{two:.1f} and {one:.1f} groups a minute"
    yield Figure("two virtual nodes ÷ one, groups a minute", two / one, "", least=1.8, how=how)


def start(request: Any) -> Iterator[Figure]:
    local, by_slurm, empty = list[float](), list[float](), list[float]()
    wait = ["sbatch", "--wait", "--output=/dev/null", "--wrap=true"]
    with slurm.cluster() as running:
        environment = running.environment
        for _ in range(3):
            for own, times in ((None, local), (environment, by_slurm)):
                began_s, boots = boots_on(own, request.folder, 1, 1)
                times.append(min(map(started_s, boots)) - began_s)
            empty.append(timed(lambda: subprocess.run(wait, env=environment, check=True)))
    bare_s = median(local) + median(empty)
    how = f"{median(by_slurm):.1f} s; local {median(local):.1f}, empty job {median(empty):.1f}"
    name = "to the first guest on Slurm ÷ (local + an empty job)"
    yield Figure(name, median(by_slurm) / bare_s, "", most=1.3, how=how)


if __name__ == "__main__":
    os.fsync = lambda _descriptor: None  # all of it is thrown away
    sys.path.insert(0, str(ROOT / "tests"))
    import slurm

    main(__doc__, scale, nodes, start)
