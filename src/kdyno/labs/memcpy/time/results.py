# SPDX-License-Identifier: MIT
"""What a bench found, as a value and as the JSON file ``memcpy/bench.json``.

`{"schema": 1, "kind": "memcpy-bench", "loads": [{"id", "level", …}], "contenders": [{"name", …}],
"ns": {CONTENDER: {LOAD: [ns per call, one for each block]}}, "ghz": {LOAD: core GHz}, …}`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from kdyno.labs.memcpy.time.loads import Load
from kdyno.reading.checked import FromTool, check_json
from kdyno.store.folder import Folder
from kdyno.store.reading import content
from kdyno.store.run import Run

SCHEMA = 1
KIND = "memcpy-bench"
MOST_FILE_BYTES = 256 << 20
FOLDER, FILE = "memcpy", "bench.json"
"""Where a run keeps its bench."""


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


def stored_bench(run: Run) -> Bench | None:
    """The bench that a run keeps, read through no link; None where it has none."""
    with Folder.open(run.path) as folder:
        if FOLDER not in folder.folders():
            return None
        with folder.folder(FOLDER) as inside:
            if not inside.has(FILE):
                return None
            data = inside.read(FILE, MOST_FILE_BYTES)
    return parse_bench(data, str(run.path / FOLDER / FILE))


def parse_bench(given: bytes, origin: str) -> Bench:
    """The bench that ``given`` holds; UsageError otherwise, with ``origin`` in it."""
    way = "`kdyno memcpy bench --json FILE` writes such files"
    file = check_json(_File, given, origin, KIND, way)
    named = ("plan", "created", "cpu", "seed", "blocks", "seconds", "ghz", "caches", "failed")
    return Bench(
        **{name: getattr(file, name) for name in named},
        tsc_ghz=file.clock.tsc_ghz,
        core_ghz=file.clock.core_ghz,
        entries=tuple(Entry(it.name, it.help, it.rank) for it in file.contenders),
        loads=tuple(it.load for it in file.loads),
        ns={
            name: {load: tuple(values) for load, values in rows.items()}
            for name, rows in file.ns.items()
        },
        ceilings={level: Ceiling(it.bytes_per_ns, it.how) for level, it in file.ceilings.items()},
        left_out=file.left_out,
        remarks=tuple(file.remarks),
    )


Positive = Annotated[float, Field(gt=0)]
Whole = Annotated[int, Field(ge=0)]


class _Contender(FromTool):
    name: str
    help: str
    rank: Literal["routine", "rival", "other", "bound"]


class _Load(FromTool):
    id: str
    level: Literal["L1", "L2", "L3", "memory"]
    mode: Literal["fixed", "random", "distribution", "trace"]
    least: Whole
    most: Whole
    alignment: str
    mean_bytes: Positive

    @property
    def load(self) -> Load:
        return Load(self.level, self.mode, self.least, self.most, self.alignment, self.mean_bytes)

    @model_validator(mode="after")
    def _is_what_it_is_called(self) -> _Load:
        if self.load.id != self.id:
            raise ValueError(f"load {self.id!r} is {self.load.id!r}")
        return self


class _Ceiling(FromTool):
    bytes_per_ns: Positive
    how: str


class _Clock(FromTool):
    tsc_ghz: Positive
    core_ghz: Positive


class _File(FromTool):
    plan: str
    created: str
    cpu: str
    seed: Whole
    blocks: Whole
    seconds: Positive
    clock: _Clock
    ceilings: dict[str, _Ceiling]
    caches: dict[str, Whole]
    contenders: list[_Contender]
    failed: dict[str, str]
    left_out: dict[str, str]
    remarks: list[str]
    loads: list[_Load]
    ghz: dict[str, Positive]
    ns: dict[str, dict[str, list[Positive]]]

    @model_validator(mode="after")
    def _times_are_of_contenders_and_loads(self) -> _File:
        known, names = {it.id for it in self.loads}, {it.name for it in self.contenders}
        for name, rows in self.ns.items():
            if name not in names or set(rows) != known:
                raise ValueError(f"ns of {name!r} do not belong to the contenders and loads")
            if any(len(values) != self.blocks for values in rows.values()):
                raise ValueError(f"ns of {name!r} do not have {self.blocks} blocks")
        return self
