# SPDX-License-Identifier: MIT
"""kdyno compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kdyno.verbs.options import Runs
from kdyno.verbs.output import Json, check_writable, say, write, write_json, write_json_text

if TYPE_CHECKING:
    from kdyno.store.run import Run

NAME = "compare"
EXAMPLES = (
    "Examples: kdyno compare 3f2a 81bc | kdyno compare last published:snow-leopard | "
    "kdyno compare published:athlon64x2 | "
    "kdyno compare last --variant mine --against stock"
)


def verb(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN",
            help="Runs (path, name or last; the first is the baseline), or published:NAME.",
        ),
    ],
    common: Annotated[
        bool, typer.Option("--common", help="Compare the cases that all runs share.")
    ] = False,
    variant: Annotated[
        str | None,
        typer.Option("--variant", metavar="NAME", help="This variant of each run [its baseline]."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="NAME",
            help="Of one run: its variants against this one, in pairs, by the rule of `run`.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--format",
            metavar="FORMAT",
            help="markdown, csv, json, junit, html, svg, png; none: by the name of the file, else "
            "a table.",
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", help="Write there.")
    ] = None,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Compare runs, variants of a run, or a published experiment.

    Runs that lie apart were not measured in turns, so the rule for them is stricter. Variants of
    one run were.
    """
    from kdyno.errors import UsageError
    from kdyno.judge.comparing import compare
    from kdyno.judge.judging import within
    from kdyno.labs.published.article import PREFIX
    from kdyno.report.exporters import exporter
    from kdyno.report.sentence import worded
    from kdyno.report.terminal import show as show_verdict
    from kdyno.verbs.sharing import found as found_run

    check_writable(json)
    check_writable(output, "-o")
    articles = [word for word in what if word.startswith(PREFIX)]
    found = [found_run(word, runs) for word in what if word not in articles]
    if against is not None and (articles or len(found) != 1):
        raise UsageError("--against goes with one run, whose variants are compared with each other")
    if articles:
        if len(articles) > 1 or len(found) > 1:
            raise UsageError("compare takes one article, alone or with one run")
        if format is not None:
            raise UsageError("--format goes with runs; an article is shown as text or --json")
        return _article(articles[0], found, output, json)
    chosen = exporter(format or Path(output or "").suffix) if format or output else None
    if against is not None:
        verdict = worded(within(found[0], against, variant))
    else:
        verdict = worded(compare(found, common=common, variant=variant))
    if json is not None:
        write_json_text(verdict.to_json(), json)
    if chosen is not None:
        exported = chosen.export(verdict)
        put = write_json_text if chosen.name == "json" else write
        put(exported, output or "-")
        if output:
            say(f"written: {output}")
    elif json != "-":
        show_verdict(verdict)
    return 0


def _article(name: str, runs: list[Run], output: str | None, json: str | None) -> int:
    from kdyno.errors import UsageError
    from kdyno.labs.published import article as articles
    from kdyno.report.show import terminal

    article = articles.load(name)
    verdict = runs[0].verdict() if runs else None
    if runs and verdict is None:
        raise UsageError(f"{runs[0].name} has no verdict yet; `kdyno run --resume` goes on with it")
    parts = articles.beside_parts(article, verdict) if verdict else articles.parts(article)
    if json is not None:
        data = articles.as_json(article)
        if verdict is not None:
            data["today"] = articles.beside_json(article, verdict)
        write_json(data, json)
    if output is not None:
        write(terminal.text(parts), output)
    elif json != "-":
        terminal.show(lambda _: parts)
    return 0
