# SPDX-License-Identifier: MIT
"""What `kdyno memcpy tune --cpu` does."""

from __future__ import annotations

from pathlib import Path

from kdyno import sandbox
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.cpu import this_cpu
from kdyno.kernels.routines.best import FILE
from kdyno.kernels.routines.routine import routines_folder
from kdyno.labs.memcpy.count.distribution import shipped_distribution
from kdyno.labs.memcpy.time.field import tree_at_hand
from kdyno.labs.memcpy.tune import cpu_tables
from kdyno.labs.memcpy.tune.for_cpu import CpuTuned, tune_cpu
from kdyno.labs.memcpy.tune.row import files_of, routine_name, row_name
from kdyno.labs.memcpy.tune.timing import alone
from kdyno.paths import cache_root
from kdyno.report.show import terminal
from kdyno.verbs.output import check_writable, say, write, write_json


def for_cpu(
    output: Path | None,
    tree: Path | None,
    seed: int,
    minutes: float,
    json: str | None,
    wait: bool,
    sandboxed: bool,
) -> int:
    """Find this CPU's row, write routine, benches and row, and show what was found."""
    sandbox.require(sandboxed)
    here = this_cpu()
    path = output or routines_folder() / f"{routine_name(row_name(here))}.S"
    check_writable(str(path), "-o")
    row = path.stem.removeprefix(routine_name(""))
    tuned = _tuned(path.stem, tree, seed, minutes, wait)
    for file, text in files_of(tuned, row, here, path.parent).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write(text, str(file))
    say(f"written: {path}, its benches and its row, {row}, in {path.parent / FILE}")
    if json is not None:
        write_json(cpu_tables.to_json(tuned, row), json)
    if json != "-":
        terminal.show(lambda _: cpu_tables.parts(tuned))
    return 0


def _tuned(name: str, tree: Path | None, seed: int, minutes: float, wait: bool) -> CpuTuned:
    cache = cache_root()
    copies = shipped_distribution()
    source = tree if tree is not None else tree_at_hand(cache)
    if copies is None:
        raise ToolError("kernel/distributions/unixbench.json is missing: kdyno is not whole")
    if source is None:
        raise UsageError(
            "memcpy_orig, one of the two rivals, is taken from a kernel source: give --tree DIR, "
            "or build any kernel once, for example `kdyno build experiments/simd-memcpy.toml`"
        )
    with alone(wait) as (core, step):
        return tune_cpu(
            name,
            copies,
            tree=source,
            cache_root=cache,
            core=core,
            seed=seed,
            seconds=60.0 * minutes,
            tell=step,
        )
