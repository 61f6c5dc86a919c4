# SPDX-License-Identifier: MIT
"""Choosing a routine: measured replay, ever longer for ever fewer shapes, part by part.

Successive halving (Karnin, Koren & Somekh, ICML 2013): all shapes are timed for a short while, the
faster half again for as long, and so on, so that most of the time goes to those that are hard to
distinguish. The search has three stages, each with shapes made of those that the one before it
kept: ways of copying the shortest blocks, the loop between, ways of copying the longest blocks.

A shape's score is ns per call where recorded copies are replayed. For a CPU it is the geometric
mean, over a stage's own loads, of its time ÷ the time of the faster rival (memcpy_orig, rep movsb),
times by how much the worst of them, by its median, exceeds WORST: a routine that is best on average
and far behind at one size is not what a kernel wants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu
from kdyno.kernels.routines.checking import Contender, check, routine_contender
from kdyno.kernels.routines.routine import label, parse_routine
from kdyno.labs.memcpy.loads import MOST, Load, Material, fixed, judged, ranged
from kdyno.labs.memcpy.results import Bench
from kdyno.labs.memcpy.shape import AVX512, LARGE, STORES, TAILS, WIDTHS, Shape, generate
from kdyno.labs.memcpy.shape import parse_shape as parsed
from kdyno.labs.memcpy.timing import measure
from kdyno.stats.effect import PairedEffect, paired_effect

Trial = Callable[[Sequence[str], float, int], Mapping[str, Sequence[float]]]
"""(names, seconds, seed) → score by block, of those that could be timed; less is better."""

FINALISTS = 4
WORST = 1.05
"""Time ÷ the faster rival's that is allowed anywhere, as in results.goals."""
THRESHOLDS = (512, 1024, 2048, 4096, 8192, 12288, 16384, 24576, 32768, 49152, 1 << 18, 1 << 20)
NON_TEMPORAL_FROM = 1 << 18
"""Below that what was copied is wanted in a cache by whoever asked for the copy."""
_SHORTEST = (("", 0), ("mask", 32), ("mask", 64), ("bytes", 16), ("bytes", 32), ("bytes", 64))
_FAR = (("L3", 1 << 18), ("memory", 1 << 20))
"""Where stores past the caches could pay, and where they should not: what was copied is wanted."""


@dataclass(frozen=True)
class Stage:
    """One part of a copy, whose shapes are halved together."""

    name: str
    what: str
    """Of what there are so many, as a person reads it: ``30 loops``."""
    share: float
    """Of the budget. What the stages leave is the final's."""
    sizes: tuple[int, ...]
    ranges: tuple[tuple[int, int], ...]
    """Sizes, fixed and random, that a CPU's search times this part with."""

    @property
    def loads(self) -> list[Load]:
        alignments = ("aligned",) if self.name == "short" else ("aligned", "both")
        loads = [fixed("L1", size, at) for at in alignments for size in self.sizes]
        loads += [ranged("L1", *each) for each in self.ranges]
        far = [fixed(level, size, "aligned") for level, size in _FAR]
        return loads + far if self.name == "long" else loads


SHORT = Stage(
    "short",
    "ways of copying the shortest blocks",
    0.2,
    (1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 24, 31, 32, 48, 63, 64),
    ((1, 16), (1, 64), (1, 256)),
)
MIDDLE = Stage(
    "middle",
    "loops",
    0.35,
    (96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192),
    ((1, 256), (64, 512), (1, 1024), (256, 4096)),
)
LONG = Stage(
    "long",
    "ways of copying the longest blocks",
    0.2,
    (4096, 8192, 12288, 16384, 24576, 32768, 49152, MOST),
    ((256, 4096), (1, MOST)),
)
STAGES = (SHORT, MIDDLE, LONG)


def final_loads() -> list[Load]:
    """Those of the four figures, and where the longest blocks can differ."""
    return [*judged().loads, *(fixed(level, size, "aligned") for level, size in _FAR)]


@dataclass(frozen=True)
class Space:
    """The shapes of memcpy that are tried: of these registers, for copies of up to so many
    bytes."""

    registers: tuple[str, ...] = tuple(WIDTHS)
    largest: int = THRESHOLDS[-1]

    def __post_init__(self) -> None:
        for kind in self.registers:
            if kind not in WIDTHS:
                raise UsageError(f"--registers {kind}: there are {', '.join(WIDTHS)}")

    def adds(self, stage: Stage, kept: Sequence[Shape]) -> list[Shape]:
        """The shapes of a stage, made of those kept so far, which take part again."""
        if stage is SHORT:
            return self.shortest()
        return self.middles(kept) if stage is MIDDLE else self.longest(kept)

    def shortest(self) -> list[Shape]:
        """Every way of copying the shortest blocks, beside a plain loop of each width."""
        loops = {kind: WIDTHS[kind] * (4 if kind != "general" else 2) for kind in self.registers}
        return possible(
            {"registers": kind, "loop_bytes": loop, "tail": tail, "short": short, "short_to": to}
            for kind, loop in loops.items()
            for short, to in _SHORTEST
            for tail in TAILS[:3]
        )

    def middles(self, kept: Sequence[Shape]) -> list[Shape]:
        """Every loop for what was kept, the shortest blocks as they are."""
        return possible(
            {
                **vars(shape),
                "registers": kind,
                "loop_bytes": turns * WIDTHS[kind],
                "small_bytes": small,
                "stores": stores,
            }
            for shape in kept
            for kind in self.registers
            if (kind in AVX512) == (shape.registers in AVX512)
            for turns in (1, 2, 4, 8)
            for small in (0, 32)
            for stores in STORES
        )

    def longest(self, kept: Sequence[Shape]) -> list[Shape]:
        """What was kept with rep movsb or stores past the caches from every threshold on."""
        return possible(
            {**vars(shape), "large": large, "large_from": above}
            for shape in kept
            for large in LARGE[1:]
            for above in THRESHOLDS
            if above <= self.largest and (large == LARGE[1] or above >= NON_TEMPORAL_FROM)
        )


def possible(parameters: Iterable[Mapping[str, Any]]) -> list[Shape]:
    """Shapes of those that go together and that this CPU can run, each once."""
    shapes: dict[str, Shape] = {}
    for each in parameters:
        try:
            shape = Shape(**each)
        except UsageError:
            continue
        if not cpu.missing(shape.requires):
            shapes.setdefault(shape.name, shape)
    return list(shapes.values())


@dataclass(frozen=True)
class Round:
    """One round of halving: who took part, and the median score of each."""

    stage: str
    scores: Mapping[str, float]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """The outcome. ``finalists``: the best first, with scores by block of the final."""

    best: str
    finalists: Mapping[str, tuple[float, ...]]
    rounds: tuple[Round, ...] = ()
    tried: int = 0


def choose(
    space: Space,
    trial: Callable[[Sequence[Load]], Trial],
    beside: Sequence[str],
    *,
    seconds: float,
    seed: int,
    prepare: Callable[[Sequence[Shape]], Sequence[str]],
    tell: Callable[[str], None] = lambda _text: None,
) -> Choice:
    """The best shape. ``trial`` times with loads of a stage; ``beside``: names that the final times
    with the finalists.

    The best of every stage is in the final: what a later one added may be worth nothing.
    prepare: makes routines of shapes and gives the names of those that copy right. Ties go to
    the simpler shape, which is the one that comes first. ToolError when none is left.
    """
    rounds: list[Round] = []
    shapes: dict[str, Shape] = {}
    kept: list[str] = []
    firsts: list[str] = []
    for number, stage in enumerate(STAGES):
        new = {shape.name: shape for shape in space.adds(stage, [shapes[name] for name in kept])}
        names = list(prepare([shape for name, shape in new.items() if name not in shapes]))
        shapes |= new
        if names or not kept:
            tell(f"{len(names)} {stage.what}")
            halves = halving(
                [*kept, *names],
                trial(stage.loads),
                stage.share * seconds,
                seed + 1000 * number,
                stage.name,
            )
            rounds += halves
            kept = list(halves[-1].kept)
            firsts.append(kept[0])
    kept = list(dict.fromkeys((*kept[:FINALISTS], *firsts)))
    tell(f"the final: {', '.join(kept)}")
    rest_s = seconds * (1.0 - sum(stage.share for stage in STAGES))
    final = trial(final_loads())([*kept, *beside], rest_s, seed + 1000 * len(STAGES))
    timed = [name for name in kept if final.get(name)]
    if not timed:
        raise ToolError("no shape could be timed to the end")
    ordered = sorted(timed, key=lambda name: median(final[name]))
    first = final[ordered[0]]
    # Those that did not take longer than the first, beyond what blocks differ by.
    equal = ordered[:1]
    for name in ordered[1:]:
        low = paired_effect(first, final[name]).lo
        equal += [name] if low is not None and low <= 1.0 else []
    rest = [name for name in beside if final.get(name)]
    return Choice(
        best=min(equal, key=list(shapes).index),
        finalists={name: tuple(final[name]) for name in (*ordered, *rest)},
        rounds=tuple(rounds),
        tried=len({name for round_ in rounds for name in round_.scores}),
    )


def halving(
    names: Sequence[str], trial: Trial, seconds: float, seed: int, stage: str, keep: int = FINALISTS
) -> list[Round]:
    """Rounds, each of the same time, until the ``keep`` best are left, the best first."""
    left = list(dict.fromkeys(names))
    rounds: list[Round] = []
    count = max(1, math.ceil(math.log2(max(1, len(left)) / keep)))
    for number in range(count):
        scores = trial(left, seconds / count, seed + number) if left else {}
        medians = {name: median(scores[name]) for name in left if scores.get(name)}
        ordered = sorted(medians, key=lambda name: medians[name])
        last = number == count - 1
        left = ordered[: keep if last else max(keep, (len(ordered) + 1) // 2)]
        rounds.append(Round(stage, medians, tuple(left)))
    if not left:
        raise ToolError(f"no shape of stage {stage!r} could be timed")
    return rounds


class Clock:
    """Turns what is being done into lines with the time left."""

    def __init__(self, tell: Callable[[str, float | None], None], seconds: float) -> None:
        self._tell, self._seconds = tell, seconds
        self._stage, self._spent_s, self._last_s = "", 0.0, 0.0

    def stage(self, text: str) -> None:
        self._stage = text

    def checking(self, name: str, number: int, whole: int) -> None:
        self._tell(f"checking {number} of {whole}: {name}", None)

    def timing(self, elapsed_s: float) -> None:
        # A trial's clock starts at nought again.
        if elapsed_s < self._last_s:
            self._spent_s += self._last_s
        self._last_s = elapsed_s
        left_s = max(0.0, self._seconds - self._spent_s - elapsed_s)
        self._tell(f"timing {self._stage}", left_s)


class Refused(ToolError):
    """A routine that fails its check."""


@dataclass
class Workshop:
    """Routines made of shapes, in ``folder``, the contenders that they become, and their times."""

    folder: Path
    cache_root: Path
    core: int
    clock: Clock
    contenders: dict[str, Contender] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def prepare(self, shapes: Sequence[Shape]) -> list[str]:
        """Names of the shapes that copy right, by the check with few sizes: enough to time by. The
        others are in ``refused`` with the reason."""
        names = []
        for number, shape in enumerate(shapes, 1):
            self.clock.checking(shape.name, number, len(shapes))
            try:
                contender = self.made(f"{shape.name}.S", generate(shape), mode="thin")
            except (UsageError, Refused) as problem:
                self.refused[shape.name] = str(problem)
            else:
                self.contenders[shape.name] = contender
                names.append(shape.name)
        return names

    def made(self, file: str, text: str, mode: str = "full") -> Contender:
        """The contender of a routine's text. Refused where it fails its check."""
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        routine = parse_routine(path, text)
        result = check(routine, self.cache_root, mode=mode)
        if not result.passed:
            raise Refused(f"{file} fails its check: {'; '.join(result.violations)}")
        return routine_contender(routine, self.cache_root)

    def bench(self, contenders: Sequence[Contender], material: Material, seed: int) -> Bench:
        return measure(
            contenders,
            material,
            cache_root=self.cache_root,
            cpu=self.core,
            seed=seed,
            tell=lambda progress: self.clock.timing(progress.elapsed_s),
        )

    def trial(
        self,
        material: Material,
        score: Callable[[Bench, str], Sequence[float]],
        rivals: Sequence[str] = (),
    ) -> Callable[[Sequence[Load]], Trial]:
        """Trials with the copies of ``material``; with rivals also with the loads of a stage."""

        def with_loads(loads: Sequence[Load]) -> Trial:
            plan = material.plan
            if rivals:
                plan = replace(plan, loads=(*loads, *plan.loads))

            def trial(
                names: Sequence[str], seconds: float, seed: int
            ) -> dict[str, Sequence[float]]:
                timed = replace(plan, seconds=seconds, fewest_blocks=3, most_blocks=200)
                racing = [self.contenders[name] for name in dict.fromkeys((*names, *rivals))]
                try:
                    bench = self.bench(racing, replace(material, plan=timed), seed)
                except ToolError as problem:
                    text = f"nothing of {', '.join(names)} could be timed: {problem}"
                    raise ToolError(text) from None
                self.refused.update(bench.failed)
                return {name: score(bench, name) for name in names if name in bench.ns}

            return trial

        return with_loads


def replay_score(bench: Bench, name: str) -> Sequence[float]:
    """ns per call by block, of the one load that is replayed."""
    (load,) = bench.loads
    return bench.ns[name][load.id]


def rivals_score(bench: Bench, name: str) -> Sequence[float]:
    """A CPU's score by block: below 1 is faster than the faster rival."""
    rivals = bench.ranked("rival")
    logs = []
    for load in bench.loads:
        fastest = np.min([bench.ns[rival][load.id] for rival in rivals], axis=0)
        logs.append(np.log(bench.ns[name][load.id]) - np.log(fastest))
    ratios = np.asarray(logs)
    # Beyond the caches nothing is asked of the worst: there the neighbours decide.
    near = [load.level == "L1" for load in bench.loads]
    worst = float(np.exp(np.max(np.median(ratios[near], axis=1))))
    return [float(each) for each in np.exp(np.mean(ratios, axis=0)) * max(1.0, worst / WORST)]


@dataclass(frozen=True)
class Tuned:
    """A memcpy that was chosen: its shape, and its text as a routine called ``name``."""

    name: str
    shape: Shape
    text: str
    choice: Choice
    refused: Mapping[str, str]
    """Shape → why it was not timed."""
    left_out: Mapping[str, str]
    """Routine beside it → the same."""

    @property
    def ratios(self) -> dict[str, PairedEffect]:
        """Finalist or rival → score of the chosen shape ÷ its score, by blocks."""
        finalists = self.choice.finalists
        best = finalists[self.choice.best]
        return {
            name: paired_effect(scores, best)
            for name, scores in finalists.items()
            if name != self.choice.best
        }


def tuned(
    workshop: Workshop,
    space: Space,
    trial: Callable[[Sequence[Load]], Trial],
    beside: Sequence[str],
    *,
    name: str | None,
    seconds: float,
    seed: int,
    left_out: Mapping[str, str],
) -> Tuned:
    """Choose a memcpy and write its routine. Whoever calls holds the measuring lock.

    name: the routine's; by default its shape's. UsageError for a name that no routine can have.
    """
    choice = choose(
        space,
        trial,
        beside,
        seconds=seconds,
        seed=seed,
        prepare=workshop.prepare,
        tell=workshop.clock.stage,
    )
    shape = parsed(choice.best)
    name = name or shape.name
    if not label(name).isidentifier():
        raise UsageError(f"-o {name}.S: letters, digits and dashes make a routine's name")
    text = generate(shape, name)
    return Tuned(name, shape, text, choice, workshop.refused, left_out)
