# SPDX-License-Identifier: MIT
"""kdyno vectorize."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.verbs.options import Jobs, NoSandbox, Refresh, Runs, runs_folder
from kdyno.verbs.output import Json, check_writable, say, write, write_json

if TYPE_CHECKING:
    from kdyno.experiment.model import Variant
    from kdyno.labs.profile.record import Profile
    from kdyno.labs.vectorize.flags import FlagSet
    from kdyno.labs.vectorize.survey import Survey

NAME = "vectorize"
EXAMPLES = (
    "Examples: kdyno vectorize | "
    "kdyno vectorize --flags sse2 --flags avx2 --flags avx512 -o survey.html | "
    "kdyno vectorize mine.toml --variant mine --flags avx2 --profile last | "
    "kdyno vectorize survey.json -o loops.csv"
)
FORMATS = ("text", "html", "markdown", "csv")
_SUFFIXES = {".html": "html", ".md": "markdown", ".csv": "csv", ".txt": "text"}


def verb(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A kernel source, an experiment file, the object tree of your own build, "
            "or a survey written by --json.",
        ),
    ] = "debian:linux-source-7.3",
    flags: Annotated[
        list[str] | None,
        typer.Option(
            "--flags",
            metavar="SET",
            help='o3, sse2, avx2, avx512, or NAME="FLAGS"; avx2 if none. May be repeated.',
        ),
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option("--variant", metavar="NAME", help="Of an experiment [its baseline]."),
    ] = None,
    compiler: Annotated[
        str | None,
        typer.Option("--compiler", metavar="NAME", help="gcc-12, clang-19 and the like."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="RUN|FILE",
            help="Rank missed loops by the seconds of their functions in this profile.",
        ),
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, help="Rows of each table on the terminal.")
    ] = 20,
    format: Annotated[
        str | None, typer.Option("-f", "--format", metavar="FORMAT", help=", ".join(FORMATS))
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write there.")
    ] = None,
    jobs: Jobs = None,
    refresh: Refresh = False,
    no_sandbox: NoSandbox = False,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Survey which loops of a kernel are vectorised, and why not all."""
    from kdyno.errors import UsageError
    from kdyno.labs.vectorize import hot, published
    from kdyno.labs.vectorize import tables as shown
    from kdyno.labs.vectorize.survey import survey_to_json
    from kdyno.report.show import terminal

    check_writable(json)
    check_writable(output, "-o")
    chosen = _format(format, output)
    if json == "-" and chosen != "text" and not output:
        raise UsageError("--json - and --format both want stdout: add -o FILE for the export")
    times = _profile(profile, runs_folder(runs)) if profile is not None else None
    found = _survey(what, tuple(flags or ()), variant, compiler, jobs, refresh, not no_sandbox)
    joined = [] if times is None else [hot.join(side.loops, times) for side in found.sides]
    grids = shown.grids(found, joined, published.load())
    if json is not None:
        data = survey_to_json(found)
        if joined:
            data["hot"] = shown.hot_json(found, joined)
        write_json(data, json)
    if json == "-" and not output:
        return 0
    if chosen == "html":
        from kdyno.labs.vectorize.tables import page

        content = page(found, [*grids, shown.vectorised(found)])
    elif chosen == "markdown":
        content = shown.markdown(found, grids)
    elif chosen == "csv":
        content = shown.csv_text(found)
    else:
        parts = [*shown.head(found), *(part for it in grids for part in shown.parts(it, rows))]
        content = terminal.text(parts)
    write(content, output or "-")
    if output:
        say(f"written: {output}")
    return 0


def _format(given: str | None, output: str | None) -> str:
    """By name, else by the file's suffix, else text; UsageError for an unknown name."""
    from kdyno.errors import UsageError

    if given is not None:
        if given not in FORMATS:
            raise UsageError(f"--format {given!r}: no such format. There are: {', '.join(FORMATS)}")
        return given
    if output is None:
        return "text"
    suffix = Path(output).suffix.lower()
    if suffix not in _SUFFIXES:
        raise UsageError(
            f"-o {output}: no format has the suffix {suffix!r}. Take one of "
            f"{', '.join(_SUFFIXES)}, or pass --format"
        )
    return _SUFFIXES[suffix]


def _survey(
    what: str,
    flags: tuple[str, ...],
    variant: str | None,
    compiler: str | None,
    jobs: int | None,
    refresh: bool,
    sandboxed: bool,
) -> Survey:
    from dataclasses import replace

    from kdyno import sandbox
    from kdyno.errors import UsageError
    from kdyno.kernels.source import fetch, parse
    from kdyno.labs.vectorize import builds
    from kdyno.labs.vectorize.flags import flag_sets
    from kdyno.paths import cache_root
    from kdyno.verbs.watching import Building

    path = Path(what).expanduser()
    if path.suffix != ".json":
        sandbox.require(sandboxed)
    if path.is_dir() or path.suffix == ".json":
        if flags or variant or compiler:
            raise UsageError(
                f"{what}: is built already; --flags, --variant, --compiler go with a source"
            )
        return builds.survey_of_folder(path) if path.is_dir() else builds.survey_of_file(path)
    sets: tuple[FlagSet, ...] = flag_sets(flags)
    base = _variant(what, path, variant)
    if compiler is not None:
        base = replace(base, compiler=compiler)
    watch = Building()
    try:
        tree = fetch(parse(base.source), cache_root(), watch.fetching, refresh=refresh)
        recipes = builds.check(base, sets, tree)
        return builds.survey(
            base, sets, recipes, cache_root(), sandboxed=sandboxed, jobs=jobs, report=watch.building
        )
    finally:
        watch.end()


def _variant(what: str, path: Path, name: str | None) -> Variant:
    """The variant that the flags are added to: of an experiment, or a stock one of a source."""
    from kdyno.errors import UsageError
    from kdyno.experiment import loader
    from kdyno.kernels.source import KINDS
    from kdyno.measure.vocabulary import vocabulary
    from kdyno.verbs.options import load

    if path.suffix == ".toml" or path.is_file():
        experiment, _ = load(path)
    elif what.partition(":")[0] not in KINDS:
        raise UsageError(
            f"{what!r}: neither a file or folder that exists, nor a kernel source. "
            f"Sources: {'; '.join(KINDS.values())}"
        )
    elif name is not None:
        raise UsageError("--variant goes with an experiment file")
    else:
        keys = {"source": what, "config": ["bench"]}
        return loader.variant("stock", keys, "vectorize", Path.cwd(), vocabulary({}))
    wanted = name or experiment.baseline
    for variant in experiment.variants:
        if variant.name == wanted:
            return variant
    there = ", ".join(variant.name for variant in experiment.variants)
    raise UsageError(f"--variant {wanted}: the experiment has none of that name. It has: {there}")


def _profile(text: str, runs: Path) -> Profile:
    """A profile file, or a run's: of its baseline, else the first."""
    from kdyno.errors import UsageError
    from kdyno.labs.profile.record import read_profile, stored_profiles
    from kdyno.store.resolve import resolve
    from kdyno.store.run import open_run

    path = Path(text).expanduser()
    if path.is_file():
        return read_profile(path)
    run = open_run(resolve(text, runs))
    for found in stored_profiles(run).values():
        return found
    raise UsageError(
        f"--profile {text}: {run.name} has no profile; `kdyno profile {run.name}` makes one"
    )
