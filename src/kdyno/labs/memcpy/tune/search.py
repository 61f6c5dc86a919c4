# SPDX-License-Identifier: MIT
"""Choosing a routine for what a kernel copies: measured replay, ever longer for ever fewer.

Successive halving (Karnin, Koren & Somekh, ICML 2013): all shapes are timed for a short while, the
faster half again for as long, and so on, so that most of the time goes to those that are hard to
tell apart. A search has stages, each with shapes made of those that the one before it kept. For
recorded copies: first the shapes whose loop does everything, then the best of them with every way
of treating large blocks. For a CPU see parts.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu
from kdyno.kernels.routines.checking import check
from kdyno.kernels.routines.rack import Contender, routine_contender
from kdyno.kernels.routines.routine import Routine, label, parse_routine
from kdyno.labs.memcpy.make.shape import LARGE, TAILS, WIDTHS, Shape, generate
from kdyno.labs.memcpy.time.bench import Material, measure
from kdyno.labs.memcpy.time.results import Bench
from kdyno.stats.effect import paired_effect

Trial = Callable[[Sequence[str], float, int], Mapping[str, Sequence[float]]]
"""(names, seconds, seed) → ns per call by block, of those that could be timed."""

FINALISTS = 4
KEPT_FOR_LARGE = 5
"""Shapes of the first stage that meet every way of treating large blocks."""
THRESHOLDS = (512, 1024, 2048, 4096, 8192, 32768, 1 << 18, 1 << 20)
NON_TEMPORAL_FROM = 1 << 18
"""Below that what was copied is wanted in a cache by whoever asked for the copy."""
_LOOPS = (1, 2, 4)
"""Registers a turn."""
_SHARE = 0.35
"""Of the budget, for each of the two stages over recorded copies."""


@dataclass(frozen=True)
class Stage:
    """Shapes that are halved together. What the stages leave of the budget is the final's."""

    name: str
    what: str
    """Of what there are so many, as a person reads it: ``30 shapes``."""
    adds: Callable[[Sequence[Shape]], Sequence[Shape]]
    """From the shapes kept so far, which take part again."""
    trial: Trial
    keep: int
    share: float
    """Of the budget."""


@dataclass(frozen=True)
class Round:
    """One round of halving: who took part, and the median ns per call of each."""

    stage: str
    ns: Mapping[str, float]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Choice:
    """The outcome. ``finalists``: the best first, with ns per call by block of the final."""

    best: str
    finalists: Mapping[str, tuple[float, ...]]
    rounds: tuple[Round, ...] = field(default=())
    tried: int = 0


def plain_shapes(registers: Iterable[str] | None = None) -> list[Shape]:
    """Every memcpy of one loop that this CPU can run."""
    found = []
    for kind in registers if registers is not None else WIDTHS:
        if kind not in WIDTHS:
            raise UsageError(f"--registers {kind}: there are {', '.join(WIDTHS)}")
        for turns in _LOOPS:
            for tail in TAILS:
                for small in (0, 16, 32):
                    shape = _shape(kind, turns, tail, small)
                    if shape is not None and not cpu.missing(shape.requires):
                        found.append(shape)
    return found


def with_large(shape: Shape, largest: int, thresholds: Sequence[int] = THRESHOLDS) -> list[Shape]:
    """``shape`` with each way of treating large blocks that copies up to ``largest`` can tell."""
    found = []
    for large in LARGE:
        for above in thresholds:
            if large == "plain" or above > largest:
                continue
            if large == "non-temporal" and above < NON_TEMPORAL_FROM:
                continue
            try:
                other = replace(shape, large=large, large_from=above)
            except UsageError:
                continue
            if not cpu.missing(other.requires):
                found.append(other)
    return found


def _shape(registers: str, turns: int, tail: str, small: int) -> Shape | None:
    try:
        return Shape("memcpy", registers, WIDTHS[registers] * turns, tail, small_bytes=small)
    except UsageError:
        return None  # parameters that contradict each other


def over_copies(shapes: Sequence[Shape], trial: Trial, largest: int) -> tuple[Stage, ...]:
    """Stages for recorded copies of up to ``largest`` bytes."""

    def large(kept: Sequence[Shape]) -> list[Shape]:
        return [it for shape in kept for it in with_large(shape, largest)]

    ways = "ways of treating large blocks"
    return (
        Stage("loops", "shapes", lambda _kept: shapes, trial, KEPT_FOR_LARGE, _SHARE),
        Stage("large", ways, large, trial, FINALISTS, _SHARE),
    )


def choose(
    stages: Sequence[Stage],
    beside: Sequence[str],
    trial: Trial,
    *,
    seconds: float,
    seed: int,
    prepare: Callable[[Sequence[Shape]], Sequence[str]],
    tell: Callable[[str], None] = lambda _text: None,
) -> Choice:
    """The fastest shape. ``beside``: names that ``trial``, the final, times with the finalists.

    The best of every stage is in the final: what a later one added may be worth nothing.
    prepare: makes routines of shapes and gives the names of those that copy right. Ties go to
    the simpler shape, which is the one that comes first. ToolError when none is left.
    """
    rounds: list[Round] = []
    by_name: dict[str, Shape] = {}
    kept: list[str] = []
    firsts: list[str] = []
    for number, stage in enumerate(stages):
        new = {it.name: it for it in stage.adds([by_name[name] for name in kept])}
        names = list(prepare([it for name, it in new.items() if name not in by_name]))
        by_name |= new
        if names or not kept:
            tell(f"{len(names)} {stage.what}")
            spent = stage.share * seconds
            field = [*kept, *names]
            kept = halving(
                field, stage.trial, spent, seed + 1000 * number, stage.keep, stage.name, rounds
            )
            firsts.append(kept[0])
    kept = list(dict.fromkeys((*kept[:FINALISTS], *firsts)))
    tell(f"the final: {', '.join(kept)}")
    rest_s = seconds * (1.0 - sum(stage.share for stage in stages))
    final = trial([*kept, *beside], rest_s, seed + 1000 * len(stages))
    timed = [name for name in kept if final.get(name)]
    if not timed:
        raise ToolError("no shape could be timed to the end")
    ordered = sorted(timed, key=lambda name: median(final[name]))
    rest = [name for name in beside if final.get(name)]
    equal = [name for name in ordered if not _slower(final[name], final[ordered[0]])]
    return Choice(
        best=min(equal, key=list(by_name).index),
        finalists={name: tuple(final[name]) for name in (*ordered, *rest)},
        rounds=tuple(rounds),
        tried=len({name for round_ in rounds for name in round_.ns}),
    )


def _slower(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether ``one`` took longer than ``other``, beyond what blocks differ by."""
    if one is other:
        return False
    found = paired_effect(other, one)
    return found.lo is None or found.lo > 1.0


def halving(
    names: Sequence[str],
    trial: Trial,
    seconds: float,
    seed: int,
    keep: int,
    stage: str,
    rounds: list[Round],
) -> list[str]:
    """The ``keep`` fastest, fastest first. Every round gets the same time."""
    left = list(dict.fromkeys(names))
    count = max(1, math.ceil(math.log2(max(1, len(left)) / keep))) if left else 0
    for number in range(count):
        scores = trial(left, seconds / count, seed + number)
        ns = {name: median(scores[name]) for name in left if scores.get(name)}
        ordered = sorted(ns, key=lambda name: ns[name])
        last = number == count - 1
        left = ordered[: keep if last else max(keep, (len(ordered) + 1) // 2)]
        rounds.append(Round(stage, ns, tuple(left)))
    if not left:
        raise ToolError(f"no shape of stage {stage!r} could be timed")
    return left


Checked = Callable[[Routine], str]
"""What is wrong with a routine; nothing when it copies right."""


def thin(cache_root: Path) -> Checked:
    """The check with few sizes: enough to time by; the winner gets the full one."""

    def wrong(routine: Routine) -> str:
        found = check(routine, cache_root, mode="thin")
        return "" if found.passed else "; ".join(found.violations)

    return wrong


@dataclass
class Workshop:
    """Routines made of shapes, in ``folder``, and the contenders that they become."""

    folder: Path
    cache_root: Path
    check: Checked
    contenders: dict[str, Contender] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    told: Callable[[str, int, int], None] = lambda _name, _done, _all: None

    def prepare(self, shapes: Sequence[Shape]) -> list[str]:
        """Names of the shapes that copy right; the others are in ``refused`` with the reason."""
        names = []
        for number, shape in enumerate(shapes):
            self.told(shape.name, number, len(shapes))
            path = self.folder / f"{shape.name}.S"
            text = generate(shape)
            path.write_text(text, encoding="utf-8")
            routine = parse_routine(path, text)
            try:
                wrong = self.check(routine)
                if not wrong:
                    self.contenders[shape.name] = routine_contender(routine, self.cache_root)
            except UsageError as problem:
                wrong = str(problem)
            if wrong:
                self.refused[shape.name] = wrong
            else:
                names.append(shape.name)
        return names

    def time(
        self,
        names: Sequence[str],
        material: Material,
        cpu: int,
        seed: int,
        tell: Callable[[float], None],
        rivals: Sequence[str] = (),
    ) -> Bench:
        """The contenders of these names; those that could not be timed are in ``refused``.

        tell: called with the seconds so far. ToolError where not one could be timed.
        """
        try:
            found = measure(
                [self.contenders[name] for name in dict.fromkeys((*names, *rivals))],
                material,
                cache_root=self.cache_root,
                cpu=cpu,
                seed=seed,
                left_out={},
                tell=lambda step: tell(step.elapsed_s),
            )
        except ToolError as problem:
            raise ToolError(f"nothing of {', '.join(names)} could be timed: {problem}") from None
        self.refused.update(found.failed)
        return found


def replayed(
    workshop: Workshop, material: Material, cpu: int, tell: Callable[[float], None]
) -> Callable[[Sequence[str], float, int], Mapping[str, Sequence[float]]]:
    """A trial of tuning.py that times the copies of ``material``: one load, the recorded one.

    tell: called with the seconds that a trial has run.
    """

    def trial(names: Sequence[str], seconds: float, seed: int) -> Mapping[str, Sequence[float]]:
        plan = replace(material.plan, seconds=seconds, fewest_blocks=3, most_blocks=200)
        found = workshop.time(names, replace(material, plan=plan), cpu, seed, tell)
        (load,) = found.loads
        return {name: rows[load.id] for name, rows in found.ns.items()}

    return trial


def emitted(shape: Shape, name: str) -> str:
    """The text of a routine file called ``name`` (without .S)."""
    if not label(name).isidentifier():
        raise UsageError(f"-o {name}.S: letters, digits and dashes make a routine's name")
    return generate(shape, name)
