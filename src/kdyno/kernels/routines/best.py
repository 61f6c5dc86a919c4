# SPDX-License-Identifier: MIT
"""``memcpy = "best"``: which routine that is on a CPU, from the table ``kernel/memcpy/best.toml``.

A row is for the CPUs of a vendor, family and models, or for every CPU with some features: what is
taken where nothing was measured. It names one routine a function and says how it came there. Rows
of models go before rows of features, and of these the one that asks for more features; a row whose
routine needs what this CPU lacks (a hypervisor may hide features) is passed over.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from kdyno.errors import UsageError
from kdyno.experiment.layer import BEST
from kdyno.kernels.cpu import Cpu, this_cpu
from kdyno.kernels.routines.routine import FUNCTIONS, find_routine, routines_folder
from kdyno.reading.checked import FromFile, check, wrong

FILE = "best.toml"
BENCHES = "benches"
"""Folder beside the table: what was measured on a CPU, one folder a row, one file a function."""
COMMAND = "kdyno memcpy tune --cpu"
STATES = {
    "measured": "found and measured on this CPU",
    "composed": "put together of parts that were measured on this CPU, not measured as a whole",
    "default": "the default where nothing was measured",
}

Word = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,60}$")]
Feature = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,40}$")]
Models = Annotated[list[Annotated[int, Field(ge=0, lt=1 << 16)]], Field(min_length=2, max_length=2)]
Ratio = Annotated[float, Field(gt=0, lt=1000)]


class Figures(FromFile):
    """The four figures of `python -m benchmarks.memcpy` for one routine."""

    routine: Word
    worst: Ratio
    """Worst time ÷ the faster of memcpy_orig and rep movsb, in L1."""
    worst_at: Annotated[str, Field(max_length=100)] = ""
    ceiling: Ratio
    """Share of L1's ceiling at 4 KiB."""
    glibc: Ratio
    """Speed ÷ glibc's memcpy over the measured distribution."""
    rivals: Ratio
    """Speed ÷ the faster rival's there."""


class BestFor(FromFile):
    """What is best for some CPUs."""

    name: Word
    cpu: Annotated[str, Field(min_length=1, max_length=200)]
    """In a person's words."""
    state: Literal["measured", "composed", "default"]
    why: Annotated[str, Field(min_length=10, max_length=1000)]
    arch: Literal["um", "x86_64"] = "um"
    """Of the kernels that it is for."""
    vendor: Annotated[str, Field(max_length=40)] | None = None
    """As /proc/cpuinfo has it; None: any."""
    family: Annotated[int, Field(ge=0, lt=1 << 16)] | None = None
    models: list[Models] = Field(default_factory=list)
    """First and last of each range."""
    features: list[Feature] = Field(default_factory=list)
    memcpy: Word | None = None
    memmove: Word | None = None
    memset: Word | None = None
    copy_page: Word | None = None
    clear_page: Word | None = None
    bench: Word | None = None
    """Folder in BENCHES."""
    seen: list[Figures] = Field(default_factory=list)

    @model_validator(mode="after")
    def _says_for_whom(self) -> BestFor:
        if self.models and (self.vendor is None or self.family is None):
            raise wrong("models", "stand beside a vendor and a family")
        if any(first > last for first, last in self.models):
            raise wrong("models", "are ranges: the first of each is not above the last")
        if self.state == "measured" and self.bench is None:
            raise wrong("bench", "is missing: what was measured has one")
        if not self.routines:
            raise wrong("memcpy", "is missing: a row names a routine")
        return self

    @property
    def routines(self) -> Mapping[str, str]:
        """Function → routine."""
        named = {function: getattr(self, function) for function in FUNCTIONS}
        return {function: name for function, name in named.items() if name is not None}

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """How closely it says for whom it is."""
        return bool(self.models), len(self.features), self.vendor is not None

    def fits(self, cpu: Cpu) -> bool:
        """Whether it is for this CPU."""
        if self.vendor not in (None, cpu.vendor) or self.family not in (None, cpu.family):
            return False
        if self.models and not any(first <= cpu.number <= last for first, last in self.models):
            return False
        return cpu.flags >= set(self.features)


class _File(FromFile):
    row: Annotated[list[BestFor], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_names(self) -> _File:
        names = [row.name for row in self.row]
        if twice := [name for name in names if names.count(name) > 1]:
            raise wrong("row", f"two rows are called {twice[0]!r}")
        return self


@dataclass(frozen=True)
class Chosen:
    """The best routine of a function, and the row that names it."""

    function: str
    routine: str
    row: BestFor

    @property
    def why(self) -> str:
        """``best: amd-zen4, found and measured on this CPU``; with the command where it was not."""
        told = f"{BEST}: row {self.row.name}, {STATES[self.row.state]}"
        return told if self.row.state == "measured" else f"{told}; `{COMMAND}` measures"


def read_rows(path: Path) -> tuple[BestFor, ...]:
    """The rows of a table. UsageError with every mistake in it."""
    try:
        text = path.read_text("utf-8")
        data = tomllib.loads(text)
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path}: {problem}") from None
    return tuple(check(_File, data, str(path), text).row)


@cache
def rows() -> tuple[BestFor, ...]:
    """Those of the project."""
    return read_rows(routines_folder() / FILE)


def best(
    function: str, arch: str, cpu: Cpu | None = None, table: Sequence[BestFor] | None = None
) -> Chosen:
    """The best routine of ``function`` for a kernel of ``arch`` on ``cpu`` (this one unless told).

    UsageError where no row has one.
    """
    here = this_cpu() if cpu is None else cpu
    kind = "um" if arch.startswith("um") else arch
    known = rows() if table is None else table
    fitting = [row for row in known if row.arch == kind and row.fits(here)]
    for row in sorted(fitting, key=lambda row: row.rank, reverse=True):
        name = row.routines.get(function)
        if name is not None and here.flags >= set(find_routine(name, function).requires):
            return Chosen(function, name, row)
    raise UsageError(
        f'{function} = "{BEST}": {FILE} has no {function} for kernels of arch {arch!r} on this CPU'
    )
