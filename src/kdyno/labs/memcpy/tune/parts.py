# SPDX-License-Identifier: MIT
"""A memcpy for a CPU, part by part: the shortest blocks, the loop between, the longest ones.

Each part is a stage of search.py with loads of its own. A shape's score in a block is the
geometric mean, over the loads, of its time ÷ the time of the faster rival (memcpy_orig, rep movsb),
times by how much the worst of them, by its median, exceeds WORST: a routine that is best on average
and far behind at one size is not what a kernel wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kdyno.errors import UsageError
from kdyno.kernels import cpu
from kdyno.labs.memcpy.make.shape import AVX512, STORES, WIDTHS, Shape
from kdyno.labs.memcpy.time.bench import Material
from kdyno.labs.memcpy.time.loads import MOST, Load, Plan, drawn, fixed, judged
from kdyno.labs.memcpy.time.results import Bench
from kdyno.labs.memcpy.tune.search import FINALISTS, Stage, Trial, Workshop, with_large

WORST = 1.05
"""Time ÷ the faster rival's that is allowed anywhere, as in ratios.goals."""
THRESHOLDS = (1024, 2048, 4096, 8192, 12288, 16384, 24576, 32768, 49152, 1 << 18, 1 << 20)
_SHORTEST = (("", 0), ("mask", 32), ("mask", 64), ("bytes", 16), ("bytes", 32), ("bytes", 64))
_SIZES = {
    "short": (1, 2, 3, 4, 7, 8, 12, 15, 16, 17, 24, 31, 32, 48, 63, 64),
    "middle": (96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192),
    "long": (4096, 8192, 12288, 16384, 24576, 32768, 49152, MOST),
}
_DRAWN = {
    "short": ((1, 16), (1, 64), (1, 256)),
    "middle": ((1, 256), (64, 512), (1, 1024), (256, 4096)),
    "long": ((256, 4096), (1, MOST)),
}
_SHARES = {"short": 0.2, "middle": 0.35, "long": 0.2}
_KEPT = {"short": 4, "middle": 4, "long": FINALISTS}
_FAR = (("L3", 1 << 18), ("memory", 1 << 20))
"""Where stores past the caches could pay, and where they should not: what was copied is wanted."""


def stages(timed: Callable[[Sequence[Load]], Trial]) -> tuple[Stage, ...]:
    """The three parts; ``timed`` makes a trial that times these loads."""
    grown: Mapping[str, Callable[[Sequence[Shape]], Sequence[Shape]]] = {
        "short": lambda _kept: shortest(),
        "middle": middles,
        "long": longest,
    }
    words = {
        "short": "ways of copying the shortest blocks",
        "middle": "loops",
        "long": "ways of copying the longest blocks",
    }
    return tuple(
        Stage(part, words[part], adds, timed(loads_of(part)), _KEPT[part], _SHARES[part])
        for part, adds in grown.items()
    )


def loads_of(part: str) -> list[Load]:
    """What a part is timed with, beside the measured distribution."""
    alignments = ("aligned",) if part == "short" else ("aligned", "both")
    found = [fixed("L1", size, at) for at in alignments for size in _SIZES[part]]
    found += [drawn("L1", *it) for it in _DRAWN[part]]
    if part == "long":
        found += [fixed(level, size, "aligned") for level, size in _FAR]
    return found


def shortest() -> list[Shape]:
    """Every way of copying the shortest blocks, beside a plain loop of each width."""
    made = []
    for registers, width in WIDTHS.items():
        loop = width * (4 if registers != "general" else 2)
        for short, upto in _SHORTEST:
            for tail in ("overlap", "mask"):
                made.append(
                    lambda r=registers, n=loop, t=tail, s=short, u=upto: Shape(
                        "memcpy", r, n, t, short=s, short_to=u
                    )
                )
    return _possible(made)


def middles(kept: Sequence[Shape]) -> list[Shape]:
    """Every loop for what was kept, the shortest blocks as they are."""
    made = []
    for shape in kept:
        for registers, width in WIDTHS.items():
            if (registers in AVX512) != (shape.registers in AVX512):
                continue
            for turns in (1, 2, 4, 8):
                for small in (0, 32):
                    for stores in STORES:
                        made.append(
                            lambda of=shape, r=registers, n=turns * width, s=small, at=stores: (
                                replace(of, registers=r, loop_bytes=n, small_bytes=s, stores=at)
                            )
                        )
    return _possible(made)


def longest(kept: Sequence[Shape]) -> list[Shape]:
    """What was kept with rep movsb or stores past the caches from every threshold on."""
    return [it for shape in kept for it in with_large(shape, THRESHOLDS[-1], THRESHOLDS)]


def _possible(made: Iterable[Callable[[], Shape]]) -> list[Shape]:
    """Those whose parameters go together and that this CPU can run, each once."""
    found: dict[str, Shape] = {}
    for make in made:
        try:
            shape = make()
        except UsageError:
            continue
        if not cpu.missing(shape.requires):
            found.setdefault(shape.name, shape)
    return list(found.values())


def timed_against_rivals(
    workshop: Workshop,
    material: Material,
    rivals: Sequence[str],
    core: int,
    tell: Callable[[float], None],
) -> Callable[[Sequence[Load]], Trial]:
    """Makes trials whose scores are those of this module; the distribution of ``material`` is
    one more load of each."""

    def timed(loads: Sequence[Load]) -> Trial:
        def trial(names: Sequence[str], seconds: float, seed: int) -> Mapping[str, Sequence[float]]:
            given = material.plan.loads
            plan = Plan("tune", (*loads, *given), seconds, 3, 30_000, 3, 200)
            whole = replace(material, plan=plan)
            found = workshop.time(names, whole, core, seed, tell, rivals)
            return {it: scores(found, it) for it in names if it in found.ns}

        return trial

    return timed


def final_loads() -> Sequence[Load]:
    """Those of the four figures, and where the longest blocks can tell."""
    return (*judged().loads, *(fixed(level, size, "aligned") for level, size in _FAR))


def scores(bench: Bench, name: str) -> tuple[float, ...]:
    """The score of ``name`` in each block: below 1 is faster than the faster rival."""
    rivals = [it.name for it in bench.timed if it.rank == "rival"]
    logs = []
    for load in bench.loads:
        fastest = np.min([bench.ns[it][load.id] for it in rivals], axis=0)
        logs.append(np.log(bench.ns[name][load.id]) - np.log(fastest))
    ratios = np.asarray(logs)
    # Beyond the caches nothing is asked of the worst: there the neighbours decide.
    near = [load.level == "L1" for load in bench.loads]
    worst = float(np.exp(np.max(np.median(ratios[near], axis=1))))
    return tuple(np.exp(np.mean(ratios, axis=0)) * max(1.0, worst / WORST))
