# SPDX-License-Identifier: MIT
"""The row of this CPU in best.toml: a memcpy made part by part, the other functions chosen.

The winner is checked in full, then timed beside all shipped routines for the four figures. memmove
and memset are the fastest of their shipped routines and of one made like the winner; the page
functions the fastest of those shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu as cpus
from kdyno.kernels.routines.rack import Contender, routine_contender
from kdyno.kernels.routines.routine import FUNCTIONS, PAGES, list_routines, parse_routine
from kdyno.labs.memcpy.count.distribution import Distribution
from kdyno.labs.memcpy.make.shape import WIDTHS, Shape, generate, parse_shape
from kdyno.labs.memcpy.time import ratios
from kdyno.labs.memcpy.time.bench import Material, measure, with_copies
from kdyno.labs.memcpy.time.field import checked, gather
from kdyno.labs.memcpy.time.loads import LEVELS, Load, Plan, drawn, fixed, judged, sizes
from kdyno.labs.memcpy.time.results import Bench
from kdyno.labs.memcpy.tune.parts import final_loads, stages, timed_against_rivals
from kdyno.labs.memcpy.tune.result import Clock, check_whole
from kdyno.labs.memcpy.tune.search import Choice, Workshop, choose, emitted, thin

_SEARCH, _FIGURES = 0.55, 0.3
"""Of the budget; the rest is the other functions'."""
_BLOCKS = 12
"""Of a bench that is kept."""
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class CpuTuned:
    """What was found for this CPU."""

    name: str
    """Of the memcpy, and of what was made like it."""
    shape: Shape
    texts: Mapping[str, str]
    """File → text of the routines that were made."""
    choice: Choice
    benches: Mapping[str, Bench]
    """Function → what was timed of it; memcpy's has the figures."""
    routines: Mapping[str, str]
    """Function → routine."""
    refused: Mapping[str, str]
    left_out: Mapping[str, str]

    @property
    def goals(self) -> list[ratios.Goal]:
        return ratios.goals(self.benches["memcpy"], self.name)


@dataclass(frozen=True)
class _Bench:
    """Times contenders with loads on one core."""

    cache_root: Path
    core: int
    seed: int
    clock: Clock

    def __call__(self, contenders: Sequence[Contender], material: Material) -> Bench:
        return measure(
            contenders,
            material,
            cache_root=self.cache_root,
            cpu=self.core,
            seed=self.seed,
            left_out={},
            tell=lambda step: self.clock.timing(step.elapsed_s),
        )


def tune_cpu(
    name: str,
    copies: Distribution,
    *,
    tree: Path | None,
    cache_root: Path,
    core: int,
    seed: int,
    seconds: float,
    tell: Callable[[str, float | None], None],
) -> CpuTuned:
    """Find this CPU's routines. Whoever calls holds the measuring lock.

    name: of the memcpy that is made. ToolError when it fails its full check, or without a rival.
    """
    material = with_copies(Plan("tune", (), 0.0, 3, 30_000), copies)
    clock = Clock(tell, seconds)
    bench = _Bench(cache_root, core, seed + 1, clock)
    with whole.scratch("tune") as folder:
        workshop = Workshop(folder, cache_root, thin(cache_root), told=clock.checking)
        field = gather((), tree, cache_root, checked)
        # What an earlier tuning made of the same name is made again.
        beside = [it for it in field.contenders if it.name != name]
        workshop.contenders |= {it.name: it for it in beside}
        rivals = [it.name for it in beside if it.rank == "rival"]
        timed = timed_against_rivals(workshop, material, rivals, core, clock.timing)
        choice = choose(
            stages(timed),
            [it.name for it in beside if it.rank == "routine"],
            timed(final_loads()),
            seconds=_SEARCH * seconds,
            seed=seed,
            prepare=workshop.prepare,
            tell=clock.stage,
        )
        shape = parse_shape(choice.best)
        texts = {f"{name}.S": emitted(shape, name)}
        clock.stage("the four figures")
        plan = replace(judged(_FIGURES * seconds), most_blocks=_BLOCKS)
        made = _made(f"{name}.S", texts, folder, cache_root)
        benches = {"memcpy": bench([made, *beside], with_copies(plan, copies))}
        routines = {"memcpy": name}
        spent_s = (1 - _SEARCH - _FIGURES) * seconds / (len(FUNCTIONS) - 1)
        for function in FUNCTIONS:
            if function == "memcpy":
                continue
            clock.stage(function)
            racing = _shipped(function, name, cache_root)
            if (like := shape_like(shape, function)) is not None:
                file = f"{function}-{name}.S"
                texts[file] = generate(like, name)
                racing.append(_made(file, texts, folder, cache_root))
            loads = tuple(loads_of(function))
            plan = Plan(f"tune {function}", loads, spent_s, 3, 30_000, 6, _BLOCKS)
            benches[function] = bench(racing, Material(plan))
            routines[function] = _fastest(benches[function])
            if routines[function] != name:
                texts.pop(f"{function}-{name}.S", None)
    return CpuTuned(name, shape, texts, choice, benches, routines, workshop.refused, field.left_out)


def loads_of(function: str) -> list[Load]:
    """What another function than memcpy is timed with."""
    if function in PAGES:
        return [fixed(level, _PAGE_BYTES, "aligned") for level in LEVELS]
    found = [fixed("L1", size, at) for at in ("aligned", "target") for size in sizes(around=False)]
    return found + [drawn("L1", *it) for it in ((1, 16), (1, 64), (1, 256), (64, 512), (256, 4096))]


def shape_like(shape: Shape, function: str) -> Shape | None:
    """The shape of memcpy for memmove or memset, with ends that overlap; None where none can be."""
    registers = "avx512vl" if shape.small_bytes and shape.tail == "mask" else shape.registers
    short, upto = ("mask", 64) if shape.tail == "mask" else (shape.short, shape.short_to)
    loop = WIDTHS[registers] * (4 if registers != "general" else 2)
    if function in PAGES:
        return None
    try:
        return Shape(function, registers, loop, "overlap", short=short, short_to=upto)
    except UsageError:
        return None


def _shipped(function: str, but: str, cache_root: Path) -> list[Contender]:
    """Its routines that this CPU can run and that do their work right."""
    known = [it for it in list_routines(function=function) if it.name != but]
    runs = [it for it in known if not cpus.missing(it.requires)]
    wrong = checked(runs)
    return [routine_contender(it, cache_root) for it in runs if it.name not in wrong]


def _made(file: str, texts: Mapping[str, str], folder: Path, cache_root: Path) -> Contender:
    path = folder / file
    check_whole(texts[file], path, cache_root)
    return routine_contender(parse_routine(path, texts[file]), cache_root)


def _fastest(bench: Bench) -> str:
    loads = list(bench.loads)
    found = ratios.best(bench, loads, loads[0].least, loads[-1].most)
    if found is None:
        raise ToolError(f"{bench.plan}: no routine could be timed")
    return found.name
