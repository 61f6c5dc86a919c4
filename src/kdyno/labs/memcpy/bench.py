# SPDX-License-Identifier: MIT
"""kdyno lab memcpy bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.verbs.options import NoSandbox, NoWait, Runs, stored_run, where
from kdyno.verbs.output import Json, Line, check_writable, say, show, write, write_json
from kdyno.verbs.verb import Verb

if TYPE_CHECKING:
    from kdyno.labs.memcpy.loads import Material
    from kdyno.labs.memcpy.results import Bench


Tree = Annotated[
    Path | None,
    typer.Option(
        "--tree", metavar="DIR", help="Kernel source for memcpy_orig; default: one in the cache."
    ),
]
BenchSeed = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="Seed of orders, places and copies.")
]
OUTPUTS = (".html", ".svg", ".png")


def bench_verb(
    routine: Annotated[
        list[str] | None,
        typer.Argument(metavar="ROUTINE", help="Names or FILE.S; default: all."),
    ] = None,
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
    distribution: Annotated[
        Path | None,
        typer.Option("--distribution", metavar="FILE", help="Replay what a kernel copied (JSON)."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Replay copies in their recorded order."),
    ] = None,
    tree: Tree = None,
    seed: BenchSeed = 1,
    earlier: Annotated[
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
    from dataclasses import replace
    from json import dumps

    from kdyno import sandbox
    from kdyno.errors import UsageError
    from kdyno.labs.memcpy import loads, tables
    from kdyno.labs.memcpy.copies import read_distribution, read_trace, shipped_distribution
    from kdyno.labs.memcpy.results import FILE, FOLDER, read_bench, to_json
    from kdyno.store.run import write_run

    if json == csv == "-":
        raise UsageError("--json - and --csv - both want stdout")
    if quick and paper:
        raise UsageError("--quick and --paper exclude each other")
    if calls is not None and not paper:
        raise UsageError("--calls goes with --paper")
    if output is not None and Path(output).suffix not in OUTPUTS:
        raise UsageError(f"-o {output}: its name must end in {', '.join(OUTPUTS)}")
    for file, option in ((json, "--json"), (csv, "--csv"), (output, "-o")):
        check_writable(file, option)
    # What is not a run is refused before anything is timed.
    run = stored_run(into, runs) if into is not None else None
    if run is not None:
        run.manifest()
    if earlier is not None:
        bench = read_bench(earlier)
    else:
        sandbox.require()
        plan = loads.paper(calls or loads.PAPER_CALLS) if paper else loads.full()
        if quick or (figures and not paper):
            plan = loads.quick() if quick else loads.judged()
        if minutes is not None:
            plan = replace(plan, seconds=60.0 * minutes, most_blocks=1000)
        copies = read_distribution(distribution) if distribution is not None else None
        if copies is None and not plan.calls:
            copies = shipped_distribution()
        traced = read_trace(trace) if trace is not None else ()
        material = loads.with_copies(plan, copies, traced)
        bench = _timed(routine or [], material, tree, seed, wait=not no_wait)
    if run is not None:
        with write_run(run.path) as writer:
            writer.save_file(FILE, dumps(to_json(bench)).encode(), FOLDER)
        place = f"{run.path.name}{where(run.path.parent)}"
        say(f"kept in {place}; `kdyno report` of that run shows it")
    if json is not None:
        write_json(to_json(bench), json)
    if csv is not None:
        write(tables.bench_csv(bench), csv)
    if output is not None:
        write(drawing(bench, Path(output).suffix), output)
        say(f"written: {output}")
    if "-" not in (json, csv):
        if figures:
            show(tables.figures_text(bench), end="")
        else:
            tables.show_bench(bench)
    return 0


def _timed(names: list[str], material: Material, tree: Path | None, seed: int, wait: bool) -> Bench:
    """Gather, check and time; progress on stderr."""
    from kdyno.labs.memcpy.timing import Progress, checked, gather, measure, tree_at_hand
    from kdyno.paths import cache_root

    cache = cache_root()
    with alone("bench", wait) as (core, step):
        step("checking that the routines copy correctly", None)
        tree = tree if tree is not None else tree_at_hand(cache)
        field = gather(names, tree, cache, checked(cache), material.plan.only)
        field.require_some()

        def tell(progress: Progress) -> None:
            part = f"block {progress.block + 1}, {100 * progress.part:.0f} %"
            step(f"timing, {part}", progress.left_s)

        return measure(
            field.contenders,
            material,
            cache_root=cache,
            cpu=core,
            seed=seed,
            left_out=field.left_out,
            tell=tell,
        )


@contextmanager
def alone(what: str, wait: bool) -> Iterator[tuple[int, Callable[[str, float | None], None]]]:
    """The machine for this bench or tuning: the CPU to time on, and a line of progress, given what
    is being done and the seconds left."""
    from kdyno.machines.cpus import measuring, place
    from kdyno.report.progress import duration

    line = Line()

    def step(text: str, left_s: float | None) -> None:
        line.show(text + (f", about {duration(left_s)} left" if left_s is not None else ""))

    (core,) = place(1).guest
    try:
        with measuring(f"this {what}", wait=wait, tell=say):
            yield core, step
    finally:
        line.end()


def drawing(bench: Bench, suffix: str) -> str | bytes:
    """The curves as a page or a picture."""
    from kdyno.labs.memcpy.curves import page, picture
    from kdyno.report.charts.vega import png

    if suffix == ".html":
        return page(bench)
    svg = picture(bench)
    return svg if suffix == ".svg" else png(svg)


VERBS = (
    Verb(
        "bench",
        bench_verb,
        (
            "kdyno lab memcpy bench --quick",
            "kdyno lab memcpy bench --paper -o paper.svg",
            "kdyno lab memcpy bench avx2 mine.S --distribution copies.json -o bench.html",
            "kdyno lab memcpy bench --from bench.json --csv -",
            "kdyno lab memcpy bench --quick --into last",
        ),
    ),
)
