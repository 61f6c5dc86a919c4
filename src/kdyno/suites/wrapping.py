# SPDX-License-Identifier: MIT
"""Cases that wrap an existing program: their keys in a suite's file, and their command line.

In a command, ``{name}`` is a setting of the case, or one of

seconds        as asked for, such as 0.5      whole_seconds  the same, rounded up, at least 1
milliseconds   the same in whole ones         cpus           CPUs of the machine
dir            a working folder, in memory in a guest
disk           a folder on a real file system tree           the kernel source, read-only
programs       kdyno's own programs, scripts  prepared       what the case's ``prepare`` made

The last five are known to the machine only, which puts them in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from kdyno.suites.figure import pattern_problem
from kdyno.suites.table import Table, nearest

PLACES = frozenset({"dir", "disk", "tree", "programs", "prepared"})
"""Placeholders that a machine fills."""
BUILTIN = PLACES | {"seconds", "whole_seconds", "milliseconds", "cpus"}
_SETTING = re.compile(r"[a-z][a-z0-9_]{0,31}")
_PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")


def placeholders(word: str) -> list[str]:
    """The names in ``{…}`` in a word of a command."""
    return _PLACEHOLDER.findall(word)


def filled_in(
    command: tuple[str, ...], settings: Mapping[str, str], seconds: float, cpus: int
) -> tuple[str, ...]:
    """The command with its settings in place; a machine's own places are left for it."""
    values = {
        **settings,
        "seconds": f"{seconds:g}",
        "whole_seconds": str(max(1, math.ceil(seconds))),
        "milliseconds": str(max(1, round(1000 * seconds))),
        "cpus": str(cpus),
    }
    return tuple(
        _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word) for word in command
    )


def in_words(words: tuple[str, ...], places: Mapping[str, str]) -> tuple[str, ...]:
    """The words with a machine's places in them."""
    return tuple(_PLACEHOLDER.sub(lambda it: places.get(it[1], it[0]), word) for word in words)


def command_line(table: Table) -> tuple[str, ...]:
    """The command line of an existing program; empty for a case that has a benchmark."""
    if not isinstance(table.data.get("command"), list):
        return ()
    words = _words(table, "command")
    for key in ("bench", "args"):
        if key in table.data:
            raise table.refuse(key, "and command exclude each other")
    return words


def _words(table: Table, key: str) -> tuple[str, ...]:
    words = table.take(key, list, "a list of texts", [])
    if (key in table.data and not words) or not all(isinstance(it, str) and it for it in words):
        raise table.refuse(key, f"is {words!r}, but must be a list of texts")
    return tuple(words)


def wrapping(table: Table, program: tuple[str, ...]) -> dict[str, Any]:
    """The keys that only a case with a command line has."""
    figure = table.take("figure", str, "a regular expression with one group", None)
    also = table.take("also", dict, "a table of regular expressions", {})
    for key, pattern in [("figure", figure), *((f"also.{name}", it) for name, it in also.items())]:
        problem = pattern_problem(pattern) if pattern is not None else None
        if problem:
            raise table.refuse(key, problem)
    needs = table.take("needs", list, "a list of programs", [])
    if not all(isinstance(need, str) and need for need in needs):
        raise table.refuse("needs", f"is {needs!r}, but must be a list of programs")
    size = table.take("disk", str, 'a size such as "1G"', "")
    warmups = table.take("warmups", int, "a whole number from 0 to 100", 1)
    if isinstance(warmups, bool) or not 0 <= warmups <= 100:
        raise table.refuse("warmups", f"is {warmups!r}, but must be a whole number from 0 to 100")
    values = {
        "figure": figure,
        "also": tuple(also.items()),
        "settings": _settings(table, "settings"),
        "quick": _settings(table, "quick"),
        "needs": tuple(needs) or program[:1],
        "install": table.take("install", str, "names of Debian packages", ""),
        "warmups": warmups,
        "disk_bytes": _bytes(table, size) if size else 0,
        "tree": table.take("tree", bool, "true or false", False),
        "prepare": _words(table, "prepare"),
        "load": table.take("load", str, "the name of a setting", ""),
    }
    if not program:
        for key in _WRAPPING:
            if key in table.data and not (key == "needs" or table.data.get("command") is True):
                raise table.refuse(key, "belongs to a case with command = [...]")
        return values
    known = {name for name, _ in values["settings"]}
    for name, _ in values["quick"]:
        if name not in known | {"warmups"}:
            raise table.refuse(f"quick.{name}", f"is no setting{nearest(name, sorted(known))}")
    used = {name for word in program for name in placeholders(word)}
    if values["load"] and values["load"] not in known:
        raise table.refuse("load", f"is no setting{nearest(values['load'], sorted(known))}")
    for word in (*program, *values["prepare"]):
        for name in placeholders(word):
            if name not in known | BUILTIN:
                raise table.refuse(
                    "command", f"has {{{name}}}{nearest(name, sorted(known | BUILTIN))}"
                )
    for name in sorted(known - used):
        raise table.refuse(f"settings.{name}", f"is not in the command, which has no {{{name}}}")
    for name, wanted in (("disk", values["disk_bytes"]), ("tree", values["tree"])):
        if (name in used) != bool(wanted):
            raise table.refuse(name, f"and {{{name}}} in the command go together")
    return values


_WRAPPING = (
    "figure", "also", "settings", "quick", "needs", "install", "warmups", "disk", "tree", "load",
    "prepare",
)  # fmt: skip


def _settings(table: Table, key: str) -> tuple[tuple[str, str], ...]:
    data = table.take(key, dict, "a table of numbers and texts", {})
    for name, value in data.items():
        if not _SETTING.fullmatch(name) or name in BUILTIN:
            raise table.refuse(f"{key}.{name}", "is no name of a setting: a-z, 0-9 and _")
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise table.refuse(f"{key}.{name}", f"is {value!r}, but must be a number or a text")
    return tuple((name, str(value)) for name, value in data.items())


def _bytes(table: Table, size: str) -> int:
    match = re.fullmatch(r"([1-9][0-9]{0,5})([MG])", size)
    if match is None:
        raise table.refuse("disk", f'is {size!r}, but must be a size such as "512M" or "1G"')
    return int(match[1]) << (20 if match[2] == "M" else 30)
