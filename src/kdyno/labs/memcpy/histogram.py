# SPDX-License-Identifier: MIT
"""kdyno lab memcpy histogram: what a kernel copies under cases, an experiment or a command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.verbs.options import Jobs, NoSandbox, Refresh
from kdyno.verbs.output import Json, check_writable, say, write, write_json
from kdyno.verbs.verb import Verb

if TYPE_CHECKING:
    from kdyno.experiment.model import Experiment
    from kdyno.labs.memcpy.counting import Counting
    from kdyno.suites.catalogue import Catalogue


def histogram(
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
    from dataclasses import replace

    from kdyno.errors import ToolError, UsageError
    from kdyno.experiment.overrides import Overrides, apply
    from kdyno.labs.memcpy import tables
    from kdyno.labs.memcpy.copies import render_distribution, render_trace, to_json
    from kdyno.labs.memcpy.counting import (
        MOST_LISTED,
        call_site,
        count,
        counting_experiment,
        distribution_of,
        ready,
    )
    from kdyno.labs.profile.symbols import symbols_of
    from kdyno.measure.execution import Listener, Options
    from kdyno.paths import cache_root
    from kdyno.report.show import terminal
    from kdyno.verbs.watching import Building

    check_writable(json)
    if output not in (None, "-") and Path(output).suffix not in (".json", ".svg"):
        raise UsageError(f"-o {output}: its name must end in .json or .svg, or be -")
    check_writable(output, "-o")
    check_writable(None if trace is None else str(trace), "--trace")
    if copies > MOST_LISTED:
        raise UsageError(f"--copies {copies}: at most {MOST_LISTED} are kept")
    experiment, suites, text = _workload(tuple(workload or ()), tuple(case or ()), source)
    experiment = apply(Overrides(seconds=seconds), experiment)
    if operations is not None:
        uses = tuple(replace(use, operations=operations) for use in experiment.suites)
        experiment = replace(experiment, suites=uses)
    watch = Building()
    listener = Listener(watch.fetching, watch.building, told=say)
    options = Options(cache_root(), Path(), jobs=jobs, refresh=refresh, listener=listener)
    try:
        bench = ready(counting_experiment(experiment, variant), suites, options)
    finally:
        watch.end()
    # The harness calibrates and warms up as well; fixed work takes as long as it takes.
    estimate_s = 1.3 * sum(job.seconds for job in bench.runnable if job.seconds)
    if estimate_s > 2:
        say(f"counting for about {estimate_s:.0f} s")
    counting = count(
        bench,
        copies if trace is not None else 0,
        lambda name, number, of: say(f"counting: {name} ({number} of {of})"),
    )
    counted = counting.counted
    if not counted.calls:
        raise ToolError("the kernel counted no copies: did no case run?")
    symbols = symbols_of(counting.image.kernel)
    text = f"{text}, Linux {counting.image.version}"
    found = distribution_of(
        counted, text, lambda address: call_site(symbols, address, offsets=offsets)
    )
    notes = _notes(counting, traced=trace is not None)
    if output is not None:
        svg = output.endswith(".svg")
        write(tables.sizes_chart(found) if svg else render_distribution(found), output)
    if trace is not None:
        order, packed = (copy for _, copy in counted.order), trace.suffix == ".gz"
        write(render_trace(order, f"{text}\n{notes[-1]}", packed=packed), str(trace))
    if json is not None:
        value = to_json(found)
        value["cases"], value["failed"] = list(counting.cases), list(counting.failed)
        value["lost"], value["oversize"] = counted.lost, counted.oversize
        value["calls"], value["bytes"] = found.calls, found.bytes
        write_json(value, json)
    if "-" not in (json, output):
        terminal.show(
            lambda screen: tables.copies(found, notes, top, ascii_only=not screen.unicode)
        )
    return 0


def _workload(
    words: tuple[str, ...], cases: tuple[str, ...], source: str
) -> tuple[Experiment, Catalogue, str]:
    """(the experiment, the suites, what is counted in words)."""
    from kdyno.errors import UsageError
    from kdyno.experiment.overrides import Overrides, apply
    from kdyno.labs.memcpy.counting import of_cases, of_command
    from kdyno.suites.catalogue import load as load_suites
    from kdyno.verbs.options import load

    if len(words) == 1 and words[0].endswith(".toml"):
        experiment, suites = load(Path(words[0]))
        experiment = apply(Overrides(cases=cases), experiment)
        return experiment, suites, experiment.name
    suites = load_suites()
    if words:
        if cases:
            raise UsageError("--case and a command exclude each other: count one after the other")
        return of_command(words, Path.cwd(), suites, source), suites, " ".join(words)
    if not cases:
        raise UsageError(
            "which workload? For example: kdyno lab memcpy histogram --case unixbench/pipe, or "
            "kdyno lab memcpy histogram -- tar cf /dev/null /usr/include"
        )
    return of_cases(cases, suites, source), suites, ", ".join(cases)


def _notes(counting: Counting, *, traced: bool) -> list[str]:
    """What is not in the counts; the last one, of a trace, says how much of the copies it has."""
    counted = counting.counted
    notes = [f"did not run: {why}" for why in counting.failed]
    if counted.lost:
        share = 100 * counted.lost / (counted.total + counted.lost)
        notes.append(f"{counted.lost} copies ({share:.2g} %) found the table full: not in here")
    if counted.oversize:
        notes.append(f"{counted.oversize} copies of 32 MiB or more, or from outside: not in here")
    notes.append(
        "Counted are calls of memcpy; copies that the compiler wrote out, memmove and memset are "
        "not in here."
    )
    if traced:
        kept, total = len(counted.order), counted.total
        cut = f"the trace is cut: the first {kept} copies of {total}"
        notes.append(cut if kept < total else f"the trace is whole: {kept} copies")
    return notes


VERBS = (
    Verb(
        "histogram",
        histogram,
        (
            "kdyno lab memcpy histogram --case unixbench/pipe --case 'unixbench/fscopy-*'",
            "kdyno lab memcpy histogram mine.toml -o copies.json --trace copies.gz",
            "kdyno lab memcpy histogram --json - -- tar cf /dev/null /usr/include",
        ),
    ),
)
