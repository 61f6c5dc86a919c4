# SPDX-License-Identifier: MIT
"""kdyno memcpy bench."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.verbs.options import NoSandbox, NoWait, Runs, stored_run, where
from kdyno.verbs.output import Json, check_writable, say, show, write, write_json

if TYPE_CHECKING:
    from kdyno.labs.memcpy.time.bench import Material
    from kdyno.labs.memcpy.time.loads import Plan
    from kdyno.labs.memcpy.time.results import Bench

NAME = "bench"
EXAMPLES = (
    "Examples: kdyno memcpy bench --quick | "
    "kdyno memcpy bench --paper -o paper.svg | "
    "kdyno memcpy bench avx2 mine.S --distribution copies.json -o bench.html | "
    "kdyno memcpy bench --from bench.json --csv - | kdyno memcpy bench --quick --into last"
)

Routines = Annotated[
    list[str] | None,
    typer.Argument(metavar="ROUTINE", help="Names or FILE.S; default: all."),
]
Tree = Annotated[
    Path | None,
    typer.Option(
        "--tree", metavar="DIR", help="Kernel source for memcpy_orig; default: one in the cache."
    ),
]
BenchSeed = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="Seed of orders, places and copies.")
]
DistributionFile = Annotated[
    Path | None,
    typer.Option("--distribution", metavar="FILE", help="Replay what a kernel copied (JSON)."),
]
TraceFile = Annotated[
    Path | None,
    typer.Option("--trace", metavar="FILE", help="Replay copies in their recorded order."),
]
OUTPUTS = (".html", ".svg", ".png")


def verb(
    routine: Routines = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first impression, in less than a minute.")
    ] = False,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper", help="The published comparison: 128 to 2048 bytes, 5,000,000 calls."
        ),
    ] = False,
    calls: Annotated[
        int | None,
        typer.Option("--calls", metavar="N", min=1000, help="Calls of each size with --paper."),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", metavar="MINUTES", min=0.05, help="Minutes of timing."),
    ] = None,
    distribution: DistributionFile = None,
    trace: TraceFile = None,
    tree: Tree = None,
    seed: BenchSeed = 1,
    given: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Time nothing: show an earlier --json."),
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="The ratios that a good routine is judged by.")
    ] = False,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Every figure as CSV; - is stdout.")
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Curves: .html, .svg or .png."),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="RUN", help="Keep it in this run; its report shows it."),
    ] = None,
    runs: Runs = None,
    no_wait: NoWait = False,
    no_sandbox: NoSandbox = False,
    json: Json = None,
) -> int:
    """Time memory routines. By size, alignment and cache level, with drawn and recorded copies."""
    from kdyno import sandbox
    from kdyno.errors import UsageError

    if "-" in (json,) and csv == "-":
        raise UsageError("--json - and --csv - both want stdout")
    if quick and paper:
        raise UsageError("--quick and --paper exclude each other")
    if calls is not None and not paper:
        raise UsageError("--calls goes with --paper")
    if output is not None and Path(output).suffix not in OUTPUTS:
        raise UsageError(f"-o {output}: its name must end in {', '.join(OUTPUTS)}")
    for file, option in ((json, "--json"), (csv, "--csv"), (output, "-o")):
        check_writable(file, option)
    if given is None:
        sandbox.require(not no_sandbox)
    kept = _run(into, runs) if into is not None else None
    if given is not None:
        from kdyno.labs.memcpy.time.results import read_bench

        found = read_bench(given)
    else:
        plan = _plan(quick, paper, calls, minutes, figures)
        material = _material(plan, distribution, trace)
        found = timed(routine or [], material, tree, seed, wait=not no_wait)
    if kept is not None:
        _keep(found, kept)
    _give(found, json, csv, output, figures)
    return 0


def _run(text: str, runs: Path | None) -> Path:
    """The run's folder; what is not a run is refused before anything is timed."""
    run = stored_run(text, runs)
    run.manifest()
    return run.path


def _keep(found: Bench, path: Path) -> None:
    import json

    from kdyno.labs.memcpy.time.results import FILE, FOLDER, to_json
    from kdyno.store.run import write_run

    with write_run(path) as writer:
        writer.save_file(FILE, json.dumps(to_json(found)).encode(), FOLDER)
    say(f"kept in {path.name}{where(path.parent)}; `kdyno report` of that run shows it")


def _plan(
    quick: bool, paper: bool, calls: int | None, minutes: float | None, figures: bool
) -> Plan:
    from dataclasses import replace

    from kdyno.labs.memcpy.time import loads

    plan = loads.quick() if quick else loads.full()
    if figures and not quick:
        plan = loads.judged()
    if paper:
        plan = loads.paper(calls or loads.PAPER_CALLS)
    return plan if minutes is None else replace(plan, seconds=60.0 * minutes, most_blocks=1000)


def _material(plan: Plan, distribution: Path | None, trace: Path | None) -> Material:
    """The plan with what is to be replayed; files are read, and refused, before anything slow."""
    from kdyno.labs.memcpy.count.distribution import read_distribution, shipped_distribution
    from kdyno.labs.memcpy.count.trace import read_trace
    from kdyno.labs.memcpy.time.bench import with_copies

    copies = read_distribution(distribution) if distribution is not None else None
    if copies is None and not plan.calls:
        copies = shipped_distribution()
    return with_copies(plan, copies, read_trace(trace) if trace is not None else ())


def timed(names: list[str], material: Material, tree: Path | None, seed: int, wait: bool) -> Bench:
    """Gather, check and time; progress on stderr."""
    from kdyno.labs.memcpy.time.bench import Progress, measure
    from kdyno.labs.memcpy.time.field import checked, gather, require_some, tree_at_hand
    from kdyno.machines.cpus import measuring, place
    from kdyno.paths import cache_root
    from kdyno.report.progress import duration
    from kdyno.verbs.output import Line

    cache = cache_root()
    tree = tree if tree is not None else tree_at_hand(cache)
    line = Line()

    def tell(step: Progress) -> None:
        left = f", about {duration(step.left_s)} left" if step.left_s is not None else ""
        line.show(f"timing, block {step.block + 1}, {100 * step.part:.0f} %{left}")

    line.show("checking that the routines copy correctly", force=True)
    try:
        field = gather(names, tree, cache, checked, material.plan.only)
        require_some(field)
        (cpu,) = place(1).guest
        with measuring("this bench", wait=wait, tell=say):
            return measure(
                field.contenders,
                material,
                cache_root=cache,
                cpu=cpu,
                seed=seed,
                left_out=field.left_out,
                tell=tell,
            )
    finally:
        line.end()


def _give(
    found: Bench, json: str | None, csv: str | None, output: str | None, figures: bool
) -> None:
    from kdyno.labs.memcpy.time import tables
    from kdyno.labs.memcpy.time.results import to_json

    if json is not None:
        write_json(to_json(found), json)
    if csv is not None:
        write(tables.to_csv(found), csv)
    if output is not None:
        write(drawing(found, Path(output).suffix), output)
        say(f"written: {output}")
    if "-" in (json, csv):
        return
    if figures:
        show(tables.figures_text(found), end="")
    else:
        tables.show(found)


def drawing(found: Bench, suffix: str) -> str | bytes:
    """The curves as a page or a picture."""
    if suffix == ".html":
        from kdyno.labs.memcpy.time.page import page

        return page(found)
    from kdyno.labs.memcpy.time.curves import picture
    from kdyno.report.charts.vega import png

    svg = picture(found)
    return svg if suffix == ".svg" else png(svg)
