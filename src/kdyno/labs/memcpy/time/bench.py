# SPDX-License-Identifier: MIT
"""The bench's loop: block after block, every contender with every load in each.

A block is one process with all routines at places of its own (rack.py) and copies drawn anew.
Within a block the contenders follow each other closely, in random order, at every load, so what
changes slowly meets all alike. Blocks are what intervals are made of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.cpu import this_cpu
from kdyno.kernels.routines.rack import Contender, rack, timing_program
from kdyno.labs.memcpy.time import replay
from kdyno.labs.memcpy.time.loads import ALIGNMENTS, LEVELS, Caches, Load, Plan, caches
from kdyno.labs.memcpy.time.results import Bench, Ceiling, Entry
from kdyno.labs.memcpy.time.timer import Line, Task, Timed, time_all

if TYPE_CHECKING:
    from kdyno.labs.memcpy.count.distribution import Distribution
    from kdyno.labs.memcpy.count.trace import Copy

STORE_BYTES = 4096
"""Target of the loop of stores: far inside L1."""
READ_BYTES = 8
"""Recorded copies up to this size are values (get_user), which their caller reads at once. A store
that cannot be forwarded to that load costs several ns more."""
MOST_REPLAYED = 64 << 20
"""Bytes of the largest recorded copy that is replayed."""


@dataclass(frozen=True)
class Material:
    """What is copied: the plan, and what is replayed in it."""

    plan: Plan
    copies: Distribution | None = None
    trace: tuple[Copy, ...] = ()


def with_copies(
    plan: Plan, copies: Distribution | None, trace: Sequence[Copy] = (), level: str = "L1"
) -> Material:
    """The plan with a distribution and a trace to replay beside its own loads."""
    added = []
    if copies is not None:
        sizes = [cell.size for cell in copies.cells]
        mean = copies.bytes / copies.calls
        added.append(_recorded(level, "distribution", min(sizes), max(sizes), mean))
    if trace:
        sizes = [copy.size for copy in trace]
        added.append(_recorded(level, "trace", min(sizes), max(sizes), sum(sizes) / len(sizes)))
    return Material(replace(plan, loads=(*plan.loads, *added)), copies, tuple(trace))


def _recorded(level: str, mode: str, least: int, most: int, mean: float) -> Load:
    if most > MOST_REPLAYED:
        raise UsageError(
            f"a recorded copy has {most} bytes; at most {MOST_REPLAYED >> 20} MiB are replayed"
        )
    # Copies of nothing have no size to divide by.
    return Load(level, mode, least, most, "recorded", max(mean, 1e-3))


@dataclass(frozen=True)
class Progress:
    """How far a bench is."""

    block: int
    part: float
    """Of the whole, 0 to 1."""
    elapsed_s: float
    left_s: float | None


Timer = Callable[[Path, Path, int, Sequence[Task], Callable[[], None]], Timed]


@dataclass
class _Collected:
    """Scores so far, by contender and load."""

    ns: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    ghz: dict[str, list[float]] = field(default_factory=dict)
    stores: list[float] = field(default_factory=list)
    copied: dict[str, list[float]] = field(default_factory=dict)
    clocks: list[tuple[float, ...]] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def measure(
    contenders: Sequence[Contender],
    material: Material,
    *,
    cache_root: Path,
    cpu: int,
    seed: int,
    left_out: dict[str, str],
    tell: Callable[[Progress], None] = lambda _progress: None,
    timer: Timer = time_all,
) -> Bench:
    """Time all contenders. Whoever calls holds the measuring lock.

    ToolError when not one contender could be timed.
    """
    plan, known = material.plan, caches()
    program = timing_program(cache_root)
    got = _Collected()
    began_s, created = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    block = 0
    while True:
        racing = [it for it in contenders if it.name not in got.failed]
        if not racing:
            raise ToolError("; ".join(f"{name}: {why}" for name, why in got.failed.items()))
        count = len(racing) * len(plan.loads)
        steps = _Steps(tell, plan, block, count, began_s)
        with whole.scratch("bench") as folder:
            tasks = tasks_of(racing, material, known, seed + block, folder)
            placed = rack(racing, seed + block, folder, cache_root)
            outcome = timer(program, placed, cpu, tasks, steps)
        _collect(got, outcome, racing, plan)
        block += 1
        spent_s = time.monotonic() - began_s
        if block >= plan.most_blocks or (
            block >= plan.fewest_blocks and spent_s * (block + 1) / block > plan.seconds
        ):
            break
    remarks = [f"this machine does not say how large {it} is" for it in known.guessed]
    return Bench(
        plan=plan.name,
        created=created,
        cpu=this_cpu().model,
        seed=seed,
        blocks=block,
        seconds=time.monotonic() - began_s,
        tsc_ghz=median(it[0] for it in got.clocks),
        core_ghz=median(it[1] for it in got.clocks),
        entries=tuple(Entry(it.name, it.help, it.rank) for it in contenders),
        loads=plan.loads,
        ns={
            name: {load: tuple(row) for load, row in rows.items()}
            for name, rows in got.ns.items()
            if name not in got.failed
        },
        ghz={load: median(row) for load, row in got.ghz.items()},
        ceilings=_ceilings(got, known),
        caches={"L1": known.l1, "L2": known.l2, "L3": known.l3},
        failed=got.failed,
        left_out=left_out,
        remarks=tuple(remarks),
    )


def width_bytes() -> int:
    """The widest register that this CPU can store."""
    flags = this_cpu().flags
    return 64 if "avx512f" in flags else 32 if "avx2" in flags else 16


def copying(known: Caches, level: str) -> str:
    """The line that measures how fast bytes can be copied at ``level``."""
    return f"copies {width_bytes()} {known.region(level)}"


def tasks_of(
    contenders: Sequence[Contender], material: Material, known: Caches, seed: int, folder: Path
) -> list[Task]:
    """One block's work, in random order; pools are written into ``folder``."""
    plan = material.plan
    dice = np.random.default_rng(seed)
    tasks = [Task(("clock",), ())]
    for level in LEVELS:
        loads = [load for load in plan.loads if load.level == level]
        if not loads:
            continue
        largest = max(load.most for load in loads)
        region = max(known.region(level), replay.room_for(largest, 1 << 40, "L1"))
        kind = f"stores {width_bytes()} {STORE_BYTES}"
        if level != "L1":
            kind = copying(known, level)
        tasks.append(Task((f"region {region}", kind), ()))
        for at in dice.permutation(len(loads)):
            load = loads[at]
            setup: tuple[str, ...] = (f"region {region}",)
            pooled = load.mode != "fixed" or level != "L1"
            if pooled:
                pool = folder / f"{len(tasks)}.pool"
                room = replay.room_for(load.most, region, level)
                draws(dice, load, material, room).tofile(pool)
                setup = (*setup, f"pool {pool}")
            order = [contenders[it] for it in dice.permutation(len(contenders))]
            start = int(dice.integers(1 << 40))
            lines = [_line(load, each, plan, start, region) for each in order]
            tasks.append(Task(setup, tuple(lines)))
    return tasks


def draws(dice: np.random.Generator, load: Load, material: Material, room: int) -> replay.Draws:
    """A pool of copies of ``load`` within ``room`` bytes."""
    if load.mode == "distribution":
        assert material.copies is not None
        return replay.weighted(dice, material.copies, room, replay.POOL)
    if load.mode == "trace":
        return replay.in_order(dice, material.trace, room, replay.POOL)
    if load.mode == "random":
        return replay.ranged(dice, load.least, load.most, room, replay.POOL)
    dst, src = ALIGNMENTS[load.alignment]
    return replay.constant(dice, load.least, dst, src, room, replay.POOL)


_IN_PAGE = {"aliased": 0, "behind": 4095}
"""Loads whose places within their pages are what is measured, by `page_distance`."""


def page_distance(size: int, alignment: str) -> int:
    """How far the source lies behind the target, modulo 4096.

    Loads that look as if they read what a store before them wrote wait for it: the processor
    compares the low twelve bits first. Half a page keeps short copies clear of that, and three
    lines keep the stores of long ones as old as can be when a load meets them.
    """
    if alignment in _IN_PAGE:
        return _IN_PAGE[alignment]
    return 2048 if size <= 2048 else 192


def key(contender: Contender, load: Load) -> str:
    """One short word for a contender with a load."""
    return blake2b(f"{contender.name}@{load.id}".encode(), digest_size=12).hexdigest()


def _line(load: Load, contender: Contender, plan: Plan, start: int, region: int) -> Line:
    id_ = key(contender, load)
    head = f"{id_} {contender.symbol}"
    if load.mode == "fixed" and load.level == "L1":
        dst, src = ALIGNMENTS[load.alignment]
        where = f"{load.least} {dst} {src + page_distance(load.least, load.alignment)}"
        if plan.calls:
            return Line(id_, contender.name, f"counted {head} {where} {plan.calls}")
        spent = f"{plan.repetitions} {plan.repetition_ns}"
        return Line(id_, contender.name, f"fixed {head} {where} {spent}")
    touched = region if load.level in ("L2", "L3") else 0
    read = READ_BYTES if load.mode in ("distribution", "trace") else 0
    count = calls(load, plan.repetition_ns)
    text = f"drawn {head} {count} {plan.repetitions} {start} {touched} {read}"
    return Line(id_, contender.name, text)


_GUESSED = {"L1": (2.0, 40.0), "L2": (6.0, 20.0), "L3": (25.0, 8.0), "memory": (150.0, 4.0)}
"""ns that a call costs beside its bytes, and bytes per ns: only to choose how many calls."""


def calls(load: Load, wanted_ns: int) -> int:
    """Calls that last about that long, twice where sizes are drawn; thousands where they may."""
    base_ns, rate = _GUESSED[load.level]
    count = 2 * wanted_ns / (base_ns + load.mean / rate)
    return round(min(max(count, 2048 if load.mean < 8192 else 256, 1), replay.POOL // 4))


def _collect(got: _Collected, outcome: Timed, racing: Sequence[Contender], plan: Plan) -> None:
    got.failed.update(outcome.failed)
    for text, numbers in outcome.said.items():
        word = text.split()[0]
        if word == "clock" and len(numbers) == 2:
            got.clocks.append(numbers)
        elif word == "stores" and numbers:
            got.stores.append(numbers[0])
        elif word == "copies" and numbers:
            got.copied.setdefault(text, []).append(numbers[0])
    for each in racing:
        if each.name in outcome.failed:
            continue
        for load in plan.loads:
            found = outcome.times[key(each, load)]
            got.ns.setdefault(each.name, {}).setdefault(load.id, []).append(found.ns)
            got.ghz.setdefault(load.id, []).append(found.ghz)


def _ceilings(got: _Collected, known: Caches) -> dict[str, Ceiling]:
    """The best that was seen: a median over blocks, so that no single lucky one decides."""
    width = width_bytes()
    found = {}
    if got.stores:
        how = f"a loop of nothing but {width}-byte stores into {STORE_BYTES} bytes"
        found["L1"] = Ceiling(median(got.stores), how)
    for level in LEVELS[1:]:
        text = copying(known, level)
        if text in got.copied:
            how = f"one copy of {known.region(level) >> 10} KiB: the best of three plain loops"
            found[level] = Ceiling(median(got.copied[text]), how)
    return found


class _Steps:
    """Counts lines of a block and tells how far the bench is."""

    def __init__(
        self,
        tell: Callable[[Progress], None],
        plan: Plan,
        block: int,
        count: int,
        began_s: float,
    ) -> None:
        self._tell, self._plan, self._block, self._count = tell, plan, block, max(1, count)
        self._began_s, self._done = began_s, 0

    def __call__(self) -> None:
        self._done += 1
        elapsed_s = time.monotonic() - self._began_s
        blocks = self._block + self._done / self._count
        fewest_s = elapsed_s / blocks * self._plan.fewest_blocks
        most_s = elapsed_s / blocks * self._plan.most_blocks
        whole_s = max(fewest_s, min(self._plan.seconds, most_s))
        left_s = max(0.0, whole_s - elapsed_s) if elapsed_s > 0.5 else None
        self._tell(Progress(self._block, min(1.0, elapsed_s / whole_s), elapsed_s, left_s))
