# SPDX-License-Identifier: MIT
"""A run in jobs by an engine in memory, whose nodes die, fail and differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fake_run import bench, manifest_of, steady
from site_runs import small

from kdyno.errors import ToolError
from kdyno.fleet.engine import Commands, Job, Settings
from kdyno.fleet.union import Union
from kdyno.fleet.waves import Controller, Place, Record
from kdyno.measure.loop import Status
from kdyno.store.run import RunWriter, create_run

TEXT = 'name = "0"\n'
MANY = 10**6


def option(command: Sequence[str], name: str) -> str:
    return command[command.index(name) + 1]


@dataclass
class FakeEngine:
    """Each look a node measures one more group of its job. ``dies``: job → groups before it is
    lost; ``speed``: job → groups a look; ``fails``: jobs that say so."""

    folder: Path
    dies: dict[int, int] = field(default_factory=dict)
    speed: dict[int, int] = field(default_factory=dict)
    fails: frozenset[int] = frozenset()
    commands: list[list[str]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    refuses: int = 0

    def submit(
        self, work: Sequence[Commands], sbatch: dict[str, Any] | None = None, cpus: Any = ()
    ) -> list[Job]:
        if self.refuses:
            self.refuses -= 1
            raise ToolError("no job could be submitted: the controller is away")
        self.folder.mkdir(parents=True, exist_ok=True)
        for number, ((*command,),) in enumerate(work, len(self.jobs)):
            self.jobs.append(Job(str(number), self.folder / f"{number}.json", "RUNNING"))
            self.commands.append(command)
        return self.jobs[-len(work) :]

    def look(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.state != "RUNNING":
                job.lost = True
                continue
            number = int(job.name)
            command, done = self.commands[number], self.done.get(job.name, 0)
            if number in self.fails:
                self.end(job, 1, "kdyno run: exit status 1")
            elif done >= self.dies.get(number, MANY):
                job.state = "NODE_FAIL"
            else:
                done = min(done + self.speed.get(number, 1), int(option(command, "--max-boots")))
                self.done[job.name] = done
                shard(Path(option(command, "--runs")), number, done)
                if done == int(option(command, "--max-boots")):
                    self.end(job, 0, "")

    def end(self, job: Job, status: int, why: str) -> None:
        job.state = "COMPLETED"
        job.log.write_text("the disk is full\n")
        said = {"node": f"n{int(job.name) % 2}", "status": status, "why": why}
        job.outcome.write_text(json.dumps(said))

    def cancel(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if not job.over:
                self.cancelled.append(job.name)
                job.state = "CANCELLED"

    def cancel_label(self) -> None:
        self.cancel(self.jobs)


def shard(runs: Path, number: int, blocks: int, **images: str) -> None:
    """The run of a job, with so many groups."""
    made = next(iter(runs.glob("*")), None)
    if made is None:
        run = small(runs, number, level=1.0 + number, blocks=20)
        made = run.path
        about = json.loads((made / "manifest.json").read_text())
        about["images"] = {"stock": "a", "mine": "b", **images}
        about["host"]["node"] = f"n{number % 2}"
        (made / "manifest.json").write_text(json.dumps(about))
        (made / "experiment.toml").write_text(TEXT)
        (made / "boots").rename(made / "later")
        (made / "boots").mkdir()
    for boot in sorted((made / "later").iterdir()):
        if int(boot.name[:4]) < 2 * blocks:
            boot.rename(made / "boots" / boot.name)


@dataclass
class Fleet:
    """A run in jobs, with what was said."""

    runs: Path
    engine: FakeEngine
    said: list[str] = field(default_factory=list)
    shown: list[Status] = field(default_factory=list)
    now_s: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def controller(
        self, writer: RunWriter, record: Record | None = None, **measure: object
    ) -> Controller:
        asked = {"max_boots": 20, "precision": 1e-9, "min_boots": 8, **measure}
        experiment = bench(steady({}), ("stock", "mine"), **asked).experiment  # type: ignore[arg-type]
        place = Place(writer.run.path)
        self.engine.folder = place.jobs / "0"
        own = record or Record(settings=Settings(nodes=2, groups=8), file="mine.toml")
        return Controller(
            experiment,
            Union(writer),
            place,
            own.model_copy(update={"built": ["stock", "mine"]}),
            [own.file],
            self.engine,
            self.said.append,
            self.shown.append,
            clock=lambda: self.now_s,
            sleep=self.sleep,
        )

    def new(self) -> RunWriter:
        made = bench(steady({}), ("stock", "mine"))
        manifest = manifest_of(made).model_copy(update={"images": {}, "cases": (), "seed": 100})
        return create_run(self.runs, TEXT, manifest)
