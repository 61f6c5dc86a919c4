# SPDX-License-Identifier: MIT
"""The mistakes found in one file, each with its place, told all at once."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable
from typing import NoReturn

from kdyno.errors import UsageError
from kdyno.reading.position import KeyPath, Positions

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SHOWN_CHARACTERS = 60
_SHOWN_MISTAKES = 50
_SHOWN_TEXT = 2000
"""Characters of one mistake: the longest list of allowed words has a quarter of that."""


class Mistakes:
    """Collects; ``raise_any`` ends the reading with all of them."""

    def __init__(
        self, origin: str, positions: Positions, words: Callable[[KeyPath], str] | None = None
    ) -> None:
        """words: how a message calls a key, where nobody wrote a file with it."""
        self.origin = origin
        self.positions = positions
        self._words = words or spelled
        self._found: list[tuple[int, str]] = []

    def add(
        self,
        path: KeyPath,
        what: str,
        *,
        allowed: Iterable[str] = (),
        found: object = None,
        near: str | None = None,
    ) -> None:
        """One mistake at ``path``. ``allowed``: the words that may stand there; ``near``: the
        word to find the nearest allowed one to; ``found``: the value, to find its line."""
        line = self.positions.line(path, found)
        words = list(allowed)
        text = f"{self._words(path)}: {what}" if path else what
        if near is not None and (hint := nearest(near, words)):
            text += f". Did you mean {quoted(hint)}?"
        if words:
            text += f"{'' if text.endswith('?') else '.'} Allowed: {', '.join(words)}"
        entry = (line or 0, text)
        if entry not in self._found:
            self._found.append(entry)

    @property
    def any(self) -> bool:
        return bool(self._found)

    def raise_any(self, way: str = "") -> None:
        """UsageError with every mistake, in the file's order; nothing when there is none.
        ``way``: how to get a file that is right."""
        if self._found:
            refuse(self.origin, self._found, way)


def refuse(origin: str, found: list[tuple[int, str]], way: str = "") -> NoReturn:
    """UsageError for (line or 0, text) pairs."""
    lines = [
        f"{origin}:{line}: {_cut(text)}" if line else f"{origin}: {_cut(text)}"
        for line, text in sorted(found, key=lambda pair: pair[0])
    ]
    if len(lines) > _SHOWN_MISTAKES:
        more = len(lines) - _SHOWN_MISTAKES
        lines = [*lines[:_SHOWN_MISTAKES], f"{origin}: … and {more} more mistakes"]
    end = f"; {way}" if way else ""
    if len(lines) == 1:
        raise UsageError(f"{lines[0]}{end}")
    listed = "\n".join(f"  {x}" for x in lines)
    raise UsageError(f"{origin}: {len(found)} mistakes{end}\n{listed}", mistakes=lines)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_TEXT else text[: _SHOWN_TEXT - 1] + "…"


def nearest(word: str, allowed: Iterable[str], likeness: float = 0.6) -> str | None:
    """The allowed word most like ``word``, case aside; None when none is like it."""
    folded = {entry.lower(): entry for entry in allowed}
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


def stands_where(found: object, wanted: str) -> str:
    """``7, an integer, is given, but text is expected``."""
    kinds = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
    kind = kinds.get(type(found))
    shown = f"{quoted(found)}, {kind}," if kind else quoted(found)
    return f"{shown} is given, but {wanted} is expected"


def spelled(path: KeyPath) -> str:
    """``suite[1].cases[2]``: a key path as people write it, counted from 1."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part + 1}]"
        else:
            bare = len(part) <= _SHOWN_CHARACTERS and _BARE.fullmatch(part)
            text += ("." if text else "") + (part if bare else quoted(part))
    return text


def quoted(value: object) -> str:
    """A value from the file for a message: short, on one line, without control characters."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        inner = "".join(x if x.isprintable() else repr(x)[1:-1] for x in value[:200])
        if len(inner) > _SHOWN_CHARACTERS:
            inner = inner[: _SHOWN_CHARACTERS - 1] + "…"
        return f'"{inner}"'
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    try:
        text = str(value)
    except ValueError:  # an integer of more digits than Python converts
        return "a huge number"
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
