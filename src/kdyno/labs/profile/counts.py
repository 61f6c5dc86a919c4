# SPDX-License-Identifier: MIT
"""Instructions of every function, exactly: one boot of each kernel with a plugin in QEMU."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from kdyno import sandbox, whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment
from kdyno.labs.profile.symbols import Symbols, symbols_of
from kdyno.machines.cpus import measuring
from kdyno.machines.kinds import KINDS
from kdyno.machines.plugin import COUNTS
from kdyno.machines.session import run_to_end
from kdyno.measure.bench import Bench, plan_of
from kdyno.measure.benches import bench_of, check_machine, tree_of
from kdyno.measure.builder import check
from kdyno.measure.counted_work import with_counted_work
from kdyno.measure.execution import Options, built_of
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.record import Sample
from kdyno.suites.score import steady

Where = Literal["kernel", "user"]
Function = tuple[Where, str]
Part = Mapping[int, int]
"""Address → how often the instruction there was executed, in one timed part of a case."""

_LINE = re.compile(rb"([0-9a-f]{1,16}) ([0-9]{1,18})")
_LARGEST_BYTES = 256 << 20


@dataclass(frozen=True)
class CaseCounts:
    """One case in one kernel: instructions of one operation, by function."""

    suite: str
    case: str
    variant: str
    operations: int
    """Of the part that was counted, see ``suites.score.steady``."""
    functions: Mapping[Function, float]

    @property
    def total(self) -> float:
        return sum(self.functions.values())


def require(experiment: Experiment) -> None:
    """UsageError where nobody can count by address."""
    kind = experiment.machine.kind
    if why_not := KINDS[kind].can.count:
        raise UsageError(f"--method count and [machine] kind = {kind!r}: {why_not}")
    if experiment.measure.metric != "instructions":
        raise UsageError('--method count goes with [measure] metric = "instructions"')
    check_machine(experiment)


def count(experiment: Experiment, suites: Catalogue, options: Options) -> list[CaseCounts]:
    """Every case in every kernel, in the order of the cases, the baseline first."""
    require(experiment)
    if options.sandboxed:
        sandbox.require()
    alone = replace(experiment, measure=replace(experiment.measure, calibrate=False))
    recipes = check(alone, options.cache, options.listener.fetching, refresh=options.refresh)
    built = built_of(alone, recipes, options)
    told = options.listener.told
    images, tree = built.images, tree_of(alone, recipes)
    bench = bench_of(alone, suites, images, tree, options.cache, options.sandboxed, told)
    everything = os.sched_getaffinity(0)
    with measuring("a profile", wait=options.wait, tell=told):
        os.sched_setaffinity(0, bench.placement.own)
        try:
            bench.machine.probe(told)
            bench = with_counted_work(bench, {}, told)
            found = [each for name in bench.variants for each in _of_variant(bench, name)]
        finally:
            os.sched_setaffinity(0, everything)
    order = {(job.suite, job.case): at for at, job in enumerate(bench.runnable)}
    first = experiment.baseline
    return sorted(found, key=lambda it: (order[it.suite, it.case], it.variant != first))


def _of_variant(bench: Bench, name: str) -> Iterator[CaseCounts]:
    with whole.scratch("profile") as scratch:
        file = scratch / COUNTS
        plan = replace(plan_of(bench, name), left=((COUNTS, file),))
        outcome = run_to_end(bench.machine.open(plan), bench.machine.clock)
        if outcome.host.status != "ok":
            raise ToolError(f"{name}: {outcome.host.reason}: {outcome.host.text}")
        parts = read_parts(file)
    programs = bench.machine.programs(name)
    kernel, guest = symbols_of(programs.kernel), symbols_of(programs.guest)
    at = 0
    for number, job in enumerate(bench.runnable):
        said = outcome.transcript.result(number)
        if not isinstance(said, Sample):
            raise ToolError(f"{name}: {job.suite}/{job.case} gave no result")
        own = parts[at : at + len(said.reps)]
        at += len(said.reps)
        operations, part = steadiest(said.reps, own)
        functions = by_function(part, kernel, guest)
        each = {function: total / operations for function, total in functions.items()}
        yield CaseCounts(job.suite, job.case, name, int(operations), each)


def steadiest(reps: Sequence[tuple[float, float]], parts: Sequence[Part]) -> tuple[float, Part]:
    """(operations, part) of the repetition that is the score of the case."""
    if len(reps) != len(parts):
        raise ToolError(f"QEMU saw {len(parts)} parts of a case that had {len(reps)}")
    chosen = steady(reps)
    return reps[chosen][0], parts[chosen]


def by_function(part: Part, kernel: Symbols, guest: Symbols) -> Counter[Function]:
    """Sums over addresses. What no symbol covers is of "?", in the half it lies in."""
    found: Counter[Function] = Counter()
    lowest = kernel.starts[0]
    for address, times in part.items():
        where: Where = "kernel" if address >= lowest else "user"
        symbols = kernel if where == "kernel" else guest
        found[where, symbols.name(address) or "?"] += times
    return found


def read_parts(file: Path) -> list[Part]:
    """What the plugin wrote; ToolError where that is not whole."""
    data = file.read_bytes() if file.is_file() else b""
    if len(data) > _LARGEST_BYTES or not data.endswith(b"end\n"):
        raise ToolError("QEMU's counts are not whole: its plugin did not come to its end")
    parts: list[dict[int, int]] = []
    for line in data.splitlines()[:-1]:
        if line == b"part %d" % len(parts):
            parts.append({})
        elif (match := _LINE.fullmatch(line)) and parts:
            parts[-1][int(match[1], 16)] = int(match[2])
        else:
            raise ToolError(f"QEMU's counts are not to be read: {line[:60]!r}")
    return list(parts)
