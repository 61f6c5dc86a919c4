# SPDX-License-Identifier: MIT
"""Gives groups out to jobs until every effect is precise enough, and takes up what they measured.

A job measures up to so many groups. A group counts when it is whole, whatever becomes of its job,
so a node that dies or is stopped loses what it was at, and others measure that again. When to end
is asked of the widths of intervals over all nodes, never of what they say.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from kdyno.errors import KdynoError, ToolError
from kdyno.experiment.model import Experiment
from kdyno.fleet.engine import LATE_S, PYTHON, Commands, Job
from kdyno.fleet.record import Given, Place, Record
from kdyno.fleet.union import Shard, Union
from kdyno.judge.judging import raw_effects
from kdyno.judge.question import Question
from kdyno.measure.loop import Key, Status
from kdyno.stats import stopping
from kdyno.stats.effect import PairedEffect

FAILURES_AT_FIRST = 3
"""Jobs in a row that may fail while nothing has been measured."""
FAILURES_LATER = 10
_LOOK_EVERY_S = 0.5
_END_LOOKS = 40
"""At jobs that were cancelled, before they are left to end by themselves."""
_SHARE = 0.1
"""Of its time that the controller works at most."""
_PATIENCE_S = 300.0
"""For which an engine may take no jobs, once it has taken some."""
_MORE = 16
"""A look at the widths is due when there is that part more blocks than at the last one."""
_SAVE_EVERY_S = 10.0


class AnEngine(Protocol):
    def submit(
        self, work: Sequence[Commands], sbatch: dict[str, Any] | None = None, cpus: Any = ()
    ) -> list[Job]: ...
    def look(self, jobs: Iterable[Job]) -> None: ...
    def cancel(self, jobs: Iterable[Job]) -> None: ...


@dataclass
class Out:
    """A job that was given out."""

    job: Job
    shard: Shard
    groups: int
    slot: int
    began_s: float
    taken: int = 0
    over_s: float | None = None
    """When it was found to be over."""

    @property
    def left(self) -> int:
        return max(0, self.groups - self.taken)

    @property
    def coming(self) -> int:
        """Groups that it has measured and that are not seen here yet, as far as it has said that
        all went well and its own record does not say yet that it is over."""
        manifest = self.shard.ended()
        over = manifest is not None and manifest.state != "running"
        return 0 if over or not self.job.well else self.left

    def group_s(self, now_s: float) -> float:
        """Seconds of a group, by what is known."""
        return (now_s - self.began_s) / (self.taken + 1)


@dataclass
class Controller:
    """One execution over one run; all it needs to go on is on disk."""

    experiment: Experiment
    """With the overrides applied."""
    union: Union
    place: Place
    record: Record
    words: Sequence[str]
    """The experiment's file and the options, as `kdyno run` takes them."""
    engine: AnEngine
    told: Callable[[str], None]
    show: Callable[[Status], None] = lambda _status: None
    slots: Sequence[Sequence[int]] = ()
    """CPUs of each of the jobs that are alive together, where they share a machine."""
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    failures: list[str] = field(default_factory=list)
    _alive: list[Out] = field(default_factory=list)
    _late: list[Out] = field(default_factory=list)
    _failed: int = 0
    _fastest_s: float = math.inf
    """A group, its part of starting the job included."""
    _began_s: float | None = None
    _refused_s: float | None = None
    _looked: int = 0
    _saved_s: float = 0.0
    _since: int = 0
    _effects: dict[Key, PairedEffect] = field(default_factory=dict)
    _progress: stopping.Progress | None = None

    def run(self) -> str:
        """Measure to the end; why it stopped. However it is left, its own jobs are cancelled."""
        self._adopt()
        try:
            while True:
                began_s = self.clock()
                self._hear()
                if why := self._why_stop():
                    return why
                self._give_out()
                self.show(self._status())
                self.sleep(max(_LOOK_EVERY_S, (self.clock() - began_s) / _SHARE))
        finally:
            self._end()

    def _end(self) -> None:
        """Its own jobs cancelled, and what they have written by then."""
        jobs = [it.job for it in self._alive]
        self.engine.cancel(jobs)
        with suppress(KdynoError):
            for _ in range(_END_LOOKS):
                self.engine.look(jobs)
                if all(it.over for it in jobs):
                    break
                self.sleep(_LOOK_EVERY_S)
            for it in (*self._alive, *self._late):
                self.union.take(it.shard)
            self.union.settle()
        self._remember([])

    def _adopt(self) -> None:
        """What the jobs of an earlier controller have measured; and those that are alive yet."""
        now_s = self.clock()
        given = {it.number: it for it in self.record.given}
        for number in sorted({*self.place.numbers(), *given}):
            shard = self.union.shard(number, self.place.shard(number))
            self.union.take(shard)
            if (it := given.get(number)) is not None:
                job = Job(it.name, self.place.jobs / it.outcome)
                taken = self.union.taken(number)
                self._alive.append(Out(job, shard, it.groups, self._slot(), now_s, taken))
        self._since = len(self.union.blocks)

    def _hear(self) -> None:
        """Take up what is new, and see which jobs are over."""
        now_s = self.clock()
        self.engine.look([it.job for it in self._alive])
        for it in (*self._alive, *self._late):
            if taken := self.union.take(it.shard):
                it.taken += taken
                self._failed = 0
                self._fastest_s = min(self._fastest_s, (now_s - it.began_s) / it.taken)
                if self._began_s is None:
                    self._began_s = it.began_s
        for it in [it for it in self._alive if it.job.done]:
            self._alive.remove(it)
            it.over_s = now_s
            self._late.append(it)
            self._ended(it)
        self._late = [it for it in self._late if it.left and now_s - (it.over_s or 0) < LATE_S]
        if now_s - self._saved_s >= _SAVE_EVERY_S:
            self._saved_s = now_s
            self.union.settle()

    def _ended(self, it: Out) -> None:
        why, manifest = it.job.failure(), it.shard.ended()
        if manifest is not None:
            self.union.failed(dict(manifest.failed))
            if not why and manifest.state == "failed":
                why = f"job {it.job.name}: {manifest.stopped}"
        if not why:
            return
        self._failed += 1
        self.failures.append(why)
        self.told(why)
        most = FAILURES_LATER if self.union.blocks else FAILURES_AT_FIRST
        if self._failed >= most:
            raise ToolError(f"{self._failed} jobs in a row failed, the last: {why}")

    def _give_out(self) -> None:
        settings = self.record.settings
        free = settings.nodes - len(self._alive)
        left = self.experiment.measure.max_boots - len(self.union.blocks)
        open_ = left - sum(it.left for it in self._alive) - sum(it.coming for it in self._late)
        if free <= 0 or left <= 0:
            return
        if open_ <= 0:
            open_ = self._held_up()
        each = max(1, min(settings.groups, math.ceil(left / settings.nodes)))
        sizes: list[int] = []
        while open_ > 0 and len(sizes) < free:
            sizes.append(min(each, open_))
            open_ -= sizes[-1]
        if sizes:
            self._submit(sizes)

    def _held_up(self) -> int:
        """Groups of a node that is so slow that another would measure them much earlier."""
        now_s = self.clock()
        late = [it for it in self._alive if it.left * it.group_s(now_s) > self._much_s()]
        if any(it.left for it in self._alive if it not in late):
            return 0
        return sum((it.left + 1) // 2 for it in late)

    def _much_s(self) -> float:
        """For which nobody waits, when another node is free."""
        return 4 * self._fastest_s + LATE_S

    def _submit(self, sizes: Sequence[int]) -> None:
        now_s, first = self.clock(), self.record.next
        slots = [self._slot(at) for at in range(len(sizes))]
        work = [[self._command(first + at, groups)] for at, groups in enumerate(sizes)]
        cpus = [self.slots[it] for it in slots] if self.slots else ()
        try:
            jobs = self.engine.submit(work, None, cpus)
        except ToolError as problem:
            if self._refused_s is None:
                if first == 0:
                    raise
                self.told(f"{problem}; trying again")
                self._refused_s = now_s
            if now_s - self._refused_s > _PATIENCE_S:
                raise
            return
        self._refused_s = None
        for at, (job, groups) in enumerate(zip(jobs, sizes, strict=True)):
            shard = self.union.shard(first + at, self.place.shard(first + at))
            self._alive.append(Out(job, shard, groups, slots[at], now_s))
        self.record = self.record.model_copy(update={"next": first + len(sizes)})
        self._remember(self._alive)

    def _command(self, number: int, groups: int) -> list[str]:
        """Of one shard. It ends by its groups alone: widths are looked at over all."""
        seed = self.union.manifest.seed + number
        minutes = 0.9 * self.record.settings.minutes
        names = [it for it in self.record.built if it != self.experiment.baseline]
        words = [*self.words, *(word for it in names for word in ("--variant", it))]
        words += ["--max-boots", str(groups), "--precision", "1e-9", "--seed", str(seed)]
        words += ["--max-minutes", f"{minutes:g}", "--yes", "--json", os.devnull]
        words += ["--beside"] if self.record.settings.beside else []
        runs = str(self.place.shard(number))
        return [*PYTHON, "kdyno", "run", *words, "--runs", runs]

    def _slot(self, more: int = 0) -> int:
        """The lowest that no job has."""
        taken = {it.slot for it in self._alive}
        free = [it for it in range(len(taken) + more + 1) if it not in taken]
        return free[more]

    def _remember(self, alive: Sequence[Out]) -> None:
        given = [
            Given(
                number=it.shard.number,
                groups=it.groups,
                name=it.job.name,
                outcome="/".join(it.job.outcome.parts[-2:]),
            )
            for it in alive
        ]
        update = {"given": given, "spent_s": self._spent_s()}
        self.place.write(self.record.model_copy(update=update))

    def _why_stop(self) -> str:
        measure, manifest = self.experiment.measure, self.union.manifest
        blocks = len(self.union.blocks)
        compared = [it for it in manifest.images if it != manifest.baseline]
        if manifest.baseline in manifest.failed:
            return "the baseline failed"
        if compared and all(it in manifest.failed for it in compared):
            return "every other variant failed"
        if blocks >= self._looked + max(stopping.LOOK_EVERY, self._looked // _MORE):
            self._looked = blocks
            self._judge_so_far(blocks)
        if self._progress is not None and self._progress.enough:
            return "precision reached"
        if blocks >= measure.max_boots:
            return f"max_boots = {measure.max_boots} reached"
        limit = measure.max_minutes
        if limit is not None and blocks and self._spent_s() >= 60 * limit:
            return f"max_minutes = {limit:g} reached"
        return ""

    def _judge_so_far(self, blocks: int) -> None:
        measure = self.experiment.measure
        question = Question.of(self.union.manifest)
        failed = tuple(self.union.manifest.failed)
        self._effects = raw_effects(self.union.samples(), question, failed)
        open_ = [effect for effect in self._effects.values() if not effect.exact]
        if self._effects and not open_:
            self._progress = stopping.settled(blocks)
            return
        asked = measure.min_boots
        least = stopping.minimum_blocks(asked)
        # Blocks come several at once: the look is that of the last one that was due.
        due = blocks - max(0, blocks - least) % stopping.LOOK_EVERY
        then = raw_effects(self.union.samples(), question, failed, stopping.before(due))
        self._progress = stopping.enough(
            open_, due, measure.precision, asked, [it for it in then.values() if not it.exact]
        )

    def _spent_s(self) -> float:
        """Seconds of measuring, those of earlier controllers included."""
        own_s = self.clock() - self._began_s if self._began_s is not None else 0.0
        return self.record.spent_s + own_s

    def _left_s(self) -> float | None:
        measure, blocks = self.experiment.measure, len(self.union.blocks)
        limit_s = None if measure.max_minutes is None else 60 * measure.max_minutes
        if self._began_s is None or blocks == self._since:
            return limit_s
        target = measure.max_boots
        if self._progress is not None and self._progress.predicted_blocks is not None:
            target = min(target, max(blocks + 1, self._progress.predicted_blocks))
        each_s = (self.clock() - self._began_s) / (blocks - self._since)
        left_s = (target - blocks) * each_s
        return max(0.0, left_s if limit_s is None else min(left_s, limit_s - self._spent_s()))

    def _status(self) -> Status:
        waiting = sum(it.job.state == "PENDING" for it in self._alive)
        at_work = len(self._alive) - waiting
        where = f"{at_work} {'node' if at_work == 1 else 'nodes'}"
        return Status(
            block=len(self.union.blocks),
            boots=self.union.boots,
            variant=f"on {where}" + (f", {waiting} waiting for one" if waiting else ""),
            case="",
            effects=self._effects,
            progress=self._progress,
            elapsed_s=self._spent_s(),
            left_s=self._left_s(),
            failures=tuple(self.failures),
        )
