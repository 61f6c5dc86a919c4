# SPDX-License-Identifier: MIT
"""What no verb may say or write, whatever it read."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.fuzz_place import CANARY
from benchmarks.mutations import MARK

STATUSES = (0, 1, 2, 10, 11)
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_FORMULA = re.compile(r"[=@]|[+-](?![\d.])")
_ESCAPED = re.compile(r"\\[!-/:-@\[-`{-~]")
_MOST_BYTES = 64 << 20


class Finding(Exception):
    """kdyno did something that it must not, whatever it was fed."""


def check_screen(status: int, said: str) -> None:
    """An ending that is documented, and nothing that moves a cursor or turns the writing round."""
    if status not in STATUSES:
        raise Finding(f"status {status}: {said[-2000:]}")
    if found := _UNSAFE.search(said):
        at = found.start()
        raise Finding(f"on the screen: {said[max(0, at - 60) : at + 60]!r}")


def check_written(name: str, data: bytes) -> None:
    """A file, or what went to stdout as one, by its format's suffix: whole, and no text of the
    run's has become a part of it."""
    if len(data) > _MOST_BYTES:
        raise Finding(f"{name}: {len(data)} bytes")
    if CANARY.strip() in data:
        raise Finding(f"{name}: read through a link")
    for suffix, check in _CHECKS.items():
        if name.endswith(suffix):
            check(data.decode("utf-8"), name)
            return


def check_folder(folder: Path) -> None:
    """Every file of a site."""
    for path in folder.rglob("*"):
        if path.is_file():
            check_written(path.name, path.read_bytes())


class _Page(HTMLParser):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name, self._runs = name, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._runs = tag == "script" and "json" not in (dict(attrs).get("type") or "")
        for key, value in ((tag, ""), *((key, value or "") for key, value in attrs)):
            runs = key.startswith("on") and MARK in value
            leads = key in ("href", "src", "action") and re.match(r"\s*javascript:", value, re.I)
            if MARK in key or runs or leads:
                raise Finding(f"{self._name}: <{tag} {key}={value[:80]!r}")

    def handle_endtag(self, tag: str) -> None:
        self._runs = False

    def handle_data(self, data: str) -> None:
        if self._runs and MARK in data:
            raise Finding(f"{self._name}: in a script: {data[-200:]!r}")


def _html(text: str, name: str) -> None:
    page = _Page(name)
    page.feed(text)
    page.close()


def _markdown(text: str, name: str) -> None:
    """What looks like HTML in Markdown is HTML, but for what a backslash makes a character."""
    _html(_ESCAPED.sub(" ", text), name)


def _xml(text: str, name: str) -> None:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as problem:
        raise Finding(f"{name}: {problem}") from problem
    for element in root.iter():
        if any(MARK in key for key in (str(element.tag), *element.attrib)):
            raise Finding(f"{name}: <{element.tag} {element.attrib}>")


def _json(text: str, name: str) -> None:
    def refuse(word: str) -> None:
        raise Finding(f"{name}: {word} is no JSON")

    try:
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as problem:
        raise Finding(f"{name}: {problem}") from problem


def _csv(text: str, name: str) -> None:
    csv.field_size_limit(_MOST_BYTES)
    for row in csv.reader(io.StringIO(text)):
        for cell in row:
            if _FORMULA.match(cell):
                raise Finding(f"{name}: a spreadsheet computes {cell[:80]!r}")


_CHECKS: dict[str, Callable[[str, str], None]] = {
    ".html": _html,
    ".md": _markdown,
    ".svg": _xml,
    ".xml": _xml,
    ".json": _json,
    ".csv": _csv,
}
