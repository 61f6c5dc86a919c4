# SPDX-License-Identifier: MIT
"""kdyno lab published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kdyno.verbs.options import Runs
from kdyno.verbs.output import Json, check_writable, say, write, write_json
from kdyno.verbs.verb import Verb


def published(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs (path, name or last), and JSON files of memcpy bench, memcpy histogram and "
            "vectorize [those that come with kdyno].",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write there, with pictures in a folder beside."
        ),
    ] = None,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Answer the claims of published experiments from runs."""
    from kdyno.labs.published.answers import collect, kept
    from kdyno.labs.published.article import load, names
    from kdyno.labs.published.page import as_json, page, pictures
    from kdyno.verbs.subject import found

    check_writable(json)
    check_writable(output, "-o")
    paths = list(kept())
    if what:
        files = [Path(word).expanduser() for word in what]
        paths = [
            file if file.suffix == ".json" and file.is_file() else found(word, runs).path
            for word, file in zip(what, files, strict=True)
        ]
    evidence = collect(paths)
    articles = [load(name) for name in names()]
    if json is not None:
        write_json(as_json(articles, evidence), json)
        if json == "-" and output is None:
            return 0
    links: dict[str, str] = {}
    if output is not None and output != "-":
        folder = Path(output).parent / "pictures"
        for name, (svg, text) in pictures(articles, evidence).items():
            folder.mkdir(exist_ok=True)
            file = folder / f"published-{name}.svg"
            write(svg, str(file))
            links[name] = f"![{text}](pictures/{file.name})"
    write(page(articles, evidence, links), output or "-")
    if output is not None and output != "-":
        say(f"written: {output}{', with pictures in ' + str(folder) if links else ''}")
    return 0


VERBS = (
    Verb(
        "published",
        published,
        (
            "kdyno lab published",
            "kdyno lab published last -o page.md",
            "kdyno lab published 3f2a 81bc survey.json --json -",
        ),
    ),
)
