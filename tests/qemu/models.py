# SPDX-License-Identifier: MIT
"""What 4BSD and ULE decide for processes that compute without end, on one CPU: their designs in a
few lines, tick by tick, for the tests of the programs in kernel/sched/.

A tick is 10 ms. Constants are those of docs/research/schedulers.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

TICK_S = 0.01


@dataclass
class Process:
    nice: int
    use_s: float = 0.0
    """4BSD: decayed each second. ULE: of the last ten seconds."""
    ticks: int = 0
    """4BSD: left of its quantum. ULE: of its slice that are over."""
    key: float = 0.0
    """Of its place in the queue, 4BSD: among those of its band."""
    left: int = 0
    """Tick at which it stopped running."""
    ran: list[int] = field(default_factory=list)
    """Ticks in which it ran."""
    away: int = 0
    """The longest time between two of them, in ticks."""


@dataclass(frozen=True)
class Expected:
    shares: tuple[float, ...]
    away_s: tuple[float, ...]
    """The longest time that each did not run."""


def _expected(processes: Sequence[Process], warm: int, total: int) -> Expected:
    shares, away = [], []
    for process in processes:
        ran = [tick for tick in process.ran if tick >= warm]
        shares.append(len(ran) / (total - warm))
        ends = [warm - 1, *ran, total]
        away.append(max(later - before - 1 for before, later in itertools.pairwise(ends)))
    return Expected(tuple(shares), tuple(each * TICK_S for each in away))


def bsd(nices: Sequence[int], warm_s: float, seconds: float, phase: int = 0) -> Expected:
    """One queue of bands of four priorities; a priority is 1/16 s of use, or one of nice.

    phase: ticks of the kernel's five seconds, of which each second's end decays use, that are over
    when the processes begin."""
    processes = [Process(nice, key=order) for order, nice in enumerate(nices)]
    warm, total = round(warm_s / TICK_S), round((warm_s + seconds) / TICK_S)
    load, order, running = 0.0, float(len(processes)), processes[0]

    def band(each: Process) -> int:
        return min(223, 180 + each.nice + min(36, int(each.use_s * 16))) // 4

    def first(waiting: Sequence[Process]) -> Process:
        return min(waiting, key=lambda value: (band(value), value.key))

    running.ticks = 10
    for tick in range(total):
        running.ran.append(tick)
        running.use_s = min(running.use_s + TICK_S, 37 / 16)
        running.ticks -= 1
        now = tick + 1 + phase
        if now % 500 == 0:
            load = load * 1884 / 2048 + len(processes) * (1 - 1884 / 2048)
        if now % 100 == 0:
            for one in processes:
                one.use_s *= 2 * load / (2 * load + 1)
        if running.ticks and now % 100:
            continue
        waiting = [process for process in processes if process is not running]
        best = first(waiting)
        stays = band(running) < band(best) or (
            running.ticks > 0 and (band(running), running.key) <= (band(best), best.key)
        )
        if not running.ticks:
            order += 1
            running.ticks, running.key = 10, order
        if not stays:
            running = best
            if not running.ticks:
                order += 1
                running.ticks, running.key = 10, order
    return _expected(processes, warm, total)


def ule(nices: Sequence[int], warm_s: float, seconds: float) -> Expected:
    """The calendar of one CPU: a bucket a tick, and it waits for who is in the first one."""
    processes = [Process(nice) for nice in nices]
    warm, total = round(warm_s / TICK_S), round((warm_s + seconds) / TICK_S)
    others = len(processes) - 1
    slice_ticks = 10 // 6 if others >= 6 else 10 if others <= 1 else 10 // others
    insert = remove = 64
    running, queue = processes[0], list(processes[1:])

    def key_of(each: Process, tick: int) -> int:
        recent = sum(1 for when in each.ran if when > tick - 1000)
        use = min(31, int(32 * recent / max(100, min(1000, tick))))
        later = 64 * (20 + each.nice + use) // 72
        return min(insert + later, remove + 63)

    for one in queue:
        one.key = key_of(one, 100)
    for tick in range(total):
        running.ran.append(tick)
        if insert == remove:
            insert += 1
        if insert != remove and min(each.key for each in queue) > remove:
            remove = insert
        running.ticks += 1
        if running.ticks < slice_ticks:
            continue
        running.ticks = 0
        best = min(queue, key=lambda value: value.key)  # of equal ones the first that came
        running.key = key_of(running, tick + 1)
        if best.key <= running.key:
            queue.remove(best)
            queue.append(running)
            running = best
        if insert != remove and min(each.key for each in queue) > remove:
            remove = insert
    return _expected(processes, warm, total)
