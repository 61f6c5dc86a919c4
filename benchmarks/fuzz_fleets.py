# SPDX-License-Identifier: MIT
"""Runs in jobs whose shards somebody changed, gone on with by `kdyno run --resume`.

Changes are as those of fuzz_runs, of any file of the run, its shards and its jobs; the controller's
record is the person's own, as if the run were theirs as it is. ``said``: what jobs say of the
kernels that they were to build. No job is ever begun: whatever is given out is over at once,
without a result.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import shutil
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.fuzz_command import said_by
from benchmarks.fuzz_oracles import check_screen
from benchmarks.fuzz_place import Case, Place, packed, unpacked
from benchmarks.fuzz_runs import change, change_in, check_outside, play_verb
from benchmarks.mutations import mutated, mutated_json
from kdyno.errors import KdynoError, ToolError
from kdyno.fleet.engine import Commands, Job, Settings
from kdyno.fleet.union import Union
from kdyno.fleet.waves import Place as Jobs
from kdyno.fleet.waves import Record
from kdyno.store.run import create_run

_TEXT = """\
name = "fleet"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
config = ["bench"]
[variant.stock]
[variant.mine]
cflags = "-O3"
[[suite]]
name = "unixbench"
cases = ["syscall", "pipe"]
seconds = 0.2
[measure]
max_boots = 6
"""
NAME = "run"
"""Of the run, and of each shard."""
_GROUPS = 3
_PLAN = {
    "images": {
        "stock": {"digest": "1", "built": True},
        "mine": {"digest": "2", "built": False},
    },
    "failed": {},
}
_BUILT = {"images": {"mine": {"digest": "2", "seconds": 3.0}}, "failed": {}}


def fleet(rng: random.Random, place: Place) -> Case:
    """Some files of a run in jobs broken."""
    top = _seed(place)
    kinds = _kinds(top)
    changes: list[list[str]] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        changes += change_in(rng, kinds[rng.choice(list(kinds))], top)
    said = [packed(_broken(rng, it)) for it in (_PLAN, _BUILT)] if rng.random() < 0.3 else []
    return {"target": "fleet", "changes": changes, "said": said}


def _broken(rng: random.Random, said: object) -> bytes:
    data = json.dumps(said).encode()
    if rng.random() < 0.5:
        return data
    return mutated_json(rng, data) if rng.random() < 0.9 else mutated(rng, data)


@functools.cache
def _kinds(top: Path) -> dict[str, list[Path]]:
    """By their names without numbers: those of all shards and boots are made alike."""
    found: dict[str, list[Path]] = {}
    for path in sorted(top.rglob("*")):
        if path.is_file():
            parts = ["*" if it[0].isdigit() else it for it in path.relative_to(top).parts]
            found.setdefault("/".join(parts), []).append(path)
    return found


def play_fleet(case: Case, place: Place) -> None:
    """It comes to its end or says in kdyno's own words why not; nothing outside is touched."""
    top, home = _seed(place), place.folder / "runs"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(top, home, copy_function=shutil.copyfile)
    for it in case["changes"]:
        change(home, *it, place)
    homes = {"KDYNO_RUNS": str(home), "KDYNO_CACHE": str(place.folder / "cache")}
    homes["XDG_STATE_HOME"] = str(place.folder / "state")
    built = [] if case["said"] else ["stock", "mine"]
    record = Record(
        settings=Settings(nodes=2, groups=_GROUPS),
        file=str(place.folder / "fleet.toml"),
        next=2,
        built=built,
    )
    engine = functools.partial(_Over, list(map(unpacked, case["said"])))
    with mock.patch.dict(os.environ, homes), ExitStack() as stack:
        for what, new in (
            ("kdyno.fleet.engine.Engine", engine),
            ("kdyno.fleet.waves._LOOK_EVERY_S", 0.0),
            ("kdyno.fleet.waves._SHARE", 1e9),
            # Of a run that is none in jobs any more: nothing is built or booted here.
            ("kdyno.verbs.watching.executed", _not_here),
        ):
            stack.enter_context(mock.patch(what, new))
        with contextlib.suppress(KdynoError):  # its experiment cannot be read
            Jobs(home / NAME).write(record)
        check_screen(*_joined(said_by(["run", "--resume", NAME])))
        for words in (["list", "runs"], ["report", "RUN"]):
            play_verb(words, {"RUN": NAME}, place)
    check_outside(place)


def _joined(found: tuple[int, str, str]) -> tuple[int, str]:
    return found[0], found[1] + found[2]


def _not_here(*_given: object) -> None:
    raise ToolError("no run in jobs")


class _Over:
    """An engine whose jobs are over when they begin. ``said``: by those that build, in turn."""

    def __init__(self, said: list[bytes], settings: Settings, folder: Path, label: str) -> None:
        self._said, self._folder, self._given = said, folder, 0

    def submit(
        self, work: Sequence[Commands], sbatch: dict[str, Any] | None = None, cpus: Any = ()
    ) -> list[Job]:
        made = []
        for commands in work:
            command = list(map(str, commands[0]))
            if "build" in command and self._said:
                Path(command[command.index("--json") + 1]).write_bytes(self._said.pop(0))
            outcome = self._folder / "0" / f"{self._given}.json"
            made.append(Job(str(self._given), outcome, "COMPLETED"))
            self._given += 1
        return made

    def look(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            job.state, job.lost = "COMPLETED", True

    def cancel(self, jobs: Iterable[Job]) -> None: ...

    def cancel_label(self) -> None: ...


def _seed(place: Place) -> Path:
    """A folder of runs with one whose controller was killed: of two shards of three groups the one
    was taken up, and the other's job is alive."""
    top = place.folder / "fleet"
    if top.exists():
        return top
    from benchmarks.fleet import _manifest, shard_of
    from kdyno.verbs.options import load

    file = place.folder / "fleet.toml"
    file.write_text(_TEXT)
    asked, _suites = load(file)
    with mock.patch("os.fsync"), create_run(top, asked.text, _manifest(asked, {}, ())) as writer:
        made = writer.run.path
        jobs, union = Jobs(top / NAME), Union(writer)
        jobs.make()
        for number in range(2):
            shard_of(jobs.shard(number), number, asked, _GROUPS)
            (shard,) = jobs.shard(number).iterdir()
            shard.rename(jobs.shard(number) / NAME)
        own = jobs.jobs / "0"
        own.mkdir(parents=True)
        (own / "1.json").write_text('{"node": "n1", "status": 1, "why": "exit status 1"}')
        (own / "1.log").write_text("the disk is full\n")
        union.take(union.shard(0, jobs.shard(0)))
        union.save(state="interrupted", stopped="interrupted: killed")
    made.rename(top / NAME)
    return top
