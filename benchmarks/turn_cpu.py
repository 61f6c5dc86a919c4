# SPDX-License-Identifier: MIT
"""What the CPU time of a turn is good for, beside its time by the guest's clock. By hand:

    python -m benchmarks.turn_cpu [--groups N] [--load]

Three kernels whose differences are known take turns; printed for each effect: estimate and
half-width (95 %, not corrected) by the clock, by the clock without the rounds in which a guest
waited for the CPU (what kdyno does), and by CPU time.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from benchmarks.load import on_every_cpu, restless
from benchmarks.turns import KNOWN, bench, experiment_of
from kdyno.judge.pairs import undisturbed
from kdyno.machines.cpus import measuring
from kdyno.measure import turns as by_turns
from kdyno.measure.bench import Bench, plan_of
from kdyno.measure.turns import Member, Size
from kdyno.stats.effect import effect_of_differences
from kdyno.stats.groups import location

ROUNDS = 62
Turns = Mapping[str, NDArray[np.float64]]
"""Guest → its turns, shape (rounds, 2): ns by its clock, ns of CPU time."""


def one_group(made: Bench, number: int) -> dict[str, Turns]:
    """Case → what each guest did in the same rounds."""
    found: dict[str, Turns] = {}

    def work(members: Sequence[Member]) -> None:
        with by_turns.beside_no_turn(made.placement.guest):
            for index, job in enumerate(made.runnable):
                alive = by_turns.begin_case(members, index, job, f"{number}", whole=False)
                size = by_turns.calibrated(alive, job)
                if size is not None:
                    found[job.case] = taken(alive, size, f"{number}:{job.case}")
                for member in alive:
                    member.end(job.timeout_s)

    by_turns.together(
        made.machine, [plan_of(made, name, turns=True) for name in made.variants], work
    )
    return found


def taken(members: Sequence[Member], size: Size, seed: str) -> Turns:
    turns: dict[str, list[tuple[int, int]]] = {member.name: [] for member in members}
    by_name = {member.name: member for member in members}
    for order in islice(by_turns.orders(seed, sorted(by_name)), ROUNDS):
        for name, ns in by_turns.turns([by_name[name] for name in order], size).items():
            turns[name].append((ns, by_name[name].cpu_ns))
    return {name: np.array(its[1:], dtype=np.float64) for name, its in turns.items()}


def by_clock(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(theirs[:, 0] / ours[:, 0])


def left_alone(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    waited = (ours[:, 1] < ours[:, 0]) | (theirs[:, 1] < theirs[:, 0])
    return undisturbed(by_clock(ours, theirs), waited)


def by_cpu(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(theirs[:, 1] / ours[:, 1])


def show(groups: Sequence[Mapping[str, Turns]], baseline: str) -> None:
    ways = {"clock": by_clock, "clock, not disturbed": left_alone, "CPU time": by_cpu}
    widths: dict[str, list[float]] = {way: [] for way in ways}
    for case, guests in groups[0].items():
        for variant in (name for name in guests if name != baseline):
            line = f"  {variant:12} {case:14}"
            for way, values in ways.items():
                effect = effect_of_differences(
                    np.array(
                        [location(values(it[case][variant], it[case][baseline])) for it in groups]
                    ),
                    0.95,
                )
                width = effect.half_width or math.nan
                widths[way].append(width)
                line += f"  {way} {100 * ((effect.ratio or 1) - 1):+.2f} ± {100 * width:.2f} %"
            print(line, flush=True)
    for way, found in widths.items():
        mean = 100 * math.exp(float(np.mean(np.log(found))))
        print(f"geometric mean of the half-widths, {way}: {mean:.3f} %")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--groups", type=int, default=16)
    parser.add_argument("--load", action="store_true")
    asked = parser.parse_args()
    with measuring("a benchmark", wait=True):
        made = bench(experiment_of(KNOWN))
        with on_every_cpu(restless) if asked.load else nullcontext():
            found = [one_group(made, number) for number in range(asked.groups)]
        show(found, made.experiment.baseline)
        made.machine.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
