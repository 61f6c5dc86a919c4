# SPDX-License-Identifier: MIT
"""One line of the results channel, checked. What a guest says is never trusted.

The kinds of records are a union that is told apart by ``t`` of the line's object; the others of its
keys are the fields here, each with its range.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, PlainValidator, TypeAdapter, ValidationError, ValidationInfo

from kdyno.reading.checked import Refused, values

REPS_MAX = 512
OPERATIONS_MAX = 1 << 53
NS_MAX = 10**16
"""116 days."""
TEXT_MAX = 16 * 1024
EXTRA_KEYS_MAX = 32
COPIES = ("fsrm", "erms", "plain")


class Nonsense(ValueError):
    """A line that is not a record; the text says why."""


def clean(text: str, limit: int = TEXT_MAX) -> str:
    """Fit for a terminal and for UTF-8: control characters and lone surrogates are replaced."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\ufffd" for c in text[:limit]
    )


def _whole(value: object, least: int = 0, most: int = NS_MAX, what: str = "is") -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{what} not a whole number from {least} to {most}")
    return value


def _case(value: object, info: ValidationInfo) -> int:
    cases = info.context
    assert isinstance(cases, int)
    return _whole(value, 0, cases - 1)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not text")
    return clean(value)


def _copies(value: object) -> str:
    if not isinstance(value, str) or value not in COPIES:
        raise ValueError(f"is none of {', '.join(COPIES)}")
    return value


def _protocol(value: object) -> int:
    if _whole(value) != 1:
        raise ValueError(f"is {value}, and only 1 is known")
    return 1


def _reps(value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= REPS_MAX:
        raise ValueError(f"is not a list of 1 to {REPS_MAX} repetitions")
    if not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise ValueError("has a repetition that is not a pair")
    return tuple(
        (_whole(count, 1, OPERATIONS_MAX, "operations is"), _whole(ns, 1, what="ns is"))
        for count, ns in value
    )


def _extra(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > EXTRA_KEYS_MAX:
        raise ValueError(f"is not an object of at most {EXTRA_KEYS_MAX} texts")
    if not all(isinstance(text, str) for text in value.values()):
        raise ValueError("has something that is not text")
    # A program's output keeps its control characters, but must be possible to write.
    return {
        clean(key): text.encode("utf-8", "replace").decode("utf-8") for key, text in value.items()
    }


Whole = Annotated[int, PlainValidator(_whole)]
CaseIndex = Annotated[int, PlainValidator(_case)]
Text = Annotated[str, PlainValidator(_text)]
Extra = Annotated[dict[str, str], PlainValidator(_extra)]


@dataclass(frozen=True)
class Hello:
    kind: ClassVar[Literal["hello"]] = "hello"
    protocol: Annotated[int, PlainValidator(_protocol)]
    release: Text
    machine: Text
    word_bits: Annotated[int, PlainValidator(partial(_whole, least=8, most=128))]
    cpus: Whole
    mem_kb: Whole
    mono_ns: Whole
    """Guest clock; with the one of Bye against the host's clock, how the guest's clock runs."""
    copies: Annotated[str, PlainValidator(_copies)] = ""
    """How a native kernel copies by its CPU's features: fsrm, erms or plain; empty: not known."""
    scattered: Whole = 0
    """Free pages that lie at drawn places; 0: the kernel gives its pages in its own order."""


@dataclass(frozen=True)
class Begin:
    kind: ClassVar[Literal["begin"]] = "begin"
    case: CaseIndex
    bench: Text
    mono_ns: Whole


@dataclass(frozen=True)
class Sample:
    kind: ClassVar[Literal["sample"]] = "sample"
    case: CaseIndex
    reps: Annotated[tuple[tuple[int, int], ...], PlainValidator(_reps)]
    """(operations, ns) pairs, all above 0."""
    user_ns: Whole
    sys_ns: Whole
    calibration_ns: Whole
    mono_ns: Whole
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True)
class Ready:
    """A case that takes turns is set up and waits for its first."""

    kind: ClassVar[Literal["ready"]] = "ready"
    case: CaseIndex


@dataclass(frozen=True)
class Mark:
    """Where what is to be timed of a turn begins or ends; without marks it is all of it."""

    kind: ClassVar[Literal["mark"]] = "mark"
    case: CaseIndex
    begins: Annotated[bool, BeforeValidator(partial(_whole, most=1))]


@dataclass(frozen=True)
class Turn:
    """One turn of the case that is running."""

    kind: ClassVar[Literal["turn"]] = "turn"
    case: CaseIndex
    operations: Annotated[int, PlainValidator(partial(_whole, most=OPERATIONS_MAX))]
    ns: Whole
    """By the guest's clock; 0 for a turn without operations."""


@dataclass(frozen=True)
class Done:
    """The end of a case that took turns."""

    kind: ClassVar[Literal["done"]] = "done"
    case: CaseIndex
    user_ns: Whole
    sys_ns: Whole
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True)
class CaseError:
    kind: ClassVar[Literal["error"]] = "error"
    case: CaseIndex
    reason: Text


@dataclass(frozen=True)
class Skip:
    kind: ClassVar[Literal["skip"]] = "skip"
    case: CaseIndex
    reason: Text


@dataclass(frozen=True)
class Fatal:
    """The guest gave up: no further case will run."""

    kind: ClassVar[Literal["fatal"]] = "fatal"
    reason: Text


@dataclass(frozen=True)
class Bye:
    kind: ClassVar[Literal["bye"]] = "bye"
    mono_ns: Whole
    inside_ns: Whole
    """Time inside cases, of the whole boot."""


Record = Hello | Begin | Ready | Mark | Turn | Done | Sample | CaseError | Skip | Fatal | Bye


def decode(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; Nonsense whatever the bytes are."""

    try:
        data = values(line.decode("utf-8"), finite=True)
    except UnicodeDecodeError:
        raise Nonsense("not UTF-8") from None
    except Refused as problem:
        raise Nonsense(str(problem)) from None
    except ValueError:
        raise Nonsense("not JSON") from None
    if not isinstance(data, dict):
        raise Nonsense("not a JSON object")
    return data


_KINDS: dict[str, tuple[TypeAdapter[Any], tuple[str, ...]]] = {
    kind.kind: (TypeAdapter(kind), tuple(field.name for field in fields(kind)))
    for kind in get_args(Record)
}


def read(data: dict[str, Any], cases: int) -> Record:
    """The record in a decoded object, of a job with ``cases`` cases; Nonsense if it is none."""
    kind = data.get("t")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise Nonsense("no type of record that is known")
    adapter, names = _KINDS[kind]
    # Other keys are not even looked at: they may be no text at all.
    known = {name: data[name] for name in names if name in data}
    try:
        record: Record = adapter.validate_python(known, context=cases)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        why = first["ctx"]["error"] if "ctx" in first else "is missing"
        raise Nonsense(f"{first['loc'][0]} {why}") from None
    if isinstance(record, Turn) and record.operations and not record.ns:
        raise Nonsense(f"ns is not a whole number from 1 to {NS_MAX}")
    return record
