# SPDX-License-Identifier: MIT
"""The files of a CPU's tuning: the routine, its benches, and the row in best.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from kdyno.experiment.layer import BEST
from kdyno.kernels.cpu import Cpu
from kdyno.kernels.routines.best import BENCHES, FILE, Figures
from kdyno.labs.memcpy.time import ratios
from kdyno.labs.memcpy.time.results import Bench, parse_bench, to_json
from kdyno.labs.memcpy.tune.for_cpu import CpuTuned

_MOST_SEEN = 8
_ROW = re.compile(r"^(?=\[\[row\]\]$)", re.MULTILINE)


def row_name(cpu: Cpu) -> str:
    """``amd-25-17``: vendor, family and model in one word."""
    vendor = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(cpu.vendor, "cpu")
    return f"{vendor}-{cpu.family}-{cpu.number}"


def routine_name(row: str) -> str:
    return f"{BEST}-{row}"


def figures_of(bench: Bench, routine: str) -> Figures:
    """The four figures of one routine, rounded as a table shows them."""
    by_name = {goal.key: goal for goal in ratios.goals(bench, routine)}
    values = {key: round(goal.value, 3) for key, goal in by_name.items()}
    at = by_name["worst"].how.rpartition(" at ")[2]
    return Figures.model_validate({"routine": routine, "worst_at": at, **values})


def row_text(row: str, cpu: Cpu, routines: Mapping[str, str], bench: Bench) -> str:
    """The row as best.toml has it, with the four figures of the steadiest routines."""
    lines = [
        "[[row]]",
        f'name = "{row}"',
        f"cpu = {json.dumps(cpu.model or row)}",
        'state = "measured"',
        f'why = "`kdyno memcpy tune --cpu`, {bench.created[:10]}, {bench.blocks} blocks"',
        f"vendor = {json.dumps(cpu.vendor)}",
        f"family = {cpu.family}",
        f"models = [[{cpu.number}, {cpu.number}]]",
        *(f'{function} = "{name}"' for function, name in routines.items()),
        f'bench = "{row}"',
    ]
    seen = [figures_of(bench, it.name) for it in bench.timed if it.rank == "routine"]
    for figures in sorted(seen, key=lambda it: it.worst)[:_MOST_SEEN]:
        lines += [
            "[[row.seen]]",
            f'routine = "{figures.routine}"',
            f"worst = {figures.worst}",
            f'worst_at = "{figures.worst_at}"',
            f"ceiling = {figures.ceiling}",
            f"glibc = {figures.glibc}",
            f"rivals = {figures.rivals}",
        ]
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
    """Path → text of all that is written for a CPU into a folder like kernel/memcpy."""
    benches = {function: kept(bench) for function, bench in tuned.benches.items()}
    bench = parse_bench(benches["memcpy"].encode(), "memcpy.json")
    text = row_text(row, cpu, tuned.routines, bench)
    table = folder / FILE
    before = table.read_text("utf-8") if table.is_file() else _HEAD
    found = {folder / file: content for file, content in tuned.texts.items()}
    found[table] = with_row(before, row, text)
    for function, content in benches.items():
        found[folder / BENCHES / row / f"{function}.json"] = content
    return found


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


_HEAD = "# SPDX-License-Identifier: GPL-2.0-only\n"
