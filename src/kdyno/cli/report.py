# SPDX-License-Identifier: MIT
"""kdyno report."""

from __future__ import annotations

from typing import Annotated

import typer

from kdyno.cli.completion import format_names, run_names
from kdyno.cli.output import Json, check_writable, write
from kdyno.cli.session import Runs, runs_folder, say, where

NAME = "report"
EXAMPLES = (
    "Examples: kdyno report last | kdyno report last -o report.html | "
    "kdyno report last -f markdown | kdyno report 3f2a --json -"
)


def verb(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="A run: path, name, or last.", autocompletion=run_names),
    ],
    format: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--format",
            metavar="FORMAT",
            help="html, markdown, csv, json, parquet, svg, png, junit, benchstat, googlebench, "
            "hyperfine; none: by the name of the file, else a table.",
            autocompletion=format_names,
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write there.")
    ] = None,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Show what a run says, as a table or exported."""
    import sys

    from kdyno.errors import UsageError
    from kdyno.report.evidence import gather
    from kdyno.report.exporters import exporter, exporter_for
    from kdyno.report.terminal import show
    from kdyno.store.resolve import resolve
    from kdyno.store.run import open_run

    if json == "-" and format and not output:
        raise UsageError("--json - and --format both want stdout: add -o FILE for the export")
    check_writable(json)
    check_writable(output, "-o")
    chosen = exporter(format) if format else exporter_for(output) if output else None
    if chosen is not None and not output and not chosen.is_text and sys.stdout.isatty():
        raise UsageError(f"{chosen.name} is no text for a terminal: add -o FILE{chosen.suffix}")
    found = open_run(resolve(run, runs_folder(runs)))
    verdict = found.verdict()
    if verdict is None:
        if found.is_being_written():
            raise UsageError(f"{found.name} is still being measured; its verdict comes at the end")
        raise UsageError(
            f"{found.name} has no verdict: it was interrupted. "
            f"`kdyno run --resume {found.name}{where(found.path.parent)}` goes on with it"
        )
    if json is not None:
        write(verdict.to_json(), json)
    if chosen is not None:
        write(chosen.export(gather(found, verdict) if chosen.needs_run else verdict), output or "-")
        if output:
            say(f"written: {output}")
    elif json != "-":
        show(verdict)
    return 0
