# SPDX-License-Identifier: MIT
"""What a kernel copies: distributions, their files, and their shares in a few numbers.

A distribution says how often which size is copied at which alignment, and from which call sites. It
is a JSON file, `{"schema": 1, "kind": "copies", "source": TEXT, "cells": [{"size", "dst", "src",
"calls"}, …], "sites": [{"site", "calls", "bytes"}, …]}`. It may come from another machine or be
written by hand: every number of it is checked before anything is timed with it.
Addresses count modulo 64, the length of a cache line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, ValidationError

from kdyno.errors import UsageError
from kdyno.paths import data_root
from kdyno.reading.checked import FromTool, check_json
from kdyno.store.reading import content

KIND = "copies"
LINE = 64
MOST_FILE_BYTES = 64 << 20
MOST_COPY_BYTES = 1 << 30
SMALLEST = 8
"""Bytes up to which all copies are one class of sizes."""

Calls = Annotated[int, Field(ge=0, le=1 << 62)]
Address = Annotated[int, Field(ge=0, lt=LINE)]


class Copy(NamedTuple):
    """One copy: bytes, and target and source modulo 64."""

    size: int
    dst: int
    src: int


class Cell(FromTool):
    """Copies of one size, in bytes, with target and source at dst and src modulo 64."""

    size: Annotated[int, Field(ge=0, le=MOST_COPY_BYTES)]
    dst: Address
    src: Address
    calls: Calls

    @property
    def bytes(self) -> int:
        return self.size * self.calls


class Site(FromTool):
    """What one function of the kernel copied."""

    site: Annotated[str, Field(min_length=1)]
    calls: Calls
    bytes: Calls


class Distribution(FromTool):
    """Cells sorted by size, target, source, each at most once; sites with most calls first."""

    source: str = ""
    """Where it comes from, for people: a workload, a kernel."""
    cells: Annotated[list[Cell], Field(max_length=1_000_000)]
    sites: Annotated[list[Site], Field(max_length=100_000)] | None = None

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
    places = sorted(counts)
    cells = [Cell(size=n, dst=dst, src=src, calls=counts[n, dst, src]) for n, dst, src in places]
    ordered = sorted(sites, key=lambda site: (-site.calls, -site.bytes, site.site))
    return Distribution(source=source, cells=cells, sites=ordered or None)


def read_distribution(path: Path) -> Distribution:
    """UsageError names the file, the cell and the key at fault."""
    return parse_distribution(content(path, MOST_FILE_BYTES, "distribution"), str(path))


def parse_distribution(data: bytes, origin: str) -> Distribution:
    """The distribution that ``data`` is; UsageError otherwise, with ``origin`` in it."""
    way = "a distribution is what `kdyno lab memcpy histogram -o FILE.json` writes"
    file = check_json(Distribution, data, origin, KIND, way)
    counts: Counter[tuple[int, int, int]] = Counter()
    for cell in file.cells:
        counts[cell.size, cell.dst, cell.src] += cell.calls
    counts = +counts
    if not counts:
        raise UsageError(f"{origin}: every cell has 0 calls, or there is no cell: nothing to copy")
    try:
        return distribution(counts, file.source, file.sites or ())
    except ValidationError:
        raise UsageError(f"{origin}: cells of one size have too many calls together") from None


def shipped() -> Path:
    """What a kernel copied under UnixBench."""
    return data_root() / "kernel" / "distributions" / "unixbench.json"


def to_json(copies: Distribution) -> dict[str, Any]:
    return {"schema": 1, "kind": KIND, **copies.model_dump(exclude_none=True)}


@dataclass(frozen=True)
class Share:
    """Copies of ``least`` to ``most`` bytes, as shares of all calls and of all bytes."""

    least: int
    most: int
    calls: float
    bytes: float

    @property
    def label(self) -> str:
        return f"{self.least}" if self.least == self.most else f"{self.least}-{self.most}"


def by_size(copies: Distribution) -> tuple[Share, ...]:
    """Classes that end at powers of two, from 1-8 to the largest copy; empty ones between stay.

    A class ends at a power because kernels copy whole pages and buffers: 512 is in 257-512. Copies
    of nothing are a class of their own when there are any."""
    calls: Counter[int] = Counter()
    volume: Counter[int] = Counter()
    for cell in copies.cells:
        most = max(SMALLEST, 1 << (cell.size - 1).bit_length()) if cell.size else 0
        calls[most] += cell.calls
        volume[most] += cell.bytes
    all_calls, all_bytes = copies.calls, copies.bytes or 1
    shares = [Share(0, 0, calls[0] / all_calls, 0.0)] if calls[0] else []
    most = SMALLEST
    while most < 2 * max(calls):
        if shares or calls[most]:
            least = most // 2 + 1 if most > SMALLEST else 1
            shares.append(Share(least, most, calls[most] / all_calls, volume[most] / all_bytes))
        most *= 2
    return tuple(shares)


def size_quantile(copies: Distribution, part: float, *, of_bytes: bool = False) -> int:
    """The smallest size so that copies up to it make ``part`` of all calls, or of all bytes."""
    goal = part * (copies.bytes if of_bytes else copies.calls)
    total = 0
    for cell in copies.cells:
        total += cell.bytes if of_bytes else cell.calls
        if total >= goal:
            return cell.size
    return copies.cells[-1].size


def aligned(copies: Distribution, unit: int) -> tuple[float, float, float]:
    """Shares of calls with the target, the source and both at a multiple of ``unit`` bytes, a power
    of two up to 64."""
    where = [(cell.dst % unit == 0, cell.src % unit == 0, cell.calls) for cell in copies.cells]
    target = sum(calls for target, _, calls in where if target)
    source = sum(calls for _, source, calls in where if source)
    both = sum(calls for target, source, calls in where if target and source)
    return target / copies.calls, source / copies.calls, both / copies.calls
