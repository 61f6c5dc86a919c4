# SPDX-License-Identifier: MIT
"""Choosing routines: for recorded copies, and for a CPU; what a faster memcpy gives in the kernel.

Successive halving (Karnin, Koren & Somekh, ICML 2013): all shapes are timed for a short while, the
faster half again for as long, and so on, so that most of the time goes to those that are hard to
distinguish. The search has three stages, each with shapes made of those that the one before it
kept: ways of copying the shortest blocks, the loop between, ways of copying the longest blocks.

A shape's score is ns per call where recorded copies are replayed. For a CPU it is the geometric
mean, over a stage's own loads, of its time ÷ the time of the faster rival (memcpy_orig, rep movsb),
times by how much the worst of them, by its median, exceeds WORST: a routine that is best on average
and far behind at one size is no use to a kernel."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu as cpus
from kdyno.kernels.cpu import Cpu
from kdyno.kernels.routines.checking import Contender, check, routine_contender
from kdyno.kernels.routines.routine import (
    BENCHES,
    FILE,
    FUNCTIONS,
    PAGES,
    Figures,
    list_routines,
    parse_routine,
)
from kdyno.labs.memcpy import results
from kdyno.labs.memcpy.loads import LEVELS, MOST, Load, Plan, fixed, judged, ranged, sizes
from kdyno.labs.memcpy.results import Bench, to_json
from kdyno.labs.memcpy.shape import AVX512, STORES, TAILS, WIDTHS, Shape, generate, parse_shape
from kdyno.labs.memcpy.timing import failing, gather, measure
from kdyno.stats.effect import PairedEffect, paired_effect

Trial = Callable[[Sequence[Load], Sequence[str], float], Mapping[str, Sequence[float]]]
"""(loads, names, seconds) → score by block, of those that could be timed; less is better."""

FINALISTS = 4
WORST = 1.05
"""Time ÷ the faster rival's that is allowed anywhere, as in results.goals."""
THRESHOLDS = (512, 1024, 2048, 4096, 8192, 12288, 16384, 24576, 32768, 49152, 1 << 18, 1 << 20)
NON_TEMPORAL_FROM = 1 << 18
"""Below that size the caller wants what was copied in a cache."""
_SHORTEST = (("", 0), ("mask", 32), ("mask", 64), ("bytes", 16), ("bytes", 32), ("bytes", 64))
_FAR = [fixed("L3", 1 << 18, "aligned"), fixed("memory", 1 << 20, "aligned")]
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
        return loads + (_FAR if self.name == "long" else [])


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


def shortest() -> list[Shape]:
    """Every way of copying the shortest blocks, beside a plain loop of each width."""
    loops = {kind: width * (4 if kind != "general" else 2) for kind, width in WIDTHS.items()}
    return possible(
        {"registers": kind, "loop_bytes": loop, "tail": tail, "short": short, "short_to": to}
        for kind, loop in loops.items()
        for short, to in _SHORTEST
        for tail in TAILS[:3]
    )


def middles(kept: Sequence[Shape]) -> list[Shape]:
    """Every loop for what was kept, the shortest blocks as they are."""
    return possible(
        vars(shape)
        | {"registers": kind, "loop_bytes": turns * WIDTHS[kind]}
        | {"small_bytes": small, "stores": stores}
        for shape in kept
        for kind in WIDTHS
        if (kind in AVX512) == (shape.registers in AVX512)
        for turns in (1, 2, 4, 8)
        for small in (0, 32)
        for stores in STORES
    )


def longest(kept: Sequence[Shape], largest: int) -> list[Shape]:
    """What was kept with rep movsb or stores past the caches from each threshold to ``largest``."""
    return possible(
        {**vars(shape), "large": large, "large_from": above}
        for shape in kept
        for large, least in (("rep", 0), ("nt", NON_TEMPORAL_FROM))
        for above in THRESHOLDS
        if least <= above <= largest
    )


def possible(parameters: Iterable[Mapping[str, Any]]) -> list[Shape]:
    """Shapes of those that go together and that this CPU can run, each once."""
    shapes: dict[str, Shape] = {}
    for each in parameters:
        try:
            shape = Shape(**each)
        except UsageError:
            continue
        if not cpus.missing(shape.requires):
            shapes.setdefault(shape.name, shape)
    return list(shapes.values())


@dataclass(frozen=True)
class Choice:
    """Of ``tried`` shapes. ``finalists``: the best first, with scores by block of the final."""

    best: str
    finalists: Mapping[str, tuple[float, ...]]
    tried: int


def choose(
    trial: Trial,
    beside: Sequence[str],
    largest: int,
    seconds: float,
    prepare: Callable[[Sequence[Shape]], Sequence[str]],
    tell: Callable[[str], None] = lambda _text: None,
) -> Choice:
    """The best shape for copies of up to ``largest`` bytes. ``beside``: names that the final times
    with the finalists.

    The best of every stage is in the final: what a later one added may be worth nothing.
    prepare: makes routines of shapes and gives the names of those that copy right. Ties go to
    the simpler shape, which is the one that comes first. ToolError when none is left."""
    shapes: dict[str, Shape] = {}
    tried: set[str] = set()
    kept: list[str] = []
    firsts: list[str] = []
    for number, stage in enumerate(STAGES):
        before = [shapes[name] for name in kept]
        variations = (shortest(), middles(before), longest(before, largest))[number]
        new = {shape.name: shape for shape in variations}
        names = list(prepare([shape for name, shape in new.items() if name not in shapes]))
        shapes |= new
        if names or not kept:
            tell(f"{len(names)} {stage.what}")
            tried |= {*kept, *names}
            kept = halving(stage, [*kept, *names], trial, stage.share * seconds)
            firsts.append(kept[0])
    kept = list(dict.fromkeys((*kept, *firsts)))
    tell(f"the final: {', '.join(kept)}")
    rest_s = seconds * (1.0 - sum(stage.share for stage in STAGES))
    final = trial([*judged().loads, *_FAR], [*kept, *beside], rest_s)
    timed = [name for name in kept if final.get(name)]
    if not timed:
        raise ToolError("no shape could be timed to the end")
    ordered = sorted(timed, key=lambda name: median(final[name]))
    # Those that did not take longer than the first, beyond what blocks differ by.
    cis = {name: paired_effect(final[ordered[0]], final[name]).ci for name in ordered[1:]}
    equal = [*ordered[:1], *(name for name, ci in cis.items() if ci is not None and ci[0] <= 1.0)]
    rest = [name for name in beside if final.get(name)]
    finalists = {name: tuple(final[name]) for name in (*ordered, *rest)}
    return Choice(min(equal, key=list(shapes).index), finalists, len(tried))


def halving(stage: Stage, names: Sequence[str], trial: Trial, seconds: float) -> list[str]:
    """Those that are left, the best first, after rounds that each take the same time."""
    left = list(dict.fromkeys(names))
    rounds = max(1, math.ceil(math.log2(max(1, len(left)) / FINALISTS)))
    for number in range(1, rounds + 1):
        scores = trial(stage.loads, left, seconds / rounds) if left else {}
        medians = {name: median(scores[name]) for name in left if scores.get(name)}
        most = max(FINALISTS, (len(medians) + 1) // 2) if number < rounds else FINALISTS
        left = sorted(medians, key=medians.__getitem__)[:most]
    if not left:
        raise ToolError(f"no shape of stage {stage.name!r} could be timed")
    return left


class Refused(ToolError):
    """A routine that fails its check."""


@dataclass
class Workshop:
    """Routines made of shapes, in ``folder``, their contenders, and times with ``plan``'s loads."""

    folder: Path
    cache_root: Path
    core: int
    plan: Plan
    seconds: float
    """Budget of timing."""
    step: Callable[[str, float | None], None]
    """Is shown what is being done, and the seconds left."""
    rivals: tuple[str, ...] = ()
    """With rivals, a CPU's score with the loads of a stage; else ns per call of recorded copies."""
    contenders: dict[str, Contender] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    stage: str = ""
    timed_s: float = 0.0

    def name_stage(self, text: str) -> None:
        self.stage = text

    def prepare(self, shapes: Sequence[Shape]) -> list[str]:
        """Names of the shapes that copy right, by the check with few sizes: enough to time by. The
        others are in ``refused`` with the reason."""
        names = []
        for number, shape in enumerate(shapes, 1):
            self.step(f"checking {number} of {len(shapes)}: {shape.name}", None)
            try:
                contender = self.contender(f"{shape.name}.S", generate(shape), mode="thin")
            except (UsageError, Refused) as problem:
                self.refused[shape.name] = str(problem)
            else:
                self.contenders[shape.name] = contender
                names.append(shape.name)
        return names

    def contender(self, file: str, text: str, mode: str = "full") -> Contender:
        """The contender of a routine's text. Refused where it fails its check."""
        path = self.folder / file
        path.write_text(text, encoding="utf-8")
        routine = parse_routine(path, text)
        result = check(routine, self.cache_root, mode=mode)
        if not result.passed:
            raise Refused(f"{file} fails its check: {'; '.join(result.violations)}")
        return routine_contender(routine, self.cache_root)

    def bench(self, contenders: Sequence[Contender], plan: Plan) -> Bench:
        def tell(elapsed_s: float, _whole_s: float) -> None:
            left_s = max(0.0, self.seconds - self.timed_s - elapsed_s)
            self.step(f"timing {self.stage}", left_s)

        bench = measure(contenders, plan, self.cache_root, self.core, tell=tell)
        self.timed_s += bench.seconds
        return bench

    def trial(
        self, loads: Sequence[Load], names: Sequence[str], seconds: float
    ) -> dict[str, Sequence[float]]:
        """A Trial. What cannot be timed goes to ``refused``; ToolError where nothing can."""
        own = (*loads, *self.plan.loads) if self.rivals else self.plan.loads
        plan = replace(self.plan, loads=own, seconds=seconds, fewest_blocks=3, most_blocks=200)
        racing = [self.contenders[name] for name in dict.fromkeys((*names, *self.rivals))]
        try:
            bench = self.bench(racing, plan)
        except ToolError as problem:
            raise ToolError(f"nothing of {', '.join(names)} could be timed: {problem}") from None
        self.refused.update(bench.failed)
        timed = [name for name in names if name in bench.ns]
        if self.rivals:
            return {name: rivals_score(bench, name) for name in timed}
        (load,) = bench.loads
        return {name: bench.ns[name][load.id] for name in timed}

    def tuned(self, beside: Sequence[Contender], name: str | None, seconds: float) -> Tuned:
        """Choose a memcpy, called as its shape without a name. For who holds the measuring lock."""
        self.contenders |= {each.name: each for each in beside}
        # A CPU's routine is for blocks of every size.
        largest = max(load.most for load in self.plan.loads)
        choice = choose(
            self.trial,
            [each.name for each in beside if not self.rivals or each.rank == "routine"],
            THRESHOLDS[-1] if self.rivals else largest,
            seconds,
            self.prepare,
            self.name_stage,
        )
        return Tuned(name or choice.best, parse_shape(choice.best), choice, self.refused)


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
    """A memcpy that was chosen, as a routine called ``name``."""

    name: str
    shape: Shape
    choice: Choice
    refused: Mapping[str, str]
    """Shape → why it was not timed."""

    @property
    def text(self) -> str:
        return generate(self.shape, self.name)

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


# The row of a CPU in best.toml: a memcpy made part by part, checked in full, then timed beside all
# shipped routines for the four figures. memmove and memset are the fastest of their shipped
# routines and of one made like the winner; the page functions the fastest of those shipped.

_SEARCH, _FIGURES = 0.55, 0.3
"""Of the budget; the rest is the other functions'."""
_BLOCKS = 12
"""Of a bench that is kept."""
_PAGE_BYTES = 4096
_MOST_SEEN = 8
_ROW = re.compile(r"^(?=\[\[row\]\]$)", re.MULTILINE)
_HEAD = "# SPDX-License-Identifier: GPL-2.0-only\n"


@dataclass(frozen=True)
class CpuTuned:
    memcpy: Tuned
    texts: Mapping[str, str]
    """File → text of the routines that were made."""
    benches: Mapping[str, Bench]
    """Function → what was timed of it; memcpy's has the figures."""
    routines: Mapping[str, str]
    """Function → routine."""


def tune_cpu(workshop: Workshop, name: str) -> CpuTuned:
    """Choose this CPU's routines. Whoever calls holds the measuring lock.

    name: of the memcpy that is made. ToolError when it fails its full check, or without a rival."""
    cache_root, seconds = workshop.cache_root, workshop.seconds
    contenders, left_out = gather((), cache_root)
    if "orig" in left_out:
        raise UsageError(left_out["orig"])
    # What an earlier tuning made of the same name is made again.
    beside = [each for each in contenders if each.name != name]
    workshop.rivals = tuple(each.name for each in beside if each.rank == "rival")
    memcpy = workshop.tuned(beside, name, _SEARCH * seconds)
    texts = {f"{name}.S": memcpy.text}
    workshop.name_stage("the four figures")
    figures = judged(_FIGURES * seconds)
    loads = (*figures.loads, *workshop.plan.loads)
    figures = replace(figures, most_blocks=_BLOCKS, loads=loads, copies=workshop.plan.copies)
    racing = [workshop.contender(f"{name}.S", memcpy.text), *beside]
    benches = {"memcpy": workshop.bench(racing, figures)}
    routines = {"memcpy": name}
    spent_s = (1 - _SEARCH - _FIGURES) * seconds / (len(FUNCTIONS) - 1)
    for function in (each for each in FUNCTIONS if each != "memcpy"):
        workshop.name_stage(function)
        shipped = [each for each in list_routines(function=function) if each.name != name]
        shipped = [each for each in shipped if not cpus.missing(each.requires)]
        wrong = failing(shipped, cache_root)
        racing = [routine_contender(r, cache_root) for r in shipped if r.name not in wrong]
        file = f"{function}-{name}.S"
        if (like := shape_like(memcpy.shape, function)) is not None:
            texts[file] = generate(like, name)
            racing.append(workshop.contender(file, texts[file]))
        loads = tuple(loads_of(function))
        plan = Plan(f"tune {function}", loads, spent_s, 3, 30_000, 6, _BLOCKS)
        bench = benches[function] = workshop.bench(racing, plan)
        best = results.best(bench, loads, loads[0].least, loads[-1].most)
        if best is None:
            raise ToolError(f"{bench.plan}: no routine could be timed")
        routines[function] = best.name
        if best.name != name:
            texts.pop(file, None)
    return CpuTuned(memcpy, texts, benches, routines)


def loads_of(function: str) -> list[Load]:
    """What another function than memcpy is timed with."""
    if function in PAGES:
        return [fixed(level, _PAGE_BYTES, "aligned") for level in LEVELS]
    loads = [fixed("L1", size, at) for at in ("aligned", "target") for size in sizes(around=False)]
    ranges = ((1, 16), (1, 64), (1, 256), (64, 512), (256, 4096))
    return loads + [ranged("L1", *each) for each in ranges]


def shape_like(shape: Shape, function: str) -> Shape | None:
    """The shape of memcpy for memmove or memset, with ends that overlap; None where none can be,
    as of a page, which has no ends."""
    registers = "avx512vl" if shape.small_bytes and shape.tail == "mask" else shape.registers
    short, upto = ("mask", 64) if shape.tail == "mask" else (shape.short, shape.short_to)
    loop = WIDTHS[registers] * (4 if registers != "general" else 2)
    try:
        return Shape(function, registers, loop, "overlap", short=short, short_to=upto)
    except UsageError:
        return None


def row_name(cpu: Cpu) -> str:
    """``amd-25-17``: vendor, family and model in one word."""
    vendor = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(cpu.vendor, "cpu")
    return f"{vendor}-{cpu.family}-{cpu.number}"


def figures_of(bench: Bench, routine: str) -> Figures:
    """The four figures of one routine, rounded as a table shows them."""
    goals = {goal.key: goal for goal in results.goals(bench, routine)}
    values = {key: round(goal.value, 3) for key, goal in goals.items()}
    at = goals["worst"].how.rpartition(" at ")[2]
    return Figures.model_validate({"routine": routine, "worst_at": at, **values})


def row_text(row: str, cpu: Cpu, routines: Mapping[str, str], bench: Bench) -> str:
    """The row as best.toml has it, with the four figures of the steadiest routines."""
    lines = [
        "[[row]]",
        f'name = "{row}"',
        f"cpu = {json.dumps(cpu.model or row)}",
        'state = "measured"',
        f'why = "`kdyno lab memcpy tune --cpu`, {bench.created[:10]}, {bench.blocks} blocks"',
        f"vendor = {json.dumps(cpu.vendor)}",
        f"family = {cpu.family}",
        f"models = [[{cpu.number}, {cpu.number}]]",
        *(f'{function} = "{name}"' for function, name in routines.items()),
        f'bench = "{row}"',
    ]
    figures = [figures_of(bench, name) for name in bench.ranked("routine")]
    keys = ("routine", "worst", "worst_at", "ceiling", "glibc", "rivals")
    for each in sorted(figures, key=lambda each: each.worst)[:_MOST_SEEN]:
        lines += ["[[row.seen]]", *(f"{key} = {json.dumps(getattr(each, key))}" for key in keys)]
    return "\n".join(lines) + "\n"


def with_row(table: str, row: str, text: str) -> str:
    """The table with this row: in the place of the one of its name, else at the end."""
    head, *blocks = _ROW.split(table)
    named = re.compile(rf'^name = "{re.escape(row)}"$', re.MULTILINE)
    kept = [text if named.search(block) else block for block in blocks]
    if text not in kept:
        kept.append(text)
    return "\n".join(part.strip("\n") + "\n" for part in (head, *kept) if part.strip())


def files_of(tuned: CpuTuned, row: str, cpu: Cpu, folder: Path) -> dict[Path, str]:
    """Path → text of all that is written for a CPU into a folder like kernel/memcpy: the routine,
    its benches with times to four digits, and the row in best.toml."""
    benches = {}
    for function, bench in tuned.benches.items():
        times = {
            name: {load: [float(f"{ns:.4g}") for ns in row] for load, row in rows.items()}
            for name, rows in bench.ns.items()
        }
        benches[function] = bench.model_copy(update={"ns": times})
    table = folder / FILE
    before = table.read_text("utf-8") if table.is_file() else _HEAD
    files = {folder / file: content for file, content in tuned.texts.items()}
    files[table] = with_row(before, row, row_text(row, cpu, tuned.routines, benches["memcpy"]))
    for function, bench in benches.items():
        text = json.dumps(to_json(bench), separators=(",", ":"))
        files[folder / BENCHES / row / f"{function}.json"] = f"{text}\n"
    return files


def after(share: float, ratio: float) -> float:
    """Time after ÷ time before in the kernel, by Amdahl, where a routine that takes ``share`` of
    the time is replaced by one that takes ``ratio`` of its time on the same copies. It holds as far
    as the replay resembles the kernel: caches as warm, copies as they were recorded."""
    return 1.0 - share * (1.0 - ratio)
