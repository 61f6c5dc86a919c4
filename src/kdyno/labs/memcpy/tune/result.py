# SPDX-License-Identifier: MIT
"""A whole tuning: the choice, the routine's text, its ratio to the kernel's loop, a prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdyno import whole
from kdyno.errors import ToolError
from kdyno.kernels.routines.checking import check
from kdyno.kernels.routines.routine import parse_routine
from kdyno.labs.memcpy.make.shape import Shape, parse_shape
from kdyno.labs.memcpy.time.bench import Material
from kdyno.labs.memcpy.time.field import checked, gather
from kdyno.labs.memcpy.time.loads import Load
from kdyno.labs.memcpy.tune.prediction import Prediction, Share, predict
from kdyno.labs.memcpy.tune.search import (
    Choice,
    Workshop,
    choose,
    emitted,
    over_copies,
    replayed,
    thin,
)
from kdyno.stats.effect import PairedEffect, paired_effect


@dataclass(frozen=True)
class Tuned:
    """``ratios``: finalist or rival → time of the chosen shape ÷ its time, by blocks."""

    shape: Shape
    text: str
    load: Load
    choice: Choice
    ratios: dict[str, PairedEffect]
    refused: dict[str, str]
    left_out: dict[str, str]
    prediction: Prediction | None


def tune(
    material: Material,
    shapes: Sequence[Shape],
    share: Share | None,
    *,
    tree: Path | None,
    cache_root: Path,
    cpu: int,
    seed: int,
    seconds: float,
    name: str | None,
    tell: Callable[[str, float | None], None],
) -> Tuned:
    """Choose, check in full, and predict. Whoever calls holds the measuring lock.

    name: the routine's; its shape's unless told. ToolError when the winner fails its full check.
    """
    (load,) = material.plan.loads
    with whole.scratch("tune") as folder:
        clock = Clock(tell, seconds)
        workshop = Workshop(folder, cache_root, thin(cache_root), told=clock.checking)
        rivals = gather((), tree, cache_root, checked)
        beside = [it for it in rivals.contenders if it.rank != "bound"]
        workshop.contenders |= {it.name: it for it in beside}
        trial = replayed(workshop, material, cpu, clock.timing)
        choice = choose(
            over_copies(shapes, trial, load.most),
            [it.name for it in beside],
            trial,
            seconds=seconds,
            seed=seed,
            prepare=workshop.prepare,
            tell=clock.stage,
        )
        shape = parse_shape(choice.best)
        text = emitted(shape, name or shape.name)
        check_whole(text, folder / f"{name or shape.name}.S", cache_root)
    best = choice.finalists[choice.best]
    ratios = {
        other: paired_effect(ns, best)
        for other, ns in choice.finalists.items()
        if other != choice.best
    }
    told = predict(share, ratios["orig"]) if share is not None and "orig" in ratios else None
    return Tuned(shape, text, load, choice, ratios, workshop.refused, rivals.left_out, told)


def check_whole(text: str, path: Path, cache_root: Path) -> None:
    """Write a routine to ``path`` and check it in full. ToolError where it fails."""
    path.write_text(text, encoding="utf-8")
    found = check(parse_routine(path, text), cache_root)
    if not found.passed:
        raise ToolError(f"{path.name} fails its check: {'; '.join(found.violations)}")


class Clock:
    """Turns what is being done into lines with the time left."""

    def __init__(self, tell: Callable[[str, float | None], None], seconds: float) -> None:
        self._tell, self._seconds = tell, seconds
        self._stage, self._spent_s, self._last_s = "", 0.0, 0.0

    def stage(self, text: str) -> None:
        self._stage = text

    def checking(self, name: str, done: int, whole: int) -> None:
        self._tell(f"checking {done + 1} of {whole}: {name}", None)

    def timing(self, elapsed_s: float) -> None:
        # A trial's clock starts at nought again.
        if elapsed_s < self._last_s:
            self._spent_s += self._last_s
        self._last_s = elapsed_s
        left_s = max(0.0, self._seconds - self._spent_s - elapsed_s)
        self._tell(f"timing {self._stage}", left_s)
