# SPDX-License-Identifier: MIT
"""Watched branches with a known answer: ``python -m benchmarks.watch [--count N]``.

Branches of commits whose speed is known are visited commit by commit, by `kdyno watch`'s own rule.
Each visit is a run of three cases, judged as runs are; what boots score is recorded noise, drawn
again in runs of neighbouring boots. The replay has three steps on 200 commits and undoes one of
them; years of 365 nights have no step at all: all of their alarms are false. A search is that of
`kdyno bisect`, with answers of the precision that it asks for.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figure import Figure, main
from benchmarks.simulation.synthetic import Draw
from benchmarks.statistics import recorded
from kdyno.bisect.points import Point, Range
from kdyno.bisect.search import WITHIN, Difference, Measured
from kdyno.bisect.session import State, Step, Verification
from kdyno.bisect.watch import REFERENCE, TIP, Watcher
from kdyno.experiment.loader import OfCommits, Searching, Watching
from kdyno.experiment.model import Experiment, Measure, SuiteUse
from kdyno.stats.verdict import Claim, judge
from kdyno.store.run import Run
from kdyno.store.verdict import Effect, Verdict
from kdyno.store.watch import Alarm, Watch

CASES = ("pipe", "spawn", "syscall")
BLOCKS = 40
COMMITS, NIGHTS = 200, 365
STEPS = {41: -0.03, 97: -0.02, 130: +0.03, 171: -0.025}
"""Commit → its effect on the first case, as a log ratio; 130 undoes 41."""
UNDONE = (41, 130)


@dataclass
class Simulated(Watcher):
    """A watcher of commits 0, 1, 2, … in a row."""

    levels: Sequence[float]
    """Of each commit in the first case, as log scores."""
    second: Sequence[float]
    """The same in the second case; empty: nothing changes there."""
    draw: Draw
    random: np.random.Generator
    confirmations: int = 0
    _logs: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)

    def save(self, **changes: object) -> None:
        self.watch = replace(self.watch, **changes)  # type: ignore[arg-type]

    def _reference(self, tip: str) -> str:
        return self.watch.reference or tip

    def _is_in(self, commit: str, tip: str) -> bool:
        return int(commit) <= int(tip)

    def _explained(self, effect: Effect, reference: str, tip: str) -> bool:
        return False

    def _measured(
        self, name: str, commits: Mapping[str, str], precision: float | None = None
    ) -> tuple[Run, Verdict]:
        self.confirmations += bool(name)
        blocks = BLOCKS if precision is None else 2 * BLOCKS
        # In a block one boot after the other, in random order.
        boots = self.draw(self.random, 1, blocks * len(commits))[0]
        boots = boots.reshape(blocks, len(commits), len(CASES))
        order = self.random.permuted(np.tile(np.arange(len(commits)), (blocks, 1)), axis=1)
        boots = np.take_along_axis(boots, order[:, :, None], axis=1)
        for at, (variant, commit) in enumerate(commits.items()):
            for place, case in enumerate(CASES):
                self._logs[variant, case] = boots[:, at, place] + self._level(case, commit)
        return Run(Path(f"run{name}")), self.judged(REFERENCE, TIP)

    def _level(self, case: str, commit: str) -> float:
        levels = dict(zip(CASES, (self.levels, self.second), strict=False)).get(case)
        return levels[int(commit)] if levels else 0.0

    def judged(self, against: str, variant: str) -> Verdict:
        logs = [self._logs[variant, case] - self._logs[against, case] for case in CASES]
        effects = []
        equivalent = self.file.experiment.measure.equivalent
        judged = judge([Claim(own, "higher") for own in logs], equivalent)
        for case, own in zip(CASES, judged, strict=True):
            row: dict[str, object] = {"suite": "s", "case": case, "variant": variant}
            row |= {"unit": "", "better": "higher"}
            row |= {"baseline_value": 1.0, "value": own.effect.ratio, "ratio": own.effect.ratio}
            row |= {"ci": own.ci, "blocks": BLOCKS, "verdict": own.word}
            row |= {"equivalent_too": own.equivalent_too, "p_value": own.effect.p_value}
            effects.append(Effect.model_validate(row))
        return Verdict(experiment="x", baseline=against, boots={}, effects=tuple(effects))

    def _range(self, alarm: Alarm) -> Range:
        numbers = range(int(alarm.good), int(alarm.bad) + 1)
        titles = {UNDONE[1]: f'Revert "c{UNDONE[0]}"'}
        points = (Point(str(at), titles.get(at, f"c{at}"), {}, str(at)) for at in numbers)
        return Range(tuple(points), "commit")

    def searched(self, _place: Path, state: State) -> State:
        """The search, with normal errors of the precision that it measures to."""
        points = state.range.points
        levels = [self._level(state.question.case, point.commit) for point in points]
        least = state.question.min_effect or 0.001

        def difference(high: int, low: int) -> Difference:
            half = WITHIN * least
            log = levels[high] - levels[low] + self.random.normal(0, half / 1.96)
            return Difference(math.exp(log), math.exp(log - half), math.exp(log + half))

        last = len(points) - 1
        state = replace(state, ends=difference(last, 0), ends_run="ends", finished=True)
        while state.reproduced:
            search = state.search()
            if search.span is not None:
                at = search.probe({0, last}, 60.0, 30.0)
                low, high = search.span.low, search.span.high
                halves = difference(at, low), difference(high, at), difference(high, low)
                state = replace(state, steps=(*state.steps, Step(at, Measured(*halves))))
            elif left := [step for step in search.steps if state.verification(step) is None]:
                size = difference(left[0].high, left[0].low)
                check = Verification(left[0].low, left[0].high, "verify", size, size.is_step(least))
                state = replace(state, verified=(*state.verified, check))
            else:
                break
        return state


def watcher(
    levels: Sequence[float],
    draw: Draw,
    seed: int,
    folder: Path,
    equivalent: float = 0.01,
    second: Sequence[float] = (),
) -> Simulated:
    """Before its first visit."""
    measure = Measure(max_minutes=1.0, equivalent=equivalent)
    experiment = Experiment("nightly", "", REFERENCE, (), (SuiteUse("s", CASES),), measure=measure)
    own = Simulated(
        folder,
        Watch("nightly", "git:x#main"),
        folder,
        OfCommits(
            {"suite": [{"name": "s", "cases": list(CASES)}]}, experiment, Watching(), Searching()
        ),
        measure=lambda _tables: (Run(folder), Verdict(experiment="", baseline="", boots={})),
        search=lambda place, state: own.searched(place, state),
        tell=lambda _text: None,
        date="2026-01-01T00:00:00Z",
        within=lambda _run, against, variant: own.judged(against, variant),
        levels=levels,
        second=second,
        draw=draw,
        random=np.random.default_rng(seed),
    )
    return own


@dataclass(frozen=True)
class Replay:
    """What came of a branch."""

    false: int
    """Alarms that name a commit without a step, or none."""
    twice: int
    missed: int
    unfixed: int
    """Whether the alarm of the commit that was undone is not marked as fixed."""
    confirmations: int
    """Second runs."""
    reference: str


def replay(
    steps: Mapping[int, float], commits: int, draw: Draw, seed: int, equivalent: float = 0.01
) -> Replay:
    """Every commit visited, and what was reported."""
    levels = np.cumsum([steps.get(at, 0.0) for at in range(commits)])
    with tempfile.TemporaryDirectory(prefix="kdyno-watch-") as folder:
        own = watcher(list(levels), draw, seed, Path(folder), equivalent)
        named: list[int] = []
        for tip in range(commits):
            own.visit(str(tip))
            new = [
                alarm for alarm in own.watch.alarms if alarm.state == "bisected" and not alarm.told
            ]
            named += [int(alarm.commit or -1) if alarm.case == CASES[0] else -1 for alarm in new]
            changed = own.watch.changed(*(replace(alarm, told=True) for alarm in new))
            own.save(alarms=changed)
    fixed = {alarm.commit for alarm in own.watch.alarms if alarm.state == "fixed"}
    expected = {str(UNDONE[0])} if UNDONE[0] in steps else set()
    return Replay(
        false=sum(at not in steps for at in named),
        twice=len(named) - len(set(named)),
        missed=len(set(steps) - set(named)),
        unfixed=int(fixed != expected),
        confirmations=own.confirmations,
        reference=own.watch.reference,
    )


def replays(request: Any) -> Iterator[Figure]:
    draw = recorded(*CASES)
    rows = [replay(STEPS, COMMITS, draw, seed) for seed in range(request.count)]
    how = f"{len(rows)} replays"
    yield Figure("alarms false, worst replay", max(row.false for row in rows), "", 1, how=how)
    yield Figure("told twice", sum(row.twice for row in rows), "", most=0)
    yield Figure("missed", sum(row.missed for row in rows), "", most=0)
    yield Figure("not marked as fixed", sum(row.unfixed for row in rows), "", most=0)


def years(request: Any) -> Iterator[Figure]:
    draw, count = recorded(*CASES), 2 * request.count
    for matters in (0.01, 0.0005):
        rows = [replay({}, NIGHTS, draw, 1000 + seed, matters) for seed in range(count)]
        false, second = sum(row.false for row in rows), sum(row.confirmations for row in rows)
        how = f"{count} years of {NIGHTS} nights without a step; {second / count:.1f} second runs"
        name = f"false alarms a year, {100 * matters:g} % matters"
        yield Figure(name, false / count, "", most=0.05, how=how)


if __name__ == "__main__":
    main(__doc__, replays, years, count=20)
