# SPDX-License-Identifier: MIT
"""kdyno report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kdyno.verbs.completion import chart_names, offered, run_names
from kdyno.verbs.options import FailOn, Runs, Scoring, runs_folder, where
from kdyno.verbs.output import (
    Json,
    check_writable,
    kept_status,
    say,
    show,
    write,
    write_json,
    write_json_text,
)

NAME = "report"
EXAMPLES = (
    "Examples: kdyno report last | kdyno report last -o report.html | "
    "kdyno report last -f markdown | kdyno report last --chart boots -o boots.png | "
    "kdyno report last --fail-on slower | kdyno report 3f2a --json - | "
    "kdyno report --all -o site/"
)


@offered
def format_names(_ctx: typer.Context, _incomplete: str) -> list[str]:
    """The exporters."""
    from kdyno import labs
    from kdyno.report.exporters import exporters

    return list(exporters(labs.formats()))


def verb(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run: path, name, or last.", autocompletion=run_names),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--format",
            metavar="FORMAT",
            help="html, markdown, csv, json, parquet, svg, png, junit, benchstat, "
            "speedscope; none: by the name of the file, else a table.",
            autocompletion=format_names,
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write there.")
    ] = None,
    scoring: Scoring = None,
    chart: Annotated[
        str | None,
        typer.Option(
            "--chart",
            metavar="NAME",
            help="As svg or png: effects (in characters, too), boots, spread, rounds, factors, "
            "load.",
            autocompletion=chart_names,
        ),
    ] = None,
    fail_on: FailOn = None,
    history: Annotated[
        Path | None,
        typer.Option(
            "--history",
            metavar="FILE",
            help="With --fail-on: the branch's earlier tests, which leave the level of this one.",
        ),
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="A site of all runs in the folder that -o names.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With --all: reports with every chart.")
    ] = False,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Show a run as a table or exported, or all runs as a site."""
    import sys
    from dataclasses import replace

    from kdyno import labs
    from kdyno.cli.report import write_site
    from kdyno.cli.scoring import after_table, check_format, check_run, with_scores
    from kdyno.errors import UsageError
    from kdyno.report import drawings, gate
    from kdyno.report.evidence import Evidence, gather
    from kdyno.report.exporters import exporter, exporter_for
    from kdyno.report.terminal import show as show_verdict
    from kdyno.report.terminal import show_dots
    from kdyno.verbs.sharing import found as found_run
    from kdyno.verbs.sharing import is_fetched

    if all_:
        given = {"RUN": run, "-f": format, "--chart": chart, "--fail-on": fail_on}
        given |= {"--scoring": scoring, "--history": str(history or "")}
        if several := [name for name, value in given.items() if value]:
            raise UsageError(f"--all shows every run; {', '.join(several)} goes with one run")
        check_writable(json)
        return write_site(runs, output, full, json)
    if run is None:
        raise UsageError("which run? Name one, or last; --all -o site/ shows all of them")
    if full:
        raise UsageError("--full goes with --all; the report of one run has every chart anyway")
    if json == "-" and format and not output:
        raise UsageError("--json - and --format both want stdout: add -o FILE for the export")
    rules = gate.parse(fail_on or [])
    if history is not None and not rules:
        raise UsageError("--history keeps the tests of a gate: say what fails with --fail-on")
    check_writable(json)
    check_writable(output, "-o")
    chosen = None
    if format:
        chosen = exporter(format, labs.formats())
    elif output:
        chosen = exporter_for(output, labs.formats())
    if chart is not None:
        drawings.check(chart, chosen.name if chosen else None)
    if chosen is not None and not output and not chosen.is_text and sys.stdout.isatty():
        raise UsageError(f"{chosen.name} is not text for a terminal: add -o FILE{chosen.suffix}")
    check_format(scoring, chosen.name if chosen else None)
    found = found_run(run, runs)
    verdict = found.verdict()
    if verdict is None:
        if found.is_being_written():
            raise UsageError(f"{found.name} is still being measured; its verdict comes at the end")
        if is_fetched(found):
            raise UsageError(f"{found.name} has no verdict: it was pushed before its end")
        raise UsageError(
            f"{found.name} has no verdict: it was interrupted. "
            f"`kdyno run --resume {found.name}{where(found.path.parent)}` goes on with it"
        )
    check_run(scoring, found)
    gate.check_verdict(rules, verdict)
    status = 0
    if fail_on:
        tested = gate.with_first(found, verdict)
        status = gate.exit_status(tested, fail_on)
        if history is not None:
            status = gate.in_history(history, found.name, tested, fail_on)
    with kept_status(status):
        if json is not None:
            write_json_text(with_scores(found, verdict.to_json(), scoring, "json"), json)
        if chosen is not None:
            whole = chosen.needs_run or chart is not None
            subject = gather(found, verdict) if whole else Evidence(verdict)
            subject = replace(subject, sections=labs.sections())
            if chart is not None:
                exported = drawings.picture(chart, subject, chosen.name)
            else:
                exported = with_scores(found, chosen.export(subject), scoring, chosen.name)
            put = write_json_text if chosen.name == "json" else write
            put(exported, output or "-")
            if output:
                say(f"written: {output}")
        elif chart is not None:
            show_dots(verdict)
        elif json != "-":
            show_verdict(verdict)
            show(after_table(found, verdict, scoring), end="")
    return status


def write_site(runs: Path | None, output: str | None, full: bool, json: str | None) -> int:
    """Builds it or what of it has changed: of the store, where there is one and no folder named."""
    from kdyno import labs
    from kdyno.errors import UsageError
    from kdyno.paths import cache_root
    from kdyno.report.site.build import build_site
    from kdyno.verbs.sharing import store
    from kdyno.verbs.watching import site_line

    if not output or output == "-":
        raise UsageError("--all writes a folder of pages: name it with -o, such as -o site/")
    out = Path(output).absolute()
    shared = store() if runs is None else None
    with site_line() as told:
        if shared is not None:
            from kdyno.report.site.shared import build_shared

            built = build_shared(
                shared, out, cache_root(), full=full, told=told, sections=labs.sections
            )
        else:
            built = build_site(runs_folder(runs), out, full=full, told=told, sections=labs.sections)
    if json is not None:
        facts = {"site": output, "runs": built.runs, "made": built.made, "kept": built.kept}
        write_json({**facts, "removed": built.removed, "pages": list(built.pages)}, json)
    say(f"written: {Path(output) / 'index.html'} ({built.made} of {built.runs} runs drawn again)")
    return 0
