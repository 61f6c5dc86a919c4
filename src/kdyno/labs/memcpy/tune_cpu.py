# SPDX-License-Identifier: MIT
"""The row of this CPU in best.toml: a memcpy made part by part, the other functions chosen.

The winner is checked in full, then timed beside all shipped routines for the four figures. memmove
and memset are the fastest of their shipped routines and of one made like the winner; the page
functions the fastest of those shipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import BEST
from kdyno.kernels import cpu as cpus
from kdyno.kernels.cpu import Cpu
from kdyno.kernels.routines.checking import routine_contender
from kdyno.kernels.routines.routine import BENCHES, FILE, FUNCTIONS, PAGES, Figures, list_routines
from kdyno.labs.memcpy import results
from kdyno.labs.memcpy.copies import Distribution
from kdyno.labs.memcpy.loads import (
    LEVELS,
    Load,
    Material,
    Plan,
    fixed,
    judged,
    ranged,
    sizes,
    with_copies,
)
from kdyno.labs.memcpy.results import Bench, parse_bench, to_json
from kdyno.labs.memcpy.search import Clock, Space, Tuned, Workshop, rivals_score, tuned
from kdyno.labs.memcpy.shape import WIDTHS, Shape, generate
from kdyno.labs.memcpy.timing import checked, gather

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
    """What was chosen for this CPU."""

    memcpy: Tuned
    texts: Mapping[str, str]
    """File → text of the routines that were made."""
    benches: Mapping[str, Bench]
    """Function → what was timed of it; memcpy's has the figures."""
    routines: Mapping[str, str]
    """Function → routine."""

    @property
    def goals(self) -> list[results.Goal]:
        return results.goals(self.benches["memcpy"], self.memcpy.name)


def tune_cpu(
    name: str,
    copies: Distribution,
    *,
    tree: Path,
    cache_root: Path,
    core: int,
    seed: int,
    seconds: float,
    tell: Callable[[str, float | None], None],
) -> CpuTuned:
    """Choose this CPU's routines. Whoever calls holds the measuring lock.

    name: of the memcpy that is made. ToolError when it fails its full check, or without a rival.
    """
    material = with_copies(Plan("tune", (), 0.0, 3, 30_000), copies)
    check = checked(cache_root)
    clock = Clock(tell, seconds)
    with whole.scratch("tune") as folder:
        workshop = Workshop(folder, cache_root, core, clock)
        field = gather((), tree, cache_root, check)
        # What an earlier tuning made of the same name is made again.
        beside = [each for each in field.contenders if each.name != name]
        workshop.contenders |= {each.name: each for each in beside}
        rivals = [each.name for each in beside if each.rank == "rival"]
        memcpy = tuned(
            workshop,
            Space(),
            workshop.trial(material, rivals_score, rivals),
            [each.name for each in beside if each.rank == "routine"],
            name=name,
            seconds=_SEARCH * seconds,
            seed=seed,
            left_out=field.left_out,
        )
        texts = {f"{name}.S": memcpy.text}
        clock.stage("the four figures")
        plan = replace(judged(_FIGURES * seconds), most_blocks=_BLOCKS)
        racing = [workshop.made(f"{name}.S", memcpy.text), *beside]
        benches = {"memcpy": workshop.bench(racing, with_copies(plan, copies), seed + 1)}
        routines = {"memcpy": name}
        spent_s = (1 - _SEARCH - _FIGURES) * seconds / (len(FUNCTIONS) - 1)
        for function in FUNCTIONS:
            if function == "memcpy":
                continue
            clock.stage(function)
            shipped = [each for each in list_routines(function=function) if each.name != name]
            shipped = [each for each in shipped if not cpus.missing(each.requires)]
            wrong = check(shipped)
            racing = [routine_contender(r, cache_root) for r in shipped if r.name not in wrong]
            file = f"{function}-{name}.S"
            if (like := shape_like(memcpy.shape, function)) is not None:
                texts[file] = generate(like, name)
                racing.append(workshop.made(file, texts[file]))
            loads = tuple(loads_of(function))
            plan = Plan(f"tune {function}", loads, spent_s, 3, 30_000, 6, _BLOCKS)
            bench = benches[function] = workshop.bench(racing, Material(plan), seed + 1)
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


def row_name(cpu: Cpu) -> str:
    """``amd-25-17``: vendor, family and model in one word."""
    vendor = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(cpu.vendor, "cpu")
    return f"{vendor}-{cpu.family}-{cpu.number}"


def routine_name(row: str) -> str:
    return f"{BEST}-{row}"


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
    for each in sorted(figures, key=lambda each: each.worst)[:_MOST_SEEN]:
        lines.append("[[row.seen]]")
        for key in ("routine", "worst", "worst_at", "ceiling", "glibc", "rivals"):
            lines.append(f"{key} = {json.dumps(getattr(each, key))}")
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
    its benches, and the row in best.toml."""
    benches = {function: kept(bench) for function, bench in tuned.benches.items()}
    bench = parse_bench(benches["memcpy"].encode(), "memcpy.json")
    table = folder / FILE
    before = table.read_text("utf-8") if table.is_file() else _HEAD
    files = {folder / file: content for file, content in tuned.texts.items()}
    files[table] = with_row(before, row, row_text(row, cpu, tuned.routines, bench))
    for function, content in benches.items():
        files[folder / BENCHES / row / f"{function}.json"] = content
    return files


def kept(bench: Bench) -> str:
    """A bench as the project keeps it: one line a contender, times to four digits."""
    value = to_json(bench)
    times = {
        name: {load: [float(f"{ns:.4g}") for ns in row] for load, row in rows.items()}
        for name, rows in value.pop("ns").items()
    }
    head = json.dumps(value, separators=(",", ":"))[:-1]
    lines = [
        f"{json.dumps(name)}:{json.dumps(of, separators=(',', ':'))}" for name, of in times.items()
    ]
    return f'{head},\n"ns":{{\n' + ",\n".join(lines) + "\n}}\n"
