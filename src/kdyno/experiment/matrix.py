# SPDX-License-Identifier: MIT
"""``[matrix]``: one experiment over many commits. Its file is a pattern of experiments.

Wherever the file says ``{ref}`` the one for a commit has that commit; apart from that, and from
``[matrix]`` itself, it is the same file, line by line.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

from kdyno.experiment.keys import TABLES
from kdyno.experiment.table import Table
from kdyno.reading.mistakes import Mistakes
from kdyno.reading.position import Positions

PLACE = "{ref}"
_REF = re.compile(r"[\w./~^@+-]{1,200}", re.ASCII)
_SPAN = ".."
_HEADER = re.compile(r"\s*\[")
_OWN = re.compile(r"\s*\[\s*matrix\s*\]\s*(#.*)?")


@dataclass(frozen=True)
class Matrix:
    """``refs``: as listed; or ``span``: (from, to), the commits after the one up to the other."""

    source: str
    """Of the kernels, with ``{ref}``."""
    refs: tuple[str, ...] = ()
    span: tuple[str, str] | None = None


def read(text: str, origin: str) -> Matrix | None:
    """None for an experiment without [matrix], and for what is no TOML: the loader says what is
    wrong with that. UsageError lists every mistake."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError, OverflowError):
        return None
    if "matrix" not in data:
        return None
    mistakes = Mistakes(origin, Positions(text))
    table = Table(data["matrix"], ("matrix",), mistakes, TABLES["matrix"])
    kernel = data.get("kernel")
    source = kernel.get("source") if isinstance(kernel, dict) else None
    if not isinstance(source, str) or PLACE not in source:
        mistakes.add(
            ("kernel", "source"), f'[matrix] needs a source with {PLACE}, such as "git:DIR#{PLACE}"'
        )
        source = ""
    given = table.raw("refs")
    span = None
    refs: list[str] = []
    if isinstance(given, str) and _SPAN in given:
        first, _, last = given.partition(_SPAN)
        span = (first, last)
        refs = [first, last]
    elif isinstance(given, list):
        refs = [it for it in given if isinstance(it, str)]
    if not refs or (isinstance(given, list) and len(refs) < len(given)):
        mistakes.add(("matrix", "refs"), 'is "FROM..TO" or a list of commits', found=given)
    for ref in refs:
        if not _REF.fullmatch(ref) or (_SPAN in ref):
            mistakes.add(("matrix", "refs"), f"{ref!r} names no commit", found=given)
    if len(set(refs)) < len(refs):
        mistakes.add(("matrix", "refs"), "a commit stands there twice", found=given)
    mistakes.raise_any()
    return Matrix(source, () if span else tuple(refs), span)


def at(text: str, ref: str) -> str:
    """The experiment for one commit."""
    lines, inside = [], False
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            inside = _OWN.fullmatch(line.rstrip("\r\n")) is not None
        lines.append("\n" if inside else line.replace(PLACE, ref))
    return "".join(lines)
