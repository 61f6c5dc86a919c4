# SPDX-License-Identifier: MIT
"""One line of the results channel, checked. What a guest writes is never trusted.

The records are a union with the tag ``t`` of the line's object; the others of its keys are the
fields here, each with its range."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from kdyno.reading.checked import Refused, values

REPS_MAX = 512
OPERATIONS_MAX = 1 << 53
NS_MAX = 10**16
"""116 days."""
TEXT_MAX = 16 * 1024


class Nonsense(ValueError):
    """A line that is not a record; the text gives the reason."""


def clean(text: str, limit: int = TEXT_MAX) -> str:
    """Fit for a terminal and for UTF-8: control characters and lone surrogates are replaced."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\ufffd" for c in text[:limit]
    )


def _encodable(text: str) -> str:
    """A program's output keeps its control characters, but must be possible to write."""
    return text.encode("utf-8", "replace").decode("utf-8")


Whole = Annotated[int, Field(strict=True, ge=0, le=NS_MAX)]
Operations = Annotated[int, Field(strict=True, ge=1, le=OPERATIONS_MAX)]
Nanoseconds = Annotated[int, Field(strict=True, ge=1, le=NS_MAX)]
Reps = Annotated[
    tuple[tuple[Operations, Nanoseconds], ...], Field(min_length=1, max_length=REPS_MAX)
]
Text = Annotated[str, AfterValidator(clean)]
Extra = Annotated[dict[Text, Annotated[str, AfterValidator(_encodable)]], Field(max_length=32)]


@dataclass(frozen=True)
class Hello:
    kind: ClassVar[Literal["hello"]] = "hello"
    protocol: Literal[1]
    release: Text
    machine: Text
    word_bits: Annotated[int, Field(strict=True, ge=8, le=128)]
    cpus: Whole
    mem_kb: Whole
    mono_ns: Whole
    """Guest clock; with the one of Bye against the host's clock, how the guest's clock runs."""
    copies: Literal["fsrm", "erms", "plain", ""] = ""
    """How a native kernel copies by its CPU's features: fsrm, erms or plain; empty: not known."""
    scattered: Whole = 0
    """Free pages that lie at random places; 0: the kernel gives its pages in its own order."""


@dataclass(frozen=True)
class Begin:
    kind: ClassVar[Literal["begin"]] = "begin"
    case: Whole
    bench: Text
    mono_ns: Whole


@dataclass(frozen=True)
class Sample:
    kind: ClassVar[Literal["sample"]] = "sample"
    case: Whole
    reps: Reps
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
    case: Whole


@dataclass(frozen=True)
class Mark:
    """Where what is to be timed of a turn begins or ends; without marks it is all of it."""

    kind: ClassVar[Literal["mark"]] = "mark"
    case: Whole
    begins: bool


@dataclass(frozen=True)
class Turn:
    """One turn of the case that is running."""

    kind: ClassVar[Literal["turn"]] = "turn"
    case: Whole
    operations: Annotated[int, Field(strict=True, ge=0, le=OPERATIONS_MAX)]
    ns: Whole
    """By the guest's clock; 0 for a turn without operations."""


@dataclass(frozen=True)
class Done:
    """The end of a case that took turns."""

    kind: ClassVar[Literal["done"]] = "done"
    case: Whole
    user_ns: Whole
    sys_ns: Whole
    extra: Extra = field(default_factory=dict)


@dataclass(frozen=True)
class CaseError:
    kind: ClassVar[Literal["error"]] = "error"
    case: Whole
    reason: Text


@dataclass(frozen=True)
class Skip:
    kind: ClassVar[Literal["skip"]] = "skip"
    case: Whole
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


def read(data: dict[str, Any]) -> Record:
    """The record in a decoded object; Nonsense if it is none."""
    kind = data.get("t")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise Nonsense("no type of record that is known")
    adapter, names = _KINDS[kind]
    # Other keys are not even looked at: they may be no text at all.
    try:
        own = {name: data[name] for name in names if name in data}
        record: Record = adapter.validate_python(own)
    except ValidationError as problem:
        first = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Nonsense(clean(f"{where}: {first['msg']}", 200)) from None
    if isinstance(record, Turn) and record.operations and not record.ns:
        raise Nonsense("ns: 0 for a turn with operations")
    return record
