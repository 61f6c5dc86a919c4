# SPDX-License-Identifier: MIT
"""kdyno memcpy histogram."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.verbs.options import Jobs, NoSandbox, Refresh
from kdyno.verbs.output import Json, check_writable, say, write, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdyno.experiment.model import Experiment
    from kdyno.labs.memcpy.count.counting import Counting
    from kdyno.suites.catalogue import Suite

NAME = "histogram"
EXAMPLES = (
    "Examples: kdyno memcpy histogram --case unixbench/pipe --case 'unixbench/fscopy-*' | "
    "kdyno memcpy histogram experiments/simd-memcpy.toml -o copies.json --trace copies.gz | "
    "kdyno memcpy histogram --json - -- tar cf /dev/null /usr/include"
)


def verb(
    workload: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="EXPERIMENT | -- COMMAND",
            help="An experiment file (ends in .toml): its baseline and its cases; or any command.",
        ),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case",
            metavar="SUITE/CASE",
            help="Count while this case runs; patterns allowed, may be repeated.",
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option("--variant", metavar="NAME", help="This variant instead of the baseline."),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="SECONDS", min=0.05, help="Seconds for each case.")
    ] = 0.5,
    operations: Annotated[
        int | None,
        typer.Option(
            "--operations", metavar="N", min=1, help="This many operations of each case instead."
        ),
    ] = None,
    source: Annotated[
        str,
        typer.Option("--source", metavar="SOURCE", help="Kernel source, as in an experiment file."),
    ] = "debian:linux-source-7.3",
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="The distribution: .json or .svg."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="The first copies in their order; .gz packs."),
    ] = None,
    copies: Annotated[
        int, typer.Option("--copies", min=1, metavar="N", help="How many copies go to --trace.")
    ] = 100_000,
    top: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Call sites to show.")] = 20,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="List the calls within one function separately.")
    ] = False,
    jobs: Jobs = None,
    refresh: Refresh = False,
    no_sandbox: NoSandbox = False,
    json: Json = None,
) -> int:
    """Count what a kernel copies with memcpy. Call sites, sizes and alignments of a workload."""
    from kdyno.errors import UsageError
    from kdyno.labs.memcpy.count.counting import Options, build_counting, count, counting_experiment
    from kdyno.labs.memcpy.count.dump import MOST_LISTED
    from kdyno.paths import cache_root
    from kdyno.verbs.watching import Building

    _check_outputs(json, output, trace)
    if copies > MOST_LISTED:
        raise UsageError(f"--copies {copies}: at most {MOST_LISTED} are kept")
    asked, suites, what = _asked(
        tuple(workload or ()), tuple(case or ()), seconds, operations, source
    )
    watch = Building()
    options = Options(
        cache=cache_root(),
        sandboxed=not no_sandbox,
        jobs=jobs,
        refresh=refresh,
        listed=copies if trace is not None else 0,
        fetching=watch.fetching,
        building=watch.building,
        told=say,
        began=lambda name, number, of: say(f"counting: {name} ({number} of {of})"),
    )
    try:
        bench = build_counting(counting_experiment(asked, variant), suites, options)
    finally:
        watch.end()
    _say_how_long([job.seconds for job in bench.runnable])
    done = count(bench, options)
    _give(done, f"{what}, Linux {done.image.version}", json, output, trace, top, offsets)
    return 0


def _check_outputs(json: str | None, output: str | None, trace: Path | None) -> None:
    from kdyno.errors import UsageError

    check_writable(json)
    if output is not None:
        if output != "-" and Path(output).suffix not in (".json", ".svg"):
            raise UsageError(f"-o {output}: its name must end in .json or .svg, or be -")
        check_writable(output, "-o")
    if trace is not None:
        check_writable(str(trace), "--trace")


def _say_how_long(seconds: list[float | None]) -> None:
    # The harness calibrates and warms up as well; fixed work takes as long as it takes.
    known = 1.3 * sum(it for it in seconds if it)
    if known > 2:
        say(f"counting for about {known:.0f} s")


def _asked(
    workload: tuple[str, ...],
    cases: tuple[str, ...],
    seconds: float,
    operations: int | None,
    source: str,
) -> tuple[Experiment, Mapping[str, Suite], str]:
    """(the experiment, the suites, what is counted in words)."""
    from dataclasses import replace

    from kdyno.errors import UsageError
    from kdyno.experiment.overrides import Overrides, apply
    from kdyno.labs.memcpy.count import workload as stock
    from kdyno.suites.catalogue import load as load_suites
    from kdyno.verbs.options import load

    if len(workload) == 1 and workload[0].endswith(".toml"):
        asked, suites = load(Path(workload[0]))
        asked = apply(Overrides(cases=cases), asked)
        what = asked.name
    elif workload:
        if cases:
            raise UsageError("--case and a command exclude each other: count one after the other")
        suites = load_suites()
        asked = stock.of_command(workload, Path.cwd(), suites, source)
        what = " ".join(workload)
    else:
        if not cases:
            raise UsageError(
                "which workload? For example: kdyno memcpy histogram --case unixbench/pipe, or "
                "kdyno memcpy histogram -- tar cf /dev/null /usr/include"
            )
        suites = load_suites()
        asked = stock.of_cases(cases, suites, source)
        what = ", ".join(cases)
    asked = apply(Overrides(seconds=seconds), asked)
    if operations is not None:
        uses = tuple(replace(use, operations=operations) for use in asked.suites)
        asked = replace(asked, suites=uses)
    return asked, suites, what


def _give(
    done: Counting,
    source: str,
    json: str | None,
    output: str | None,
    trace: Path | None,
    top: int,
    offsets: bool,
) -> None:
    from functools import partial

    from kdyno.errors import ToolError
    from kdyno.labs.memcpy.count.distribution import render_distribution, to_json
    from kdyno.labs.memcpy.count.dump import distribution_of, function_at, site_at
    from kdyno.labs.memcpy.count.tables import parts
    from kdyno.labs.memcpy.count.trace import Copy, write_trace
    from kdyno.labs.profile.symbols import symbols_of
    from kdyno.report.show import terminal

    counted = done.counted
    if not counted.calls:
        raise ToolError("the kernel counted no copies: did no case run?")
    symbols = symbols_of(done.image.kernel)
    named = partial(site_at if offsets else function_at, symbols)
    found = distribution_of(counted, source, named)
    notes = [*_notes(done), *([_cut(done)] if trace is not None else [])]
    if output is not None and output.endswith(".svg"):
        from kdyno.labs.memcpy.count.tables import chart

        write(chart(found), output)
    elif output is not None:
        write(render_distribution(found), output)
    if trace is not None:
        order: list[Copy] = [copy for _, copy in counted.order]
        write_trace(order, trace, f"{source}\n{_cut(done)}")
    if json is not None:
        value = to_json(found)
        value["cases"], value["failed"] = list(done.cases), list(done.failed)
        value["lost"], value["oversize"] = counted.lost, counted.oversize
        value["calls"], value["bytes"] = found.calls, found.bytes
        write_json(value, json)
    if json != "-" and output != "-":
        terminal.show(lambda it: parts(found, notes, top, ascii_only=not it.unicode))


def _notes(done: Counting) -> list[str]:
    """What is not in the counts."""
    counted = done.counted
    notes = [f"did not run: {why}" for why in done.failed]
    if counted.lost:
        share = 100 * counted.lost / (counted.total + counted.lost)
        notes.append(f"{counted.lost} copies ({share:.2g} %) found the table full: not in here")
    if counted.oversize:
        notes.append(f"{counted.oversize} copies of 32 MiB or more, or from outside: not in here")
    notes.append(
        "Counted are calls of memcpy; copies that the compiler wrote out, memmove and memset are "
        "not in here."
    )
    return notes


def _cut(done: Counting) -> str:
    kept, total = len(done.counted.order), done.counted.total
    if kept < total:
        return f"the trace is cut: the first {kept} copies of {total}"
    return f"the trace is whole: {kept} copies"
