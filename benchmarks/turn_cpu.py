# SPDX-License-Identifier: MIT
"""Whether CPU time would be a better value of a turn than wall time. By hand:

    python -m benchmarks.turn_cpu [--groups N] [--load]

A kernel and its copy take turns; every turn has its nanoseconds by the guest's clock and the CPU
nanoseconds of all of the guest's processes by the host's accounting (/proc/PID/schedstat). Printed
for each case: the spread of rounds and of groups by each of the two, and what reading costs.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import numpy as np

from benchmarks.turns import SIX, bench, experiment_of, restless
from kdyno.machines.cpus import measuring
from kdyno.measure import bench as booting
from kdyno.measure import group, rounds
from kdyno.measure.bench import Bench
from kdyno.measure.member import Member
from kdyno.stats.groups import location, spread
from kdyno.suites import record

SECONDS = 0.25


def processes(pid: int) -> list[int]:
    """The process and all below it, as the host numbers them."""
    found = [pid]
    for at in found:
        for task in Path(f"/proc/{at}/task").glob("*/children"):
            found += [int(word) for word in task.read_text().split()]
    return found


class Meter:
    """CPU time of one guest."""

    def __init__(self, pids: list[int]) -> None:
        self._files = [os.open(f"/proc/{pid}/schedstat", os.O_RDONLY) for pid in pids]

    def ns(self) -> tuple[int, int]:
        """That it was running, and that it was runnable and somebody else ran."""
        fields = [os.pread(file, 64, 0).split() for file in self._files]
        return sum(int(it[0]) for it in fields), sum(int(it[1]) for it in fields)

    def close(self) -> None:
        for file in self._files:
            os.close(file)


def one_group(made: Bench, number: int) -> dict[str, list[list[tuple[int, ...]]]]:
    """Case → for each of the two guests its turns of the same work as ns: wall, CPU, wall without
    the time that it waited for the CPU."""
    members = []
    for name in made.variants:
        plan = booting.plan_of(made, name, turns=True)
        members.append(Member(plan, made.machine.open(plan), made.machine.clock, booting.now()))
        members[-1].hear(record.Hello)
    found = {}
    for index, job in enumerate(made.runnable):
        for member in members:
            member.begin(index, job.timeout_s)
        size = group._calibrated(members, job)
        if size is None:
            continue
        meters = {
            member.name: Meter(processes(member.session._process.pid))  # type: ignore[attr-defined]
            for member in members
        }
        taken: dict[str, list[tuple[int, ...]]] = {member.name: [] for member in members}
        by_name = {member.name: member for member in members}
        orders = rounds.orders(f"{number}:{job.case}", sorted(by_name))
        for order in islice(orders, round(SECONDS / size.turn_s) + 1):
            for name in order:
                before = meters[name].ns()
                wall = by_name[name].turn(size.lead, size.operations, size.limit_s) or 0
                ran, waited = (b - a for a, b in zip(before, meters[name].ns(), strict=True))
                taken[name].append((wall, ran, max(1, wall - waited)))
        found[job.case] = [pairs[1:] for pairs in taken.values()]
        for meter in meters.values():
            meter.close()
        for member in members:
            member.end(job.timeout_s)
    for member in members:
        member.session.close()
    return found


def show(groups: list[dict[str, list[list[tuple[int, ...]]]]]) -> None:
    print("SD of log ratios, %, of rounds and groups, and their median value: by wall time, by CPU")
    print("time, by wall time without waiting for the CPU")
    for case in groups[0]:
        line = f"  {case:14}"
        for which in (0, 1, 2):
            logs = [
                np.log([a[which] / b[which] for a, b in zip(*found[case], strict=True)])
                for found in groups
            ]
            seen = spread(logs)
            middle = location([location(it) for it in logs])
            width = seen.of_value if seen else math.nan
            within = seen.within if seen else math.nan
            line += f"  {100 * within:6.2f} {100 * width:6.3f} ({100 * middle:+.3f})"
        print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=30)
    parser.add_argument("--load", action="store_true")
    asked = parser.parse_args()
    with measuring("a benchmark", wait=True):
        made = bench(experiment_of(SIX % ("", "calibrate = true")))
        meter = Meter([1])
        began_s = time.perf_counter()
        for _ in range(1000):
            meter.ns()
        print(f"reading one process's time: {1e3 * (time.perf_counter() - began_s):.1f} µs")
        with (
            restless() if asked.load else nullcontext(),
            group.beside_no_turn(made.placement.guest),
        ):
            show([one_group(made, number) for number in range(asked.groups)])
        made.machine.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
