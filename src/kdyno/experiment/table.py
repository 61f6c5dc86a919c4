# SPDX-License-Identifier: MIT
"""A table of the file, read key by key: each getter checks type and range, and notes mistakes."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kdyno.experiment.keys import home_of
from kdyno.reading.mistakes import Mistakes, quoted, spelled, stands_where
from kdyno.reading.position import KeyPath

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,79}")
NAME_RULE = "a name is 1 to 80 letters, digits and . _ + -, and does not begin with . + -"

_MEMORY = re.compile(r"(\d{1,12})([KMGT])(?:i?B)?", re.IGNORECASE)
_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*%")
_SHIFTS = {"K": 10, "M": 20, "G": 30, "T": 40}
_HIGHEST_FRACTION = 0.25


class Table:
    """``data`` at ``path``. A getter returns its default for what is absent or wrong."""

    def __init__(
        self, data: object, path: KeyPath, mistakes: Mistakes, allowed: Collection[str]
    ) -> None:
        self.path = path
        self.mistakes = mistakes
        self._data: Mapping[str, Any] = {}
        if not isinstance(data, dict):
            self.wrong_type(path, data, "a table")
            return
        self._data = data
        for key in data:
            if key not in allowed:
                home = home_of(key)
                belongs = f" here; it belongs in {home}" if home else ""
                mistakes.add((*path, key), f"unknown key{belongs}", allowed=allowed, near=key)

    def __contains__(self, key: str) -> bool:
        return key in self._data

    def raw(self, key: str) -> Any:
        return self._data.get(key)

    def at(self, key: str) -> KeyPath:
        return (*self.path, key)

    def wrong_type(self, path: KeyPath, found: object, wanted: str) -> None:
        text = stands_where(found, wanted)
        if isinstance(found, list) and found and all(isinstance(it, dict) for it in found):
            name = spelled(path) + (".NAME" if wanted == "a table of tables" else "")
            text = f"[[…]] begins one entry of several: write [{name}], in single brackets"
        self.mistakes.add(path, text, found=found)

    def text(self, key: str, default: str = "") -> str:
        return self._text_at(self.at(key), self.raw(key), default) if key in self else default

    def _text_at(self, path: KeyPath, value: object, default: str) -> str:
        if not isinstance(value, str):
            self.wrong_type(path, value, 'text in quotes, "…",')
            return default
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
            self.mistakes.add(path, f"{quoted(value)} contains a control character or a line end")
            return default
        return value

    def texts(self, key: str) -> list[tuple[KeyPath, str]]:
        """Non-empty texts of an array, each with its path."""
        value = self.raw(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.wrong_type(self.at(key), value, 'an array of texts, ["…", "…"],')
            return []
        found = []
        for index, item in enumerate(value):
            path = (*self.at(key), index)
            if isinstance(item, str) and not item.strip():
                self.mistakes.add(path, "an empty text")
            elif text := self._text_at(path, item, "").strip():
                found.append((path, text))
        return found

    def word(self, key: str, allowed: Collection[str], default: str) -> str:
        """A text that is one of ``allowed``."""
        value = self.text(key, default)
        if key in self and isinstance(self.raw(key), str) and value not in allowed:
            self.mistakes.add(
                self.at(key), f"{quoted(value)} is not known", allowed=allowed, near=value
            )
            return default
        return value

    def name(self, key: str, default: str = "") -> str:
        value = self.text(key, default)
        if key in self and isinstance(self.raw(key), str) and not NAME.fullmatch(value):
            self.mistakes.add(self.at(key), f"{quoted(self.raw(key))} is not a name: {NAME_RULE}")
            return default
        return value

    def flag(self, key: str) -> bool:
        value = self.raw(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.wrong_type(self.at(key), value, "true or false")
        return False

    def integer(self, key: str, default: int, low: int, high: int) -> int:
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong_type(self.at(key), value, "an integer")
            return default
        if not low <= value <= high:
            self.mistakes.add(
                self.at(key), f"{quoted(value)} is out of range. Allowed: {low} to {high}"
            )
            return default
        return value

    def number(self, key: str, default: float, high: float, unit: str) -> float:
        """A finite number greater than 0."""
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.wrong_type(self.at(key), value, f"a number of {unit}")
            return default
        if not (0 < value <= high):
            self.mistakes.add(
                self.at(key),
                f"{quoted(value)} is out of range. Allowed: more than 0, at most {high:g} {unit}",
            )
            return default
        return float(value)

    def fraction(
        self, key: str, default: float, low: float = 0.0, high: float = _HIGHEST_FRACTION
    ) -> float:
        """``"0.5%"`` or ``0.005``; more than ``low`` and at most ``high``."""
        value = self.raw(key)
        if value is None:
            return default
        if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
            fraction = float(match[1]) / 100
        elif isinstance(value, int | float) and not isinstance(value, bool):
            fraction = float(min(value, 1e9)) if math.isfinite(value) else math.nan
        else:
            self.wrong_type(self.at(key), value, 'a share like "0.5%" or 0.005')
            return default
        if not low < fraction <= high:
            meant = isinstance(value, int | float) and low == 0 < fraction <= 100 * high
            hint = f' Did you mean "{fraction:g}%"?' if meant else ""
            self.mistakes.add(
                self.at(key),
                f"{quoted(value)} is out of range.{hint} "
                f'Allowed: more than "{low * 100:g}%", at most "{high * 100:g}%"',
            )
            return default
        return fraction

    def memory(self, key: str, default: int, low: int) -> int:
        """Bytes of ``"1G"``, ``"512M"``."""
        value = self.raw(key)
        if value is None:
            return default
        match = _MEMORY.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is None:
            self.mistakes.add(
                self.at(key),
                f'{quoted(value)} is not an amount of memory. Allowed: text like "512M" or "1G"',
            )
            return default
        size_bytes = int(match[1]) << _SHIFTS[match[2].upper()]
        if not low <= size_bytes <= 1 << 42:
            self.mistakes.add(
                self.at(key),
                f'{quoted(value)} is out of range. Allowed: "{low >> 20}M" to "4T"',
            )
            return default
        return size_bytes

    def table(self, key: str) -> dict[str, Any]:
        """A table whose keys are names chosen by the user."""
        value = self.raw(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.wrong_type(self.at(key), value, "a table of tables")
            return {}
        for name in value:
            if not NAME.fullmatch(name):
                path = (*self.at(key), name)
                self.mistakes.add(path, f"{quoted(name)} is not a name: {NAME_RULE}")
        return value


def is_file(path: Path) -> bool:
    """Whether ``path`` is a file; False too for what no path can be."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
