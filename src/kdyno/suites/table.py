# SPDX-License-Identifier: MIT
"""A table of a suite's file, read key by key; what is wrong is a UsageError that names it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kdyno.errors import UsageError


def nearest(word: str, allowed: Iterable[str]) -> str:
    """The end of a message: the nearest right word, if one is near, and all that are allowed."""
    names = list(allowed)
    close = difflib.get_close_matches(word, names, 1, 0.6)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} (allowed: {', '.join(names)})"


class Table:
    """One TOML table: hands out each key once with its type, and refuses what nobody asked for."""

    def __init__(self, path: Path, prefix: str, data: Mapping[str, Any]) -> None:
        self.path, self.prefix, self.data = path, prefix, data
        self.known: list[str] = []

    def refuse(self, key: str, what: str) -> UsageError:
        return UsageError(f"{self.path}: {self.prefix}{key} {what}")

    def take(self, key: str, kind: type, words: str, default: Any = ...) -> Any:
        self.known.append(key)
        if key not in self.data:
            if default is ...:
                raise self.refuse(key, f"is missing; it must be {words}")
            return default
        value = self.data[key]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, str) and not value.strip()):
            raise self.refuse(key, f"is {value!r}, but must be {words}")
        return value

    def positive(self, key: str, default: float | None) -> float | None:
        value = self.take(key, float, "a number above 0", default)
        if value is not None and not 0 < value < 1e18:
            raise self.refuse(key, f"is {value}, but must be a number above 0")
        return value  # type: ignore[no-any-return]

    def one_of(self, key: str, allowed: tuple[str, ...], default: Any = ...) -> Any:
        value = self.take(key, str, f"one of {', '.join(allowed)}", default)
        if value not in allowed:
            raise self.refuse(key, f"is {value!r}{nearest(value, allowed)}")
        return value

    def finish(self) -> None:
        for key in self.data:
            if key not in self.known:
                raise self.refuse(key, f"is an unknown key{nearest(key, self.known)}")
