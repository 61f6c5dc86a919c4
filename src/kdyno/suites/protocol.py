# SPDX-License-Identifier: MIT
"""What a guest answers: its records, each a line that is checked, read as they come.

A guest may be broken in any way. Whatever the bytes are, reading them never fails; what cannot be
believed is counted as an anomaly, and no record lands in a case that is not the one running."""

from __future__ import annotations

import hmac
import unicodedata
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from kdyno.reading.checked import Refused, values

REPS_MAX = 512
OPERATIONS_MAX = 1 << 53
NS_MAX = 10**16
"""116 days."""
TEXT_MAX = 16 * 1024
LINE_BYTES_MAX = 1 << 20
ANOMALIES_KEPT = 10


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
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(clean)]
"""As long as a run's folder takes it."""
Extra = Annotated[dict[Name, Annotated[str, AfterValidator(_encodable)]], Field(max_length=32)]


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


Result = Sample | Done | CaseError | Skip
"""What ends a case."""
Record = Hello | Begin | Ready | Mark | Turn | Done | Sample | CaseError | Skip | Fatal | Bye


def decode(line: bytes) -> dict[str, Any]:
    """The JSON object of a line; Nonsense whatever the bytes are."""
    try:
        data = values(line.decode("utf-8"), finite=True)
    except Refused as problem:
        raise Nonsense(str(problem)) from None
    except ValueError:
        raise Nonsense("not JSON in UTF-8") from None
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


@dataclass(frozen=True)
class Transcript:
    """Everything of one boot that can be believed."""

    cases: int
    hello: Hello | None = None
    begun: tuple[Begin, ...] = ()
    results: tuple[Result, ...] = ()
    """At most one of each case, in the order of the job."""
    fatal: str | None = None
    bye: Bye | None = None
    anomalies: int = 0
    anomaly_texts: tuple[str, ...] = ()
    """The first few of them."""

    def result(self, case: int) -> Result | None:
        return next((result for result in self.results if result.case == case), None)

    @property
    def running(self) -> int | None:
        """The case that had begun and not ended when the guest fell silent."""
        last = self.begun[-1].case if self.begun else None
        return last if last is not None and self.result(last) is None else None

    @property
    def complete(self) -> bool:
        """Every case has a result and the guest said good-bye."""
        return self.bye is not None and len(self.results) == self.cases


class Reader:
    """Takes the channel's bytes in pieces of any size; hands out the records that are whole."""

    def __init__(self, nonce: str, cases: int) -> None:
        self.transcript = Transcript(cases)
        self._nonce = nonce.encode()
        self._lines = 0
        self._line = bytearray()
        self._seq = -1

    def feed(self, data: bytes) -> list[Record]:
        """The records that these bytes complete."""
        records = []
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._keep(piece)
            line = bytes(self._line)
            self._line.clear()
            if line:  # the guest writes an empty one before each record
                self._lines += 1
                try:
                    if len(line) > LINE_BYTES_MAX:
                        raise Nonsense(f"longer than {LINE_BYTES_MAX} bytes")
                    records.append(self._take(line))
                except Nonsense as why:
                    self._anomaly(str(why))
        self._keep(rest)
        return records

    def finish(self) -> Transcript:
        """After the last byte. A line without its end is not believed."""
        if self._line:
            self._anomaly("the last line is cut off")
        return self.transcript

    def _keep(self, piece: bytes) -> None:
        # One byte too many shows that a line is too long.
        self._line += piece[: LINE_BYTES_MAX + 1 - len(self._line)]

    def _anomaly(self, what: str) -> None:
        before = self.transcript
        texts = (*before.anomaly_texts, f"line {self._lines}: {what}")[:ANOMALIES_KEPT]
        self.transcript = replace(before, anomalies=before.anomalies + 1, anomaly_texts=texts)

    def _take(self, line: bytes) -> Record:
        data = decode(line)
        nonce = data.get("n")
        if not isinstance(nonce, str) or not hmac.compare_digest(
            nonce.encode("utf-8", "replace"), self._nonce
        ):
            raise Nonsense("not signed by this boot's guest program")
        seq = data.get("seq")
        if type(seq) is not int or not self._seq < seq < 1 << 53:
            raise Nonsense("seq does not go up")
        record = read(data)
        self._admit(record)
        if seq != self._seq + 1:
            self._anomaly(f"{seq - self._seq - 1} records before it are lost")
        self._seq = seq
        return record

    def _admit(self, record: Record) -> None:
        before = self.transcript
        if before.bye or before.fatal is not None:
            raise Nonsense("a record after the last one")
        if isinstance(record, Fatal):
            self.transcript = replace(before, fatal=record.reason)
        elif isinstance(record, Hello):
            if before.hello:
                raise Nonsense("a second hello")
            self.transcript = replace(before, hello=record)
        elif not before.hello:
            raise Nonsense("a record before hello")
        elif isinstance(record, Bye):
            if before.running is not None:
                raise Nonsense(f"bye while case {before.running} is running")
            self.transcript = replace(before, bye=record)
        elif isinstance(record, Begin):
            if record.case >= before.cases:
                raise Nonsense(f"case {record.case} of a job of {before.cases}")
            # A result that got lost leaves its case without one; it never gets a later one.
            if any(begun.case == record.case for begun in before.begun):
                raise Nonsense(f"case {record.case} begins a second time")
            self.transcript = replace(before, begun=(*before.begun, record))
        elif record.case != before.running:
            raise Nonsense(f"a result of case {record.case}, which is not running")
        elif not isinstance(record, Ready | Mark | Turn):
            self.transcript = replace(before, results=(*before.results, record))
