# SPDX-License-Identifier: MIT
"""Shapes made into routines, checked, and timed on recorded copies: what a tuning calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from kdyno.errors import ToolError, UsageError
from kdyno.kernels.routines.checking import check
from kdyno.kernels.routines.rack import Contender, routine_contender
from kdyno.kernels.routines.routine import Routine, label, parse_routine
from kdyno.labs.memcpy.make.generator import generate
from kdyno.labs.memcpy.make.shape import Shape
from kdyno.labs.memcpy.time.bench import Material, measure

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
