# SPDX-License-Identifier: MIT
"""The job that a guest is given: which cases to run, how long, in which order."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kdyno.errors import UsageError
from kdyno.suites.wrapping import in_words

JOB_BYTES_MAX = 64 * 1024
SECONDS_RANGE = (0.01, 86400.0)
_BENCH = re.compile(r"[a-z0-9][a-z0-9-]*\Z")
_SYSCTL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:-]*\Z")
_NONCE = re.compile(r"[0-9a-f]{32}\Z")


OF_THE_HOST = frozenset({"run", "shell", "program"})
"""Benchmarks of the guest program that start programs of this machine."""


@dataclass(frozen=True)
class CaseJob:
    """One case as the guest program runs it. Exactly one of seconds, operations is set."""

    suite: str
    case: str
    bench: str
    """Name of a native benchmark of the guest program; ``run`` for any command line."""
    args: tuple[str, ...] = ()
    seconds: float | None = 0.5
    operations: int | None = None
    timeout_s: float = 60.0
    work: int = 1
    """Of what the case's figure counts, in one operation."""
    placed: bool = False
    """The machine puts its own places into the arguments: {dir}, {disk}, {tree}, {programs}."""


@dataclass(frozen=True)
class Job:
    """Everything one boot does. ``cases`` may be empty: boot, say hello, power off."""

    cases: tuple[CaseJob, ...] = ()
    sysctl: tuple[tuple[str, str], ...] = ()
    turns: bool = False
    """The guest waits for orders instead of running one case after the other."""


def in_place(job: Job, places: Mapping[str, str]) -> Job:
    """The job with a machine's places in the command lines that ask for them."""

    def one(case: CaseJob) -> CaseJob:
        if not case.placed:
            return case
        return replace(case, args=in_words(case.args, places))

    return replace(job, cases=tuple(one(case) for case in job.cases))


def _line(where: str, text: str) -> str:
    for character, name in (("\n", "a line break"), ("\0", "a NUL")):
        if character in text:
            raise UsageError(
                f"{where}: {text[:60]!r} contains {name}, which a job file cannot carry; "
                "put it into a script and run that"
            )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError(f"{where}: {text[:60]!r} is not text (UTF-8)") from None
    return text


def _case_lines(index: int, case: CaseJob) -> list[str]:
    where = f"{case.suite}/{case.case}"
    if not _BENCH.match(case.bench):
        raise UsageError(f"{where}: bench {case.bench!r} is not a name of a benchmark")
    lines = [f"case {index} {case.bench}"]
    if (case.seconds is None) == (case.operations is None):
        raise UsageError(f"{where}: exactly one of seconds and operations must be given")
    if case.seconds is not None:
        least, most = SECONDS_RANGE
        if not least <= case.seconds <= most:
            raise UsageError(f"{where}: seconds is {case.seconds}, allowed is {least} to {most:g}")
        lines.append(f"seconds {case.seconds:.9f}")
    if case.operations is not None:
        if not 1 <= case.operations <= 1 << 50:
            raise UsageError(f"{where}: operations is {case.operations}, and must be 1 or more")
        lines.append(f"operations {case.operations}")
    if not 0.001 <= case.timeout_s <= 1e6:
        raise UsageError(f"{where}: timeout is {case.timeout_s} s, allowed is 0.001 to 1000000")
    lines.append(f"timeout {case.timeout_s:.6f}")
    lines += [f"arg {_line(f'{where}: argument', arg)}" for arg in case.args]
    return lines


def render(job: Job, nonce: str) -> str:
    """Text of the job file, as guest/job.c reads it.

    ``nonce`` is 32 lowercase hexadecimal digits, new for every boot: records that do not carry it
    are not believed. UsageError for what the file cannot carry.
    """
    if not _NONCE.match(nonce):
        raise ValueError("nonce must be 32 lowercase hexadecimal digits")
    lines = ["kdyno-job 1", f"nonce {nonce}"]
    for name, value in job.sysctl:
        if not _SYSCTL.match(name) or ".." in name or len(name) > 255:
            raise UsageError(f"sysctl: {name!r} is not a name of a setting, such as vm.swappiness")
        _line(f"sysctl {name}", value)
        if not 1 <= len(value.encode()) <= 255:
            raise UsageError(f"sysctl {name}: the value must have 1 to 255 bytes")
        lines.append(f"sysctl {name} {value}")
    if job.turns:
        lines.append("turns")
    for index, case in enumerate(job.cases):
        lines += _case_lines(index, case)
    text = "\n".join([*lines, "end", ""])
    size_bytes = len(text.encode())
    if size_bytes > JOB_BYTES_MAX:
        raise UsageError(
            f"the job of one boot has {size_bytes} bytes and may have {JOB_BYTES_MAX}: "
            "shorten the command lines, or put them into scripts"
        )
    return text
