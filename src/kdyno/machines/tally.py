# SPDX-License-Identifier: MIT
"""What an operation is made of: instructions of programs and of the kernel.

A plugin in QEMU writes a line of numbers for each timed part; here they become figures of samples.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

from kdyno.store.samples import APART
from kdyno.suites.protocol import Result, Transcript
from kdyno.suites.record import CaseError, Sample
from kdyno.suites.score import steady

_LINE = re.compile(rb"part ([0-9]{1,18}) ([0-9]{1,18})")
_LARGEST_BYTES = 64 << 20
_LOST = "a case before it failed, so that its counts could not be told from the other's"


@dataclass(frozen=True)
class Tally:
    """Instructions of one timed part; as the lines of the plugin."""

    user: int
    kernel: int


def asked(kernel_from: int) -> bytes:
    """What the plugin is given: where the kernel's addresses begin."""
    return f"kernel {kernel_from}\n".encode()


def read(file: BinaryIO) -> list[Tally]:
    """The parts in their order, as far as they are whole: a guest may have been ended."""
    found = []
    for line in file.read(_LARGEST_BYTES).split(b"\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            break
        found.append(Tally(int(match[1]), int(match[2])))
    return found


def with_tallies(said: Transcript, parts: Sequence[Tally]) -> Transcript:
    """Samples with their figures."""
    return replace(said, results=tuple(_results(said, parts)))


def _results(said: Transcript, parts: Sequence[Tally]) -> Iterator[Result]:
    at, lost = 0, False
    for result in said.results:
        if not isinstance(result, Sample):
            # One that failed half-way has left parts that are nobody's.
            lost = lost or isinstance(result, CaseError)
            yield result
            continue
        own = parts[at : at + len(result.reps)]
        at += len(result.reps)
        if lost or len(own) != len(result.reps):
            yield CaseError(result.case, _LOST if lost else "its counts are not whole")
            continue
        score = steady(result.reps)
        done = result.reps[score][0]
        counts = {"user": own[score].user, "kernel": own[score].kernel}
        extra = {f"{APART}{name}": repr(count / done) for name, count in counts.items()}
        yield replace(result, extra={**result.extra, **extra})
