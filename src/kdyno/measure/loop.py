# SPDX-License-Identifier: MIT
"""The loop: boot block after block until every effect is precise enough or a budget ends it.

Blocks have every variant once, in an order that a recorded seed says; and the variants of a block
alternate by whole boots or by turns.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from kdyno import deferred
from kdyno.errors import UsageError
from kdyno.experiment.model import Measure
from kdyno.judge.pairs import Pair
from kdyno.measure import boot as booting, turns
from kdyno.measure.bench import Bench, plan_of
from kdyno.measure.turns import LEAST, LEAST_LONG, LONGEST_S, TURN_S, Effort, why_whole
from kdyno.stats import stopping
from kdyno.stats.effect import FEWEST_BLOCKS, PairedEffect
from kdyno.stats.groups import best_rounds, spread
from kdyno.store.boot import BootRecord
from kdyno.store.manifest import Manifest
from kdyno.store.run import RunWriter
from kdyno.store.samples import Key, Samples

FAILURES_IN_A_ROW = 3
_look = deferred("kdyno.judge.judging:look")  # after the first boots
_OVER = 1.25
"""Times its minutes that a run may take to have intervals at all."""
_GROUP_S = 1.0
"""What a group is taken to cost beside its turns before there was one."""
CASE_S = 0.25
"""Of timed turns of each guest, at first: more groups are worth more than more rounds."""


def block_order(seed: int, block: int, variants: Sequence[str]) -> tuple[str, ...]:
    """Order of ``variants`` in block number ``block``. Every block has a generator of its own, so
    an order depends on the seed and the block's number and not on what happened before: a resumed
    run goes on with the same plan."""
    order = list(variants)
    random.Random(f"{seed}:{block}").shuffle(order)
    return tuple(order)


def draw_of(seed: int, block: int) -> int:
    """Which perturbation all boots of a block have: the number that a machine draws it by."""
    return random.Random(f"{seed}:{block}:draw").randrange(1, 1 << 31)


def choose(bench: Bench, interleave: str) -> tuple[Literal["boots", "turns"], str]:
    """(how the variants of a block alternate, why not by turns where ``auto`` would have them).
    UsageError where ``interleave`` is turns and they are impossible."""
    if interleave == "boots" or (bench.undisturbed and interleave == "auto"):
        return "boots", ""
    need = bench.machine.footprint()
    together = need.each_bytes * len(bench.variants)
    reasons = [why_whole(case) for case in bench.cases]
    if bench.machine.can.turns:
        why = bench.machine.can.turns
    elif len(bench.variants) < 2:
        why = "there is one variant, and nobody to take turns with"
    elif all(reasons):
        why = f"no case can take turns: {'; '.join(dict.fromkeys(reasons))}"
    elif together > need.available_bytes:
        why = (
            f"{len(bench.variants)} guests that are alive together may need "
            f"{together / 2**30:.1f} GiB, and {need.available_bytes / 2**30:.1f} GiB are free. "
            f"A smaller [machine] memory (it is {bench.experiment.machine.memory_bytes >> 20}M for "
            'each), or fewer variants at a time by --variant; interleave = "boots" needs one guest '
            "at a time"
        )
    else:
        return "turns", ""
    if interleave == "turns":
        raise UsageError(f'[measure] interleave = "turns": {why}')
    return "boots", why if len(bench.variants) > 1 else ""


def whole_cases(bench: Bench) -> dict[str, str]:
    """suite/case → why it is measured whole in a group, one guest after the other."""
    return {f"{case.suite}/{case.name}": why for case in bench.cases if (why := why_whole(case))}


def effort(bench: Bench, manifest: Manifest, data: Samples, group_s: float) -> Effort:
    """Seconds of each case in the next group, by spreads and prices so far only. group_s: seconds
    that a group takes beside its timed turns. Kalibera & Jones: as many rounds as make the
    narrowest interval in a given time."""
    members = max(2, len(bench.variants))
    own_s = group_s / max(1, len(manifest.cases))
    limits = {(job.suite, job.case): job.seconds or CASE_S for job in bench.jobs}
    seconds: dict[tuple[str, str], float] = {}
    for case in manifest.cases:
        key = case.suite, case.case
        turn_s = data.turn_s.get((*key, manifest.baseline), TURN_S)
        pairs = (Pair(data, manifest, case, variant) for variant in manifest.compared)
        spreads = (spread([logs for _, logs in pair.rounds()]) for pair in pairs)
        best = [best_rounds(own, own_s, members * turn_s) for own in spreads if own is not None]
        least = LEAST if turn_s <= LONGEST_S else LEAST_LONG
        wish_s = max(least, statistics.median(best)) * turn_s if best else CASE_S
        seconds[key] = min(limits.get(key, CASE_S), wish_s)
    return seconds


@dataclass(frozen=True)
class Status:
    """Where a run stands, for whoever shows it."""

    block: int
    boots: int
    variant: str
    case: str
    effects: dict[Key, PairedEffect]
    elapsed_s: float
    left_s: float | None
    failures: tuple[str, ...]


def ended(
    measure: Measure,
    manifest: Manifest,
    variants: Iterable[str],
    block: int,
    progress: stopping.Progress | None,
) -> str:
    """Why there is no block ``block``, whatever the time; empty: there is one. variants: those that
    it would boot, given up or not."""
    compared = [name for name in variants if name != manifest.baseline]
    if manifest.baseline in manifest.failed:
        return "the baseline failed"
    if compared and all(name in manifest.failed for name in compared):
        return "every other variant failed"
    if progress is not None and progress.enough:
        return "precision reached"
    return f"max_boots = {measure.max_boots} reached" if block >= measure.max_boots else ""


def left_s(
    measure: Measure, progress: stopping.Progress | None, block: int, block_s: float, spent_s: float
) -> float | None:
    """Seconds left: by the present spread, and never beyond the budgets; None: not known yet."""
    limit_s = None if measure.max_minutes is None else measure.max_minutes * 60
    if block_s == 0:
        return limit_s
    target = measure.max_boots
    if progress is not None and progress.predicted_blocks is not None:
        target = min(target, max(block + 1, progress.predicted_blocks))
    return max(
        0.0, min((target - block) * block_s, math.inf if limit_s is None else limit_s - spent_s)
    )


@dataclass
class Past:
    """The boots that there are, without what thousands of them would fill the memory with."""

    boots: list[BootRecord] = field(default_factory=list)
    """Headers, in order of index."""
    samples: Samples = field(default_factory=Samples)
    taken: frozenset[int] = frozenset()
    """Indices of boot folders that lay there already, damaged ones among them."""

    def next_index(self) -> int:
        """The lowest index after the newest boot that no folder has."""
        first = self.boots[-1].index + 1 if self.boots else 0
        return next(index for index in count(first) if index not in self.taken)

    def add(self, boot: BootRecord) -> None:
        self.samples.add(boot)
        self.boots.append(boot.header())


@dataclass
class Loop:
    """One execution of the loop over one run; everything it needs to go on is on disk."""

    bench: Bench
    writer: RunWriter
    manifest: Manifest
    show: Callable[[Status], None]
    past: Past = field(default_factory=Past)
    """At first what an earlier execution left."""
    failures: list[str] = field(default_factory=list)
    _effects: dict[Key, PairedEffect] = field(default_factory=dict)
    _progress: stopping.Progress | None = None
    _at_once: int = 1
    """Guests that run at the same time, each with a boot of its own."""

    def run(self) -> str:
        """Measure to the end; why it stopped, for the verdict."""
        self._at_once = booting.at_once(self.bench)
        measure, block = self.bench.experiment.measure, self._unfinished_block()
        least, links = measure.min_boots, measure.layouts
        while True:
            if block:
                self._effects, self._progress = _look(
                    self.past.samples, self.manifest, block, measure.precision, least, links
                )
            if why := self._why_stop(block):
                return why
            self._block(block)
            block += 1

    def _unfinished_block(self) -> int:
        """The first block that has not booted every variant that was planned for it."""
        done = {(boot.block, boot.variant) for boot in self.past.boots}
        for block, order in enumerate(self.manifest.blocks):
            missing = [(block, name) not in done for name in order if self._alive(name)]
            # Guests that took turns are compared with each other: of a group that was cut off
            # while it was written, what there is counts, and the next one begins.
            if all(missing) if self.manifest.interleave == "turns" else any(missing):
                return block
        return len(self.manifest.blocks)

    def _block(self, block: int) -> None:
        measure, manifest = self.bench.experiment.measure, self.manifest
        if block == len(manifest.blocks):
            names = [name for name in self.bench.variants if self._alive(name)]
            order = block_order(manifest.seed, block, names)
            self._save(blocks=(*manifest.blocks, order))
        # Where counts are compared the first block is as the kernel makes it, so that a run of an
        # experiment always begins with the same ones. Links rotate from one that the seed chooses:
        # the shards of a run do not all begin with the same.
        perturbed = block > 0 if self.bench.counts else manifest.machine.scattered
        draw = draw_of(manifest.seed, block) if perturbed else 0
        layout = (manifest.seed + block) % measure.layouts if measure.layouts else 0
        in_turns, order = manifest.interleave == "turns", self.manifest.blocks[block]
        bench = self.bench.without(self._done()) if self.bench.counts else self.bench
        plans = {
            name: plan_of(bench, name, turns=in_turns, draw=draw, layout=layout, block=block)
            for name in order
        }
        if in_turns:
            spent_s = sum(boot.host.inside_s or 0.0 for boot in self.past.boots)
            blocks = max(1, len({boot.block for boot in self.past.boots}))
            # A guest that was inside for longer than it ran has a clock that jumped.
            beside_s = max(0.0, self._spent_s() - spent_s) / blocks if self.past.boots else _GROUP_S
            boots = turns.measure(
                bench,
                [plans[name] for name in order if self._alive(name)],
                f"{manifest.seed}:{block}",
                effort=effort(bench, self.manifest, self.past.samples, beside_s),
                show=lambda case: self.show(self._status(block, "", case)),
                first_index=self.past.next_index(),
            )
            self._keep(boots)
            return
        complete = {boot.variant for boot in self.past.boots if boot.block == block}
        left = [name for name in order if name not in complete]
        for at in range(0, len(left), self._at_once):
            if names := [name for name in left[at : at + self._at_once] if self._alive(name)]:
                self.show(self._status(block, " and ".join(names), ""))
                group, index = [plans[name] for name in names], self.past.next_index()
                self._keep(booting.measure(bench, group, first_index=index))

    def _done(self) -> set[tuple[str, str]]:
        """(suite, case) that need no more boots: exact, or as precise as wanted, for every variant
        alive."""
        data, done = self.past.samples, set()
        names = [name for name in self.manifest.names if name != self.manifest.baseline]
        for case in self.manifest.cases:
            pairs = [Pair(data, self.manifest, case, name) for name in names if self._alive(name)]
            if pairs and all(pair.exact or self._precise(pair) for pair in pairs):
                done.add((case.suite, case.case))
        return done

    def _precise(self, pair: Pair) -> bool:
        """By its own blocks, for others may go on without it."""
        measure = self.bench.experiment.measure
        blocks = sum(map(math.isfinite, pair.block_log_ratios))
        least, links = measure.min_boots, measure.layouts
        others = [pair.ranked(*each) for each in stopping.beside(pair.data.blocks, links)]
        own = [pair.ranked()]
        return stopping.enough(own, blocks, measure.precision, least, others, links).enough

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
        last = [boot for boot in self.past.boots if boot.variant == name][-FAILURES_IN_A_ROW:]
        if len(last) < FAILURES_IN_A_ROW or any(boot.ok for boot in last):
            return
        reasons = {boot.host.reason for boot in last}
        tail = last[-1].host.console_tail.splitlines()[-3:]
        text = f"{FAILURES_IN_A_ROW} boots in a row failed: {', '.join(sorted(reasons))}: "
        text += last[-1].host.text + (f" | console: {' / '.join(tail)}" if tail else "")
        self._save(failed={**self.manifest.failed, name: text})

    def _why_stop(self, block: int) -> str:
        measure = self.bench.experiment.measure
        if why := ended(measure, self.manifest, self.bench.variants, block, self._progress):
            return why
        limit = measure.max_minutes
        # A block that would end beyond the limit is not begun, but for the last ones without which
        # nothing of the run has an interval.
        if limit is not None and self._spent_s() + self._block_s() > limit * 60 and block > 0:
            lacking = max(0, min(FEWEST_BLOCKS, measure.max_boots) - block)
            if not lacking or self._spent_s() + lacking * self._block_s() > _OVER * limit * 60:
                return f"max_minutes = {limit:g} reached"
        return ""

    def _status(self, block: int, variant: str, case: str) -> Status:
        measure = self.bench.experiment.measure
        return Status(
            block=block,
            boots=len(self.past.boots),
            variant=variant,
            case=case,
            effects=self._effects,
            elapsed_s=self._spent_s(),
            left_s=left_s(measure, self._progress, block, self._block_s(), self._spent_s()),
            failures=tuple(self.failures),
        )

    def _spent_s(self) -> float:
        """Seconds of measuring so far, those before an interruption included."""
        alone_s = sum(boot.host.wall_s or 0.0 for boot in self.past.boots if not boot.host.group_s)
        alone_s /= min(self._at_once, len(self.bench.variants))
        groups = {boot.block: boot.host.group_s for boot in self.past.boots if boot.host.group_s}
        return alone_s + sum(groups.values())

    def _block_s(self) -> float:
        blocks = len({boot.block for boot in self.past.boots})
        return self._spent_s() / blocks if blocks else 0.0

    def _alive(self, name: str) -> bool:
        return name not in self.manifest.failed

    def _save(self, **changed: object) -> None:
        self.manifest = self.manifest.model_copy(update=changed)
        self.writer.save_manifest(self.manifest)
