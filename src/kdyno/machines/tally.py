# SPDX-License-Identifier: MIT
"""What an operation is made of: instructions of programs and kernel, and what a model says of them.

A plugin in QEMU writes a line of numbers for each timed part; here they become figures of samples,
and, where cycles are estimated, the score itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from typing import BinaryIO

from kdyno.experiment.model import CacheModel
from kdyno.store.samples import APART
from kdyno.suites.protocol import Result, Transcript
from kdyno.suites.record import CaseError, Sample
from kdyno.suites.score import steady

_LINE = re.compile(rb"part((?: [0-9]{1,18}){9})")
_LARGEST_BYTES = 64 << 20
_LOST = "a case before it failed, so that its counts could not be told from the other's"


@dataclass(frozen=True)
class Tally:
    """One timed part; as the lines of the plugin."""

    user: int
    """Instructions of programs."""
    kernel: int
    pieces: int
    """Of both, executions of string instructions: one for each piece that they move."""
    piece_bytes: int
    l1i: int
    """Misses, as all that follow; of l2 are those that missed in a cache of the first level."""
    l1d: int
    l2: int
    llc: int
    branches: int

    @property
    def instructions(self) -> int:
        return self.user + self.kernel

    def cycles(self, model: CacheModel) -> float:
        """Estimated as users of Cachegrind do: instructions, and so many cycles for each miss.

        A string instruction moves ``string_bytes`` in a cycle, however small its pieces are.
        """
        return (
            self.instructions
            - self.pieces
            + self.piece_bytes / model.string_bytes
            + model.l1_miss * (self.l1i + self.l1d)
            + model.l2_miss * self.l2
            + model.llc_miss * self.llc
            + model.branch_miss * self.branches
        )


def asked(kernel_from: int, model: CacheModel | None) -> bytes:
    """What the plugin is told: where the kernel's addresses begin, and the model if any."""
    lines = [f"kernel {kernel_from}"]
    if model is not None:
        for name in ("l1i", "l1d", "l2", "llc"):
            cache = getattr(model, name)
            lines.append(f"{name} {cache.size_bytes} {cache.ways}")
        lines += [f"line {model.line_bytes}", f"history {model.history}"]
    return "".join(f"{line}\n" for line in lines).encode()


def read(file: BinaryIO) -> list[Tally]:
    """The parts in their order, as far as they are whole: a guest may have been ended."""
    found = []
    for line in file.read(_LARGEST_BYTES).split(b"\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            break
        found.append(Tally(*map(int, match[1].split())))
    return found


def with_tallies(said: Transcript, parts: Sequence[Tally], model: CacheModel | None) -> Transcript:
    """Samples with their figures; with a ``model`` their repetitions are of estimated cycles."""
    return replace(said, results=tuple(_results(said, parts, model)))


def _results(
    said: Transcript, parts: Sequence[Tally], model: CacheModel | None
) -> Iterator[Result]:
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
        yield _counted(result, own, model)


def _counted(sample: Sample, own: Sequence[Tally], model: CacheModel | None) -> Sample:
    reps = sample.reps
    if model is not None:
        reps = tuple(
            (done, max(1, round(each.cycles(model))))
            for (done, _ns), each in zip(reps, own, strict=True)
        )
    at = steady(reps)
    done, part = reps[at][0], own[at]
    figures = {item.name: count for item, count in zip(fields(part), astuple(part), strict=True)}
    if model is None:
        figures = {name: figures[name] for name in ("user", "kernel")}
    else:
        figures["instructions"] = part.instructions
    extra = {f"{APART}{name}": repr(count / done) for name, count in figures.items()}
    return replace(sample, reps=reps, extra={**sample.extra, **extra})
