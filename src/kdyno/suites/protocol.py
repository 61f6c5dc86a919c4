# SPDX-License-Identifier: MIT
"""What a guest answers, read as it comes.

A guest may be broken in any way: it may write garbage between records, stop in the middle, repeat
itself or name a case that is not running. Whatever the bytes are, reading them never fails; what
cannot be believed is counted as an anomaly, and no record lands in a case that is not the one
running."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, replace

from kdyno.suites.record import (
    Begin,
    Bye,
    CaseError,
    Done,
    Fatal,
    Hello,
    Mark,
    Nonsense,
    Ready,
    Record,
    Sample,
    Skip,
    Turn,
    decode,
    read,
)

LINE_BYTES_MAX = 1 << 20
Result = Sample | Done | CaseError | Skip
"""What ends a case."""
ANOMALIES_KEPT = 10


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
        """The result of the case with this index, or None."""
        return next((result for result in self.results if result.case == case), None)

    @property
    def running(self) -> int | None:
        """The case that had begun and not ended when the guest fell silent."""
        if self.begun and self.result(self.begun[-1].case) is None:
            return self.begun[-1].case
        return None

    @property
    def complete(self) -> bool:
        """Every case has a result and the guest said good-bye."""
        return self.bye is not None and len(self.results) == self.cases


class Reader:
    """Takes the channel's bytes in pieces of any size; hands out the records that are whole."""

    def __init__(self, nonce: str, cases: int) -> None:
        self.transcript = Transcript(cases)
        """Everything so far."""
        self._nonce = nonce.encode()
        self._lines = 0
        self._line = bytearray()
        self._overlong = False
        self._seq = -1

    def feed(self, data: bytes) -> list[Record]:
        """The records that these bytes complete."""
        records = []
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._keep(piece)
            line, overlong = bytes(self._line), self._overlong
            self._line.clear()
            self._overlong = False
            if line or overlong:  # the guest writes an empty one before each record
                self._lines += 1
                try:
                    if overlong:
                        raise Nonsense(f"longer than {LINE_BYTES_MAX} bytes")
                    records.append(self._take(line))
                except Nonsense as why:
                    self._anomaly(str(why))
        self._keep(rest)
        return records

    def finish(self) -> Transcript:
        """After the last byte. A line without its end is not believed."""
        if self._line or self._overlong:
            self._anomaly("the last line is cut off")
            self._line.clear()
            self._overlong = False
        return self.transcript

    def _keep(self, piece: bytes) -> None:
        if len(self._line) + len(piece) > LINE_BYTES_MAX:
            self._overlong = True
            self._line.clear()
        elif not self._overlong:
            self._line += piece

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


def parse(lines: Iterable[bytes], nonce: str, cases: int) -> Transcript:
    """A recorded channel. Each item is a line with or without its line feed."""
    reader = Reader(nonce, cases)
    for line in lines:
        reader.feed(line if line.endswith(b"\n") else line + b"\n")
    return reader.finish()
