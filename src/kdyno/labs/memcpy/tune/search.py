# SPDX-License-Identifier: MIT
"""Choosing a routine for what a kernel copies: measured replay, ever longer for ever fewer.

Successive halving (Karnin, Koren & Somekh, ICML 2013): all shapes are timed for a short while, the
faster half again for as long, and so on, so that most of the time goes to those that are hard to
tell apart. First the shapes whose loop does everything; then the best of them with every way of
treating large blocks.
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
from kdyno.labs.memcpy.make.generator import generate
from kdyno.labs.memcpy.make.shape import LARGE, TAILS, WIDTHS, Shape
from kdyno.labs.memcpy.time.bench import Material, measure

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
_SHARES = (0.35, 0.35, 0.3)
"""Of the budget: first stage, second stage, the final."""


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


def with_large(shape: Shape, largest: int) -> list[Shape]:
    """``shape`` with each way of treating large blocks that copies up to ``largest`` can tell."""
    found = []
    for large in LARGE:
        for above in THRESHOLDS:
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


def choose(
    shapes: Sequence[Shape],
    beside: Sequence[str],
    trial: Trial,
    *,
    largest: int,
    seconds: float,
    seed: int,
    prepare: Callable[[Sequence[Shape]], Sequence[str]],
    tell: Callable[[str], None] = lambda _text: None,
) -> Choice:
    """The fastest shape. ``beside``: names that are timed with the finalists, for comparison.

    prepare: makes routines of shapes and gives the names of those that copy right. Ties go to
    the simpler shape, which is the one that comes first. ToolError when none is left.
    """
    rounds: list[Round] = []
    first = list(prepare(shapes))
    tried = len(first)
    tell(f"{len(first)} shapes")
    kept = halving(first, trial, _SHARES[0] * seconds, seed, KEPT_FOR_LARGE, "loops", rounds)
    by_name = {shape.name: shape for shape in shapes}
    variants = [it for name in kept for it in with_large(by_name[name], largest)]
    if variants:
        names = list(prepare(variants))
        tried += len(names)
        tell(f"{len(names)} ways of treating large blocks")
        spent = _SHARES[1] * seconds
        kept = halving([*kept, *names], trial, spent, seed + 1000, FINALISTS, "large", rounds)
    kept = kept[:FINALISTS]
    tell(f"the final: {', '.join(kept)}")
    final = trial([*kept, *beside], _SHARES[2] * seconds, seed + 2000)
    timed = [name for name in kept if final.get(name)]
    if not timed:
        raise ToolError("no shape could be timed to the end")
    ordered = sorted(timed, key=lambda name: median(final[name]))
    rest = [name for name in beside if final.get(name)]
    return Choice(
        best=ordered[0],
        finalists={name: tuple(final[name]) for name in (*ordered, *rest)},
        rounds=tuple(rounds),
        tried=tried,
    )


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


def replayed(
    workshop: Workshop, material: Material, cpu: int, tell: Callable[[float], None]
) -> Callable[[Sequence[str], float, int], Mapping[str, Sequence[float]]]:
    """A trial of tuning.py that times the copies of ``material``: one load, the recorded one.

    tell: called with the seconds that a trial has run.
    """

    def trial(names: Sequence[str], seconds: float, seed: int) -> Mapping[str, Sequence[float]]:
        plan = replace(material.plan, seconds=seconds, fewest_blocks=3, most_blocks=200)
        try:
            found = measure(
                [workshop.contenders[name] for name in names],
                replace(material, plan=plan),
                cache_root=workshop.cache_root,
                cpu=cpu,
                seed=seed,
                left_out={},
                tell=lambda step: tell(step.elapsed_s),
            )
        except ToolError as problem:
            raise ToolError(f"nothing of {', '.join(names)} could be timed: {problem}") from None
        workshop.refused.update(found.failed)
        (load,) = found.loads
        return {name: rows[load.id] for name, rows in found.ns.items()}

    return trial


def emitted(shape: Shape, name: str) -> str:
    """The text of a routine file called ``name`` (without .S)."""
    if not label(name).isidentifier():
        raise UsageError(f"-o {name}.S: letters, digits and dashes make a routine's name")
    return generate(shape, name)
