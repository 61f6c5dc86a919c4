# SPDX-License-Identifier: MIT
"""Why a boot failed, from what its console and its process say."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kdyno.machines.pipes import Ended
from kdyno.suites.protocol import Transcript

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")

# First match wins: a panic may follow an oops or an out-of-memory kill and names the cause less.
_SIGNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "oom",
        re.compile(
            r"(?:Out of memory: Killed process|System is deadlocked on memory"
            r"|Kernel panic - not syncing: Out of memory)"
        ),
    ),
    (
        "init-died",
        re.compile(
            r"(?:Attempted to kill init|No working init found|Requested init .* failed"
            r"|Kernel panic - not syncing: (?:VFS|No init))"
        ),
    ),
    (
        "no-seccomp",
        re.compile(r"SECCOMP userspace requested but not functional"),
    ),
    (
        "oops",
        re.compile(
            r"(?:BUG: |Oops|general protection fault|Kernel mode fault|Segfault with no mm"
            r"|kernel BUG at)"
        ),
    ),
    ("panic", re.compile(r"Kernel panic - not syncing")),
)
_SCHEDULER = "scheduler: "
"""How a guest begins when it tells that its scheduler is not, or no longer, in charge."""
_SHOWN = 5
_WARNING = re.compile(r"^.*(?:WARNING: CPU|WARNING: |BUG: |INFO: rcu.*stall|soft lockup).*$", re.M)


@dataclass(frozen=True)
class Diagnosis:
    """reason: a short stable word; text: the same for people, with the line that shows it."""

    reason: str
    text: str


def readable(console: bytes) -> str:
    """The console as plain text: no control characters, no escape sequences."""
    text = console.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", text)


def tail(text: str, lines: int = 12) -> str:
    """The last lines of a console, each cut to a readable length."""
    kept = [line[:200] for line in text.splitlines() if line.strip()][-lines:]
    return "\n".join(kept)


def sign(text: str) -> Diagnosis | None:
    """What the console itself says went wrong."""
    for reason, pattern in _SIGNS:
        if match := pattern.search(text):
            start = text.rfind("\n", 0, match.start()) + 1
            end = text.find("\n", match.end())
            line = text[start : end if end >= 0 else len(text)].strip()[:300]
            return Diagnosis(reason, line)
    return None


def warnings(text: str) -> list[str]:
    """Kernel warnings on the console of a boot that went through all the same."""
    return list(dict.fromkeys(line.strip()[:200] for line in _WARNING.findall(text)))[:_SHOWN]


def of_boot(console: str, ended: Ended, said: Transcript, sandboxed: bool) -> Diagnosis | None:
    """None for a boot that ran its job to the end; otherwise why it did not."""
    found = sign(console)
    said_hello, said_bye = said.hello is not None, said.bye is not None
    if said_bye and (found is None or found.reason in ("oom", "oops")):
        # A case that was killed for memory, or a kernel that limped on, did finish the job;
        # an oops spoils the measurement, a killed case is recorded with its case.
        return found if found is not None and found.reason == "oops" else None
    if ended.stopped == "flood":
        return Diagnosis("flood", "the guest printed more than is read from a guest")
    if ended.stopped == "timeout":
        kind = "hang" if not said_hello else "timeout"
        where = "before the guest program answered" if not said_hello else "in the job"
        return found or Diagnosis(kind, f"did not end within {ended.wall_s:.0f} s, {where}; killed")
    if ended.stopped:
        return found or Diagnosis(ended.stopped, f"stopped by kdyno: {ended.stopped}")
    if said.fatal and said.fatal.startswith(_SCHEDULER):
        return Diagnosis("scheduler", said.fatal.removeprefix(_SCHEDULER))
    if said.fatal:
        return Diagnosis("job-refused", f"the guest program refused the job: {said.fatal}")
    if found is not None:
        return found
    if not said_hello and sandboxed and "bwrap: " in console:
        return Diagnosis("sandbox", tail(console, 1))
    if not said_hello:
        return Diagnosis(
            "no-result", f"the kernel ended with status {ended.status} before its first word"
        )
    return Diagnosis("no-result", f"the guest ended with status {ended.status} in the job")
