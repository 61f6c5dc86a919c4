# SPDX-License-Identifier: MIT
"""One line of the results channel, checked. What a guest says is never trusted."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

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


@dataclass(frozen=True)
class Hello:
    kind: ClassVar[Literal["hello"]] = "hello"
    protocol: int
    release: str
    machine: str
    word_bits: int
    cpus: int
    mem_kb: int
    mono_ns: int
    """Guest clock; with the one of Bye against the host's clock, how the guest's clock runs."""
    copies: str = ""
    """How a native kernel copies by its CPU's features: fsrm, erms or plain; empty: not known."""
    scattered: int = 0
    """Free pages that lie at drawn places; 0: the kernel gives its pages in its own order."""


@dataclass(frozen=True)
class Begin:
    kind: ClassVar[Literal["begin"]] = "begin"
    case: int
    bench: str
    mono_ns: int


@dataclass(frozen=True)
class Sample:
    kind: ClassVar[Literal["sample"]] = "sample"
    case: int
    reps: tuple[tuple[int, int], ...]
    """(operations, ns) pairs, all above 0."""
    user_ns: int
    sys_ns: int
    calibration_ns: int
    mono_ns: int
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ready:
    """A case that takes turns is set up and waits for its first."""

    kind: ClassVar[Literal["ready"]] = "ready"
    case: int


@dataclass(frozen=True)
class Mark:
    """Where what is to be timed of a turn begins or ends; without marks it is all of it."""

    kind: ClassVar[Literal["mark"]] = "mark"
    case: int
    begins: bool


@dataclass(frozen=True)
class Turn:
    """One turn of the case that is running."""

    kind: ClassVar[Literal["turn"]] = "turn"
    case: int
    operations: int
    ns: int
    """By the guest's clock; 0 for a turn without operations."""


@dataclass(frozen=True)
class Done:
    """The end of a case that took turns."""

    kind: ClassVar[Literal["done"]] = "done"
    case: int
    user_ns: int
    sys_ns: int
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CaseError:
    kind: ClassVar[Literal["error"]] = "error"
    case: int
    reason: str


@dataclass(frozen=True)
class Skip:
    kind: ClassVar[Literal["skip"]] = "skip"
    case: int
    reason: str


@dataclass(frozen=True)
class Fatal:
    """The guest gave up: no further case will run."""

    kind: ClassVar[Literal["fatal"]] = "fatal"
    reason: str


@dataclass(frozen=True)
class Bye:
    kind: ClassVar[Literal["bye"]] = "bye"
    mono_ns: int
    inside_ns: int
    """Time inside cases, of the whole boot."""


Record = Hello | Begin | Ready | Mark | Turn | Done | Sample | CaseError | Skip | Fatal | Bye


def clean(text: str, limit: int = TEXT_MAX) -> str:
    """Fit for a terminal and for UTF-8: control characters and lone surrogates are replaced."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\ufffd" for c in text[:limit]
    )


class Fields:
    """The members of a record's object, each with its type and range."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def whole(self, key: str, least: int = 0, most: int = NS_MAX) -> int:
        value = self.data.get(key)
        if type(value) is not int or not least <= value <= most:
            raise Nonsense(f"{key} is not a whole number from {least} to {most}")
        return value

    def word(self, key: str, allowed: tuple[str, ...]) -> str:
        value = self.data.get(key)
        if not isinstance(value, str) or value not in allowed:
            raise Nonsense(f"{key} is none of {', '.join(allowed)}")
        return value

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if not isinstance(value, str):
            raise Nonsense(f"{key} is not text")
        return clean(value)

    def reps(self) -> tuple[tuple[int, int], ...]:
        value = self.data.get("reps")
        if not isinstance(value, list) or not 1 <= len(value) <= REPS_MAX:
            raise Nonsense(f"reps is not a list of 1 to {REPS_MAX} repetitions")
        pairs = []
        for pair in value:
            if not isinstance(pair, list) or len(pair) != 2:
                raise Nonsense("a repetition is not a pair")
            pairs.append(
                (
                    Fields({"operations": pair[0]}).whole("operations", 1, OPERATIONS_MAX),
                    Fields({"ns": pair[1]}).whole("ns", 1),
                )
            )
        return tuple(pairs)

    def extra(self) -> dict[str, str]:
        value = self.data.get("extra", {})
        if not isinstance(value, dict) or len(value) > EXTRA_KEYS_MAX:
            raise Nonsense(f"extra is not an object of at most {EXTRA_KEYS_MAX} texts")
        if not all(isinstance(text, str) for text in value.values()):
            raise Nonsense("extra has something that is not text")
        # A program's output keeps its control characters, but must be possible to write.
        return {
            clean(key): text.encode("utf-8", "replace").decode("utf-8")
            for key, text in value.items()
        }


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


def read(data: dict[str, Any], cases: int) -> Record:
    """The record in a decoded object, of a job with ``cases`` cases; Nonsense if it is none."""
    fields = Fields(data)
    kind = data.get("t")

    def case() -> int:
        return fields.whole("case", 0, cases - 1)

    if kind == "hello":
        protocol = fields.whole("protocol")
        if protocol != 1:
            raise Nonsense(f"protocol is {protocol}, and only 1 is known")
        return Hello(
            protocol,
            fields.text("release"),
            fields.text("machine"),
            fields.whole("word_bits", 8, 128),
            fields.whole("cpus"),
            fields.whole("mem_kb"),
            fields.whole("mono_ns"),
            fields.word("copies", COPIES) if "copies" in data else "",
            fields.whole("scattered") if "scattered" in data else 0,
        )
    if kind == "begin":
        return Begin(case(), fields.text("bench"), fields.whole("mono_ns"))
    if kind == "sample":
        return Sample(
            case(),
            fields.reps(),
            fields.whole("user_ns"),
            fields.whole("sys_ns"),
            fields.whole("calibration_ns"),
            fields.whole("mono_ns"),
            fields.extra(),
        )
    if kind == "ready":
        return Ready(case())
    if kind == "mark":
        return Mark(case(), bool(fields.whole("begins", 0, 1)))
    if kind == "turn":
        operations = fields.whole("operations", 0, OPERATIONS_MAX)
        return Turn(case(), operations, fields.whole("ns", 1 if operations else 0))
    if kind == "done":
        return Done(case(), fields.whole("user_ns"), fields.whole("sys_ns"), fields.extra())
    if kind == "error":
        return CaseError(case(), fields.text("reason"))
    if kind == "skip":
        return Skip(case(), fields.text("reason"))
    if kind == "fatal":
        return Fatal(fields.text("reason"))
    if kind == "bye":
        return Bye(fields.whole("mono_ns"), fields.whole("inside_ns"))
    raise Nonsense("no type of record that is known")
