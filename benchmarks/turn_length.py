# SPDX-License-Identifier: MIT
"""How long a turn should be, on this machine. By hand:

    python -m benchmarks.turn_length [--passes N] [--load]

A kernel and its copy. In every pass each length has one group, in random order, with
the same seconds of timed turns, so that all of them meet the same machine. Printed for each case:
the spread of groups (robust SD of their log ratios, in per cent), and in brackets that times the
square root of the wall seconds of a group: what an interval of a given time is proportional to.
"""

from __future__ import annotations

import argparse
import random
from contextlib import nullcontext

import numpy as np

from benchmarks.load import on_every_cpu, restless
from benchmarks.turns import SIX, bench, experiment_of, question_of
from kdyno.judge.pairs import Pair
from kdyno.machines.cpus import measuring
from kdyno.measure import turns
from kdyno.measure.loop import block_order, draw_of
from kdyno.store.samples import Gathering

SETTINGS = (
    # (seconds of a turn, kdyno on the guests' CPU)
    *((turn_s, True) for turn_s in (0.002, 0.004, 0.008, 0.016, 0.025)),
    (0.008, False),
)
SECONDS = 0.25


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--load", action="store_true")
    asked = parser.parse_args()
    chance = random.Random(1)
    here = turns.beside_no_turn
    with (
        measuring("a benchmark", wait=True),
        on_every_cpu(restless) if asked.load else nullcontext(),
    ):
        made = bench(experiment_of(SIX % ("", "calibrate = true")))
        question = question_of(made)
        work = turns.Effort({(it.suite, it.case): SECONDS for it in question.cases})
        gathered = {setting: Gathering() for setting in SETTINGS}
        wall_s = dict.fromkeys(SETTINGS, 0.0)
        for number in range(asked.passes):
            for setting in chance.sample(SETTINGS, len(SETTINGS)):
                turns.TURN_S, together = setting
                turns.beside_no_turn = here if together else lambda _cpus: nullcontext()
                turns.LONGEST_S = max(0.025, 2 * setting[0])
                order = block_order(1, number, list(made.variants))
                seed = f"{setting}:{number}"
                found = turns.measure(
                    made,
                    order,
                    seed,
                    first_index=0,
                    block=number,
                    draw=draw_of(1, number),
                    effort=work,
                )
                wall_s[setting] += (found[0][0].host.group_s or 0.0) / asked.passes
                for record, _ in found:
                    gathered[setting].add(record)
        made.machine.close()
    names = [case.case for case in question.cases]
    print("  ms   CPU    s  " + "".join(f"{name:>18}" for name in names))
    for setting in SETTINGS:
        data = gathered[setting].samples()
        where = "same" if setting[1] else "own"
        line = f"{1e3 * setting[0]:4.0f} {where:5} {wall_s[setting]:4.1f}"
        for case in question.cases:
            logs = Pair(data, question, case, question.compared[0]).differences()
            width = 148.26 * float(np.median(np.abs(logs - np.median(logs))))
            line += f"  {width:6.3f} ({width * wall_s[setting] ** 0.5:7.3f})"
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
