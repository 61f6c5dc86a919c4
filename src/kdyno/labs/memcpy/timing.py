# SPDX-License-Identifier: MIT
"""The bench's loop: who is timed, then block after block every contender with every load.

A block is one process with all routines at random places of its own (checking.py) and new pools of
copies. Within a block the contenders follow each other closely, in random order, at every load, so
what changes slowly meets all alike. Blocks are what intervals are made of.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from statistics import median

import numpy as np

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import BEST
from kdyno.kernels import cpu as cpus
from kdyno.kernels.routines.checking import (
    Contender,
    check,
    kernels_own,
    rack,
    routine_contender,
    standing,
    timing_program,
)
from kdyno.kernels.routines.routine import PLACE, Routine, best, find_routine, list_routines
from kdyno.labs.memcpy import results
from kdyno.labs.memcpy.loads import (
    ALIGNMENTS,
    LEVELS,
    POOL,
    RECORDED,
    Caches,
    Load,
    Material,
    Plan,
    caches,
    draws,
    room_for,
)
from kdyno.labs.memcpy.timer import Line, Task, Timed, time_all

STRING = "fsrm"
"""The routine that is nothing but rep movsb."""
STORE_BYTES = 4096
"""Target of the loop of stores: far inside L1."""
READ_BYTES = 8
"""Recorded copies up to this size are values (get_user), which their caller reads at once. A store
that cannot be forwarded to that load costs several ns more."""
_NO_TREE = (
    "memcpy_orig is taken from a kernel source, and there is none in the cache: give --tree DIR, "
    "or build any kernel once, for example `kdyno build experiments/simd-memcpy.toml`"
)
_GUESSED = {"L1": (2.0, 40.0), "L2": (6.0, 20.0), "L3": (25.0, 8.0), "memory": (150.0, 4.0)}
"""ns that a call costs beside its bytes, and bytes per ns: only to choose how many calls."""

Check = Callable[[Sequence[Routine]], dict[str, str]]
"""Routines → name of each that does not copy right, and what it did."""
Timer = Callable[[Path, Path, int, Sequence[Task], Callable[[], None]], Timed]


@dataclass(frozen=True)
class Field:
    """Who is timed, and who is not and why."""

    contenders: tuple[Contender, ...]
    left_out: dict[str, str] = field(default_factory=dict)

    def require_some(self) -> None:
        """ToolError where nothing would be compared."""
        if not any(contender.rank == "routine" for contender in self.contenders):
            why = "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items())
            raise ToolError(f"no routine is left to time: {why}")


def checked(cache_root: Path) -> Check:
    """The full check (checking.py); its results are kept."""

    def wrong(routines: Sequence[Routine]) -> dict[str, str]:
        results = {routine.name: check(routine, cache_root) for routine in routines}
        return {
            name: f"fails its check: {'; '.join(result.violations)}"
            for name, result in results.items()
            if not result.passed
        }

    return wrong


def tree_at_hand(cache_root: Path) -> Path | None:
    """The newest kernel source that lies unpacked in the cache; None without one."""
    trees = [tree for tree in cache_root.glob("trees/*/tree") if (tree / PLACE).is_file()]
    return max(trees, key=lambda tree: tree.stat().st_mtime, default=None)


def gather(
    names: Sequence[str],
    tree: Path | None,
    cache_root: Path,
    check: Check,
    only: Sequence[str] = (),
) -> Field:
    """The field for ``names`` (names or FILE.S; none: all of kernel/memcpy/) and the rivals.

    tree: a kernel source for memcpy_orig. only: what a plan times, when no names are given.
    UsageError for an unknown name, or a named routine that this CPU cannot run.
    """
    left_out: dict[str, str] = {}
    routines: list[Routine] = []
    # ``best`` is the one that a variant of that name gets on this CPU.
    plain = (best("memcpy", "um").routine if name == BEST else name for name in names)
    named = [find_routine(name) for name in dict.fromkeys(plain)]
    for routine in named or list_routines():
        if not names and only and routine.name not in only:
            continue
        if not (lacking := cpus.missing(routine.requires)):
            routines.append(routine)
        elif names:
            raise UsageError(f"{routine.name}: this CPU has no {', '.join(lacking)}")
        else:
            left_out[routine.name] = f"this CPU has no {', '.join(lacking)}"
    wrong = check(routines)
    left_out |= wrong
    own = [routine_contender(each, cache_root) for each in routines if each.name not in wrong]
    # The same two instructions twice would only be compared with themselves.
    own = [replace(each, rank="rival") if each.name == STRING else each for each in own]
    others = standing(cache_root)
    if any(each.name == STRING for each in own):
        others = [each for each in others if each.rank != "rival"]
    if tree is not None:
        others.append(kernels_own(tree, cache_root))
    elif "orig" in only:
        raise UsageError(_NO_TREE)
    else:
        left_out["orig"] = _NO_TREE
    if only:
        others = [each for each in others if each.name in only]
    contenders = [*own, *others]
    every = [each.name for each in contenders]
    if twice := {name for name in every if every.count(name) > 1}:
        raise UsageError(f"{', '.join(sorted(twice))}: two routines of one name; rename a file")
    return Field(tuple(contenders), left_out)


@dataclass(frozen=True)
class Progress:
    """How far a bench is."""

    block: int
    part: float
    """Of the whole, 0 to 1."""
    elapsed_s: float
    left_s: float | None


def measure(
    contenders: Sequence[Contender],
    material: Material,
    *,
    cache_root: Path,
    cpu: int,
    seed: int,
    left_out: dict[str, str] | None = None,
    tell: Callable[[Progress], None] = lambda _progress: None,
    timer: Timer = time_all,
) -> results.Bench:
    """Time all contenders. Whoever calls holds the measuring lock.

    ToolError when not one contender could be timed.
    """
    plan, known = material.plan, caches()
    program = timing_program(cache_root)
    ns: dict[str, dict[str, list[float]]] = {}
    ghz: dict[str, list[float]] = {}
    answers: dict[str, list[tuple[float, ...]]] = {}
    failed: dict[str, str] = {}
    began_s, created = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    block = 0
    while True:
        racing = [contender for contender in contenders if contender.name not in failed]
        if not racing:
            raise ToolError("; ".join(f"{name}: {why}" for name, why in failed.items()))
        steps = _Steps(tell, plan, block, len(racing) * len(plan.loads), began_s)
        with whole.scratch("bench") as folder:
            tasks = tasks_of(racing, material, known, seed + block, folder)
            placed = rack(racing, seed + block, folder, cache_root)
            timed = timer(program, placed, cpu, tasks, steps)
        failed |= timed.failed
        for text, numbers in timed.answers.items():
            answers.setdefault(text, []).append(numbers)
        for contender in racing:
            for load in plan.loads if contender.name not in failed else ():
                score = timed.times[key(contender, load)]
                ns.setdefault(contender.name, {}).setdefault(load.id, []).append(score.ns)
                ghz.setdefault(load.id, []).append(score.ghz)
        block += 1
        spent_s = time.monotonic() - began_s
        if block >= plan.most_blocks or (
            block >= plan.fewest_blocks and spent_s * (block + 1) / block > plan.seconds
        ):
            break
    return results.Bench(
        plan=plan.name,
        created=created,
        cpu=cpus.this_cpu().model,
        seed=seed,
        blocks=block,
        seconds=round(time.monotonic() - began_s, 1) or 0.1,
        clock=results.Clock(
            tsc_ghz=round(median(numbers[0] for numbers in answers["clock"]), 5),
            core_ghz=round(median(numbers[-1] for numbers in answers["clock"]), 5),
        ),
        ceilings=_ceilings(answers, known),
        caches={"L1": known.l1, "L2": known.l2, "L3": known.l3},
        contenders=[
            results.Contender.model_validate(
                {"name": each.name, "help": each.help, "rank": each.rank}
            )
            for each in contenders
        ],
        failed=failed,
        left_out=left_out or {},
        remarks=[f"this machine does not say how large {level} is" for level in known.guessed],
        loads=list(plan.loads),
        ghz={load: round(median(values), 4) for load, values in ghz.items()},
        ns={
            name: {load: [round(value, 4) for value in values] for load, values in rows.items()}
            for name, rows in ns.items()
            if name not in failed
        },
    )


def _width_bytes() -> int:
    """The widest register that this CPU can store."""
    flags = cpus.flags()
    return 64 if "avx512f" in flags else 32 if "avx2" in flags else 16


def _copying(known: Caches, level: str) -> str:
    """The line that measures how fast bytes can be copied at ``level``."""
    return f"copies {_width_bytes()} {known.region(level)}"


def _ceilings(
    answers: dict[str, list[tuple[float, ...]]], known: Caches
) -> dict[str, results.Ceiling]:
    """The best that was seen: a median over blocks, so that no single lucky one decides."""
    width = _width_bytes()
    lines = {
        "L1": (
            f"stores {width} {STORE_BYTES}",
            f"a loop of nothing but {width}-byte stores into {STORE_BYTES} bytes",
        )
    }
    for level in LEVELS[1:]:
        how = f"one copy of {known.region(level) >> 10} KiB: the best of three plain loops"
        lines[level] = _copying(known, level), how
    return {
        level: results.Ceiling(
            bytes_per_ns=round(median(first for first, *_ in answers[text]), 4), how=how
        )
        for level, (text, how) in lines.items()
        if text in answers
    }


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
        region = max(known.region(level), room_for(largest, 1 << 40, "L1"))
        kind = _copying(known, level)
        if level == "L1":
            kind = f"stores {_width_bytes()} {STORE_BYTES}"
        tasks.append(Task((f"region {region}", kind), ()))
        for at in dice.permutation(len(loads)):
            load = loads[at]
            setup: tuple[str, ...] = (f"region {region}",)
            if load.mode != "fixed" or level != "L1":
                pool = folder / f"{len(tasks)}.pool"
                room = room_for(load.most, region, level)
                draws(dice, load, material, room).tofile(pool)
                setup = (*setup, f"pool {pool}")
            order = [contenders[number] for number in dice.permutation(len(contenders))]
            start = int(dice.integers(1 << 40))
            lines = [_line(load, each, plan, start, region) for each in order]
            tasks.append(Task(setup, tuple(lines)))
    return tasks


def key(contender: Contender, load: Load) -> str:
    """One short word for a contender with a load."""
    return blake2b(f"{contender.name}@{load.id}".encode(), digest_size=12).hexdigest()


def page_distance(size: int, alignment: str) -> int:
    """How far the source lies behind the target, modulo 4096.

    Loads that look as if they read what a store before them wrote wait for it: the processor
    compares the low twelve bits first. Half a page keeps short copies clear of that, and three
    lines keep the stores of long ones as old as can be when a load meets them. In two alignments
    the places within the pages are what is measured.
    """
    usual = 2048 if size <= 2048 else 192
    return {"aliased": 0, "behind": 4095}.get(alignment, usual)


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
    # So many calls that they last about long enough, twice where sizes are random; thousands where
    # that may be.
    base_ns, rate = _GUESSED[load.level]
    calls = 2 * plan.repetition_ns / (base_ns + load.mean_bytes / rate)
    calls = round(min(max(calls, 2048 if load.mean_bytes < 8192 else 256, 1), POOL // 4))
    touched = region if load.level in ("L2", "L3") else 0
    read = READ_BYTES if load.mode in RECORDED else 0
    text = f"drawn {head} {calls} {plan.repetitions} {start} {touched} {read}"
    return Line(id_, contender.name, text)


class _Steps:
    """Counts lines of a block and tells how far the bench is."""

    def __init__(
        self, tell: Callable[[Progress], None], plan: Plan, block: int, count: int, began_s: float
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
