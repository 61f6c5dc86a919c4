# SPDX-License-Identifier: MIT
"""What a machine says while it works a job off."""

from __future__ import annotations

import math
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kdyno.errors import UsageError
from kdyno.machines.pipes import Gathered, Stream
from kdyno.machines.session import Listener
from kdyno.suites.job import Job, in_place, render
from kdyno.suites.protocol import Reader
from kdyno.suites.record import Begin, Record

CONSOLE_MOST_BYTES = 16 << 20
RESULTS_MOST_BYTES = 16 << 20
FIRST_WORD_S = 20.0
"""A kernel that has not reached the guest program by then hangs (0.1 s is usual)."""
GRACE_S = 15.0
"""Beyond a case's own limit, which the guest program enforces itself."""
JOB_MOST_BYTES = 1 << 16
"""What a pipe holds without a reader."""
_CMDLINE_WORD = re.compile(r"^[\x21-\x7e]+$")
# The same for every boot: what a program's environment looks like moves its stack.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


@dataclass
class Watch:
    """What ends a guest early: its deadlines, or anybody who sets ``stop``."""

    limit_s: float
    """Wall-clock seconds for the whole process, whatever happens; pauses do not count."""
    stop: str = ""
    """Kill now, for this reason."""
    began_s: float = field(default_factory=time.monotonic)
    _next_s: float = math.inf
    _paused_s: float | None = None

    def allow(self, seconds: float) -> None:
        """The guest must show the next sign of life within ``seconds`` from now."""
        self._next_s = time.monotonic() + seconds

    def due_s(self) -> float:
        """When the guest is killed for its silence or its length."""
        if self._paused_s is not None:
            return math.inf
        return min(self._next_s, self.began_s + self.limit_s)

    def pause(self) -> None:
        """Deadlines stand still from now on."""
        if self._paused_s is None:
            self._paused_s = time.monotonic()

    def resume(self) -> None:
        """They go on as far off as they were."""
        if self._paused_s is not None:
            gone_s = time.monotonic() - self._paused_s
            self._paused_s = None
            self._next_s += gone_s
            self.began_s += gone_s


@dataclass
class Listening:
    """What the guest said so far, and what follows for how long it may go on."""

    job: Job
    reader: Reader
    watch: Watch
    listener: Listener
    said: list[Record] = field(default_factory=list)
    """What nobody has asked for yet."""
    console: Gathered = field(default_factory=Gathered)
    report: bytearray = field(default_factory=bytearray)
    greeted: Callable[[], None] = lambda: None
    """Called at the first record."""
    first_s: float | None = None
    last_s: float | None = None

    def results(self, data: bytes) -> None:
        for record in self.reader.feed(data):
            now = time.monotonic()
            if self.first_s is None:
                self.first_s = now
                self.greeted()
            self.last_s = now
            self.said.append(record)
            if isinstance(record, Begin):
                case = self.job.cases[record.case]
                self.listener(case.case)
                if not self.job.turns:
                    self.watch.allow(case.timeout_s + GRACE_S)
            else:
                # Whoever gives orders says how long each may take.
                self.watch.allow(math.inf if self.job.turns else GRACE_S)

    def streams(self, console: int, results: int, report: int) -> dict[int, Stream]:
        """The three pipes from the machine, by their descriptors."""
        return {
            console: Stream(self.console.add, CONSOLE_MOST_BYTES, "flood"),
            results: Stream(self.results, RESULTS_MOST_BYTES, "flood"),
            report: Stream(self.report.extend, 1 << 16, "flood"),
        }


def listen(
    asked: Job,
    places: Mapping[str, str],
    limit_s: float | None,
    listener: Listener,
    first_word_s: float = FIRST_WORD_S,
) -> tuple[Listening, bytes]:
    """(ready for the job that is about to start, the job as the guest program reads it).

    places: where the guest finds what command lines name; ``limit_s`` None follows from the cases.
    UsageError for a job that is too long.
    """
    nonce = secrets.token_hex(16)
    job = in_place(asked, places)
    text = render(job, nonce).encode()
    if len(text) > JOB_MOST_BYTES:
        raise UsageError("the job is too long: fewer cases or shorter arguments in one suite")
    followed_s = first_word_s + 2 * GRACE_S + sum(it.timeout_s for it in job.cases)
    watch = Watch(limit_s or (math.inf if job.turns else followed_s))
    watch.allow(first_word_s)
    return Listening(job, Reader(nonce, len(job.cases)), watch, listener), text


def printable_words(cmdline: str) -> list[str]:
    """The words of a kernel's command line; UsageError for what none can hold."""
    words = cmdline.split()
    for word in words:
        if not _CMDLINE_WORD.match(word):
            raise UsageError(f"cmdline: {word!r} is not a printable word")
    return words
