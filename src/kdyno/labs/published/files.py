# SPDX-License-Identifier: MIT
"""The published experiments, read from published/*.toml into one shape.

The files keep the shapes of the tables that they copy. Four are known: rows with ``columns`` and
``factors``; ``variants.NAME.scores`` and ``.values``; a table of arms (``ULE = {...}``); profiles.
Each becomes tables of cells, a cell being named by the levels of its factors.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from kdyno.errors import UsageError
from kdyno.labs.published.article import ARM, Cell, Check, Published, Table, Today
from kdyno.labs.published.asking import Asking
from kdyno.paths import data_root
from kdyno.reading.checked import FromFile, check, wrong
from kdyno.reading.mistakes import meant

PREFIX = "published:"
_WORDS = frozenset(
    (
        "title", "system", "suite", "tool", "baseline", "better", "samples_per_cell", "published",
        "units", "check", "today", "factors", "columns", "warmup_builds",
        "measured_builds", "spread", "total_in_text",
    )
)  # fmt: skip


def names() -> tuple[str, ...]:
    """All that come with kdyno."""
    return tuple(sorted(path.stem for path in _folder().glob("*.toml")))


def kept() -> tuple[Path, ...]:
    """Runs and files that come with kdyno, as evidence for today's answers."""
    folder = _folder() / "runs"
    found = folder.iterdir() if folder.is_dir() else ()
    counted = data_root() / "kernel" / "distributions" / "unixbench.json"
    return (*sorted(it for it in found if it.is_dir() or it.suffix == ".json"), counted)


def load(name: str) -> Published:
    """``athlon64x2-kernel-compile`` or the beginning of one name; UsageError names them all."""
    name = name.removeprefix(PREFIX)
    known = names()
    found = [name] if name in known else [it for it in known if name and it.startswith(name)]
    if len(found) != 1:
        hint = "" if found else meant(name, known, f" Did you mean {PREFIX}{{}}?")
        which = f"{len(found)} begin so" if found else "there is no such article"
        raise UsageError(f"{PREFIX}{name}: {which}.{hint} There are: {', '.join(known)}")
    return load_file(_folder() / f"{found[0]}.toml")


def load_file(path: Path) -> Published:
    """UsageError names the file and the key."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise UsageError(f"{path}: cannot be read: {problem}") from None
    file = check(_File, data, str(path), text)
    try:
        return _published(path.stem, data, file)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as problem:
        raise UsageError(f"{path}: {problem!r}: is not a table that kdyno knows") from None


def _folder() -> Path:
    return data_root() / "published"


Level = str | int | float
"""As the article prints it."""
Chart = Literal["", "jobs", "sizes", "groups"]


_UNITS = {"s": "s", "percent": "%"}
"""Ends of columns' names → unit."""


class _Check(FromFile):
    """A ``[[check]]``. See docs/comparing.md for its keys."""

    text: str
    figure: str = ""
    table: str = ""
    min: float | None = None
    max: float | None = None
    where: dict[str, Level | list[Level]] = Field(default_factory=dict)
    factor: str = ""
    start: Level = Field(default="", alias="from")
    end: Level = Field(default="", alias="to")
    value: bool | None = None
    """None: levels without a factor to compare along mean the printed numbers."""
    share: float = 1.0
    partial: bool = False
    note: str = ""
    question: str = ""
    expect: Literal["", "faster", "slower", "equivalent"] = ""
    carries: str = ""
    today: list[Asking] = Field(default_factory=list)
    unasked: str = ""
    chart: Chart = ""

    @model_validator(mode="after")
    def _is_asked_or_not(self) -> _Check:
        asked = {"question": self.question, "carries": self.carries, "today": self.today}
        for key, value in asked.items():
            if self.unasked and value:
                raise wrong(key, "does not go with `unasked`, which says why nothing is asked")
            if any(asked.values()) and not value:
                raise wrong(key, "is missing: question, carries and today belong together")
        return self

    def check(self) -> Check:
        where = {
            name: tuple(map(str, it)) if isinstance(it, list) else (str(it),)
            for name, it in self.where.items()
        }
        value = bool(where) and not self.factor if self.value is None else self.value
        named = (
            *("text", "table", "figure", "factor", "share", "partial", "note"),
            *("question", "expect", "carries", "unasked", "chart"),
        )
        return Check(
            **{name: getattr(self, name) for name in named},
            low=self.min,
            high=self.max,
            where=where,
            start=str(self.start),
            end=str(self.end),
            value=value,
            today=tuple(it.ask() for it in self.today),
        )


class _Today(FromFile):
    suite: str
    cases: dict[str, str] = Field(default_factory=dict)
    figure: str | None = None
    levels: dict[str, dict[str, str]] = Field(default_factory=dict)


class _File(FromFile):
    """What all of the files have; the tables stand beside it under names of their own."""

    model_config = ConfigDict(extra="allow")
    title: str
    system: str = ""
    check: list[_Check] = Field(default_factory=list)
    today: dict[str, _Today] = Field(default_factory=dict)


def _published(name: str, data: Mapping[str, Any], file: _File) -> Published:
    tables = tuple(
        replace(it, today=Today(**file.today[it.name].model_dump()))
        if it.name in file.today
        else it
        for it in _tables(data)
    )
    if not tables:
        raise ValueError("no table")
    checks = tuple(it.check() for it in file.check)
    for each in checks:
        if each.table and each.table not in {table.name for table in tables}:
            raise ValueError(f"check {each.text!r}: no table {each.table!r}")
    return Published(name, file.title, file.system, tables, checks)


def _tables(data: Mapping[str, Any]) -> list[Table]:
    if "columns" in data:
        return _rows(data)
    if "variants" in data:
        arms = data["variants"]
        return [
            _arms(data, kind, {arm: arms[arm][kind] for arm in arms}, {})
            for kind in ("scores", "values")
        ]
    found = []
    for name, table in data.items():
        if name in _WORDS or not isinstance(table, dict):
            continue
        if name == "vectorized":
            loops = {"sum": float(sum(table["loops"].values()))}
            found.append(_arms(data, name, {"vectorised": loops}, {}))
        elif name == "profile":
            found += _profile(data, table)
        elif arms := {key: it for key, it in table.items() if _is_arm(key, it)}:
            found.append(_arms(data, name, arms, table))
    return found


def _is_arm(key: str, value: object) -> bool:
    return (
        key not in _WORDS
        and isinstance(value, dict)
        and bool(value)
        and all(isinstance(it, int | float) for it in value.values())
        and key != "sizes"
    )


def _arms(
    data: Mapping[str, Any], name: str, arms: Mapping[str, Any], own: Mapping[str, Any]
) -> Table:
    asked = own.get("baseline", data.get("baseline"))
    base = asked if asked in arms else next(iter(arms))
    samples = own.get("samples_per_cell", data.get("samples_per_cell"))
    return Table(
        name=name,
        factors={ARM: (base, *(arm for arm in arms if arm != base))},
        cells={(arm,): {key: float(it) for key, it in arms[arm].items()} for arm in arms},
        baseline=(base,),
        better=own.get("better", data.get("better")),
        samples=samples,
        mean=own.get("published") == "mean",
        spread="spread" in own,
        units=own.get("units", data.get("units", {})),
    )


def _profile(data: Mapping[str, Any], arms: Mapping[str, Any]) -> list[Table]:
    seconds: dict[str, dict[str, float]] = {}
    shares: dict[str, dict[str, float]] = {}
    for arm, one in arms.items():
        seconds[arm] = {"total": one["total_s"]}
        shares[arm] = {}
        for function, spent_s, percent in one["functions"]:
            seconds[arm][function] = spent_s
            shares[arm][function] = percent / (100.0 * spent_s / one["total_s"])
    own = {"better": "lower"}
    return [
        _arms(data, "profile", seconds, {**own, "units": {"default": "s"}}),
        _arms(data, "printed ÷ computed percentage", shares, own),
    ]


def _rows(data: Mapping[str, Any]) -> list[Table]:
    factors = {name: tuple(map(str, levels)) for name, levels in data["factors"].items()}
    base = tuple(str(data["baseline"][name]) for name in factors)
    columns = list(data["columns"])
    found = []
    for name, rows in data.items():
        if name in _WORDS or not isinstance(rows, list):
            continue
        cells: dict[Cell, dict[str, float]] = {}
        for row in rows:
            named = dict(zip(columns, row, strict=True))
            cell = tuple(str(named.pop(factor)) for factor in factors)
            if cell in cells or any(
                it not in factors[f] for f, it in zip(factors, cell, strict=True)
            ):
                raise ValueError(f"{name}: the row {row} is there twice or has an unknown level")
            cells[cell] = {column: float(value) for column, value in named.items()}
        found.append(
            Table(
                name=name,
                factors=factors,
                cells=cells,
                baseline=base,
                better=data.get("better"),
                samples=data.get("measured_builds", data.get("samples_per_cell")),
                mean=data.get("published") == "mean",
                spread="spread" in data,
                units={c: _UNITS[end] for c in columns if (end := c.rpartition("_")[2]) in _UNITS},
            )
        )
    return found
