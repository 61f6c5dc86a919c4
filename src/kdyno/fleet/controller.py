# SPDX-License-Identifier: MIT
"""Gives groups out to jobs until every effect is precise enough, and joins what they measured.

A job measures a fixed number of groups as a run of its own, a shard. A shard counts when it is
finished and not at all before, so a node that dies or is stopped loses what it was at, and others
measure that again. When to end is asked of the widths of intervals over all shards, never of
what they say. Shards lie under a name made of the experiment and how it was asked: the same command
finds those of a controller that was killed.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from kdyno.errors import KdynoError, ToolError
from kdyno.experiment.model import Experiment
from kdyno.judge.judging import raw_effects
from kdyno.judge.question import Question
from kdyno.stats import stopping
from kdyno.store.earlier import whole_manifest
from kdyno.store.join import samples_of
from kdyno.store.run import Run, list_runs

FAILURES_IN_A_ROW = 3
_LOOK_EVERY_S = 0.5
FOLDER = ".fleet"
"""Of a folder of runs: what is not joined yet."""


class AJob(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def done(self) -> bool: ...
    def failure(self) -> str: ...
    def cancel(self) -> None: ...


class AnEngine(Protocol):
    def submit(self, commands: Sequence[Sequence[str]]) -> Sequence[AJob]: ...


@dataclass(frozen=True)
class Fleet:
    """One experiment, asked in one way, on many machines."""

    experiment: Experiment
    """With the overrides applied."""
    words: tuple[str, ...]
    """The experiment's file and the options, as ``kdyno run`` takes them."""
    folder: Path
    """Its shards and jobs."""
    nodes: int
    groups: int

    @property
    def shards(self) -> Path:
        return self.folder / "shards"

    @property
    def jobs(self) -> Path:
        return self.folder / "jobs"

    def build(self, words: Sequence[str]) -> list[str]:
        """The command that builds all kernels, so that no two nodes do."""
        return [sys.executable, "-m", "kdyno", "build", *words]

    def shard(self, number: int) -> list[str]:
        """The command of one shard. It ends by its groups alone: widths are looked at over all."""
        own = ["--max-boots", str(self.groups), "--precision", "1e-9", "--seed", str(number)]
        return [
            *(sys.executable, "-m", "kdyno", "run", *self.words, *own),
            *("--max-minutes", "100000", "--runs", str(self.shards), "--json", "/dev/null"),
        ]

    def finished(self) -> list[Run]:
        return [run for run in list_runs(self.shards) if _whole(run)]


def fleet_folder(runs: Path, experiment: Experiment, words: Sequence[str]) -> Path:
    """The same for the same experiment asked in the same way."""
    text = "\n".join((experiment.text, *words))
    return runs / FOLDER / sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def measure(
    fleet: Fleet,
    engine: AnEngine,
    told: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[list[Run], str]:
    """(finished shards, why measuring ended). However it is left, its own jobs are cancelled."""
    alive: list[AJob] = []
    began_s, seed, failed, shown = time.monotonic(), time.time_ns() % (1 << 40), 0, -1
    try:
        while True:
            for job in [it for it in alive if it.done]:
                alive.remove(job)
                if why := job.failure():
                    failed += 1
                    told(why)
                    if failed >= FAILURES_IN_A_ROW:
                        raise ToolError(f"{failed} jobs in a row failed, the last: {why}")
                else:
                    failed = 0
            found = fleet.finished()
            if len(found) != shown:
                shown = len(found)
                why = why_stop(fleet, found, time.monotonic() - began_s)
                told(f"{shown * fleet.groups} groups on {len(alive)} nodes; {why or 'going on'}")
                if why:
                    return found, why
            if missing := fleet.nodes - len(alive):
                commands = [fleet.shard(seed + each) for each in range(missing)]
                alive += engine.submit(commands)
                seed += missing
            sleep(_LOOK_EVERY_S)
    finally:
        for job in alive:
            job.cancel()


def why_stop(fleet: Fleet, found: Sequence[Run], spent_s: float) -> str:
    """Empty: go on."""
    wanted = fleet.experiment.measure
    if not found:
        return ""
    data = samples_of(found)
    question = Question.of(whole_manifest(found[0]))
    effects = [it for it in raw_effects(data, question, ()).values() if not it.exact]
    least = stopping.minimum_blocks(len(effects), question.confidence, wanted.min_boots)
    # Shards come with several blocks at once: the look is that of the last one that was due.
    due = data.blocks - max(0, data.blocks - least) % stopping.LOOK_EVERY
    if effects and stopping.enough(effects, due, wanted.precision, wanted.min_boots).enough:
        return "precision reached"
    if not effects:
        return "precision reached"
    if data.blocks >= wanted.max_boots:
        return f"max_boots = {wanted.max_boots} reached"
    if wanted.max_minutes is not None and spent_s >= 60 * wanted.max_minutes:
        return f"max_minutes = {wanted.max_minutes:g} reached"
    return ""


def forget(fleet: Fleet) -> None:
    """When all is joined."""
    shutil.rmtree(fleet.folder, ignore_errors=True)


def _whole(run: Run) -> bool:
    try:
        return run.manifest().state == "finished" and run.verdict() is not None
    except KdynoError:
        return False
