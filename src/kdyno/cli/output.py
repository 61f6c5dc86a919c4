# SPDX-License-Identifier: MIT
"""Where data goes: stdout for people, or a file in JSON for programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kdyno.errors import UsageError

Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is stdout."),
]


def check_writable(file: str | None) -> None:
    """UsageError before anything slow starts when the result could not be written."""
    if file is None or file == "-":
        return
    path = Path(file)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"--json {file}: not a file in a folder that exists")
    try:
        with path.open("a"):
            pass
    except OSError as problem:
        raise UsageError(f"--json {file}: {problem.strerror}") from problem


def write(text: str, file: str) -> None:
    """``text`` to the file, or to stdout for ``-``."""
    if file == "-":
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    else:
        Path(file).write_text(text if text.endswith("\n") else text + "\n", encoding="utf-8")


def write_json(value: object, file: str) -> None:
    """Any JSON value to the file, or to stdout for ``-``."""
    import json

    write(json.dumps(value, indent=1, ensure_ascii=False), file)
