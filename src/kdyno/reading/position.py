# SPDX-License-Identifier: MIT
"""On which line of a TOML text a key stands. tomllib does not say, so the text is searched.

A best effort for messages: where a key cannot be found, the nearest key above it is.
"""

from __future__ import annotations

import re

KeyPath = tuple[str | int, ...]

_PART = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\])*"|'[^']*')"""
_DOTTED = rf"{_PART}(?:\s*\.\s*{_PART})*"
_TABLE = re.compile(rf"\s*\[\s*({_DOTTED})\s*\]")
_ARRAY = re.compile(rf"\s*\[\[\s*({_DOTTED})\s*\]\]")
_KEY = re.compile(rf"\s*({_DOTTED})\s*=")
_INLINE = re.compile(rf"[{{,]\s*({_PART})\s*=")
_STRING = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'")
_LONG_STRING = re.compile(r"(\"\"\"|''').*?\1", re.DOTALL)


class Positions:
    """Lines of the keys of one text, counted from 1."""

    def __init__(self, text: str) -> None:
        self._text_lines = _without_long_strings(text).splitlines()
        self._lines: dict[KeyPath, int] = {}
        counts: dict[KeyPath, int] = {}
        table: KeyPath = ()
        current: KeyPath = ()
        depth = 0
        for number, line in enumerate(self._text_lines, start=1):
            if depth == 0:
                if match := _ARRAY.match(line):
                    path = _parts(match[1])
                    index = counts.get(path, 0)
                    counts[path] = index + 1
                    table = current = (*path, index)
                    self._lines.setdefault(path, number)
                    self._lines.setdefault(table, number)
                    continue
                if match := _TABLE.match(line):
                    table = current = _parts(match[1])
                    self._lines.setdefault(table, number)
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
        return any(known[: len(path)] == path for known in self._lines)

    def line(self, path: KeyPath, found: object = None) -> int | None:
        """Line of the key at ``path`` or of the nearest one above it; None for the whole file.

        ``found`` is the value: in an array of several lines, its own line is looked for.
        """
        below = [it for known, it in self._lines.items() if path and known[: len(path)] == path]
        if below and path not in self._lines:
            return min(below)
        known = path
        while known and known not in self._lines:
            known = known[:-1]
        if not known:
            return None
        start = self._lines[known]
        if isinstance(found, str) and found and known != path:
            end = min((x for x in self._lines.values() if x > start), default=1 << 30)
            for number in range(start, min(end, len(self._text_lines) + 1)):
                if found in self._text_lines[number - 1]:
                    return number
        return start


def _parts(dotted: str) -> KeyPath:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, dotted))


def _without_long_strings(text: str) -> str:
    """The text with its multi-line strings emptied, line numbers kept."""
    return _LONG_STRING.sub(lambda match: '""' + "\n" * match[0].count("\n"), text)
