# SPDX-License-Identifier: MIT
"""The job of a guest: which cases of an experiment, how long, in which order. A case may be a cell
of a cross: a factor's level gives its settings, and fills ``{jobs}`` in its arguments."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment, SuiteUse
from kdyno.suites.catalogue import BUILTIN, PLACEHOLDER, Better, Case, Catalogue, find, in_words

JOB_BYTES_MAX = 64 * 1024
"""What a pipe holds without a reader."""
MOST_OPERATIONS = 1 << 50
OF_THE_HOST = frozenset({"run", "shell", "program"})
"""Benchmarks of the guest program that start programs of this machine."""
_BENCH = re.compile(r"[a-z0-9][a-z0-9-]*\Z")
_SYSCTL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./:-]*\Z")
_NONCE = re.compile(r"[0-9a-f]{32}\Z")


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
    """Units of work in one operation, for a case with a figure."""
    placed: bool = False
    """The machine puts its own places into the arguments: {dir}, {disk}, {tree}, {programs}."""


@dataclass(frozen=True)
class Job:
    """Everything one boot does. ``cases`` may be empty: boot, say hello, power off."""

    cases: tuple[CaseJob, ...] = ()
    sysctl: tuple[tuple[str, str], ...] = ()
    turns: bool = False
    """The guest waits for orders instead of running one case after the other."""
    counters: tuple[str, ...] = ()
    """Events that are counted beside each case's time."""
    metric: str = ""
    """A counter whose events each repetition reports in place of nanoseconds."""


def in_place(job: Job, places: Mapping[str, str]) -> Job:
    """The job with a machine's places in the command lines that have placeholders for them."""
    cases = (
        replace(case, args=in_words(case.args, places)) if case.placed else case
        for case in job.cases
    )
    return replace(job, cases=tuple(cases))


def render(job: Job, nonce: str) -> str:
    """Text of the job file, as guest/job.c reads it. ``nonce``, new for every boot: 32 lowercase
    hex digits; records without it are not believed. UsageError for what the file cannot carry."""
    if not _NONCE.match(nonce):
        raise ValueError("nonce must be 32 lowercase hexadecimal digits")
    lines = ["kdyno-job 1", f"nonce {nonce}"]
    for name, value in job.sysctl:
        if not _SYSCTL.match(name) or ".." in name or len(name) > 255:
            raise UsageError(f"sysctl: {name!r} is not a name of a setting, such as vm.swappiness")
        _check_line(f"sysctl {name}", value)
        if not 1 <= len(value.encode()) <= 255:
            raise UsageError(f"sysctl {name}: the value must have 1 to 255 bytes")
        lines.append(f"sysctl {name} {value}")
    if job.turns:
        lines.append("turns")
    lines += [f"counter {name}" for name in job.counters]
    lines += [f"metric {job.metric}"] if job.metric else []
    for index, case in enumerate(job.cases):
        where = f"{case.suite}/{case.case}"
        if not _BENCH.match(case.bench):
            raise UsageError(f"{where}: bench {case.bench!r} is not a name of a benchmark")
        if (case.seconds is None) == (case.operations is None):
            raise UsageError(f"{where}: exactly one of seconds and operations must be given")
        lines.append(f"case {index} {case.bench}")
        for key, number, least, most, form in (
            ("seconds", case.seconds, 0.01, 86400.0, ".9f"),
            ("operations", case.operations, 1, MOST_OPERATIONS, "d"),
            ("timeout", case.timeout_s, 0.001, 1e6, ".6f"),
        ):
            if number is not None:
                if not least <= number <= most:
                    limits = f"allowed is {least:g} to {most:g}"
                    raise UsageError(f"{where}: {key} is {number}, {limits}")
                lines.append(f"{key} {number:{form}}")
        for arg in case.args:
            _check_line(f"{where}: argument", arg)
            lines.append(f"arg {arg}")
    text = "\n".join([*lines, "end", ""])
    size_bytes = len(text.encode())
    if size_bytes > JOB_BYTES_MAX:
        raise UsageError(
            f"the job of one boot has {size_bytes} bytes and may have {JOB_BYTES_MAX}: "
            "shorten the command lines, or put them into scripts"
        )
    return text


def _check_line(where: str, text: str) -> None:
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


def case_job(
    case: Case,
    seconds: float | None = 0.5,
    operations: int | None = None,
    command: tuple[str, ...] = (),
    *,
    cpus: int = 1,
    quick: bool = False,
) -> CaseJob:
    """The case as a guest runs it. ``operations`` wins over ``seconds``. The time limit grows with
    the seconds. ``cpus`` and ``quick`` fill an existing program's command line. UsageError when the
    case wants a command line and there is none, or the other way round."""
    where = f"{case.suite}/{case.name}"
    if case.command is True and not command:
        raise UsageError(f'{where}: command is missing, such as command = ["sort", "words"]')
    if command and case.command is not True:
        raise UsageError(f"{where}: this case takes no command; the suite run does")
    args = case.args + command
    options: list[str] = []
    work = 1
    warmups = str(case.warmups)
    timeout_s = case.timeout_s + 4 * (seconds or 0.0)
    if case.program:
        run_s = seconds or 1.0
        values = {**dict(case.settings), **(dict(case.quick) if quick else {})}
        warmups = values.pop("warmups", warmups)
        values |= {
            "seconds": f"{run_s:g}",
            "whole_seconds": str(max(1, math.ceil(run_s))),
            "milliseconds": str(max(1, round(1000 * run_s))),
            "cpus": str(cpus),
        }
        args = in_words(case.program, values)
        if case.load:
            options += ["--load", values[case.load]]
        if case.work:
            text = values.get(case.work, case.work)
            if not (re.fullmatch("[0-9]{1,13}", text) and 1 <= int(text) <= 1 << 40):
                what = f"{case.work} is {text[:60]!r}, and must be a whole number from 1"
                raise UsageError(f"{where}: {what}")
            work = int(text)
    if case.program or case.figure is not None:
        # A figure is of one run of the program: several would give several figures.
        options = ["--warmups", warmups, *options]
        if case.figure is not None:  # however short the run, its time is not the figure
            options += ["--figure", "printed"]
        args = (*options, "--", *(args[1:] if args[:1] == ("--",) else args))
        operations = 1
    return CaseJob(
        suite=case.suite,
        case=case.name,
        bench=case.bench,
        args=args,
        seconds=None if operations is not None else seconds,
        operations=operations,
        timeout_s=timeout_s,
        work=work,
        placed=bool(case.program) or any("{programs}" in arg for arg in case.args),
    )


def open_settings(case: Case) -> tuple[str, ...]:
    """The names that a factor may set: the case's settings, and ``{jobs}`` in its arguments."""
    named = [name for name, _value in case.settings]
    named += [name for text in case.args for name in PLACEHOLDER.findall(text)]
    return tuple(dict.fromkeys(name for name in named if name not in BUILTIN))


def _pairs(experiment: Experiment, catalogue: Catalogue) -> Iterator[tuple[SuiteUse, Case]]:
    names: set[tuple[str, str]] = set()
    for use in experiment.suites:
        suite = find(catalogue, use.name)
        all_names = [case.name for case in suite.cases]
        for name in use.cases or all_names:
            if use.command and name not in all_names:
                # A command line of the user's goes by the name that the experiment gives it.
                case = replace(suite.cases[0], name=name)
            else:
                case = suite.case(name)
            if use.figure is not None:  # it prints its figure, instead of being timed
                better: Better = "higher" if use.better == "higher" else "lower"
                case = replace(case, figure=use.figure, unit=use.unit, better=better)
            if use.levels:
                settings = dict(use.settings)
                case = replace(
                    case,
                    name=use.name_in_run(name),
                    args=in_words(case.args, settings),
                    settings=tuple((key, settings.get(key, own)) for key, own in case.settings),
                    # What a factor crosses stays crossed in a quick run.
                    quick=tuple((key, own) for key, own in case.quick if key not in settings),
                    of=use.family or name,
                    levels=use.levels,
                )
            if (suite.name, case.name) in names:
                raise UsageError(f"{suite.name}/{case.name} is asked for twice")
            names.add((suite.name, case.name))
            yield use, case


def cases_of(experiment: Experiment, catalogue: Catalogue) -> tuple[Case, ...]:
    """The cases of one boot, in order; a suite without ``cases`` means all of them. UsageError with
    the nearest right word for a suite or case that does not exist."""
    return tuple(case for _, case in _pairs(experiment, catalogue))


def jobs_of(experiment: Experiment, catalogue: Catalogue) -> tuple[CaseJob, ...]:
    """As cases_of, in the same order, as a guest runs them."""
    return tuple(
        case_job(
            case,
            use.seconds,
            use.operations,
            in_words(use.command, dict(use.settings)),
            cpus=experiment.cpus,
            quick=use.quick,
        )
        for use, case in _pairs(experiment, catalogue)
    )
