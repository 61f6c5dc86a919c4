# SPDX-License-Identifier: MIT
"""How the variants of a block alternate, and how much a group does of each case."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from kdyno.errors import UsageError
from kdyno.judge.pairs import rounds
from kdyno.judge.question import Question
from kdyno.measure.bench import Bench
from kdyno.measure.group import Effort
from kdyno.measure.rounds import LEAST, LEAST_LONG, LONGEST_S, TURN_S, why_whole
from kdyno.stats.groups import best_rounds, spread
from kdyno.store.samples import Samples

Interleave = Literal["boots", "turns"]
CASE_S = 0.25
"""Of timed turns of each guest, at first: more groups are worth more than more rounds."""


@dataclass(frozen=True)
class Choice:
    """The way that was taken, and what people are to know of it."""

    way: Interleave
    why: str = ""
    """Why not by turns, where ``auto`` would have."""


def choose(bench: Bench, asked: str) -> Choice:
    """For ``interleave = asked``. UsageError where turns are asked for and cannot be had."""
    if asked == "boots" or (bench.undisturbed and asked == "auto"):
        return Choice("boots")
    why = _why_not(bench)
    if not why:
        return Choice("turns")
    if asked == "turns":
        raise UsageError(f'[measure] interleave = "turns": {why}')
    return Choice("boots", why if len(bench.variants) > 1 else "")


def whole_cases(bench: Bench) -> dict[str, str]:
    """suite/case → why it is measured whole in a group, one guest after the other."""
    return {f"{case.suite}/{case.name}": why for case in bench.cases if (why := why_whole(case))}


def _why_not(bench: Bench) -> str:
    machine = bench.machine
    if machine.can.turns:
        return machine.can.turns
    if len(bench.variants) < 2:
        return "there is one variant, and nobody to take turns with"
    if all(why_whole(case) for case in bench.cases):
        reasons = dict.fromkeys(why_whole(case) for case in bench.cases)
        return f"no case can take turns: {'; '.join(reasons)}"
    need = machine.footprint()
    together = need.each_bytes * len(bench.variants)
    if together > need.available_bytes:
        return (
            f"{len(bench.variants)} guests that are alive together may need "
            f"{together / 2**30:.1f} GiB, and {need.available_bytes / 2**30:.1f} GiB are free. "
            f"A smaller [machine] memory (it is {bench.experiment.machine.memory_bytes >> 20}M for "
            'each), or fewer variants at a time by --variant; interleave = "boots" needs one guest '
            "at a time"
        )
    return ""


def effort(bench: Bench, question: Question, data: Samples, group_s: float) -> Effort:
    """Seconds of each case in the next group, from what was seen so far.

    group_s: seconds that a group takes beside its timed turns. Kalibera & Jones: as many rounds as
    make the narrowest interval in a given time. By spreads and prices only.
    """
    cases = max(1, len(question.cases))
    members = max(2, len(bench.variants))
    found: dict[tuple[str, str], float] = {}
    asked: Mapping[tuple[str, str], float] = {
        (job.suite, job.case): job.seconds or CASE_S for job in bench.jobs
    }
    for case in question.cases:
        most_s = asked.get((case.suite, case.case), CASE_S)
        found[case.suite, case.case] = min(CASE_S, most_s)
        turn_s = data.turn_s.get((case.suite, case.case, question.baseline), TURN_S)
        wanted = []
        for variant in question.compared:
            groups = [log for _, log in rounds(data, case, question.baseline, variant)]
            seen = spread(groups)
            if seen is not None:
                wanted.append(best_rounds(seen, group_s / cases, members * turn_s))
        if wanted:
            least = LEAST if turn_s <= LONGEST_S else LEAST_LONG
            best = max(least, statistics.median(wanted))
            found[case.suite, case.case] = min(most_s, best * turn_s)
    return Effort(found)
