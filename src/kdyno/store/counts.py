# SPDX-License-Identifier: MIT
"""Counted profiles of a run: instructions by address, function and chain of calls, exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from kdyno.errors import ToolError
from kdyno.store.reading import Count, Name, Record, Text, first_mistake, parse
from kdyno.store.run import Run, read_each

FOLDER = "counts"
"""Of a run: one file for each variant."""
_CASES_MOST, _FUNCTIONS_MOST, _ADDRESSES_MOST, _CHAINS_MOST = 10_000, 50_000, 1 << 20, 1 << 18
DEEPEST = 512
"""Functions in a chain, at most."""

_Address = Annotated[int, Field(ge=0, lt=1 << 64)]
Where = Literal["kernel", "user"]
Function = tuple[Where, str]
Chain = tuple[Function, ...]
"""Functions that called each other, the outermost first."""


@dataclass(frozen=True)
class CaseCounts:
    """One case in one kernel. All figures are instructions of one operation."""

    suite: str
    case: str
    variant: str
    operations: int
    """Of the part that was counted, see ``suites.score.steady``."""
    functions: Mapping[Function, float]
    chains: Mapping[Chain, float] = field(default_factory=dict)
    """Of the last function of each chain, without those that it calls."""
    addresses: Mapping[int, int] = field(default_factory=dict)
    """Address → how often the instruction there was executed in all ``operations``."""

    @property
    def total(self) -> float:
        return sum(self.functions.values())


@dataclass(frozen=True)
class Counted:
    variant: str
    image: str
    """Digest of the kernel that was booted."""
    emulator: str
    cases: tuple[CaseCounts, ...]


class _Function(Record):
    where: Where
    function: Name
    count: Count


class _Chain(Record):
    frames: Annotated[tuple[Count, ...], Field(min_length=1, max_length=DEEPEST)]
    """Places in the list of functions."""
    count: Count


class _Case(Record):
    suite: Name
    case: Name
    operations: Annotated[int, Field(ge=1, le=1 << 53)]
    functions: Annotated[tuple[_Function, ...], Field(max_length=_FUNCTIONS_MOST)]
    chains: Annotated[tuple[_Chain, ...], Field(max_length=_CHAINS_MOST)] = ()
    addresses: Annotated[tuple[tuple[_Address, Count], ...], Field(max_length=_ADDRESSES_MOST)] = ()


class _Counted(Record):
    schema_: Literal[1] = Field(alias="schema")
    variant: Name
    image: Text = ""
    emulator: Text = ""
    cases: Annotated[tuple[_Case, ...], Field(max_length=_CASES_MOST)]


def to_json(counted: Counted) -> bytes:
    """Whole numbers, of all operations of a part. ToolError for what could not be read again."""
    try:
        cases = tuple(map(_case, counted.cases))
        record = _Counted(schema=1, **(vars(counted) | {"cases": cases}))
    except ValidationError as error:
        why = f"{counted.variant}: the counts make no sense: {first_mistake(error)}"
        raise ToolError(why) from None
    return record.to_json()


def _case(case: CaseCounts) -> _Case:
    names = dict.fromkeys((*case.functions, *(name for chain in case.chains for name in chain)))
    places = {name: at for at, name in enumerate(names)}

    def count(each: float) -> int:
        return round(each * case.operations)

    return _Case(
        suite=case.suite,
        case=case.case,
        operations=case.operations,
        functions=tuple(
            _Function(where=where, function=name, count=count(case.functions.get((where, name), 0)))
            for where, name in names
        ),
        chains=tuple(
            _Chain(frames=tuple(places[name] for name in chain[-DEEPEST:]), count=count(each))
            for chain, each in case.chains.items()
        ),
        addresses=tuple(sorted(case.addresses.items())),
    )


def from_json(data: bytes, path: Path) -> Counted:
    """ToolError with path, key and what is wrong."""
    record = parse(_Counted, data, path)
    cases = []
    for case in record.cases:
        names: list[Function] = [(function.where, function.function) for function in case.functions]
        if any(at >= len(names) for chain in case.chains for at in chain.frames):
            raise ToolError(f"{path}: damaged: a chain of calls names a function that is not there")
        each = case.operations
        functions = {(of.where, of.function): of.count / each for of in case.functions if of.count}
        chains = {
            tuple(names[at] for at in chain.frames): chain.count / each for chain in case.chains
        }
        own = (record.variant, each, functions, chains, dict(case.addresses))
        cases.append(CaseCounts(case.suite, case.case, *own))
    return Counted(record.variant, record.image, record.emulator, tuple(cases))


def stored_counts(run: Run) -> dict[str, Counted]:
    """Variant → its counts, as ``read_each``; empty where nothing was counted by function."""
    return read_each(run, FOLDER, from_json)
