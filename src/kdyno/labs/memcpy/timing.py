# SPDX-License-Identifier: MIT
"""The bench's loop: who is timed, then block after block every contender with every load.

A block is one process of the timing program with all routines at random places of its own
(checking.py) and new pools of copies. Within a block the contenders follow each other closely, in
random order, at every load, so what changes slowly meets all alike. Blocks are what intervals are
made of.

What the program prints is read as if it came from a stranger: a routine under test may have
written anywhere. Whoever faults or hangs is named, and the others go on."""

from __future__ import annotations

import math
import os
import re
import secrets
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from statistics import median

import numpy as np

from kdyno import whole
from kdyno.command import Running, kill_session, started
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import BEST
from kdyno.kernels import cpu as cpus
from kdyno.kernels.routines import checking
from kdyno.kernels.routines.checking import Contender
from kdyno.kernels.routines.routine import PLACE, Routine, best, find_routine, list_routines
from kdyno.labs.memcpy import results
from kdyno.labs.memcpy.loads import (
    ALIGNMENTS,
    LEVELS,
    POOL,
    Caches,
    Load,
    Plan,
    caches,
    draws,
    room_for,
)
from kdyno.sandbox import confined, plain_status

STRING = "fsrm"
"""The routine that is nothing but rep movsb."""
STORE_BYTES = 4096
"""Target of the loop of stores: far inside L1."""
READ_BYTES = 8
"""Recorded copies up to this size are values (get_user), which their caller reads at once. A store
that cannot be forwarded to that load costs several ns more."""
NO_TREE = (
    "memcpy_orig is taken from a kernel source, and there is none in the cache: "
    "build any kernel once, for example `kdyno build experiments/simd-memcpy.toml`"
)
_GUESSED = {"L1": (2.0, 40.0), "L2": (6.0, 20.0), "L3": (25.0, 8.0), "memory": (150.0, 4.0)}
"""ns that a call costs beside its bytes, and bytes per ns: only to choose how many calls."""
_FEW_BYTES = 256 << 20
"""Of a repetition. More would last so long that a routine seems to hang."""


def failing(routines: Sequence[Routine], cache_root: Path) -> dict[str, str]:
    """Name of each routine that does not copy right, by the full check → what it did."""
    checked = {routine.name: checking.check(routine, cache_root) for routine in routines}
    return {
        name: f"fails its check: {'; '.join(result.violations)}"
        for name, result in checked.items()
        if not result.passed
    }


def gather(
    names: Sequence[str], cache_root: Path, only: Sequence[str] = ()
) -> tuple[list[Contender], dict[str, str]]:
    """Who is timed: ``names`` (names or FILE.S; none: all of kernel/memcpy/) and the rivals,
    memcpy_orig of the newest kernel source in the cache; and who is left out → why.

    only: what a plan times, when no names are given. UsageError for an unknown name, or a named
    routine that this CPU cannot run; ToolError where no routine is left."""
    left_out: dict[str, str] = {}
    routines: list[Routine] = []
    # ``best`` is the one that a variant of that name gets on this CPU.
    plain = (best("memcpy", "um")[0] if name == BEST else name for name in names)
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
    wrong = failing(routines, cache_root)
    left_out |= wrong
    right = [each for each in routines if each.name not in wrong]
    if not right:
        why = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ToolError(f"no routine is left to time: {why}")
    own = [checking.routine_contender(each, cache_root) for each in right]
    others = checking.standing(cache_root)
    # The same two instructions twice would only be compared with themselves.
    if any(each.name == STRING for each in own):
        own = [replace(each, rank="rival") if each.name == STRING else each for each in own]
        others = [each for each in others if each.rank != "rival"]
    trees = [tree for tree in cache_root.glob("trees/*/tree") if (tree / PLACE).is_file()]
    if trees:
        newest = max(trees, key=lambda tree: tree.parent.stat().st_mtime)
        others.append(checking.kernels_own(newest, cache_root))
    elif "orig" in only:
        raise UsageError(NO_TREE)
    else:
        left_out["orig"] = NO_TREE
    contenders = [*own, *(each for each in others if not only or each.name in only)]
    every = [each.name for each in contenders]
    if twice := {name for name in every if every.count(name) > 1}:
        raise UsageError(f"{', '.join(sorted(twice))}: two routines of one name; rename a file")
    return contenders, left_out


def measure(
    contenders: Sequence[Contender],
    plan: Plan,
    cache_root: Path,
    cpu: int,
    left_out: dict[str, str] | None = None,
    tell: Callable[[float, float], None] = lambda *_: None,
) -> results.Bench:
    """Time all contenders. Whoever calls holds the measuring lock. ``tell`` is shown the seconds
    that have passed and, as far as it is known, those of the whole.

    ToolError when not one contender could be timed."""
    sizes = caches()
    program = checking.timing_program(cache_root)
    ns: dict[str, dict[str, list[float]]] = {}
    answers: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    began_s, created = time.monotonic(), datetime.now(UTC).isoformat(timespec="seconds")
    block = lines = count = 0

    def step() -> None:
        nonlocal lines
        lines += 1
        elapsed_s = time.monotonic() - began_s
        block_s = elapsed_s / (block + lines / count)
        whole_s = max(block_s * plan.fewest_blocks, min(plan.seconds, block_s * plan.most_blocks))
        tell(elapsed_s, max(elapsed_s, whole_s))

    while True:
        racing = [contender for contender in contenders if contender.name not in failed]
        if not racing:
            raise ToolError("; ".join(f"{name}: {why}" for name, why in failed.items()))
        lines, count = 0, max(1, len(racing) * len(plan.loads))
        seed = secrets.randbits(40)
        with whole.scratch("bench") as folder:
            tasks = tasks_of(racing, plan, sizes, seed, folder)
            placed = checking.rack(racing, seed, folder, cache_root)
            timed = time_all(program, placed, cpu, tasks, step)
        failed |= timed.failed
        for text, numbers in timed.answers.items():
            answers.setdefault(text, []).append(numbers[-1])
        for contender in racing:
            for load in plan.loads if contender.name not in failed else ():
                time_ns = round(timed.times[key(contender, load)], 4)
                ns.setdefault(contender.name, {}).setdefault(load.id, []).append(time_ns)
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
        blocks=block,
        seconds=round(spent_s, 1) or 0.1,
        clock=results.Clock(core_ghz=round(median(answers["clock"]), 5)),
        # The best of each block, and the median of these, so that no single lucky one decides.
        ceilings={
            level: results.Ceiling(bytes_per_ns=round(median(answers[text]), 4))
            for level, text in _ceilings(sizes).items()
            if text in answers
        },
        caches={"L1": sizes.l1, "L2": sizes.l2, "L3": sizes.l3},
        contenders=[
            results.Contender.model_validate({"name": each.name, "rank": each.rank})
            for each in contenders
        ],
        failed=failed,
        left_out=left_out or {},
        remarks=[f"this machine does not say how large {level} is" for level in sizes.guessed],
        loads=list(plan.loads),
        ns={name: rows for name, rows in ns.items() if name not in failed},
    )


def _ceilings(sizes: Caches) -> dict[str, str]:
    """Level → the program's line that measures how fast bytes can be stored (L1) or copied there,
    with the widest register of this CPU."""
    flags = cpus.flags()
    width = 64 if "avx512f" in flags else 32 if "avx2" in flags else 16
    copies = {level: f"copies {width} {sizes.region(level)}" for level in LEVELS[1:]}
    return {"L1": f"stores {width} {STORE_BYTES}", **copies}


def tasks_of(
    contenders: Sequence[Contender], plan: Plan, sizes: Caches, seed: int, folder: Path
) -> list[Task]:
    """One block's work, in random order; pools are written into ``folder``."""
    dice = np.random.default_rng(seed)
    tasks = [Task(("clock",), ())]
    ceilings = _ceilings(sizes)
    for level in LEVELS:
        loads = [load for load in plan.loads if load.level == level]
        if not loads:
            continue
        largest = max(load.most for load in loads)
        region = max(sizes.region(level), room_for(largest, 1 << 40, "L1"))
        tasks.append(Task((f"region {region}", ceilings[level]), ()))
        for at in dice.permutation(len(loads)):
            load = loads[at]
            setup: tuple[str, ...] = (f"region {region}",)
            if load.mode != "fixed" or level != "L1":
                pool = folder / f"{len(tasks)}.pool"
                room = room_for(load.most, region, level)
                draws(dice, load, plan, room).tofile(pool)
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
    the places within the pages are what is measured."""
    usual = 2048 if size <= 2048 else 192
    return {"aliased": 0, "behind": 4095}.get(alignment, usual)


def _line(load: Load, contender: Contender, plan: Plan, start: int, region: int) -> Line:
    id_ = key(contender, load)
    head = f"{id_} {contender.symbol}"
    if load.mode == "fixed" and load.level == "L1":
        dst, src = ALIGNMENTS[load.alignment]
        where = f"{load.least} {dst} {src + page_distance(load.least, load.alignment)}"
        spent = f"{plan.repetitions} {plan.repetition_ns} {plan.calls}"
        return Line(id_, contender.name, f"fixed {head} {where} {spent}")
    # So many calls that they last about long enough, twice where sizes are random; thousands where
    # that may be, and of large blocks as many as copy _FEW_BYTES.
    base_ns, rate = _GUESSED[load.level]
    calls = 2 * plan.repetition_ns / (base_ns + load.mean_bytes / rate)
    fewest = 2048 if load.mean_bytes < 8192 else max(1, min(256, _FEW_BYTES / load.mean_bytes))
    calls = round(min(max(calls, fewest), POOL // 4))
    touched = region if load.level in ("L2", "L3") else 0
    read = READ_BYTES if load.mode == "distribution" else 0
    text = f"drawn {head} {calls} {plan.repetitions} {start} {touched} {read}"
    return Line(id_, contender.name, text)


# The timing program at work: lines of work in, times out.

STOPPED = 2
"""Exit status of the program when its work makes no sense: no contender's fault."""
HANG_S = 20.0
"""No single line of work takes a tenth of that."""
_WORDS = re.compile(r"[a-z]+( \S{1,64}){1,3}")


@dataclass(frozen=True)
class Line:
    """One thing to time: ``text`` as native/timing.c reads it, with ``id`` in it."""

    id: str
    contender: str
    text: str


@dataclass(frozen=True)
class Task:
    """Lines that share a region and a pool, which ``setup`` opens; answers to it are kept."""

    setup: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass
class Timed:
    times: dict[str, float] = field(default_factory=dict)
    """Line → ns per call."""
    answers: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Answer to each line of set-up, the line itself as key."""
    failed: dict[str, str] = field(default_factory=dict)
    """Contender → why; nothing of it was timed after that."""


class Died(Exception):
    """The program ended or fell silent while ``line`` was at work (None: between lines)."""

    def __init__(self, line: Line | None, reason: str) -> None:
        super().__init__(reason)
        self.line, self.reason = line, reason


def parse(text: str) -> tuple[str, tuple[str, ...]]:
    """A line of the program's output as (word, rest). ValueError for anything else."""
    if not _WORDS.fullmatch(text):
        raise ValueError(f"unexpected output {text[:60]!r}")
    word, *rest = text.split(" ")
    return word, tuple(rest)


def figure(text: str) -> float:
    """A positive, finite number. ValueError for anything else."""
    value = float(text)
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{text[:40]!r} is not a time")
    return value


def time_all(
    program: Path,
    rack: Path,
    cpu: int,
    tasks: Sequence[Task],
    step: Callable[[], None] = lambda: None,
) -> Timed:
    """Run all tasks; a contender that kills or blocks the program fails and the rest goes on.

    ToolError when the program dies with nothing of a contender at work."""
    outcome = Timed()
    # The pools of copies lie beside the rack.
    argv = confined([str(program), str(rack), str(cpu)], reads=[program, rack.parent])
    while True:
        waiting = []
        for task in tasks:
            left = [line for line in task.lines if line.id not in outcome.times]
            lines = tuple(line for line in left if line.contender not in outcome.failed)
            if lines or any(text not in outcome.answers for text in task.setup):
                waiting.append(Task(task.setup, lines))
        if not waiting:
            return outcome
        with started(argv, stdin=subprocess.PIPE) as timing:
            try:
                talk = _Talk(timing)
                for task in waiting:
                    for text in task.setup:
                        outcome.answers[text] = talk.ask(text)
                    for line in task.lines:
                        outcome.times[line.id] = talk.timed(line)
                        step()
                kill_session(timing.process)
            except Died as end:
                kill_session(timing.process)
                complaint = timing.complaint()[:400].strip()
                reason = f"{end.reason}: {complaint}" if complaint else end.reason
                if end.line is None or plain_status(timing.process.returncode) == STOPPED:
                    raise ToolError(f"the timing program failed: {reason}") from None
                outcome.failed[end.line.contender] = f"{reason} ({end.line.text})"


class _Talk:
    def __init__(self, timing: Running) -> None:
        self._process = timing.process
        self._into, self._out = timing.stdin.fileno(), timing.stdout.fileno()
        self._rest = b""

    def ask(self, text: str) -> tuple[float, ...]:
        """The numbers of the answer to a line of set-up."""
        try:
            self._send(text, None)
            _word, rest = parse(self._line(None))
            return tuple(map(figure, rest))
        except ValueError as problem:
            raise Died(None, str(problem)) from None

    def timed(self, line: Line) -> float:
        """ns per call."""
        self._send(line.text, line)
        try:
            if parse(self._line(line)) != ("begin", (line.id,)):
                raise ValueError("it does not begin")
            word, rest = parse(self._line(line))
            if word != "done" or len(rest) != 3 or rest[0] != line.id:
                raise ValueError("it does not end")
            time_ns, _core_ghz = figure(rest[1]), figure(rest[2])
            return time_ns
        except ValueError as problem:
            raise Died(line, f"spoiled the timing program: {problem}") from None

    def _send(self, text: str, line: Line | None) -> None:
        try:
            os.write(self._into, text.encode() + b"\n")
        except OSError:
            raise Died(line, self._end()) from None

    def _line(self, at_work: Line | None) -> str:
        limit_s = time.monotonic() + HANG_S
        while b"\n" not in self._rest:
            left_s = limit_s - time.monotonic()
            if left_s <= 0 or not select.select([self._out], [], [], left_s)[0]:
                raise Died(at_work, f"did not return within {HANG_S:g} s")
            more = os.read(self._out, 65536)
            if not more or len(self._rest) > 65536:
                raise Died(at_work, self._end())
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode("ascii", "replace")

    def _end(self) -> str:
        try:
            status = plain_status(self._process.wait(timeout=2))
        except subprocess.TimeoutExpired:
            return "closed its output"
        if status < 0:
            names = {each.value: each.name for each in signal.Signals}
            return f"died of {names.get(-status, f'signal {-status}')}"
        return f"ended with status {status}"
