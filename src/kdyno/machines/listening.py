# SPDX-License-Identifier: MIT
"""What a machine says while it works a job off, and the record that comes of it."""

from __future__ import annotations

import json
import math
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kdyno.errors import UsageError
from kdyno.machines import diagnosis, facts
from kdyno.machines.pipes import Ended, Gathered, Stream
from kdyno.machines.session import Listener, Outcome
from kdyno.machines.watch import Watch
from kdyno.store.boot import BootFlag, BootHost
from kdyno.suites.job import Job, in_place, render
from kdyno.suites.protocol import Reader, Transcript
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


def conclude(
    guest: Listening,
    before: facts.Moment,
    cpus: frozenset[int],
    sandboxed: bool,
    ended: Ended,
    argv: tuple[str, ...],
) -> Outcome:
    """What came of the boot of a kernel, by what it said and left on its console."""
    after = facts.look(cpus)
    console = guest.console.content()
    said = guest.reader.finish()
    text = diagnosis.readable(console)
    found = diagnosis.of_boot(
        text,
        ended,
        said_hello=said.hello is not None,
        said_bye=said.bye is not None,
        fatal=said.fatal or "",
        sandboxed=sandboxed,
    )
    warnings = diagnosis.warnings(text)
    host = record_of(guest, said, ended, before, after, cpus, text, found, warnings)
    return Outcome(host, said, console, argv)


def record_of(
    guest: Listening,
    said: Transcript,
    ended: Ended,
    before: facts.Moment,
    after: facts.Moment,
    cpus: frozenset[int],
    text: str,
    found: diagnosis.Diagnosis | None,
    warnings: list[str],
) -> BootHost:
    """The host's record. ``text``: the console, readable; ``found``: why the boot failed."""
    report = supervisor_report(bytes(guest.report))
    cpu_s = (report.get("user_us", 0.0) + report.get("sys_us", 0.0)) / 1e6
    flags = [BootFlag(kind="kernel-warning", text=line) for line in warnings]
    flags += [BootFlag(kind="guest-channel", text=line) for line in said.anomaly_texts]
    inside_s = said.bye.inside_ns / 1e9 if said.bye is not None else None
    host_clock_s = guest_clock_s = None
    if guest.first_s is not None and guest.last_s is not None:
        host_clock_s = guest.last_s - guest.first_s
    if said.hello is not None and said.bye is not None:
        guest_clock_s = max(0, said.bye.mono_ns - said.hello.mono_ns) / 1e9
    return BootHost(
        status="ok" if found is None else "failed",
        reason=found.reason if found else "",
        text=found.text if found else "",
        console_tail=diagnosis.tail(text) if found else "",
        wall_s=ended.wall_s,
        boot_overhead_s=max(0.0, ended.wall_s - inside_s) if inside_s is not None else None,
        inside_s=inside_s,
        guest_clock_s=guest_clock_s,
        host_clock_s=host_clock_s,
        user_s=report["user_us"] / 1e6 if "user_us" in report else None,
        sys_s=report["sys_us"] / 1e6 if "sys_us" in report else None,
        peak_rss_bytes=int(report["maxrss_kb"] * 1024) if "maxrss_kb" in report else None,
        before={**before.facts},
        after={**after.facts, **facts.between(before, after, cpus, cpu_s)},
        flags=tuple(flags[:100]),
    )


def supervisor_report(raw: bytes) -> dict[str, float]:
    """The supervisor's JSON line, as far as it can be believed."""
    try:
        data = json.loads(raw.split(b"\n", 1)[0] or b"{}")
    except ValueError:
        return {}
    if not isinstance(data, dict):
        return {}
    return {
        str(key): float(value)
        for key, value in data.items()
        if isinstance(value, int | float) and 0 <= value < 1e15
    }
