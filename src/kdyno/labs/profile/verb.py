# SPDX-License-Identifier: MIT
"""kdyno profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.errors import UsageError
from kdyno.verbs.completion import run_names
from kdyno.verbs.options import (
    Cases,
    Jobs,
    NoSandbox,
    NoWait,
    Refresh,
    Runs,
    Variants,
    Yes,
    consent_to_build,
    load,
    load_stored,
    runs_folder,
    stored_run,
    where,
)
from kdyno.verbs.output import Json, Line, check_writable, say, write, write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kdyno.experiment.model import Experiment
    from kdyno.labs.profile.boots import Asked, Status
    from kdyno.labs.profile.record import Profile
    from kdyno.measure.execution import Options
    from kdyno.store.run import Run
    from kdyno.suites.catalogue import Suite

NAME = "profile"
EXAMPLES = (
    "Examples: kdyno profile last | kdyno profile experiments/simd-gprof.toml --method gprof | "
    "kdyno profile last --annotate anon_pipe_write | "
    "kdyno profile last --show --speedscope out.speedscope.json"
)


def verb(
    what: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT|RUN",
            help="An experiment file, or a run (path, name or last).",
            autocompletion=run_names,
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            "--method",
            metavar="WORD",
            help="perf, gprof, or count in QEMU [as the experiment says].",
        ),
    ] = None,
    boots: Annotated[
        int,
        typer.Option(
            "--boots", metavar="N", min=1, max=1000, help="Profiled boots of each variant."
        ),
    ] = 6,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds",
            metavar="SECONDS",
            min=0.05,
            max=3600,
            help="Work: what the baseline does in this time.",
        ),
    ] = 1.0,
    variant: Variants = None,
    case: Cases = None,
    stacks: Annotated[
        bool,
        typer.Option("--stacks", help="perf: kernels with frame pointers, for whole stacks."),
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--replace", help="Replace the run's profile if it was made differently."),
    ] = False,
    show: Annotated[
        bool, typer.Option("--show", help="Boot nothing; show the profile that the run has.")
    ] = False,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, max=100_000, help="Functions in each table.")
    ] = 15,
    published: Annotated[
        str | None,
        typer.Option("--published", metavar="NAME", help="Show this article's profile beside it."),
    ] = None,
    folded: Annotated[
        str | None,
        typer.Option("--folded", metavar="FILE", help="Folded stacks, for flame graphs."),
    ] = None,
    annotate: Annotated[
        str | None,
        typer.Option(
            "--annotate",
            metavar="FUNCTION",
            help="count: a function's instructions in both kernels, with their counts.",
        ),
    ] = None,
    lines: Annotated[
        str | None,
        typer.Option(
            "--lines",
            metavar="FILE",
            help="Compile this file of the kernel, such as fs/pipe.c, with line numbers for it.",
        ),
    ] = None,
    speedscope: Annotated[
        str | None, typer.Option("--speedscope", metavar="FILE", help="A file for speedscope.")
    ] = None,
    jobs: Jobs = None,
    refresh: Refresh = False,
    runs: Runs = None,
    no_sandbox: NoSandbox = False,
    no_wait: NoWait = False,
    yes: Yes = False,
    json: Json = None,
) -> int:
    """Show seconds per function of each kernel, and what differs. All of them did the same work."""
    from kdyno.labs.profile import count_verb
    from kdyno.labs.profile.boots import Asked
    from kdyno.labs.profile.record import stored_profiles
    from kdyno.labs.published.article import load as load_article
    from kdyno.measure.execution import Options
    from kdyno.paths import cache_root

    for file, option in ((json, "--json"), (folded, "--folded"), (speedscope, "--speedscope")):
        check_writable(file, option)
    article = load_article(published) if published else None
    folder = runs_folder(runs)
    is_file = what.endswith(".toml") or Path(what).is_file()
    options = Options(
        cache=cache_root(),
        runs=folder,
        sandboxed=not no_sandbox,
        wait=not no_wait,
        jobs=jobs,
        refresh=refresh,
    )
    chosen = tuple(variant or ()), tuple(case or ())
    if annotate or lines or count_verb.is_meant(method, what, is_file, folder, show):
        return count_verb.verb(
            count_verb.Asked(what, is_file, *chosen, show, top, json, folded, annotate, lines, yes),
            options,
        )
    if show:
        if is_file:
            raise UsageError("--show goes with a run that was profiled")
        run = stored_run(what, folder)
        found = stored_profiles(run)
    else:
        asked = Asked(method or "", boots, seconds, stacks, again)
        if is_file:
            run, found = _of_experiment(Path(what), asked, options, chosen)
        else:
            run, found = _of_run(stored_run(what, folder), asked, options, chosen, yes)
    if not found:
        raise UsageError(f"{run.name} has no profile; `kdyno profile {run.name}` makes one")
    _export(found, folded, speedscope)
    baseline = run.manifest().baseline
    if json is not None:
        from kdyno.labs.profile.tables import as_json

        write_json(as_json(found, baseline), json)
    if json != "-":
        from kdyno.labs.profile.tables import beside, parts
        from kdyno.report.show import terminal

        shown: list[terminal.Part] = list(parts(found, baseline, top))
        if article is not None:
            shown += ["", *beside(article, found, baseline)]
        terminal.show(lambda _: shown)
    say(f"\nrun folder: {run.path}")
    return 0


def after_run(
    run: Run,
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
    *,
    shown: bool,
) -> None:
    """What `profile = "perf"` in an experiment adds to a run that was measured. ``shown``: on
    stdout, which may be wanted for JSON alone."""
    from kdyno.labs.profile.boots import Asked
    from kdyno.labs.profile.tables import parts
    from kdyno.report.show import terminal

    say(f"\nprofiling by {experiment.measure.profile}, in boots of its own")
    try:
        found = _made(run, experiment, suites, options, Asked(experiment.measure.profile))
    except KeyboardInterrupt:
        say(f"`kdyno profile {run.name}{where(run.path.parent)}` goes on with the profile")
        raise
    if shown:
        terminal.show(lambda _: ["", *parts(found, run.manifest().baseline)])


def _of_experiment(
    path: Path, asked: Asked, options: Options, chosen: tuple[tuple[str, ...], tuple[str, ...]]
) -> tuple[Run, dict[str, Profile]]:
    """A new run that is profiled and not yet measured."""
    from kdyno.experiment.overrides import Overrides, apply
    from kdyno.labs.profile.boots import begin, require
    from kdyno.verbs.watching import watching

    experiment, suites = load(path)
    overrides = Overrides(variants=chosen[0], cases=chosen[1])
    experiment = apply(overrides, experiment)
    asked = _with_method(asked, experiment)
    require(experiment, asked.method)
    with watching(experiment) as listener:
        run = begin(experiment, suites, replace(options, listener=listener, overrides=overrides))
    say(f"run: {run.path}")
    return run, _made(run, experiment, suites, options, asked)


def _of_run(
    run: Run,
    asked: Asked,
    options: Options,
    chosen: tuple[tuple[str, ...], tuple[str, ...]],
    yes: bool,
) -> tuple[Run, dict[str, Profile]]:
    from kdyno.experiment.overrides import apply

    experiment, suites, overrides = load_stored(run, run.manifest())
    if chosen[0]:
        overrides = replace(overrides, variants=chosen[0])
    if chosen[1]:
        overrides = replace(overrides, cases=chosen[1])
    experiment = apply(overrides, experiment)
    asked = _with_method(asked, experiment)
    consent_to_build(run, experiment, "to profile it", sandboxed=options.sandboxed, yes=yes)
    return run, _made(run, experiment, suites, options, asked)


def _with_method(asked: Asked, experiment: Experiment) -> Asked:
    own = experiment.measure.profile
    method = asked.method or (own if own != "none" else "perf")
    if asked.stacks and method != "perf":
        raise UsageError("--stacks goes with --method perf: gprof sees no stacks")
    return replace(asked, method=method)


def _made(
    run: Run,
    experiment: Experiment,
    suites: Mapping[str, Suite],
    options: Options,
    asked: Asked,
) -> dict[str, Profile]:
    from kdyno.labs.profile.boots import profile
    from kdyno.store.run import write_run
    from kdyno.verbs.watching import watching

    with watching(experiment) as listener, write_run(run.path) as writer, _line() as shown:
        options = replace(options, listener=listener)
        return profile(writer, run.manifest(), experiment, suites, options, asked, shown)


def _export(found: Mapping[str, Profile], folded: str | None, speedscope: str | None) -> None:
    from kdyno.labs.profile import stacks

    for file, text in (
        (folded, stacks.folded(found) if folded else ""),
        (speedscope, stacks.speedscope(found) if speedscope else ""),
    ):
        if file:
            write(text, file)
            if file != "-":
                say(f"written: {file}")


@contextmanager
def _line() -> Iterator[Callable[[Status], None]]:
    """Progress of profiled boots, one line."""
    from kdyno.report.progress import duration

    line = Line()

    def show(status: Status) -> None:
        left = f", about {duration(status.left_s)} left" if status.left_s is not None else ""
        line.show(
            f"profiling: boot {status.done + 1} of {status.boots}, {status.variant}{left}",
            force=status.done == 0,
        )

    try:
        yield show
    finally:
        line.end()
