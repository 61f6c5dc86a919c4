# SPDX-License-Identifier: MIT
"""Where everything goes that kdyno says: the one place that prints, and it prints safely.

Names and texts come from experiments, run folders, kernels and guests. Whatever is in them, no
control character, escape sequence or change of the writing's direction reaches a terminal."""

from __future__ import annotations

import errno
import json as as_json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kdyno import whole
from kdyno.errors import UsageError
from kdyno.report import plain

_LINE_LIMIT = 4000
"""Characters of one printed line; the longest honest ones are commands of a build."""
_LINE_EVERY_S = 20.0
_REDRAW_EVERY_S = 0.2
# What JSON allows inside a string and a terminal may obey: it means the same as an escape.
_NOT_IN_JSON = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb]"
)


def safe(text: str) -> str:
    """The text, line by line, without what a terminal would obey; very long lines cut."""
    return "\n".join(
        plain.line(line if len(line) <= _LINE_LIMIT else f"{line[:_LINE_LIMIT]}…")
        for line in text.split("\n")
    )


def say(text: str) -> None:
    """A line or several for people, on stderr."""
    _to_stderr(f"{safe(text)}\n")


def _to_stderr(text: str) -> None:
    """What nobody takes any more is lost: no work ends by it, and no exit status changes."""
    try:
        print(text, end="", file=sys.stderr, flush=True)
    except OSError:
        lose_output(2)


def show(text: str, end: str = "\n") -> None:
    """What was asked for, to be read by people, on stdout."""
    print(safe(text), end=end)


class Line:
    """One line on stderr that is drawn over itself on a terminal, and now and then elsewhere."""

    def __init__(self) -> None:
        self._tty = sys.stderr.isatty()
        self._last_s = 0.0
        self._drawn = False

    def show(self, text: str, *, force: bool = False) -> None:
        now = time.monotonic()
        every = _REDRAW_EVERY_S if self._tty else _LINE_EVERY_S
        if not force and now - self._last_s < every:
            return
        self._last_s = now
        if self._tty:
            width = shutil.get_terminal_size().columns - 1
            _to_stderr(f"\r\x1b[K{plain.sentence(text)[:width]}")
            self._drawn = True
        else:
            say(plain.sentence(text))

    def end(self, text: str = "") -> None:
        if self._drawn:
            _to_stderr("\r\x1b[K")
            self._drawn = False
        if text:
            say(plain.sentence(text))


def check_writable(json: str | None, other: str | None = None, option: str = "-o") -> None:
    """UsageError before anything slow starts for a result that cannot be written, or two in one."""
    if json and other and Path(json) == Path(other):
        raise UsageError(f"--json and {option} both name {json}: give each a file of its own")
    for name, file in (("--json", json), (option, other)):
        if file is None or file == "-":
            continue
        path = Path(file)
        try:
            if path.is_dir() or not path.absolute().parent.is_dir():
                raise UsageError(f"{name} {file}: not a file in a folder that exists")
            whole.check(path)
        except OSError as problem:
            raise UsageError(f"{name} {file}: {problem.strerror}") from problem


def write(content: str | bytes, file: str) -> None:
    """To stdout for ``-``, else to the file, which is then whole or as it was.

    Text is UTF-8 in both, whatever the locale is; a terminal gets it without what it would obey."""
    if isinstance(content, str):
        content = content if content.endswith("\n") else content + "\n"
        if file == "-" and sys.stdout.isatty():
            content = safe(content)
        content = content.encode("utf-8", "replace")
    if file == "-":
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        whole.write(Path(file), content)


def write_json(value: object, file: str | None) -> None:
    """Any JSON value to the file, or to stdout for ``-``; nowhere where it is not wanted."""
    if file is not None:
        write_json_text(as_json.dumps(value, indent=1, ensure_ascii=False), file)


def answer(data: object, lines: Iterable[str], json: str | None) -> None:
    """As JSON where it is wanted; for people unless that goes to stdout."""
    write_json(data, json)
    if json != "-":
        for line in lines:
            show(line)


def write_json_text(text: str | bytes, file: str) -> None:
    """The same for what is JSON already. A name that is not UTF-8 is kept as Python reads it."""
    if isinstance(text, bytes):
        text = text.decode()
    write(_NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text), file)


def write_export(content: str | bytes, format: str, output: str | None) -> None:
    """An export to the file that -o names, which is said then, or to stdout."""
    if format == "json":
        write_json_text(content, output or "-")
    else:
        write(content, output or "-")
    if output:
        say(f"written: {output}")


@contextmanager
def kept_status() -> Iterator[None]:
    """While printing: a reader that leaves (``| head``), or a terminal, must not turn a regression
    into a 0, nor end what follows, such as a push."""
    try:
        yield
        sys.stdout.flush()
    except OSError as problem:
        if not (isinstance(problem, BrokenPipeError) or problem.errno == errno.EIO):
            raise
        lose_output()


def lose_output(descriptor: int = 1) -> None:
    """Sends nowhere what the buffer still holds: the exit would only fail at it once more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
