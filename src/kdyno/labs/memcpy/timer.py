# SPDX-License-Identifier: MIT
"""The timing program at work: lines of work in, times out, and whoever faults or hangs is named.

What the program prints is read as if it came from a stranger: a routine under test may have
written anywhere.
"""

from __future__ import annotations

import math
import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kdyno.command import Running, kill_session, started
from kdyno.errors import ToolError
from kdyno.sandbox import confined, plain_status

STOPPED = 2
"""Exit status of the program when its work makes no sense: no contender's fault."""
HANG_S = 20.0
"""No single line of work takes a tenth of that."""

_WORDS = re.compile(r"[a-z]+( \S{1,64}){1,3}")


@dataclass(frozen=True)
class Line:
    """One thing to time: ``text`` as native/timing.c reads it, with ``id`` in it."""

    id: str
    contender: str
    text: str


@dataclass(frozen=True)
class Task:
    """Lines that share a region and a pool, which ``setup`` opens; answers to it are kept."""

    setup: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Time:
    """One line's score: ns per call, and the core's clock meanwhile."""

    ns: float
    ghz: float


@dataclass
class Timed:
    """What one run of all tasks gave."""

    times: dict[str, Time] = field(default_factory=dict)
    answers: dict[str, tuple[float, ...]] = field(default_factory=dict)
    """Answer to each line of set-up, the line itself as key."""
    failed: dict[str, str] = field(default_factory=dict)
    """Contender → why; nothing of it was timed after that."""


class Died(Exception):
    """The program ended or fell silent while ``line`` was at work (None: between lines)."""

    def __init__(self, line: Line | None, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.line, self.reason, self.status = line, reason, status


def parse(text: str) -> tuple[str, tuple[str, ...]]:
    """A line of the program's output as (word, rest). ValueError for anything else."""
    if not _WORDS.fullmatch(text):
        raise ValueError(f"unexpected output {text[:60]!r}")
    word, *rest = text.split(" ")
    return word, tuple(rest)


def figure(text: str) -> float:
    """A positive, finite number. ValueError for anything else."""
    value = float(text)
    if not math.isfinite(value) or value <= 0:
        raise ValueError(f"{text[:40]!r} is not a time")
    return value


def time_all(
    program: Path,
    rack: Path,
    cpu: int,
    tasks: Sequence[Task],
    done: Callable[[], None] = lambda: None,
    hang_s: float = HANG_S,
) -> Timed:
    """Run all tasks; a contender that kills or blocks the program fails and the rest goes on.

    ToolError when the program dies with nothing of a contender at work.
    """
    outcome = Timed()
    while True:
        waiting = []
        for task in tasks:
            lines = tuple(
                line
                for line in task.lines
                if line.id not in outcome.times and line.contender not in outcome.failed
            )
            if lines or any(text not in outcome.answers for text in task.setup):
                waiting.append(Task(task.setup, lines))
        if not waiting:
            return outcome
        try:
            _once(program, rack, cpu, waiting, outcome, done, hang_s)
        except Died as end:
            if end.line is None or end.status == STOPPED:
                raise ToolError(f"the timing program failed: {end.reason}") from None
            outcome.failed[end.line.contender] = f"{end.reason} ({end.line.text})"


def _once(
    program: Path,
    rack: Path,
    cpu: int,
    tasks: Iterable[Task],
    outcome: Timed,
    done: Callable[[], None],
    hang_s: float,
) -> None:
    # The pools of copies lie beside the rack.
    argv = confined([str(program), str(rack), str(cpu)], reads=[program, rack.parent])
    with started(argv, stdin=subprocess.PIPE) as timing:
        try:
            talk = _Talk(timing, hang_s)
            for task in tasks:
                for text in task.setup:
                    outcome.answers[text] = talk.ask(text)
                for line in task.lines:
                    outcome.times[line.id] = talk.timed(line)
                    done()
        except Died as end:
            kill_session(timing.process)
            status = plain_status(timing.process.returncode)
            complaint = timing.complaint()[:400].strip()
            reason = f"{end.reason}: {complaint}" if complaint else end.reason
            raise Died(end.line, reason, status) from None
        kill_session(timing.process)


class _Talk:
    """One question, one answer."""

    def __init__(self, timing: Running, hang_s: float) -> None:
        self._process, self._hang_s = timing.process, hang_s
        self._into, self._out = timing.stdin.fileno(), timing.stdout.fileno()
        self._rest = b""

    def ask(self, text: str) -> tuple[float, ...]:
        """The numbers of the answer to a line of set-up."""
        try:
            self._send(text, None)
            _word, rest = parse(self._line(None))
            return tuple(map(figure, rest))
        except ValueError as problem:
            raise Died(None, str(problem)) from None

    def timed(self, line: Line) -> Time:
        self._send(line.text, line)
        try:
            if parse(self._line(line)) != ("begin", (line.id,)):
                raise ValueError("it does not begin")
            word, rest = parse(self._line(line))
            if word != "done" or len(rest) != 3 or rest[0] != line.id:
                raise ValueError("it does not end")
            return Time(figure(rest[1]), figure(rest[2]))
        except ValueError as problem:
            raise Died(line, f"spoiled the timing program: {problem}") from None

    def _send(self, text: str, line: Line | None) -> None:
        try:
            os.write(self._into, text.encode() + b"\n")
        except OSError:
            raise Died(line, self._end()) from None

    def _line(self, at_work: Line | None) -> str:
        limit_s = time.monotonic() + self._hang_s
        while b"\n" not in self._rest:
            left_s = limit_s - time.monotonic()
            if left_s <= 0 or not select.select([self._out], [], [], left_s)[0]:
                raise Died(at_work, f"did not return within {self._hang_s:g} s")
            more = os.read(self._out, 65536)
            if not more or len(self._rest) > 65536:
                raise Died(at_work, self._end())
            self._rest += more
        line, self._rest = self._rest.split(b"\n", 1)
        return line.decode("ascii", "replace")

    def _end(self) -> str:
        try:
            status = plain_status(self._process.wait(timeout=2))
        except subprocess.TimeoutExpired:
            return "closed its output"
        if status < 0:
            return f"died of {signal.Signals(-status).name}"
        return f"ended with status {status}"
