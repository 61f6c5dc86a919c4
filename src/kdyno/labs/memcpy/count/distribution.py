# SPDX-License-Identifier: MIT
"""What a kernel copies: how often which size at which alignment, and from which call sites.

A distribution is a JSON file, `{"schema": 1, "kind": "copies", "source": TEXT, "cells": [{"size",
"dst", "src", "calls"}, …], "sites": [{"site", "calls", "bytes"}, …]}`. It may come from another
machine or from a hand: every number of it is checked before anything is timed with it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from kdyno import whole
from kdyno.errors import UsageError
from kdyno.paths import data_root
from kdyno.reading.checked import FromTool, check_json
from kdyno.store.reading import content

SCHEMA = 1
KIND = "copies"
LINE = 64
"""Addresses count modulo this: the length of a cache line."""

MOST_FILE_BYTES = 64 << 20
MOST_COPY_BYTES = 1 << 30


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
    file = check_json(_File, given, origin, KIND, way)
    counts: Counter[tuple[int, int, int]] = Counter()
    for cell in file.cells:
        counts[cell.size, cell.dst, cell.src] += cell.calls
    counts = +counts
    if not counts:
        raise UsageError(f"{origin}: every cell has 0 calls, or there is no cell: nothing to copy")
    sites = (Site(it.site, it.calls, it.bytes) for it in file.sites or ())
    return distribution(counts, file.source, sites)


Calls = Annotated[int, Field(ge=0, le=1 << 62)]
Address = Annotated[int, Field(ge=0, lt=LINE)]


class _Cell(FromTool):
    size: Annotated[int, Field(ge=0, le=MOST_COPY_BYTES)]
    dst: Address
    src: Address
    calls: Calls


class _Site(FromTool):
    site: Annotated[str, Field(min_length=1)]
    calls: Calls
    bytes: Calls


class _File(FromTool):
    source: str = ""
    cells: Annotated[list[_Cell], Field(max_length=1_000_000)]
    sites: Annotated[list[_Site], Field(max_length=100_000)] | None = None


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


def write_whole(content: bytes, path: Path) -> None:
    """UsageError names the path and the system's reason."""
    try:
        whole.write(path, content)
    except OSError as problem:
        raise UsageError(f"{path}: cannot be written: {problem.strerror}") from problem


USUAL = "unixbench"


def shipped_folder() -> Path:
    return data_root() / "kernel" / "distributions"


def shipped_distribution(name: str = USUAL) -> Distribution | None:
    """What a kernel was seen to copy under UnixBench; None where none was shipped."""
    path = shipped_folder() / f"{name}.json"
    return read_distribution(path) if path.is_file() else None
