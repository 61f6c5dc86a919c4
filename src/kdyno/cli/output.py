# SPDX-License-Identifier: MIT
"""Where data goes: stdout for people, or a file in JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from kdyno.errors import UsageError

Json = Annotated[
    str | None,
    typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is stdout."),
]


def check_writable(file: str | None, option: str = "--json") -> None:
    """UsageError before anything slow starts when the result could not be written."""
    if file is None or file == "-":
        return
    path = Path(file)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"{option} {file}: not a file in a folder that exists")
    if path.exists() and not path.is_file():
        return  # opening and closing a pipe would tell its reader that all is said
    new = not path.exists()
    try:
        with path.open("a"):
            pass
        if new:
            path.unlink()
    except OSError as problem:
        raise UsageError(f"{option} {file}: {problem.strerror}") from problem


def write(content: str | bytes, file: str) -> None:
    """To the file, or to stdout for ``-``. Text is UTF-8 in both, whatever the locale is."""
    if isinstance(content, str):
        content = (content if content.endswith("\n") else content + "\n").encode()
    if file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        Path(file).write_bytes(content)


def write_json(value: object, file: str) -> None:
    """Any JSON value to the file, or to stdout for ``-``."""
    import json

    write(json.dumps(value, indent=1, ensure_ascii=False), file)


@contextmanager
def kept_status(status: int) -> Iterator[None]:
    """While printing: a reader that leaves (``| head``) must not turn a regression into a 0."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        if not status:
            raise
        # What is still buffered would only fail once more at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
