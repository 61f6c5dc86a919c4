# SPDX-License-Identifier: MIT
"""kdyno report."""

from __future__ import annotations

from typing import Annotated

import typer

from kdyno.cli.output import Json, check_writable, write
from kdyno.cli.session import Runs, runs_folder, say

NAME = "report"
EXAMPLES = (
    "Examples: kdyno report last | kdyno report last -f markdown -o verdict.md | "
    "kdyno report 3f2a --json -"
)


def verb(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: path, name, or last.")],
    format: Annotated[
        str | None, typer.Option("-f", "--format", help="markdown, csv, json; none: a table.")
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write there.")
    ] = None,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Show what a run says, as a table or exported."""
    from pathlib import Path

    from kdyno.errors import UsageError
    from kdyno.report.exporters import exporter
    from kdyno.report.terminal import show
    from kdyno.store.resolve import resolve
    from kdyno.store.run import open_run

    check_writable(json)
    check_writable(output)
    chosen = exporter(format or Path(output or "").suffix) if format or output else None
    found = open_run(resolve(run, runs_folder(runs)))
    verdict = found.verdict()
    if verdict is None:
        raise UsageError(
            f"{found.name} has no verdict yet ({found.manifest().state}); "
            f"`kdyno run --resume {found.name}` goes on with it"
        )
    if json is not None:
        write(verdict.to_json(), json)
    if chosen is not None:
        write(chosen.export(verdict), output or "-")
        if output:
            say(f"written: {output}")
    elif json != "-":
        show(verdict)
    return 0
