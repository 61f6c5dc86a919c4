# SPDX-License-Identifier: MIT
"""The loop: boot block after block until every effect is precise enough or a budget ends it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kdyno.judge.judging import look
from kdyno.judge.pairs import Pair
from kdyno.judge.question import Question
from kdyno.measure import bench as booting
from kdyno.measure import group
from kdyno.measure.bench import Bench
from kdyno.measure.interleaving import effort
from kdyno.measure.plan import block_order, draw_of
from kdyno.stats import stopping
from kdyno.stats.effect import FEWEST_BLOCKS, PairedEffect
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import Manifest
from kdyno.store.run import RunWriter
from kdyno.store.samples import Gathering, Samples

FAILURES_IN_A_ROW = 3
_OVER = 1.25
"""Times its minutes that a run may take to have intervals at all."""
_GROUP_S = 1.0
"""What a group is taken to cost beside its turns before there was one."""

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Status:
    """Where a run stands, for whoever shows it."""

    block: int
    boots: int
    variant: str
    case: str
    effects: dict[Key, PairedEffect]
    progress: stopping.Progress | None
    elapsed_s: float
    left_s: float | None
    failures: tuple[str, ...]


@dataclass
class Past:
    """The boots that there are, without what thousands of them would fill the memory with."""

    boots: list[BootRecord] = field(default_factory=list)
    """Headers, in order of index."""
    gathered: Gathering = field(default_factory=Gathering)
    taken: frozenset[int] = frozenset()
    """Indices of boot folders that lay there already, damaged ones among them."""

    def next_index(self) -> int:
        """The lowest index after the newest boot that no folder has."""
        index = self.boots[-1].index + 1 if self.boots else 0
        while index in self.taken:
            index += 1
        return index

    def add(self, boot: BootRecord) -> None:
        self.gathered.add(boot)
        self.boots.append(boot.header())


@dataclass
class Loop:
    """One execution of the loop over one run; everything it needs to go on is on disk."""

    bench: Bench
    question: Question
    writer: RunWriter
    manifest: Manifest
    show: Callable[[Status], None]
    past: Past = field(default_factory=Past)
    """Begins as what an earlier execution left."""
    failures: list[str] = field(default_factory=list)
    _began_s: float = field(default_factory=time.monotonic)
    _effects: dict[Key, PairedEffect] = field(default_factory=dict)
    _progress: stopping.Progress | None = None
    _at_once: int = 1
    """Guests that run at the same time, each with a boot of its own."""

    @property
    def boots(self) -> list[BootRecord]:
        return self.past.boots

    def run(self) -> str:
        """Measure to the end; why it stopped, for the verdict."""
        self._at_once = booting.at_once(self.bench)
        block = self._unfinished_block()
        self._judge_so_far(block)
        while not (why := self._why_stop(block)):
            self._block(block)
            block += 1
            self._judge_so_far(block)
        return why

    def _unfinished_block(self) -> int:
        """The first block that has not booted every variant that was planned for it."""
        done = {(boot.block, boot.variant) for boot in self.boots}
        for block, order in enumerate(self.manifest.blocks):
            missing = [(block, name) not in done for name in order if self._alive(name)]
            # Guests that took turns are compared with each other: of a group that was cut off
            # while it was written, what there is counts, and the next one begins.
            if all(missing) if self.manifest.interleave == "turns" else any(missing):
                return block
        return len(self.manifest.blocks)

    def _block(self, block: int) -> None:
        if block == len(self.manifest.blocks):
            order = block_order(self.manifest.seed, block, self._names())
            self._save(blocks=(*self.manifest.blocks, order))
        if self.manifest.interleave == "turns":
            self._group(block)
            return
        done = {boot.variant for boot in self.boots if boot.block == block}
        left = [name for name in self.manifest.blocks[block] if name not in done]
        width = self._at_once
        open_ = booting.without(self.bench, self._done() if self.bench.counts else set())
        for at in range(0, len(left), width):
            self._boots(open_, block, [it for it in left[at : at + width] if self._alive(it)])

    def _group(self, block: int) -> None:
        order = [name for name in self.manifest.blocks[block] if self._alive(name)]
        spent_s = sum(boot.host.inside_s or 0.0 for boot in self.boots)
        blocks = max(1, len({boot.block for boot in self.boots}))
        beside_s = (self._spent_s() - spent_s) / blocks if self.boots else _GROUP_S
        found = group.measure(
            self.bench,
            order,
            f"{self.manifest.seed}:{block}",
            first_index=self.past.next_index(),
            block=block,
            draw=self._draw(block),
            layout=self._layout(block),
            effort=effort(self.bench, self.question, self.samples(), beside_s),
            show=lambda case: self.show(self._status(block, "", case)),
        )
        self._keep(found.boots)

    def _boots(self, open_: Bench, block: int, names: Sequence[str]) -> None:
        """open_: with the cases of which more is to be known."""
        if not names:
            return
        index = self.past.next_index()
        self.show(self._status(block, " and ".join(names), ""))
        made = booting.measure_together(
            open_,
            names,
            first_index=index,
            block=block,
            draw=self._draw(block),
            layout=self._layout(block),
        )
        self._keep(made)

    def _done(self) -> set[tuple[str, str]]:
        """(suite, case) that need no more boots: exact, or as precise as wanted, for every variant
        alive."""
        question, data = self.question, self.samples()
        names = [it for it in question.names if it != question.baseline and self._alive(it)]
        effects = {
            (case.suite, case.case): [
                (pair.ranked(), pair.ranked(stopping.before(data.blocks)))
                for name in names
                for pair in [Pair(data, question, case, name)]
            ]
            for case in question.cases
        }
        measure = self.bench.experiment.measure
        return {
            case
            for case, own in effects.items()
            if own
            and all(
                now.exact or stopping.precise(now, then, measure.precision, self._least_blocks)
                for now, then in own
            )
        }

    @property
    def _least_blocks(self) -> int:
        """Before which precision ends no run: each link is booted once, where there are several."""
        measure = self.bench.experiment.measure
        return max(measure.min_boots, measure.layouts)

    def _draw(self, block: int) -> int:
        """What perturbs a block, by `plan.draw_of`; 0: nothing does.

        Where counts are compared the first block is as the kernel makes it, so that a run of one
        experiment always begins with the same ones.
        """
        drawn = block > 0 if self.bench.counts else self.manifest.machine.scattered
        return draw_of(self.manifest.seed, block) if drawn else 0

    def _layout(self, block: int) -> int:
        """Which link of each kernel a block boots. They go round, from one that the seed says, so
        that the shards of a run do not all begin with the same."""
        links = self.bench.experiment.measure.layouts
        return (self.manifest.seed + block) % links if links else 0

    def _keep(self, boots: Sequence[tuple[BootRecord, bytes]]) -> None:
        self.writer.add_boots(boots)
        for record, _ in boots:
            self.past.add(record)
            if not record.ok:
                failed = f"boot {record.index} ({record.variant}): {record.host.reason}"
                self.failures.append(f"{failed}: {record.host.text}")
                self._give_up(record.variant)

    def _give_up(self, name: str) -> None:
        """After three failures in a row the variant is failed; the rest goes on."""
        last = [boot for boot in self.boots if boot.variant == name][-FAILURES_IN_A_ROW:]
        if len(last) < FAILURES_IN_A_ROW or any(boot.ok for boot in last):
            return
        reasons = Counter(boot.host.reason for boot in last)
        tail = last[-1].host.console_tail.splitlines()[-3:]
        text = f"{FAILURES_IN_A_ROW} boots in a row failed: {', '.join(sorted(reasons))}: "
        text += last[-1].host.text + (f" | console: {' / '.join(tail)}" if tail else "")
        self._save(failed={**self.manifest.failed, name: text})

    def _why_stop(self, block: int) -> str:
        measure = self.bench.experiment.measure
        alive = [name for name in self._names() if name != self.question.baseline]
        if not self._alive(self.question.baseline):
            return "the baseline failed"
        if not alive and len(self.bench.variants) > 1:
            return "every other variant failed"
        if self._progress is not None and self._progress.enough:
            return "precision reached"
        if block >= measure.max_boots:
            return f"max_boots = {measure.max_boots} reached"
        limit = measure.max_minutes
        # A block that would end beyond the limit is not begun, but for the last ones without which
        # nothing of the run has an interval.
        if limit is not None and self._spent_s() + self._block_s() > limit * 60 and block > 0:
            lacking = max(0, min(FEWEST_BLOCKS, measure.max_boots) - block)
            whole_s = self._spent_s() + lacking * self._block_s()
            if not lacking or whole_s > _OVER * limit * 60:
                return f"max_minutes = {limit:g} reached"
        return ""

    def _judge_so_far(self, block: int) -> None:
        if block == 0:
            return
        self._effects, self._progress = look(
            self.samples(),
            self.question,
            tuple(self.manifest.failed),
            block,
            self.bench.experiment.measure.precision,
            self._least_blocks,
        )

    def samples(self) -> Samples:
        """What was measured so far."""
        return self.past.gathered.samples()

    def _status(self, block: int, variant: str, case: str) -> Status:
        return Status(
            block=block,
            boots=len(self.boots),
            variant=variant,
            case=case,
            effects=self._effects,
            progress=self._progress,
            elapsed_s=self._spent_s(),
            left_s=self._left_s(block),
            failures=tuple(self.failures),
        )

    def _left_s(self, block: int) -> float | None:
        """Seconds left: by the present spread, and never beyond the budgets."""
        measure = self.bench.experiment.measure
        block_s = self._block_s()
        if block_s == 0:
            return None if measure.max_minutes is None else measure.max_minutes * 60
        target = measure.max_boots
        if self._progress is not None and self._progress.predicted_blocks is not None:
            target = min(target, max(block + 1, self._progress.predicted_blocks))
        left_s = (target - block) * block_s
        if measure.max_minutes is not None:
            left_s = min(left_s, measure.max_minutes * 60 - self._spent_s())
        return max(0.0, left_s)

    def _spent_s(self) -> float:
        """Seconds of measuring so far, those before an interruption included."""
        alone_s = sum(boot.host.wall_s or 0.0 for boot in self.boots if not boot.host.group_s)
        alone_s /= min(self._at_once, len(self.bench.variants))
        groups = {boot.block: boot.host.group_s for boot in self.boots if boot.host.group_s}
        return alone_s + sum(groups.values())

    def _block_s(self) -> float:
        """Mean seconds of a block so far."""
        blocks = len({boot.block for boot in self.boots})
        return self._spent_s() / blocks if blocks else 0.0

    def _alive(self, name: str) -> bool:
        return name not in self.manifest.failed

    def _names(self) -> Sequence[str]:
        return [name for name in self.bench.variants if self._alive(name)]

    def _save(self, **changed: object) -> None:
        self.manifest = self.manifest.model_copy(update=changed)
        self.writer.save_manifest(self.manifest)
