# SPDX-License-Identifier: MIT
"""Instructions of every function, exactly: one boot of each kernel with a plugin in QEMU; and the
counts on a terminal and as JSON: both kernels, what differs, and who calls it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from kdyno import sandbox, whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Experiment
from kdyno.judge.judging import NOTHING, differences, together
from kdyno.labs.profile.report import fold
from kdyno.labs.profile.symbols import Symbols, symbols_of
from kdyno.machines.emulator import COUNTS, FUNCTIONS
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import run_to_end
from kdyno.measure.bench import Bench, bench_of, check_machine, plan_of, tree_of
from kdyno.measure.boot import with_fixed_work
from kdyno.measure.builder import Recipes, changed, check
from kdyno.measure.execution import Options, built_of, session
from kdyno.report import figures, plain
from kdyno.report.show import terminal
from kdyno.report.show.grid import Column, Grid
from kdyno.store.counts import DEEPEST, CaseCounts, Chain, Counted, Function, Where
from kdyno.store.manifest import Manifest
from kdyno.store.verdict import FunctionCounts
from kdyno.suites.catalogue import Catalogue
from kdyno.suites.protocol import Sample
from kdyno.suites.score import steady

METHOD = "count"
_COUNT = re.compile(rb"(@?)([0-9a-f]{1,16}) ([0-9]{1,18})")
_NODE = re.compile(rb"node ([0-9a-f]{1,8}) ([0-9a-f]{1,8}) ([0-9a-f]{1,8})")
_LARGEST_BYTES = 256 << 20
_ENTERS = re.compile(
    r"asm_(?:exc|sysvec|common_interrupt)|ret_from_fork_asm$"
    r"|entry_(?:SYSCALL_64|SYSCALL_compat|SYSENTER_compat|SYSENTER_32|INT80_32|INT80_compat)$"
)
"""Where a processor comes into the kernel: what it did before is no caller."""


@dataclass
class Part:
    addresses: dict[int, int] = field(default_factory=dict)
    """Address → how often the instruction there was executed."""
    nodes: dict[int, int] = field(default_factory=dict)
    """Node of the tree of calls → instructions executed in it."""


@dataclass(frozen=True)
class Trace:
    """What the plugin recorded of one boot."""

    parts: tuple[Part, ...]
    tree: Mapping[int, tuple[int, int]]
    """Node → (its parent, number of its function); 0 is the root."""

    def chain(self, node: int) -> tuple[int, ...]:
        """Numbers of the functions down to the node, the outermost of the last few first."""
        functions: list[int] = []
        while node and len(functions) < DEEPEST:
            node, function = self.tree[node]
            functions.append(function)
        return tuple(reversed(functions))


def require(experiment: Experiment) -> None:
    """UsageError where counting by address is not possible."""
    kind = experiment.machine.kind
    if why_not := KINDS[kind].can.count:
        raise UsageError(f"--method count and [machine] kind = {kind!r}: {why_not}")
    if experiment.measure.metric != "instructions":
        raise UsageError('--method count goes with [measure] metric = "instructions"')
    check_machine(experiment)


def count(
    experiment: Experiment, suites: Catalogue, options: Options, earlier: Manifest | None = None
) -> list[Counted]:
    """Every case in every kernel, the baseline first.

    earlier: of a run whose verdict is to be explained; UsageError where a variant or the emulator
    is not what it was. The work is the run's."""
    require(experiment)
    log = options.listener.notify
    bench = ready(experiment, suites, options, earlier)
    with session(bench, "a profile", options):
        bench = of_run(bench, earlier, log)
        names = sorted(bench.variants, key=lambda name: name != experiment.baseline)
        return [_of_variant(bench, name) for name in names]


def ready(
    experiment: Experiment, suites: Catalogue, options: Options, earlier: Manifest | None = None
) -> Bench:
    """Every kernel that builds, ready to boot, without the baseline's copy. BuildError or ToolError
    where the baseline does not; UsageError where a variant is not the one of ``earlier``."""
    sandbox.require()
    listener, name = options.listener, experiment.baseline
    # Symbols are of the linker's own order, so no other is linked and booted.
    alone = replace(experiment, measure=replace(experiment.measure, calibrate=False, layouts=0))
    recipes = check(alone, options.cache, listener.fetching, refresh=options.refresh)
    if earlier is not None:
        refuse_changed(alone, recipes, earlier)
    built = built_of(alone, recipes, options)
    if name not in built.images:
        raise ToolError(f"{name}: {built.failed.get(name, 'it was not built')}")
    tree = tree_of(alone, recipes)
    return bench_of(alone, suites, built.images, tree, options.cache, listener.notify)


def refuse_changed(experiment: Experiment, recipes: Recipes, earlier: Manifest) -> None:
    """UsageError where a variant is not the run's any more."""
    if (name := changed(experiment, recipes, earlier.images)) is not None:
        raise UsageError(
            f"variant {name!r} is not what it was when the run began (its source, patches, "
            "configuration or compiler changed); a new run has it: `kdyno profile EXPERIMENT`"
        )


def of_run(bench: Bench, earlier: Manifest | None, log: Callable[[str], None]) -> Bench:
    """With the work that the run's verdict is about, or with new work where there is none."""
    if earlier is None:
        return with_fixed_work(bench, (), log)
    was = earlier.machine.emulator if earlier.machine is not None else ""
    now = bench.machine.emulator
    if was and now != was:
        raise UsageError(
            f"the run was counted by {was}, and this is {now}, which counts a little otherwise; "
            "count anew by `kdyno run` and profile that"
        )
    return with_fixed_work(bench, earlier.cases, log)


def _of_variant(bench: Bench, name: str) -> Counted:
    programs = bench.machine.programs(name)
    table = Table(symbols_of(programs.kernel), symbols_of(programs.guest))
    with whole.scratch("profile") as scratch:
        file = scratch / COUNTS
        extra = ((FUNCTIONS, table.lines()),)
        plan = replace(plan_of(bench, name), left=((COUNTS, file),), given=extra)
        outcome = run_to_end(bench.machine.open(plan), bench.machine.clock)
        if outcome.host.status != "ok":
            raise ToolError(f"{name}: {outcome.host.reason}: {outcome.host.text}")
        trace = read_trace(file, len(table.names))
    left = iter(trace.parts)
    cases = []
    for number, job in enumerate(bench.runnable):
        sample = outcome.transcript.result(number)
        if not isinstance(sample, Sample):
            raise ToolError(f"{name}: {job.suite}/{job.case} gave no result")
        operations, part = steadiest(sample.reps, list(islice(left, len(sample.reps))))
        functions, chains = by_function(part.addresses, table), by_chain(part, trace, table)
        case = CaseCounts(
            suite=job.suite,
            case=job.case,
            variant=name,
            operations=operations,
            functions={key: n / operations for key, n in functions.items()},
            chains={key: n / operations for key, n in chains.items()},
            addresses=part.addresses,
        )
        cases.append(case)
    return Counted(name, bench.machine.identity(name), bench.machine.emulator, tuple(cases))


def steadiest(reps: Sequence[tuple[int, int]], parts: Sequence[Part]) -> tuple[int, Part]:
    """(operations, part) of the repetition that is the score of the case."""
    if len(reps) != len(parts):
        raise ToolError(f"QEMU saw {len(parts)} parts of a case that had {len(reps)}")
    chosen = steady(reps)
    return reps[chosen][0], parts[chosen]


@dataclass(frozen=True)
class Table:
    """The functions of a kernel and of the guest program, with the numbers the plugin knows."""

    kernel: Symbols
    guest: Symbols

    @property
    def halves(self) -> tuple[tuple[Where, Symbols], ...]:
        return ("user", self.guest), ("kernel", self.kernel)

    @cached_property
    def names(self) -> tuple[Function, ...]:
        """By number; 0 and 1: what no symbol covers, of a program and of the kernel."""
        names: list[Function] = [(where, "?") for where, _ in self.halves]
        names += [(where, name) for where, symbols in self.halves for name in symbols.names]
        return tuple(dict.fromkeys(names))

    def name(self, address: int) -> Function:
        where: Where = "kernel" if address >= self.kernel.starts[0] else "user"
        symbols = self.kernel if where == "kernel" else self.guest
        return where, symbols.name(address) or "?"

    def lines(self) -> bytes:
        """``ADDRESS NUMBER ENTERS`` by address: where each function begins, and where all end."""
        numbers = {name: at for at, name in enumerate(self.names)}
        starts = {symbols.end: numbers[where, "?"] for where, symbols in self.halves}
        for where, symbols in self.halves:
            for start, name in zip(symbols.starts, symbols.names, strict=True):
                starts[start] = numbers[where, name]
        lines = []
        for start, at in sorted(starts.items()):
            where, name = self.names[at]
            enters = where == "kernel" and _ENTERS.match(name) is not None
            lines.append(b"%x %x %d\n" % (start, at, enters))
        return b"".join(lines)


def by_function(addresses: Mapping[int, int], table: Table) -> Counter[Function]:
    """Sums over addresses. What no symbol covers is of "?", in the half it lies in."""
    sums: Counter[Function] = Counter()
    for address, times in addresses.items():
        sums[table.name(address)] += times
    return sums


def by_chain(part: Part, trace: Trace, table: Table) -> Counter[Chain]:
    """Sums over the nodes of the tree of calls; the same in total as by function."""
    sums: Counter[Chain] = Counter()
    for node, times in part.nodes.items():
        sums[tuple(table.names[at] for at in trace.chain(node)) or (("user", "?"),)] += times
    return sums


def read_trace(file: Path, functions: int) -> Trace:
    """What the plugin wrote; ToolError where that is not whole.

    functions: how many the plugin was given. It is part of a process that a kernel under test
    runs in, so nothing is taken for granted."""
    size_bytes = file.stat().st_size if file.is_file() else 0
    if size_bytes > _LARGEST_BYTES:
        raise ToolError(f"QEMU's counts are {size_bytes >> 20} MB: count fewer cases at once")
    data = file.read_bytes() if size_bytes else b""
    if not data.endswith(b"end\n"):
        raise ToolError("QEMU's counts are not whole: its plugin did not end")
    parts: list[Part] = []
    tree: dict[int, tuple[int, int]] = {0: (0, 0)}
    for line in data.splitlines()[:-1]:
        if line == b"part %d" % len(parts):
            parts.append(Part())
        elif (match := _COUNT.fullmatch(line)) and parts:
            into = parts[-1].nodes if match[1] else parts[-1].addresses
            into[int(match[2], 16)] = int(match[3])
        elif match := _NODE.fullmatch(line):
            node, above, function = (int(number, 16) for number in match.groups())
            # Each below one that is there: so no way up is a circle.
            if node in tree or above not in tree or function >= functions:
                raise ToolError(f"QEMU's counts are not to be read: {line[:60]!r}")
            tree[node] = above, function
        else:
            raise ToolError(f"QEMU's counts are not to be read: {line[:60]!r}")
    if unknown := {node for part in parts for node in part.nodes} - tree.keys():
        raise ToolError(f"QEMU's counts are not to be read: {len(unknown)} calls of nobody")
    return Trace(tuple(parts), tree)


_CHAINS = 3
"""Shown of each function."""
_FRAMES = 6
_NOTE = (
    "note: counted by QEMU, one boot of each kernel: the length of the path, not time. The sum "
    "is without the reading of the clock"
)


def pairs(kernels: Sequence[Counted]) -> Iterator[tuple[CaseCounts, CaseCounts]]:
    """(baseline, variant) of each case and variant; the baseline twice where it is alone."""
    base = {(case.suite, case.case): case for case in kernels[0].cases}
    for counted in kernels[1:] or kernels[:1]:
        for case in counted.cases:
            if (case.suite, case.case) in base:
                yield base[case.suite, case.case], case


def compared(before: CaseCounts, after: CaseCounts) -> str:
    """``unixbench/pipe: mine − stock``, or one kernel alone."""
    against = "" if before is after else f" − {plain.short(before.variant)}"
    return (
        f"{plain.name(after.suite)}/{plain.name(after.case)}: {plain.short(after.variant)}{against}"
    )


def parts(kernels: Sequence[Counted], top: int) -> Iterator[terminal.Part]:
    """A table for each case and variant; of the baseline alone, where nothing is compared."""
    for before, after in pairs(kernels):
        alone = before is after
        yield f"{compared(before, after)}, instructions of an operation"
        rows = differences(before, after)
        if alone:
            rows.sort(key=lambda row: (-row.baseline_value, row.function))
        largest = [row for row in rows if abs(row.more) >= NOTHING][:top]
        listed = rows[: 2 * top] if alone else largest
        if rest := rows[len(listed) :]:
            listed.append(together(rest, figures.count(len(rest), "other function")))
        # As a row of the table, like that of all other functions, which is in no place either.
        sums = FunctionCounts(
            where="others", function="sum", baseline_value=before.total, value=after.total
        )
        listed.append(sums)
        yield Grid(_ALONE if alone else _COLUMNS, listed)
        for more, chain in [] if alone else chains(before, after):
            yield f"  {figures.signed(more)} by {path(chain)}"
        yield ""
    yield _NOTE


def chains(before: CaseCounts, after: CaseCounts) -> list[tuple[float, Chain]]:
    """(difference, chain) of the functions that differ, most of all first; some of each."""
    changes = [
        (after.chains.get(chain, 0.0) - before.chains.get(chain, 0.0), chain)
        for chain in dict.fromkeys((*before.chains, *after.chains))
    ]
    changes = [change for change in changes if abs(change[0]) >= NOTHING and len(change[1]) > 1]
    changes.sort(key=lambda change: (-abs(change[0]), change[1]))
    of_function: Counter[Function] = Counter()
    longest = []
    for more, chain in changes:
        of_function[chain[-1]] += 1
        if of_function[chain[-1]] <= _CHAINS:
            longest.append((more, chain))
    return longest


def path(chain: Chain) -> str:
    """``ksys_write › vfs_write › anon_pipe_write``: the innermost calls."""
    names = [plain.name(function) for _where, function in chain]
    return " › ".join(names if len(names) <= _FRAMES else ["…", *names[-_FRAMES:]])


_COLUMNS = (
    Column("where", lambda row: "" if row.where == "others" else row.where),
    Column("function", lambda row: row.function, "name"),
    Column("baseline", lambda row: row.baseline_value, "number", "{:,.3f}".format),
    Column("variant", lambda row: row.value, "number", "{:,.3f}".format),
    Column("difference", lambda row: row.more, "number", figures.signed),
)
_ALONE = (*_COLUMNS[:2], replace(_COLUMNS[2], head="instructions"))


def as_json(kernels: Sequence[Counted]) -> dict[str, Any]:
    keys = ("suite", "case", "variant", "operations", "total")
    return {
        "schema": 1,
        "baseline": kernels[0].variant,
        "method": METHOD,
        "counts": [
            {
                **{key: getattr(case, key) for key in keys},
                "functions": [
                    {"where": where, "function": name, "instructions": value}
                    for (where, name), value in Counter(case.functions).most_common()
                ],
                "chains": [
                    {"functions": [name for _where, name in chain], "instructions": value}
                    for chain, value in Counter(case.chains).most_common()
                ],
            }
            for counted in kernels
            for case in counted.cases
        ],
    }


def folded(kernels: Sequence[Counted]) -> str:
    """``kernel;case;frame;frame count`` a line: thousandths of an instruction of one operation."""
    return fold(
        ((counted.variant, f"{case.suite}/{case.case}", *(name for _, name in chain)), 1000 * value)
        for counted in kernels
        for case in counted.cases
        for chain, value in case.chains.items()
    )
