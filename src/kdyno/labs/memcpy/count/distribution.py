# SPDX-License-Identifier: MIT
"""What a kernel copies: how often which size at which alignment, and from which call sites.

A distribution is a JSON file, `{"schema": 1, "kind": "copies", "source": TEXT, "cells": [{"size",
"dst", "src", "calls"}, …], "sites": [{"site", "calls", "bytes"}, …]}`. It may come from another
machine or from a hand: every number of it is checked before anything is timed with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdyno import whole
from kdyno.errors import UsageError
from kdyno.paths import data_root
from kdyno.store.reading import content

SCHEMA = 1
KIND = "copies"
LINE = 64
"""Addresses count modulo this: the length of a cache line."""

MOST_FILE_BYTES = 64 << 20
MOST_CELLS = 1_000_000
MOST_SITES = 100_000
MOST_COPY_BYTES = 1 << 30
MOST_CALLS = 1 << 62


@dataclass(frozen=True, order=True)
class Cell:
    """Copies of one size, in bytes, with target and source at dst and src modulo 64."""

    size: int
    dst: int
    src: int
    calls: int

    @property
    def bytes(self) -> int:
        return self.size * self.calls


@dataclass(frozen=True)
class Site:
    """What one place in the kernel copied: a function, or function+offset."""

    site: str
    calls: int
    bytes: int


@dataclass(frozen=True)
class Distribution:
    """Cells sorted by size, target, source, each at most once; sites with most calls first."""

    cells: tuple[Cell, ...]
    source: str
    """Where it comes from, for people: a workload, a kernel."""
    sites: tuple[Site, ...] = ()

    @property
    def calls(self) -> int:
        return sum(cell.calls for cell in self.cells)

    @property
    def bytes(self) -> int:
        return sum(cell.bytes for cell in self.cells)


def distribution(
    counts: Mapping[tuple[int, int, int], int], source: str, sites: Iterable[Site] = ()
) -> Distribution:
    """The distribution with ``counts``: (size, dst, src) → calls."""
    cells = tuple(Cell(*key, calls) for key, calls in sorted(counts.items()))
    ordered = sorted(sites, key=lambda site: (-site.calls, -site.bytes, site.site))
    return Distribution(cells, source, tuple(ordered))


def read_distribution(path: Path) -> Distribution:
    """The distribution in a file; UsageError names the file, the cell and the key at fault."""
    return parse_distribution(content(path, MOST_FILE_BYTES, "distribution"), str(path))


def parse_distribution(given: bytes, origin: str) -> Distribution:
    """The distribution that ``given`` is; UsageError otherwise, with ``origin`` in it."""
    way = "a distribution is what `kdyno memcpy histogram -o FILE.json` writes"
    try:
        data = json.loads(given)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{origin}: not JSON ({problem}); {way}") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UsageError(f'{origin}: no distribution of copies: no "kind": "{KIND}"; {way}')
    if data.get("schema") != SCHEMA or isinstance(data.get("schema"), bool):
        raise UsageError(f"{origin}: schema is {data.get('schema')!r}, known is {SCHEMA}; {way}")
    source = data.get("source", "")
    if not isinstance(source, str):
        raise UsageError(f"{origin}: source is {source!r}, but must be a text")
    counts: dict[tuple[int, int, int], int] = {}
    for where, row in _rows(data, "cells", MOST_CELLS, origin):
        size = _number(row, "size", MOST_COPY_BYTES, where)
        key = (size, _number(row, "dst", LINE - 1, where), _number(row, "src", LINE - 1, where))
        calls = _number(row, "calls", MOST_CALLS, where)
        if calls:
            counts[key] = counts.get(key, 0) + calls
    if not counts:
        raise UsageError(f"{origin}: every cell has 0 calls, or there is no cell: nothing to copy")
    sites = []
    if data.get("sites") is not None:
        for where, row in _rows(data, "sites", MOST_SITES, origin):
            name = row.get("site")
            if not isinstance(name, str) or not name:
                raise UsageError(f"{where}: site is {name!r}, but must be a name")
            calls = _number(row, "calls", MOST_CALLS, where)
            sites.append(Site(name, calls, _number(row, "bytes", MOST_CALLS, where)))
    return distribution(counts, source, sites)


def to_json(copies: Distribution) -> dict[str, Any]:
    """The distribution as the JSON value that a file holds."""
    value: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": KIND,
        "source": copies.source,
        "cells": [
            {"size": cell.size, "dst": cell.dst, "src": cell.src, "calls": cell.calls}
            for cell in copies.cells
        ],
    }
    if copies.sites:
        value["sites"] = [
            {"site": site.site, "calls": site.calls, "bytes": site.bytes} for site in copies.sites
        ]
    return value


def render_distribution(copies: Distribution) -> str:
    """The text of a file: one cell a line, so that two files can be held side by side."""
    value = to_json(copies)
    lists = {key: value.pop(key) for key in ("cells", "sites") if key in value}
    lines = [f" {json.dumps(key)}: {json.dumps(value[key])}" for key in value]
    for key, rows in lists.items():
        body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
        lines.append(f' "{key}": [\n{body}\n ]' if body else f' "{key}": []')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_distribution(copies: Distribution, path: Path) -> None:
    """Write the file, whole or not at all; UsageError where it cannot be written."""
    write_whole(render_distribution(copies).encode(), path)


def write_whole(content: bytes, path: Path) -> None:
    """UsageError names the path and the system's reason."""
    try:
        whole.write(path, content)
    except OSError as problem:
        raise UsageError(f"{path}: cannot be written: {problem.strerror}") from problem


def _rows(
    data: Mapping[str, Any], key: str, most: int, origin: str
) -> Iterable[tuple[str, dict[str, Any]]]:
    rows = data.get(key)
    if not isinstance(rows, list):
        raise UsageError(f"{origin}: {key} is not a list; see docs/memcpy.md")
    if len(rows) > most:
        raise UsageError(f"{origin}: {key} has {len(rows)} entries, at most {most} are read")
    for number, row in enumerate(rows):
        where = f"{origin}: {key}[{number}]"
        if not isinstance(row, dict):
            raise UsageError(f"{where} is {str(row)[:40]!r}, but must be a table")
        yield where, row


def _number(row: Mapping[str, Any], key: str, most: int, where: str) -> int:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise UsageError(
            f"{where}: {key} is {str(value)[:40]}, but must be a whole number from 0 to {most}"
        )
    return value


USUAL = "unixbench"


def shipped_folder() -> Path:
    return data_root() / "kernel" / "distributions"


def shipped_distribution(name: str = USUAL) -> Distribution | None:
    """What a kernel was seen to copy under UnixBench; None where none was shipped."""
    path = shipped_folder() / f"{name}.json"
    return read_distribution(path) if path.is_file() else None
