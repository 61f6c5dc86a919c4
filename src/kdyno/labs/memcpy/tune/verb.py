# SPDX-License-Identifier: MIT
"""kdyno memcpy tune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.labs.memcpy.time.verb import BenchSeed, Tree
from kdyno.verbs.options import MaxMinutes, NoSandbox, NoWait, Runs, runs_folder
from kdyno.verbs.output import Json, check_writable, say, write, write_json

if TYPE_CHECKING:
    from kdyno.labs.memcpy.make.shape import Shape
    from kdyno.labs.memcpy.time.bench import Material
    from kdyno.labs.memcpy.tune.prediction import Share
    from kdyno.labs.memcpy.tune.result import Tuned
    from kdyno.measure.execution import Options
    from kdyno.store.verdict import Verdict

NAME = "tune"
EXAMPLES = (
    "Examples: kdyno memcpy tune copies.json -o tuned.S --share 0.35 | "
    "kdyno memcpy tune copies.trace.gz --minutes 5 --registers avx2 | "
    "kdyno memcpy tune -o tuned.S --profile runs/mine/profile/stock.json --verify | "
    "kdyno memcpy tune --cpu"
)


def verb(
    copies: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE",
            help="A distribution (.json) or a trace, from histogram; default: UnixBench's.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.S", help="Where the routine goes."),
    ] = None,
    cpu: Annotated[
        bool,
        typer.Option(
            "--cpu",
            help="Not for recorded copies but for this CPU: find its row of best.toml, and write "
            "routine, benches and row beside -o, or into kernel/memcpy.",
        ),
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            metavar="MINUTES",
            min=0.05,
            help="Minutes of timing; default: 2, with --cpu 4.",
        ),
    ] = None,
    registers: Annotated[
        list[str] | None,
        typer.Option(
            "--registers",
            metavar="NAME",
            help="Only general, sse, avx2, avx512vl or avx512; may be repeated.",
        ),
    ] = None,
    level: Annotated[
        str,
        typer.Option(
            "--level", metavar="LEVEL", help="Where the copies lie: L1, L2, L3 or memory."
        ),
    ] = "L1",
    share: Annotated[
        str | None,
        typer.Option(
            "--share", metavar="SHARE", help='memcpy\'s share of the time, such as "35%".'
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option("--profile", metavar="FILE", help="The share from a run's profile."),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Also build and boot it; show predicted beside measured."),
    ] = False,
    case: Annotated[
        list[str] | None,
        typer.Option(
            "--case", metavar="CASE", help="Cases of --verify: CASE of unixbench, or SUITE/CASE."
        ),
    ] = None,
    source: Annotated[
        str, typer.Option("--source", metavar="SOURCE", help="Kernel source of --verify.")
    ] = "debian:linux-source-7.3",
    max_minutes: MaxMinutes = None,
    tree: Tree = None,
    seed: BenchSeed = 1,
    runs: Runs = None,
    no_sandbox: NoSandbox = False,
    no_wait: NoWait = False,
    json: Json = None,
) -> int:
    """Find the fastest memcpy for what a kernel copies. Emit it, predict its gain, verify that."""
    from kdyno import sandbox
    from kdyno.errors import UsageError
    from kdyno.labs.memcpy.time.loads import LEVELS
    from kdyno.labs.memcpy.tune import tables as shown
    from kdyno.labs.memcpy.tune.search import plain_shapes
    from kdyno.labs.memcpy.tune.verify import experiment_text
    from kdyno.report.show import terminal

    check_writable(json)
    if share is not None and profile is not None:
        raise UsageError("--share and --profile exclude each other")
    if level not in LEVELS:
        raise UsageError(f"--level {level}: there are {', '.join(LEVELS)}")
    if verify and output is None:
        raise UsageError("--verify needs -o FILE.S: the routine goes into a kernel from there")
    if output is not None and output.suffix != ".S":
        raise UsageError(f"-o {output}: its name must end in .S")
    if cpu:
        given = {
            "FILE": copies,
            "--registers": registers,
            "--share": share,
            "--profile": profile,
            "--verify": verify or None,
        }
        if unused := [option for option, value in given.items() if value is not None]:
            raise UsageError(f"--cpu goes without {', '.join(unused)}")
        from kdyno.labs.memcpy.tune.cpu_verb import for_cpu

        return for_cpu(output, tree, seed, minutes or 4.0, json, not no_wait, not no_sandbox)
    check_writable(str(output) if output is not None else None, "-o")
    sandbox.require(not no_sandbox)
    known = _share(share, profile)
    material = _material(copies, level)
    shapes = plain_shapes(registers or None)
    if not shapes:
        raise UsageError("this CPU can run no shape with these --registers")
    budget = 2.0 if minutes is None else minutes
    tuned = _tuned(material, shapes, known, tree, seed, budget, output, wait=not no_wait)
    if output is not None:
        write(tuned.text, str(output))
        say(f"written: {output}; in an experiment: memcpy = {output.name!r} beside it")
    measured = None
    if verify and output is not None:
        plan = output.with_suffix(".toml")
        text = experiment_text(output, source, tuple(case or ()))
        write(text, str(plan))
        say(f"written: {plan}")
        options = _options(max_minutes, runs, not no_sandbox, not no_wait)
        measured = _measured(text, plan, options, shown=json != "-")
    if json is not None:
        write_json(shown.to_json(tuned, measured), json)
    if json != "-":
        terminal.show(lambda _: shown.parts(tuned, measured))
    return 0


def _share(share: str | None, profile: Path | None) -> Share | None:
    from kdyno.labs.memcpy.tune.prediction import given_share, profiled_share

    if profile is not None:
        return profiled_share(profile)
    return given_share(share) if share is not None else None


def _material(copies: Path | None, level: str) -> Material:
    """What is replayed; bad files are refused here, before anything slow."""
    from kdyno.errors import UsageError
    from kdyno.labs.memcpy.count.distribution import read_distribution, shipped_distribution
    from kdyno.labs.memcpy.count.trace import read_trace
    from kdyno.labs.memcpy.time.bench import with_copies
    from kdyno.labs.memcpy.time.loads import Plan

    plan = Plan("tune", (), 0.0, 5, 60_000)
    if copies is None:
        found = shipped_distribution()
        if found is None:
            raise UsageError("which copies? Give a file written by `kdyno memcpy histogram -o`")
        return with_copies(plan, found, (), level)
    if copies.suffix == ".json":
        return with_copies(plan, read_distribution(copies), (), level)
    return with_copies(plan, None, read_trace(copies), level)


def _tuned(
    material: Material,
    shapes: list[Shape],
    share: Share | None,
    tree: Path | None,
    seed: int,
    minutes: float,
    output: Path | None,
    wait: bool,
) -> Tuned:
    from kdyno.labs.memcpy.time.field import tree_at_hand
    from kdyno.labs.memcpy.tune.result import tune
    from kdyno.labs.memcpy.tune.timing import alone
    from kdyno.paths import cache_root

    cache = cache_root()
    with alone(wait) as (core, step):
        return tune(
            material,
            shapes,
            share,
            tree=tree if tree is not None else tree_at_hand(cache),
            cache_root=cache,
            cpu=core,
            seed=seed,
            seconds=60.0 * minutes,
            name=output.stem if output is not None else None,
            tell=step,
        )


def _options(max_minutes: float | None, runs: Path | None, sandboxed: bool, wait: bool) -> Options:
    from kdyno.experiment.overrides import Overrides
    from kdyno.measure.execution import Options
    from kdyno.paths import cache_root

    return Options(
        cache=cache_root(),
        runs=runs_folder(runs),
        sandboxed=sandboxed,
        wait=wait,
        overrides=Overrides(max_minutes=max_minutes),
    )


def _measured(text: str, plan: Path, options: Options, *, shown: bool) -> Verdict:
    """The verdict of the experiment that compares stock and tuned. ``shown``: on stdout."""
    from kdyno.experiment import loader
    from kdyno.experiment.overrides import apply
    from kdyno.measure.vocabulary import vocabulary
    from kdyno.report.terminal import show
    from kdyno.suites.catalogue import load
    from kdyno.verbs.watching import executed, say_where

    suites = load()
    asked = loader.parse(text, str(plan), plan.parent, vocabulary(suites))
    run, verdict = executed(apply(options.overrides, asked), suites, options)
    if shown:
        show(verdict)
    say_where(run)
    return verdict
