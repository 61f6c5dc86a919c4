# SPDX-License-Identifier: MIT
"""The catalogue of suites: one TOML file each, in a folder beside this file.

name  = "unixbench"             # required; the file is unixbench.toml
help  = "one line"              # required
index = 10.0                    # optional: index of a case = index * score / baseline

[groups]                        # optional: what is combined, by harmonic mean of the indices
memory = ["copy", "fill"]       # names of cases, or of groups above
total  = ["cpu", "memory"]

[case.pipe]                     # the cases, in the order in which they are listed and run
help     = "what one operation is"   # required
unit     = "loops/s"            # required
better   = "higher"             # required: higher (a rate: operations per second) | lower (a
                                #   time: seconds per operation)
bench    = "pipe"               # required but with command: a benchmark of the guest program
args     = ["512"]              # optional: the benchmark's arguments
scale    = 1.0                  # optional: the score is multiplied by this
control  = false                # optional: true when the kernel should not matter
baseline = 12440.0              # optional: the score that makes the index
timeout  = 60.0                 # optional: seconds, at most, for one sample
command  = false                # optional: true: the experiment's command line becomes args

A case that wraps an existing program has, instead of ``bench`` and ``args``:

command  = ["hackbench", "-g", "{groups}"]   # run to its end; {…} see below
figure   = "Time: ([0-9.]+)"    # optional: regular expression with one group, found exactly once
                                #   in what it prints; without it the run's time is the figure
also     = { mean_ms = "mean: ([0-9.]+)" }   # optional: further figures, kept with the sample
settings = { groups = 2 }       # optional: what {groups} is unless an experiment says otherwise
quick    = { groups = 1 }       # optional: the same for --quick; warmups may be here, too
needs    = ["hackbench"]        # optional: programs ("apache2|httpd": either); the command's first
                                #   word if not given
install  = "rt-tests"           # optional: the Debian package(s) that bring them
warmups  = 1                    # optional: unmeasured runs before the measured one, 0 to 100
disk     = "1G"                 # optional: wants {disk}, an ext4 of this size in a guest
tree     = false                # optional: wants {tree}, the kernel source of the experiment
prepare  = ["sh", "{prepared}"] # optional: a command run once, outside of every measurement,
                                #   that fills the folder {prepared}, which all boots then see
uncounted = "why"               # optional: why fewer instructions would not mean that it is faster;
                                #   also beside the suite's name, for all its cases
work     = 1                    # optional: how much of a fixed work it does, or the setting that
                                #   says so. Its figure is work / time or time / work, so it can
                                #   take turns, in which its own clock is not believed. The time is
                                #   that of the command, or from its line "kdyno: timed from here"
                                #   to its line "kdyno: timed to here". With a disk: give it only
                                #   where nothing waits until the host has written (no fsync)
load     = "groups"             # optional: record the runnable tasks while it runs, against
                                #   this setting, which says how many there should be

In a command, ``{name}`` is a setting of the case, or one of

seconds        as requested, such as 0.5      whole_seconds  the same, rounded up, at least 1
milliseconds   the same in whole ones         cpus           CPUs of the machine
dir            a working folder, in memory in a guest
disk           a folder on a real file system tree           the kernel source, read-only
programs       kdyno's own programs, scripts  prepared       what the case's ``prepare`` made

The last five are known to the machine only, which puts them in."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    Strict,
    StrictStr,
    TypeAdapter,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from kdyno.errors import UsageError
from kdyno.experiment.model import Pairs, like, one_group
from kdyno.reading.checked import INSIDE, Closed, check, wrong
from kdyno.reading.mistakes import among, quoted
from kdyno.store import reading

Better = Literal["higher", "lower"]
PLACES = frozenset({"dir", "disk", "tree", "programs", "prepared"})
"""Placeholders that a machine fills."""
_TIMES = frozenset({"seconds", "whole_seconds", "milliseconds"})
BUILTIN = PLACES | _TIMES | {"cpus"}
PLACEHOLDER = re.compile(r"\{([a-z][a-z0-9_]*)\}")
"""A name in ``{…}`` in a word of a command."""
UNIT = "instructions/operation"
FIGURES = ("user", "kernel")
"""What a counted operation is made of, in the order in which it is shown."""
_SETTING = re.compile(r"[a-z][a-z0-9_]{0,31}")
_COUNT = re.compile(r"[1-9][0-9]{0,11}")
_SIZE = re.compile(r"([1-9][0-9]{0,5})([MG])")
_LARGEST_BYTES = 1 << 20


def in_words(words: tuple[str, ...], values: Mapping[str, str]) -> tuple[str, ...]:
    """The words with these values in them; other ``{…}`` stay."""
    return tuple(
        PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), word) for word in words
    )


def _bytes(value: object) -> int:
    match = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'{quoted(value)} is not a size such as "512M" or "1G"')
    return int(match[1]) << (20 if match[2] == "M" else 30)


def _value(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{quoted(value)} is neither a number nor a text")
    return str(value)


def _command(value: object) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and value and all(isinstance(word, str) and word for word in value):
        return tuple(value)
    raise ValueError(f"{quoted(value)} is neither true, false nor a list of texts")


def _table(of: Any) -> PlainValidator:
    adapter = TypeAdapter(dict[str, of])
    return PlainValidator(lambda value: tuple(adapter.validate_python(value).items()))


Some = Annotated[StrictStr, like(r"(?s)\s*\S.*", " says nothing")]
CaseName = Annotated[
    StrictStr, like(r"[a-z0-9][a-z0-9._-]*", ": a name has only a-z, 0-9, '.', '_' and '-'")
]
Words = Annotated[tuple[Some, ...], Field(min_length=1)]
Groups = dict[str, tuple[str, ...]]
Positive = Annotated[float, Strict(), Field(gt=0, lt=1e18)]
Value = Annotated[str, BeforeValidator(_value)]


@dataclass(frozen=True)
class Case(Closed):
    """A benchmark with its arguments, and how its repetitions become a score: a table
    ``[case.NAME]``."""

    suite: Annotated[str, INSIDE, Field(default="")]
    name: Annotated[str, INSIDE, Field(default="")]
    help: Some
    unit: Some
    better: Better
    bench: Some = ""
    args: tuple[StrictStr, ...] = ()
    scale: Positive = 1.0
    control: Annotated[bool, Strict()] = False
    baseline: Positive | None = None
    timeout_s: Annotated[Positive, Field(alias="timeout")] = 60.0
    command: Annotated[bool | tuple[str, ...], PlainValidator(_command)] = False
    figure: Annotated[StrictStr, AfterValidator(one_group)] | None = None
    also: Annotated[Pairs, _table(Annotated[StrictStr, AfterValidator(one_group)])] = ()
    settings: Annotated[Pairs, _table(Value)] = ()
    quick: Annotated[Pairs, _table(Value)] = ()
    needs: tuple[Some, ...] = ()
    install: Some = ""
    warmups: Annotated[int, Strict(), Field(ge=0, le=100)] = 1
    disk_bytes: Annotated[int, Field(alias="disk"), PlainValidator(_bytes)] = 0
    tree: Annotated[bool, Strict()] = False
    prepare: Words = ()
    work: Value = ""
    load: Some = ""
    uncounted: Some = ""
    of: Annotated[str, INSIDE] = ""
    """For a cell of a cross: what the cases of all its levels are called together."""
    levels: Annotated[Pairs, INSIDE] = ()
    """(factor, level) pairs of such a cell."""
    counted: Annotated[bool, INSIDE] = False
    """Its score is instructions."""

    @property
    def program(self) -> tuple[str, ...]:
        """The command line of an existing program, with {…} in it; empty where there is none."""
        return self.command if isinstance(self.command, tuple) else ()


_WRAPPING = (
    *("figure", "also", "settings", "quick", "install", "warmups", "disk", "tree"),
    *("load", "prepare", "work"),
)


def _case(data: Any, handler: ValidatorFunctionWrapHandler) -> Case:
    """A case whose keys fit each other, with what follows from them."""
    case: Case = handler(data)
    for key, pairs in (("settings", case.settings), ("quick", case.quick)):
        for name, _text in pairs:
            if not _SETTING.fullmatch(name) or name in BUILTIN:
                raise wrong(f"{key}.{name}", "is not a name of a setting: a-z, 0-9 and _")
    if case.program:
        _check_program(case, data)
    elif not case.bench:
        raise wrong("bench", "is missing: a benchmark of the guest program, or command = [...]")
    elif case.command is False:
        for key in _WRAPPING:
            if key in data:
                raise wrong(key, "belongs to a case with command = [...]")
    bench = "run" if case.program else case.bench
    return replace(case, bench=bench, needs=case.needs or case.program[:1])


def _check_program(case: Case, data: Mapping[str, Any]) -> None:
    for key in ("bench", "args"):
        if key in data:
            raise wrong(key, "excludes command, which is the program and its arguments")
    settings = list(dict(case.settings))
    for name in dict(case.quick):
        if name not in (*settings, "warmups"):
            raise wrong(f"quick.{name}", "is not a setting", name, settings)
    if (warmups := dict(case.quick).get("warmups", "0")) not in map(str, range(101)):
        raise wrong("quick.warmups", f"{quoted(warmups)} is not a whole number from 0 to 100")
    if case.work and case.figure is None:
        raise wrong("work", "belongs to a case with a figure; else the time is it")
    if case.work and case.work not in settings and not _COUNT.fullmatch(case.work):
        text = f"{quoted(case.work)} is neither a whole number from 1 nor a setting"
        raise wrong("work", text, case.work, settings)
    if case.load and case.load not in settings:
        raise wrong("load", f"{quoted(case.load)} is not a setting", case.load, settings)
    for key, words in (("command", case.program), ("prepare", case.prepare)):
        for name in (name for word in words for name in PLACEHOLDER.findall(word)):
            if name not in {*settings, *BUILTIN}:
                raise wrong(key, f"{{{name}}} is unknown", name, [*settings, *sorted(BUILTIN)])
    used = {name for word in case.program for name in PLACEHOLDER.findall(word)}
    for name in settings:
        if name not in used:
            raise wrong(f"settings.{name}", f"the command has no {{{name}}}")
    for key, wanted in (("disk", bool(case.disk_bytes)), ("tree", case.tree)):
        if (key in used) != wanted:
            raise wrong(key, f"goes together with {{{key}}} in the command")


def _cases(value: object) -> tuple[Case, ...]:
    return tuple(replace(case, name=name) for name, case in _CASES.validate_python(value).items())


def _groups(value: object, info: ValidationInfo) -> Groups:
    groups = _GROUPS.validate_python(value)
    cases = [case.name for case in info.data.get("cases", ())]
    names = list(cases)
    for name, members in groups.items() if cases else ():
        if name in cases:
            raise wrong((name,), "is the name of a case already")
        for member in members:
            if member not in names:
                raise wrong((name,), f"{quoted(member)} is unknown", member, names)
        if len(set(members)) < len(members):
            raise wrong((name,), "names something twice")
        names.append(name)
    return groups


_CASES = TypeAdapter(
    Annotated[dict[CaseName, Annotated[Case, WrapValidator(_case)]], Field(min_length=1)]
)
_GROUPS = TypeAdapter(dict[str, Words])


@dataclass(frozen=True)
class Suite(Closed):
    name: CaseName
    help: Some
    cases: Annotated[tuple[Case, ...], Field(alias="case"), PlainValidator(_cases)]
    index: Positive | None = None
    groups: Annotated[Groups, PlainValidator(_groups)] = field(default_factory=dict)
    """Group → names of cases, or of groups before it. Empty: the suite's index is of all cases."""
    uncounted: Some = ""

    def case(self, name: str) -> Case:
        """UsageError with the nearest right word when there is none of this name."""
        cases = {case.name: case for case in self.cases}
        if name not in cases:
            raise UsageError(f"suite {self.name} has no case {name!r}{among(name, cases)}")
        return cases[name]


Catalogue = Mapping[str, Suite]


@cache
def load() -> Catalogue:
    """Read once: it takes longer than most of what is done with them."""
    files = sorted((Path(__file__).parent / "catalogue").glob("*.toml"))
    return {suite.name: suite for suite in map(load_file, files)}


def load_file(path: Path) -> Suite:
    """One suite. UsageError names file, line, key, what was found and what is allowed."""
    try:
        text = reading.content(path, _LARGEST_BYTES, "suite").decode("utf-8")
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: this is not TOML: {error}") from None
    suite = check(Suite, data, str(path), text)
    cases = (
        replace(case, suite=suite.name, uncounted=case.uncounted or suite.uncounted)
        for case in suite.cases
    )
    return replace(suite, cases=tuple(cases))


def find(suites: Catalogue, name: str) -> Suite:
    """UsageError with the nearest right word when there is none of this name."""
    if name in suites:
        return suites[name]
    raise UsageError(f"there is no suite {name!r}{among(name, suites)}")


def counted(case: Case) -> Case:
    """The same case counted instead of timed: nanoseconds per operation, by the clock of a guest
    that goes on by 1 ns per instruction. A program's own figure of its speed, and the index of a
    suite, are of times."""
    counted = replace(case, unit=UNIT, better="lower", counted=True)
    return replace(counted, scale=1.0, figure=None, baseline=None)


def by_counter(case: Case, counter: str) -> Case:
    """The same case measured by events of the CPU or the kernel, a score as nanoseconds are."""
    unit = f"{counter}/operation"
    return replace(case, unit=unit, better="lower", scale=1e9, figure=None, baseline=None)


def why_uncounted(case: Case) -> str:
    """Why its instructions decide nothing; empty where they do."""
    if case.uncounted:
        return case.uncounted
    if case.disk_bytes:
        return "it waits for a disk, and how long that takes is in no count"
    if any(name in _TIMES for word in case.program for name in PLACEHOLDER.findall(word)):
        return "it runs for so many seconds, by a clock that counts so many instructions"
    return ""
