# SPDX-License-Identifier: MIT
"""What a bench found, as a value and as the JSON file ``memcpy/bench.json``.

`{"schema": 1, "kind": "memcpy-bench", "loads": [{"id", "level", …}], "contenders": [{"name", …}],
"ns": {CONTENDER: {LOAD: [ns per call, one for each block]}}, "ghz": {LOAD: core GHz}, …}`
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kdyno.errors import UsageError
from kdyno.memcpy.loads import LEVELS, MODES, Load
from kdyno.store.reading import content

SCHEMA = 1
KIND = "memcpy-bench"
MOST_FILE_BYTES = 256 << 20
FOLDER, FILE = "memcpy", "bench.json"
"""Where a run keeps its bench."""
RANKS = ("routine", "rival", "other", "bound")

T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """One function that was timed."""

    name: str
    help: str
    rank: str
    """``routine``, ``rival``, ``other`` or ``bound``; see rack.Contender."""


@dataclass(frozen=True)
class Ceiling:
    """The most that a level was seen to take, in bytes per ns, and how that was seen."""

    rate: float
    how: str


@dataclass(frozen=True)
class Bench:
    """One execution of `kdyno memcpy bench`. Blocks are numbered from 0; none is missing."""

    plan: str
    created: str
    cpu: str
    seed: int
    blocks: int
    seconds: float
    tsc_ghz: float
    core_ghz: float
    """Median over the blocks."""
    entries: tuple[Entry, ...]
    loads: tuple[Load, ...]
    ns: Mapping[str, Mapping[str, tuple[float, ...]]]
    """Contender → load → ns per call by block."""
    ghz: Mapping[str, float]
    """Load → the core's clock while it was timed."""
    ceilings: Mapping[str, Ceiling]
    """Level → ceiling."""
    caches: Mapping[str, int] = field(default_factory=dict)
    """Level → bytes, but for memory."""
    failed: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def timed(self) -> tuple[Entry, ...]:
        """Those that have a time for every load."""
        return tuple(it for it in self.entries if it.name in self.ns)


def to_json(bench: Bench) -> dict[str, Any]:
    """The value that the file holds."""
    return {
        "schema": SCHEMA,
        "kind": KIND,
        "plan": bench.plan,
        "created": bench.created,
        "cpu": bench.cpu,
        "seed": bench.seed,
        "blocks": bench.blocks,
        "seconds": round(bench.seconds, 1),
        "clock": {"tsc_ghz": round(bench.tsc_ghz, 5), "core_ghz": round(bench.core_ghz, 5)},
        "ceilings": {
            level: {"bytes_per_ns": round(it.rate, 4), "how": it.how}
            for level, it in bench.ceilings.items()
        },
        "caches": dict(bench.caches),
        "contenders": [{"name": it.name, "help": it.help, "rank": it.rank} for it in bench.entries],
        "failed": dict(bench.failed),
        "left_out": dict(bench.left_out),
        "remarks": list(bench.remarks),
        "loads": [
            {
                "id": it.id,
                "level": it.level,
                "mode": it.mode,
                "least": it.least,
                "most": it.most,
                "alignment": it.alignment,
                "mean_bytes": round(it.mean, 4),
            }
            for it in bench.loads
        ],
        "ghz": {load: round(value, 4) for load, value in bench.ghz.items()},
        "ns": {
            name: {load: [round(value, 4) for value in row] for load, row in rows.items()}
            for name, rows in bench.ns.items()
        },
    }


def read_bench(path: Path) -> Bench:
    """The bench in a file; UsageError names the file and what is wrong with it."""
    return parse_bench(content(path, MOST_FILE_BYTES, "result of a bench"), str(path))


def parse_bench(given: bytes, origin: str) -> Bench:
    """The bench that ``given`` holds; UsageError otherwise, with ``origin`` in it."""
    way = "`kdyno memcpy bench --json FILE` writes such files"
    try:
        data = json.loads(given)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{origin}: not JSON ({problem}); {way}") from None
    if not isinstance(data, dict) or data.get("kind") != KIND or data.get("schema") != SCHEMA:
        raise UsageError(f'{origin}: no "kind": "{KIND}" of schema {SCHEMA}; {way}')
    try:
        return _bench(data)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        said = f"no {problem}" if isinstance(problem, KeyError) else str(problem)
        raise UsageError(f"{origin}: damaged: {said}; {way}") from None


def _bench(data: dict[str, Any]) -> Bench:
    blocks = _whole(data["blocks"], "blocks")
    loads = tuple(_load(it) for it in _list(data["loads"], "loads"))
    known = {it.id for it in loads}
    entries = tuple(
        Entry(_text(it["name"]), _text(it["help"]), _one_of(it["rank"], RANKS))
        for it in _list(data["contenders"], "contenders")
    )
    ns: dict[str, dict[str, tuple[float, ...]]] = {}
    for name, rows in data["ns"].items():
        if name not in {it.name for it in entries} or set(rows) != known:
            raise ValueError(f"ns of {name!r} do not belong to the contenders and loads")
        ns[name] = {load: tuple(map(_positive, values)) for load, values in rows.items()}
        if any(len(values) != blocks for values in ns[name].values()):
            raise ValueError(f"ns of {name!r} do not have {blocks} blocks")
    return Bench(
        plan=_text(data["plan"]),
        created=_text(data["created"]),
        cpu=_text(data["cpu"]),
        seed=_whole(data["seed"], "seed"),
        blocks=blocks,
        seconds=_positive(data["seconds"]),
        tsc_ghz=_positive(data["clock"]["tsc_ghz"]),
        core_ghz=_positive(data["clock"]["core_ghz"]),
        entries=entries,
        loads=loads,
        ns=ns,
        ghz=_table(data["ghz"], _positive),
        ceilings=_table(
            data["ceilings"], lambda it: Ceiling(_positive(it["bytes_per_ns"]), _text(it["how"]))
        ),
        caches=_table(data["caches"], lambda it: _whole(it, "caches")),
        failed=_table(data["failed"], _text),
        left_out=_table(data["left_out"], _text),
        remarks=tuple(map(_text, _list(data["remarks"], "remarks"))),
    )


def _load(data: Mapping[str, Any]) -> Load:
    load = Load(
        _one_of(data["level"], LEVELS),
        _one_of(data["mode"], MODES),
        _whole(data["least"], "least"),
        _whole(data["most"], "most"),
        _text(data["alignment"]),
        _positive(data["mean_bytes"]),
    )
    if load.id != data["id"]:
        raise ValueError(f"load {data['id']!r} is {load.id!r}")
    return load


def _table(value: Any, convert: Callable[[Any], T]) -> dict[str, T]:
    return {_text(key): convert(it) for key, it in value.items()}


def _list(value: Any, key: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{key} is no list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{str(value)[:40]!r} is no text")
    return value


def _one_of(value: Any, words: tuple[str, ...]) -> str:
    if value not in words:
        raise ValueError(f"{str(value)[:40]!r} is none of {', '.join(words)}")
    return str(value)


def _whole(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{key} is {str(value)[:40]!r}")
    return value


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{str(value)[:40]!r} is no number")
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{value!r} is no positive number")
    return float(value)
