# SPDX-License-Identifier: MIT
"""A run in jobs: kernels built by a job, then waves of jobs that measure, until enough is known.

A wave is as many jobs as there are nodes, of as many groups each. Their groups are taken up as they
come; when all jobs of a wave are over, the next wave measures what is missing. A group counts when
it is whole, whatever becomes of its job, so a node that dies loses only the group that it was at.
When to end is decided by the widths of the intervals over all nodes, never by the effects."""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import Field

from kdyno.errors import KdynoError, ToolError
from kdyno.experiment.model import Experiment
from kdyno.fleet.engine import LATE_S, PYTHON, Engine, Job, Settings
from kdyno.judge.judging import look
from kdyno.measure.loop import Status, ended, left_s
from kdyno.reading.checked import FromTool
from kdyno.stats import stopping
from kdyno.stats.effect import PairedEffect
from kdyno.store import reading
from kdyno.store.boot import BootRecord
from kdyno.store.comparable import common_facts, difference, machine_of, reservations
from kdyno.store.folder import Folder
from kdyno.store.manifest import Manifest
from kdyno.store.reading import parse
from kdyno.store.run import BEGUN, Damaged, Note, Run, RunWriter, list_runs, open_run
from kdyno.store.samples import Key, Samples

FOLDER = ".fleet"
"""Of a folder of runs."""
FAILURES_AT_FIRST = 3
"""Jobs in a row that may fail while nothing has been measured."""
FAILURES_LATER = 10
_BUILD_TRIES = 3
"""Jobs for one image that may be lost."""
_LOOK_EVERY_S = 0.5
_END_LOOKS = 40
"""At jobs that were cancelled, before they are left to end by themselves."""
_SHARE = 0.1
"""Of its time that the controller works at most."""
_PATIENCE_S = 300.0
"""How long an engine may take no jobs, once it has taken some."""
_MORE = 16
"""A look at the widths is due when there is that part more blocks than at the last one."""
_LIMIT_BYTES = 16 << 20


class Record(FromTool):
    """A run in jobs, as its controller keeps it in the person's own state folder: a file
    beside a run can therefore name neither files to be shown nor commands."""

    settings: Settings
    file: str
    """The experiment's."""
    ref: str = ""
    """The commit, of an experiment with [matrix]."""
    next: int = 0
    """Number of the next shard."""
    spent_s: float = 0.0
    """Of measuring, by controllers before."""
    built: list[str] = Field(default_factory=list)
    """Variants that have an image; empty: not known yet."""


@dataclass(frozen=True)
class Place:
    """The folder of a run's shards and jobs, which nobody else can look into."""

    run: Path

    @property
    def path(self) -> Path:
        return self.run.parent / FOLDER / self.run.name

    @property
    def jobs(self) -> Path:
        return self.path / "jobs"

    def shard(self, number: int) -> Path:
        """A folder of runs for each: nothing of one job is looked at by another."""
        return self.path / "shards" / str(number)

    def numbers(self) -> list[int]:
        """Of the shards that there are."""
        names = (folder.name for folder in (self.path / "shards").glob("[0-9]*"))
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def make(self) -> None:
        """ToolError where it is there and not this user's alone."""
        for folder in (self.path.parent, self.path):
            Folder.private(folder).close()

    @cached_property
    def _note(self) -> Note:
        return Note(open_run(self.run))

    def read(self) -> Record | None:
        """None: this person has begun no run in jobs here."""
        text = self._note.read()
        return None if text is None or text == BEGUN else parse(Record, text, self.path)

    def write(self, record: Record) -> None:
        self._note.write(record.model_dump_json(indent=1).encode())

    def remove(self) -> None:
        """What jobs have left, and the record."""
        self._note.remove()
        with suppress(ToolError), Folder.private(self.path.parent) as folder:
            folder.remove(self.path.name)


def label_of(run: Path) -> str:
    """By which Slurm distinguishes a run's jobs: the same for a controller that goes on with
    it. Not the run's name, which may be anything: Slurm takes names with commas for several."""
    manifest = open_run(run).manifest()
    text = f"{manifest.created} {manifest.seed}"
    return f"kdyno-{sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


class Images(reading.Record):
    """What `kdyno build --json` writes."""

    images: dict[reading.Name, Any]
    failed: dict[reading.Name, reading.Text]


def build(
    engine: Engine,
    words: Sequence[str],
    folder: Path,
    notify: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[list[str], dict[str, str]]:
    """(variants that have an image, variant → why it has none), built by one job: each begins at
    the objects of the one before it. ``words``: of `kdyno build`; ``folder``: for the answer.

    A lost job is submitted again. ToolError, with the node's words, where the baseline has no
    image, and where jobs are lost again and again."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "images.json"
    command = [*PYTHON, "kdyno", "build", *words, "--json", str(file)]
    for attempt in range(1, _BUILD_TRIES + 1):
        file.unlink(missing_ok=True)
        try:
            (job,) = engine.submit([[command]])
            notify(f"kernels: built by job {job.name}")
            while not job.done:
                engine.look([job])
                sleep(_LOOK_EVERY_S)
        except BaseException:
            engine.cancel_label()
            raise
        late_s = clock() + LATE_S
        while job.well and not file.exists() and clock() < late_s:
            sleep(_LOOK_EVERY_S)
        if file.exists():
            with Folder.open(folder) as inside:
                answer = parse(Images, inside.read(file.name, _LIMIT_BYTES), file)
            return list(answer.images), answer.failed
        why = job.failure() or f"{file} is not seen here"
        # A node that answers would answer the same again.
        if attempt == _BUILD_TRIES or job.node:
            break
        notify(why)
    raise ToolError(f"the kernels were not built: {why}")


@dataclass
class Shard:
    """What one job measures, seen from outside: a run of its own, in a folder of runs.

    Every boot of the joined run names its shard and its boot there: each is taken up once."""

    number: int
    folder: Path
    run: Run | None = None
    machine: str = ""
    """Empty before its first boot was taken up."""
    names: set[str] = field(default_factory=set)
    """Folders of its boots that were taken up."""

    def fresh(self) -> list[BootRecord]:
        """Its boots that were not taken up before, in the order in which they were measured."""
        self.run = self.run or next(iter(list_runs(self.folder)), None)
        if self.run is None:
            return []
        boots = list(self.run.boots(self.names))
        # What cannot be read was whole when it got its name, and will not get better.
        whole = [boot for boot in boots if isinstance(boot, BootRecord)]
        self.names |= {boot.name for boot in boots if isinstance(boot, Damaged)}
        self.names |= {boot.folder_name for boot in whole}
        return whole

    def manifest(self) -> Manifest | None:
        """As it is now; None where it has none yet."""
        try:
            return self.run.manifest() if self.run is not None else None
        except KdynoError:
            return None


class Union:
    """``writer``: of a run that is not finished, with what an earlier controller took up."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self.manifest = writer.run.manifest()
        self.blocks: list[tuple[str, ...]] = []
        """Variants of every block, in the order of their boots."""
        self.boots = 0
        self.samples = Samples()
        places: dict[str, int] = {}
        self._names: dict[int, set[str]] = {}
        """Shard → folders of its boots that are here."""
        self._first: Manifest | None = None
        self._text = writer.run.experiment_text()
        for boot in writer.run.boots():
            if isinstance(boot, BootRecord):
                number, _, rest = boot.job.shard.partition("/")
                place, _, name = rest.partition("/")
                if number.isascii() and number.isdigit():
                    self._names.setdefault(int(number), set()).add(name)
                    places[f"{number}/{place}"] = boot.block
                self._count(boot)
        # What cannot be read keeps its index, and its block where there are later ones.
        self.boots = max(self.boots, 1 + max(writer.run.taken_indices(), default=-1))
        self._places = defaultdict(count(len(self.blocks)).__next__, places)
        """SHARD/BLOCK → block of this run; a new one after all others."""

    def shard(self, number: int, folder: Path) -> Shard:
        """A shard of which this run may have boots."""
        return Shard(number, folder, names=set(self._names.get(number, ())))

    def take(self, shard: Shard) -> int:
        """Takes up what the shard has by now; how many blocks are new.

        ToolError where it measured something else than the others."""
        boots = shard.fresh()
        if shard.run is None:
            return 0
        if shard.names and not shard.machine:
            self._check(shard, shard.run)
        before, moved = len(self.blocks), []
        for index, boot in enumerate(boots, self.boots):
            place = f"{shard.number}/{boot.block}"
            name = f"{place}/{boot.folder_name}"
            block, machine = self._places[place], shard.machine
            own = boot.moved(index=index, block=block, machine=machine, shard=name)
            moved.append((own, shard.run.console(boot)))
        if moved:
            self._writer.add_boots(moved)
        for boot, _console in moved:
            self._count(boot)
        return len(self.blocks) - before

    def failed(self, why: dict[str, str]) -> None:
        """Variants that were given up somewhere."""
        if more := {name: text for name, text in why.items() if name not in self.manifest.failed}:
            self.save(failed={**self.manifest.failed, **more})

    def save(self, **changed: object) -> None:
        """The manifest on disk, with these fields changed."""
        self.manifest = self.manifest.model_copy(update={"blocks": tuple(self.blocks), **changed})
        self._writer.save_manifest(self.manifest)

    def save_images(self, folders: Iterable[Path]) -> None:
        """How the kernels were built, as the first shard with these images says it. One that was
        ended as it began has not all of them."""
        for run in (run for folder in folders for run in list_runs(folder)):
            with suppress(KdynoError):
                if run.manifest().images == self.manifest.images:
                    for name, image in [(name, run.image(name)) for name in self.manifest.images]:
                        self._writer.save_image(name, image)
                    return

    def _count(self, boot: BootRecord) -> None:
        self.boots = max(self.boots, boot.index + 1)
        self.blocks += [()] * (boot.block + 1 - len(self.blocks))
        self.blocks[boot.block] += (boot.variant,)
        self.samples.add(boot)

    def _check(self, shard: Shard, run: Run) -> None:
        """That it measures what the others do; what only it knows of the run is taken over."""
        manifest = run.manifest()  # what the probe saw is in it by now
        machine = machine_of(run, manifest)
        if run.experiment_text() != self._text:
            raise ToolError(
                f"{self.manifest.origin} was changed since the run began: {machine} measures "
                "something else. Begin a new run, or put the file back and go on with --resume"
            )
        taken = reservations((self.manifest, manifest))
        if self._first is None:
            self._first = manifest
            keys = ("images", "cases", "variants", "interleave")
            taken |= {key: getattr(manifest, key) for key in keys}
        elif what := difference(self._first, manifest):
            raise ToolError(
                f"{machine} measured something else than the nodes before it: the {what} "
                f"{'are' if what[-1] == 's' else 'is'} not theirs. `kdyno doctor --on` compares "
                "nodes; [fleet] constraint chooses like ones"
            )
        self.manifest = self.manifest.model_copy(update=taken)
        if machine not in self.manifest.machines:
            machines = {**self.manifest.machines, machine: manifest.host}
            update = {"machines": machines, "host": common_facts(list(machines.values()))}
            self.manifest = self.manifest.model_copy(update=update)
        shard.machine = machine


@dataclass
class Part:
    """One job of a wave."""

    job: Job
    shard: Shard
    groups: int
    taken: int = 0
    over_s: float | None = None
    """When it was found to be over."""
    closed: bool = False
    """Nothing more comes of it."""


@dataclass
class Controller:
    """One execution over one run; all that is needed to go on with it is on disk."""

    experiment: Experiment
    """With the overrides applied."""
    union: Union
    place: Place
    record: Record
    words: Sequence[str]
    """The experiment's file and the options, as `kdyno run` takes them."""
    engine: Engine
    notify: Callable[[str], None]
    show: Callable[[Status], None] = lambda _status: None
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    failures: list[str] = field(default_factory=list)
    _failed: int = 0
    """Jobs in a row."""
    _began_s: float | None = None
    _looked: int = 0
    _effects: dict[Key, PairedEffect] = field(default_factory=dict)
    _progress: stopping.Progress | None = None

    def run(self) -> str:
        """Measure to the end; why it stopped. However it is left, its jobs are cancelled, and so
        are those of a controller that was killed: what these have measured counts."""
        self.engine.cancel_label()
        for number in self.place.numbers():
            self.union.take(self.union.shard(number, self.place.shard(number)))
        try:
            while not (why := self._why_stop()):
                self._wave()
        finally:
            self.engine.cancel_label()
        return why

    def _wave(self) -> None:
        """One wave, until all its jobs are over or the run is."""
        settings = self.record.settings
        left = self.experiment.measure.max_boots - len(self.union.blocks)
        each = max(1, min(settings.groups, math.ceil(left / settings.nodes)))
        sizes = [min(each, left - at) for at in range(0, left, each)][: settings.nodes]
        parts = self._submit(sizes)
        try:
            while True:
                began_s = self.clock()
                self._hear(parts)
                if self._why_stop() or all(part.closed for part in parts):
                    return
                self.show(self._status(parts))
                self.sleep(max(_LOOK_EVERY_S, (self.clock() - began_s) / _SHARE))
        finally:
            self._end(parts)

    def _submit(self, sizes: Sequence[int]) -> list[Part]:
        """A job for each number of groups. An engine that has taken jobs may be away for a
        while."""
        first, refused_s = self.record.next, math.inf
        work = [[self._command(number, groups)] for number, groups in enumerate(sizes, first)]
        cpus = self.record.settings.slots()[: len(sizes)]
        jobs: list[Job] = []
        while not jobs:
            try:
                jobs = self.engine.submit(work, None, cpus)
            except ToolError as problem:
                # Slurm may have taken them before sbatch gave up; there are no others now.
                self.engine.cancel_label()
                if first == 0 or self.clock() - refused_s > _PATIENCE_S:
                    raise
                if refused_s == math.inf:
                    self.notify(f"{problem}; trying again")
                    refused_s = self.clock()
                self.sleep(_LOOK_EVERY_S)
        self._began_s = self.clock() if self._began_s is None else self._began_s
        self._save(next=first + len(sizes))
        return [
            Part(job, self.union.shard(number, self.place.shard(number)), groups)
            for number, (job, groups) in enumerate(zip(jobs, sizes, strict=True), first)
        ]

    def _command(self, number: int, groups: int) -> list[str]:
        """Of one shard. It ends by its groups alone: widths are looked at over all."""
        settings = self.record.settings
        built = (word for name in self.record.built for word in ("--variant", name))
        words = [*self.words, *built, "--max-boots", str(groups), "--precision", "1e-9"]
        words += ["--seed", str(self.union.manifest.seed + number)]
        words += ["--max-minutes", f"{0.9 * settings.minutes:g}", "--yes", "--json", os.devnull]
        words += ["--beside"] if settings.beside else []
        return [*PYTHON, "kdyno", "run", *words, "--runs", str(self.place.shard(number))]

    def _hear(self, parts: Sequence[Part]) -> None:
        """Take up what is new, and see which jobs are over."""
        open_ = [part for part in parts if not part.closed]
        self.engine.look([part.job for part in open_])
        now_s = self.clock()
        for part in open_:
            if groups := self.union.take(part.shard):
                part.taken += groups
                self._failed = 0
            if not part.job.done:
                continue
            manifest = part.shard.manifest()
            if part.over_s is None:
                part.over_s = now_s
                self._judge_job(part)
            # What a node has measured may come to be seen here some time after its end.
            recorded = manifest is not None and manifest.state != "running"
            late = part.job.well and not recorded and part.taken < part.groups
            part.closed = not late or now_s - part.over_s >= LATE_S

    def _judge_job(self, part: Part) -> None:
        """Of a job that is over. ToolError where too many have failed in a row."""
        why, manifest = part.job.failure(), part.shard.manifest()
        if manifest is not None:
            self.union.failed(dict(manifest.failed))
            if not why and manifest.state == "failed":
                why = f"job {part.job.name}: {manifest.stopped}"
        if not why:
            return
        self._failed += 1
        self.failures.append(why)
        self.notify(why)
        if self._failed >= (FAILURES_LATER if self.union.blocks else FAILURES_AT_FIRST):
            raise ToolError(f"{self._failed} jobs in a row failed, the last: {why}")

    def _end(self, parts: Sequence[Part]) -> None:
        """Jobs that are not over are cancelled; what they have written by then is taken up."""
        jobs = [part.job for part in parts if not part.closed]
        self.engine.cancel(jobs)
        with suppress(KdynoError):
            for _ in range(_END_LOOKS):
                self.engine.look(jobs)
                if all(job.over for job in jobs):
                    break
                self.sleep(_LOOK_EVERY_S)
            for part in parts:
                self.union.take(part.shard)
            self.union.save()
        self._save(spent_s=self._spent_s())
        self._began_s = None

    def _save(self, **changed: object) -> None:
        self.record = self.record.model_copy(update=changed)
        self.place.write(self.record)

    def _why_stop(self) -> str:
        measure, manifest = self.experiment.measure, self.union.manifest
        blocks = len(self.union.blocks)
        if blocks >= self._looked + max(stopping.LOOK_EVERY, self._looked // _MORE):
            self._looked = blocks
            # Blocks come several at once: the look is that of the last one that was due.
            least = stopping.minimum_blocks(measure.min_boots)
            due = blocks - max(0, blocks - least) % stopping.LOOK_EVERY
            self._effects, self._progress = look(
                self.union.samples, manifest, due, measure.precision, least, measure.layouts
            )
        if why := ended(measure, manifest, manifest.images, blocks, self._progress):
            return why
        limit = measure.max_minutes
        if limit is not None and blocks and self._spent_s() >= 60 * limit:
            return f"max_minutes = {limit:g} reached"
        return ""

    def _spent_s(self) -> float:
        """Seconds of measuring, those of earlier controllers included."""
        own_s = self.clock() - self._began_s if self._began_s is not None else 0.0
        return self.record.spent_s + own_s

    def _status(self, parts: Sequence[Part]) -> Status:
        measure, blocks = self.experiment.measure, len(self.union.blocks)
        spent_s = self._spent_s()
        block_s = spent_s / blocks if blocks else 0.0
        jobs = [part.job for part in parts if not part.closed]
        waiting = sum(job.state == "PENDING" for job in jobs)
        working = len(jobs) - waiting
        where = f"on {working} {'node' if working == 1 else 'nodes'}"
        where += f", {waiting} waiting for one" if waiting else ""
        return Status(
            block=blocks,
            boots=self.union.boots,
            variant=where,
            case="",
            effects=self._effects,
            elapsed_s=spent_s,
            left_s=left_s(measure, self._progress, blocks, block_s, spent_s),
            failures=tuple(self.failures),
        )
