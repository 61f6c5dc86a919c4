# SPDX-License-Identifier: MIT
"""The mistakes in one file, each with its line, reported all at once; and the nearest words.
tomllib does not say on which line a key stands, so the text is searched: a best effort, and where a
key cannot be found, the line is that of the nearest key above it."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import NoReturn

from kdyno.errors import UsageError

KeyPath = tuple[str | int, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE = re.compile(rf"\s*(\[?)\[\s*({_DOTTED})\s*\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_INLINE = re.compile(rf"[{{,]\s*({_PART})\s*=")
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'")
_LONG_STRING = re.compile(r"(\"\"\"|''').*?\1", re.DOTALL)
MOST = 1000
"""Mistakes that are looked for in a file."""
_SHOWN_CHARACTERS = 60
_SHOWN_MISTAKES = 50
_SHOWN_TEXT = 2000
"""Characters of one mistake: the longest list of allowed words has a quarter of that."""


class Positions:
    """Lines of the keys of one TOML text, counted from 1."""

    def __init__(self, text: str) -> None:
        # Multi-line strings are emptied, line numbers kept.
        text = _LONG_STRING.sub(lambda match: '""' + "\n" * match[0].count("\n"), text)
        self._text_lines = text.split("\n")  # no other sign ends a line of TOML
        self._lines: dict[KeyPath, int] = {}
        counts = Counter[KeyPath]()
        table: KeyPath = ()
        current: KeyPath = ()
        depth = 0
        for number, line in enumerate(self._text_lines, start=1):
            if depth == 0:
                if match := _TABLE.match(line):
                    table = _parts(match[2])
                    self._lines.setdefault(table, number)
                    if match[1]:
                        counts[table] += 1
                        table = (*table, counts[table] - 1)
                        self._lines.setdefault(table, number)
                    current = table
                    continue
                if match := _KEY.match(line):
                    current = (*table, *_parts(match[1]))
                    self._lines.setdefault(current, number)
            bare = _STRING.sub('""', line).partition("#")[0]
            depth = max(0, depth + sum(map(bare.count, "[{")) - sum(map(bare.count, "]}")))
            for match in _INLINE.finditer(line):
                self._lines.setdefault((*current, *_parts(match[1])), number)

    def has(self, path: KeyPath) -> bool:
        """Whether the text says anything there."""
        return any(key[: len(path)] == path for key in self._lines)

    def line(self, path: KeyPath, value: object = None) -> int | None:
        """Line of the key at ``path`` or of the nearest one above it; None for the whole file.
        ``value`` stands there: in an array of several lines, its own line is looked for."""
        key = path
        if path and path not in self._lines:
            below = [line for key, line in self._lines.items() if key[: len(path)] == path]
            if below:
                return min(below)
        while key and key not in self._lines:
            key = key[:-1]
        if not key:
            return None
        start = self._lines[key]
        if isinstance(value, str) and value and key != path:
            end = min((line for line in self._lines.values() if line > start), default=1 << 30)
            for number in range(start, min(end, len(self._text_lines) + 1)):
                if value in self._text_lines[number - 1]:
                    return number
        return start


def _parts(dotted: str) -> KeyPath:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, dotted))


class Mistakes:
    """Collects; ``raise_any`` ends the reading with all of them, and so does the last of very many:
    each takes a look at the whole text."""

    def __init__(
        self,
        origin: str,
        text: str = "",
        words: Callable[[KeyPath], str] | None = None,
        way: str = "",
    ) -> None:
        """text: what has the lines. words: what a message calls a key, for no text of a file.
        way: how to get a right file."""
        self.origin = origin
        self._way = way
        self.positions = Positions(text)
        self._words = words or spelled
        self._listed: dict[tuple[int, str], KeyPath] = {}

    def add(
        self,
        path: KeyPath,
        what: str,
        *,
        allowed: Iterable[str] = (),
        value: object = None,
        near: str | None = None,
    ) -> None:
        """One mistake at ``path``. ``allowed``: the words that may stand there; ``near``: the
        word to find the nearest allowed one to; ``value``: what stands there, to find its line."""
        words = list(allowed)
        text = f"{self._words(path)}: {what}" if path else what
        if near is not None and (hint := nearest(near, words)):
            text += f". Did you mean {quoted(hint)}?"
        if words:
            text += f"{'' if text.endswith('?') else '.'} Allowed: {', '.join(words)}"
        self._listed.setdefault((self.positions.line(path, value) or 0, text), path)
        if len(self._listed) >= MOST:
            self.raise_any()

    def has(self, path: KeyPath) -> bool:
        """Whether there is one at this key or below."""
        return any(key[: len(path)] == path for key in self.paths)

    @property
    def paths(self) -> Collection[KeyPath]:
        return self._listed.values()

    def raise_any(self) -> None:
        """UsageError with every mistake, in the file's order."""
        if self._listed:
            refuse(self.origin, list(self._listed), self._way)


def refuse(origin: str, mistakes: list[tuple[int, str]], way: str = "") -> NoReturn:
    """UsageError for (line or 0, text) pairs."""
    lines = []
    for line, text in sorted(mistakes, key=lambda pair: pair[0]):
        cut = text if len(text) <= _SHOWN_TEXT else text[: _SHOWN_TEXT - 1] + "…"
        lines.append(f"{origin}:{line}: {cut}" if line else f"{origin}: {cut}")
    least = "at least " if len(lines) >= MOST else ""
    if len(lines) > _SHOWN_MISTAKES:
        more = f"{least}{len(lines) - _SHOWN_MISTAKES}"
        lines = [*lines[:_SHOWN_MISTAKES], f"{origin}: … and {more} more mistakes"]
    end = f"; {way}" if way else ""
    if len(lines) == 1:
        raise UsageError(f"{lines[0]}{end}")
    listed = "\n".join(f"  {line}" for line in lines)
    raise UsageError(f"{origin}: {least}{len(mistakes)} mistakes{end}\n{listed}", mistakes=lines)


def nearest(word: str, allowed: Iterable[str], likeness: float = 0.6) -> str | None:
    """The allowed word most like ``word``, case aside; None when none is like it."""
    folded = {name.lower(): name for name in allowed}
    close = difflib.get_close_matches(word.lower()[:200], folded, n=1, cutoff=likeness)
    return folded[close[0]] if close else None


def meant(word: str, allowed: Iterable[str], form: str = "; did you mean {}?") -> str:
    """``form`` with the nearest allowed word in it; empty when none is like ``word``."""
    near = nearest(word, allowed)
    return form.format(near) if near is not None else ""


def among(word: str, allowed: Iterable[str]) -> str:
    """The end of a message: the nearest right word, if one is near, and all that are allowed."""
    names = list(allowed)
    return f"{meant(word, names, '; did you mean {!r}?')} (allowed: {', '.join(names)})"


def stands_where(value: object, wanted: str) -> str:
    """``7, an integer, is given, but text is expected``."""
    kinds = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
    kind = f", {kinds[type(value)]}," if type(value) in kinds else ""
    return f"{quoted(value)}{kind} is given, but {wanted} is expected"


def spelled(path: KeyPath) -> str:
    """``suite[1].cases[2]``: a key path as people write it, counted from 1."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            bare = len(part) <= _SHOWN_CHARACTERS and re.fullmatch(r"[A-Za-z0-9_-]+", part)
            text += ("." if text else "") + (part if bare else quoted(part))
    return text


def quoted(value: object) -> str:
    """A value from the file for a message: short, on one line, without control characters."""
    try:
        text = str(value)[:200]
    except ValueError:  # an integer of more digits than Python converts
        return "a huge number"
    text = "".join(x if x.isprintable() else repr(x)[1:-1] for x in text)
    if len(text) > _SHOWN_CHARACTERS:
        text = text[: _SHOWN_CHARACTERS - 1] + "…"
    fixed = {str: f'"{text}"', dict: "a table", list: "an array", bool: text.lower()}
    return fixed.get(type(value), text)
