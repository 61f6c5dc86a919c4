# SPDX-License-Identifier: MIT
"""Where fuzzing happens, how a verb is called there, and what no verb may print or write."""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import re
import shutil
import signal
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import kdyno.cli.main
from benchmarks.mutations import MARK
from kdyno.reading.checked import values

CANARY = b"what lies outside of a run\n"
STATUSES = (0, 1, 2, 10, 11)
LONGEST_S = 60
"""CPU time of a verb."""
_LOOK_S, _LOOKS, _IDLE_S = 3, 5, 0.05
# What moves a cursor or reverses the writing.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"[=@]|[+-](?![\d.])")
_ESCAPED = re.compile(r"\\[!-/:-@\[-`{-~]")
_MOST_BYTES = 64 << 20
_SUFFIXES = {"markdown": ".md", "csv": ".csv", "junit": ".xml", "json": ".json"}
Case = Mapping[str, Any]
"""JSON values only; ``target`` is its kind."""


class Finding(Exception):
    """kdyno did something that it must not, whatever it was fed."""


@dataclass(frozen=True)
class Place:
    """Where cases are played; the canary lies outside of everything that may be written."""

    folder: Path
    runs: Mapping[str, Path]
    """Name → an intact run, which is copied for each case."""
    experiments: Sequence[bytes] = ()

    @property
    def canary(self) -> Path:
        return self.folder / "outside" / "canary"

    def __post_init__(self) -> None:
        self.canary.parent.mkdir(exist_ok=True)
        self.canary.write_bytes(CANARY)

    def check(self) -> None:
        if self.canary.read_bytes() != CANARY or len(list(self.canary.parent.iterdir())) > 1:
            raise Finding("written through a link")


def packed(data: bytes) -> str:
    """Any bytes as text, small."""
    return base64.b85encode(zlib.compress(data, 9)).decode()


def unpacked(text: str) -> bytes:
    return zlib.decompress(base64.b85decode(text))


def call(words: Sequence[str]) -> tuple[int, str, str]:
    """(status, stdout, stderr) of a verb in this process; a Finding for a crash."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    try:
        with (
            mock.patch.object(sys, "argv", ["kdyno", *words]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            _limited(),
        ):
            status = kdyno.cli.main.main()
    except (Exception, SystemExit) as problem:
        raise Finding(f"{words}\n{''.join(traceback.format_exception(problem))}") from problem
    texts = (stream.detach().getvalue() for stream in (out, err))
    return (status, *(text.decode("utf-8", "replace") for text in texts))


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """A verb that works, or waits, for ever is a finding; it waits where it did nothing at several
    looks in a row (on a machine that is suspended there is one look). Signals are restored."""
    begin = last = time.process_time()
    idle = 0

    def look(_signal: int, _frame: object) -> None:
        nonlocal idle, last
        now = time.process_time()
        idle, last = (idle + 1 if now - last < _IDLE_S else 0), now
        if idle >= _LOOKS or now - begin > LONGEST_S:
            raise Finding(f"not done after {now - begin:.1f} s of CPU time")

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK_S, _LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def play_verb(words: Sequence[str], names: Mapping[str, str], place: Place) -> None:
    """A verb with these names in the place of words; all that it prints and writes is checked."""
    out = place.folder / "OUT"
    shutil.rmtree(out, ignore_errors=True)
    for stale in place.folder.glob("OUT.*"):
        stale.unlink()
    names = {**names, "OUT": str(out)}
    status, text, errors = call(
        [names.get(word, word.replace("OUT.", f"{out}.")) for word in words]
    )
    screen = text + errors
    if status not in STATUSES:
        raise Finding(f"status {status}: {screen[-2000:]}")
    if unsafe := _UNSAFE.search(screen):
        at = unsafe.start()
        raise Finding(f"on the screen: {screen[max(0, at - 60) : at + 60]!r}")
    if CANARY.decode().strip() in screen:
        raise Finding(f"read through a link: {text[-2000:]}")
    if status == 0 and "-f" in words and "-o" not in words:
        check_written(_SUFFIXES.get(words[words.index("-f") + 1], ""), text.encode())
    if "--json" in words and text:
        check_written(".json", text.encode())
    for path in (*place.folder.glob("OUT.*"), *out.rglob("*")):
        if path.is_file():
            check_written(path.name, path.read_bytes())


class _Page(HTMLParser):
    name = ""
    _script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._script = tag == "script" and "json" not in (dict(attrs).get("type") or "")
        for key, value in ((tag, ""), *((key, value or "") for key, value in attrs)):
            runs = key.startswith("on") and MARK in value
            leads = key in ("href", "src", "action") and re.match(r"\s*javascript:", value, re.I)
            if MARK in key or runs or leads:
                raise Finding(f"{self.name}: <{tag} {key}={value[:80]!r}")

    def handle_endtag(self, tag: str) -> None:
        self._script = False

    def handle_data(self, data: str) -> None:
        if self._script and MARK in data:
            raise Finding(f"{self.name}: in a script: {data[-200:]!r}")


def check_written(name: str, data: bytes) -> None:
    """A file, or what went to stdout as one, by its format's suffix: well-formed, and no text of
    the run has become a part of its markup."""
    if len(data) > _MOST_BYTES:
        raise Finding(f"{name}: {len(data)} bytes")
    if CANARY.strip() in data:
        raise Finding(f"{name}: read through a link")
    suffix = f".{name.rpartition('.')[2]}"
    if suffix in (".html", ".md"):
        # What looks like HTML in Markdown is HTML, but for what a backslash makes a character.
        page, text = _Page(), data.decode()
        page.name = name
        page.feed(_ESCAPED.sub(" ", text) if suffix == ".md" else text)
        page.close()
    elif suffix == ".csv":
        csv.field_size_limit(_MOST_BYTES)
        for cell in (cell for row in csv.reader(io.StringIO(data.decode())) for cell in row):
            if _FORMULA.match(cell):
                raise Finding(f"{name}: a spreadsheet computes {cell[:80]!r}")
    elif suffix in _READERS:
        try:
            content = _READERS[suffix](data.decode())
        except (ElementTree.ParseError, ValueError, RecursionError) as problem:
            raise Finding(f"{name}: {problem}") from problem
        for element in content.iter() if suffix != ".json" else ():
            if any(MARK in key for key in (str(element.tag), *element.attrib)):
                raise Finding(f"{name}: <{element.tag} {element.attrib}>")


_XML, _JSON = ElementTree.fromstring, partial(values, finite=True)
_READERS: Mapping[str, Callable[[str], Any]] = {".svg": _XML, ".xml": _XML, ".json": _JSON}
