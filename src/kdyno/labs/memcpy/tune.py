# SPDX-License-Identifier: MIT
"""kdyno lab memcpy tune."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.labs.memcpy.bench import BenchSeed, Tree, alone
from kdyno.verbs.options import MaxMinutes, NoSandbox, NoWait, Runs, runs_folder
from kdyno.verbs.output import Json, check_writable, say, write, write_json
from kdyno.verbs.verb import Verb

if TYPE_CHECKING:
    from kdyno.labs.memcpy.loads import Material
    from kdyno.measure.execution import Options
    from kdyno.store.verdict import Verdict


def tune(
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
    from kdyno import sandbox, whole
    from kdyno.errors import UsageError
    from kdyno.experiment.overrides import Overrides
    from kdyno.labs.memcpy import tables
    from kdyno.labs.memcpy.loads import LEVELS
    from kdyno.labs.memcpy.prediction import given_share, predict, profiled_share, verifying
    from kdyno.labs.memcpy.search import Clock, Space, Workshop, replay_score, tuned
    from kdyno.labs.memcpy.shape import WIDTHS
    from kdyno.labs.memcpy.timing import checked, gather, tree_at_hand
    from kdyno.measure.execution import Options
    from kdyno.paths import cache_root
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
        others = {
            "FILE": copies,
            "--registers": registers,
            "--share": share,
            "--profile": profile,
            "--verify": verify or None,
        }
        if unused := [option for option, value in others.items() if value is not None]:
            raise UsageError(f"--cpu goes without {', '.join(unused)}")
        sandbox.require()
        return _for_cpu(output, tree, seed, minutes or 4.0, json, wait=not no_wait)
    check_writable(str(output) if output is not None else None, "-o")
    sandbox.require()
    known = profiled_share(profile) if profile is not None else None
    if share is not None:
        known = given_share(share)
    material = _material(copies, level)
    (load,) = material.plan.loads
    space = Space(tuple(registers or WIDTHS), load.most)
    if not space.shortest():
        raise UsageError("this CPU can run no shape with these --registers")
    seconds = 60.0 * (2.0 if minutes is None else minutes)
    cache = cache_root()
    with alone("tuning", not no_wait) as (core, step), whole.scratch("tune") as folder:
        workshop = Workshop(folder, cache, core, Clock(step, seconds))
        tree = tree if tree is not None else tree_at_hand(cache)
        field = gather((), tree, cache, checked(cache))
        beside = {each.name: each for each in field.contenders if each.rank != "bound"}
        workshop.contenders |= beside
        result = tuned(
            workshop,
            space,
            workshop.trial(material, replay_score),
            list(beside),
            name=output.stem if output is not None else None,
            seconds=seconds,
            seed=seed,
            left_out=field.left_out,
        )
        workshop.made(f"{result.name}.S", result.text)
    prediction = predict(known, result.ratios.get("orig"))
    verdict = None
    if output is not None:
        write(result.text, str(output))
        say(f"written: {output}; in an experiment: memcpy = {output.name!r} beside it")
    if verify and output is not None:
        plan = output.with_suffix(".toml")
        text = verifying(output, source, tuple(case or ()))
        write(text, str(plan))
        say(f"written: {plan}")
        options = Options(
            cache=cache,
            runs=runs_folder(runs),
            wait=not no_wait,
            overrides=Overrides(max_minutes=max_minutes),
        )
        verdict = _verdict(text, plan, options, shown=json != "-")
    if json is not None:
        write_json(tables.tuning_json(result, load, prediction, verdict), json)
    if json != "-":
        terminal.show(lambda _: tables.tuning(result, load, prediction, verdict))
    return 0


def _material(copies: Path | None, level: str) -> Material:
    """What is replayed; bad files are refused here, before anything slow."""
    from kdyno.errors import UsageError
    from kdyno.labs.memcpy.copies import read_distribution, read_trace, shipped_distribution
    from kdyno.labs.memcpy.loads import Plan, with_copies

    plan = Plan("tune", (), 0.0)
    if copies is not None and copies.suffix != ".json":
        return with_copies(plan, None, read_trace(copies), level)
    distribution = shipped_distribution() if copies is None else read_distribution(copies)
    if distribution is None:
        raise UsageError("which copies? Give a file written by `kdyno lab memcpy histogram -o`")
    return with_copies(plan, distribution, (), level)


def _verdict(text: str, plan: Path, options: Options, *, shown: bool) -> Verdict:
    """The verdict of the experiment that compares stock and tuned. ``shown``: on stdout."""
    from kdyno.experiment import loader
    from kdyno.experiment.overrides import apply
    from kdyno.measure.vocabulary import vocabulary
    from kdyno.report.terminal import show
    from kdyno.suites.catalogue import load
    from kdyno.verbs.watching import executed, say_where

    suites = load()
    experiment = loader.parse(text, str(plan), plan.parent, vocabulary(suites))
    run, verdict = executed(apply(options.overrides, experiment), suites, options)
    if shown:
        show(verdict)
    say_where(run)
    return verdict


def _for_cpu(
    output: Path | None, tree: Path | None, seed: int, minutes: float, json: str | None, wait: bool
) -> int:
    """Find this CPU's row, write routine, benches and row, and show the result."""
    from kdyno.errors import ToolError, UsageError
    from kdyno.kernels.cpu import this_cpu
    from kdyno.kernels.routines.routine import FILE, routines_folder
    from kdyno.labs.memcpy import tables
    from kdyno.labs.memcpy.copies import shipped_distribution
    from kdyno.labs.memcpy.timing import tree_at_hand
    from kdyno.labs.memcpy.tune_cpu import files_of, routine_name, row_name, tune_cpu
    from kdyno.paths import cache_root
    from kdyno.report.show import terminal

    here = this_cpu()
    path = output or routines_folder() / f"{routine_name(row_name(here))}.S"
    check_writable(str(path), "-o")
    row = path.stem.removeprefix(routine_name(""))
    cache = cache_root()
    copies = shipped_distribution()
    tree = tree if tree is not None else tree_at_hand(cache)
    if copies is None:
        raise ToolError("kernel/distributions/unixbench.json is missing: kdyno is not whole")
    if tree is None:
        raise UsageError(
            "memcpy_orig, one of the two rivals, is taken from a kernel source: give --tree DIR, "
            "or build any kernel once, for example `kdyno build experiments/simd-memcpy.toml`"
        )
    with alone("tuning", wait) as (core, step):
        tuned = tune_cpu(
            path.stem,
            copies,
            tree=tree,
            cache_root=cache,
            core=core,
            seed=seed,
            seconds=60.0 * minutes,
            tell=step,
        )
    for file, text in files_of(tuned, row, here, path.parent).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write(text, str(file))
    say(f"written: {path}, its benches and its row, {row}, in {path.parent / FILE}")
    if json is not None:
        write_json(tables.cpu_tuning_json(tuned, row), json)
    if json != "-":
        terminal.show(lambda _: tables.cpu_tuning(tuned))
    return 0


VERBS = (
    Verb(
        "tune",
        tune,
        (
            "kdyno lab memcpy tune copies.json -o tuned.S --share 0.35",
            "kdyno lab memcpy tune copies.trace.gz --minutes 5 --registers avx2",
            "kdyno lab memcpy tune -o tuned.S --profile runs/mine/profile/stock.json --verify",
            "kdyno lab memcpy tune --cpu",
        ),
    ),
)
