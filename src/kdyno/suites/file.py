# SPDX-License-Identifier: MIT
"""A suite's TOML file, checked; ``suites/catalogue.py`` says what may stand in it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from kdyno.errors import UsageError
from kdyno.reading.checked import FromFile, check, wrong
from kdyno.reading.mistakes import quoted
from kdyno.suites.catalogue import Case, CaseGroup, Suite
from kdyno.suites.figure import pattern_problem
from kdyno.suites.wrapping import BUILTIN, placeholders

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")
_SETTING = re.compile(r"[a-z][a-z0-9_]{0,31}")
_COUNT = re.compile(r"[1-9][0-9]{0,11}")
_SIZE = re.compile(r"([1-9][0-9]{0,5})([MG])")


def _said(text: str) -> str:
    if not text.strip():
        raise ValueError(f"{quoted(text)} says nothing")
    return text


def _named(name: str) -> str:
    if not _NAME.match(name):
        raise ValueError(f"{quoted(name)} has something else than a-z, 0-9, '.', '_' and '-'")
    return name


def _pattern(pattern: str) -> str:
    if problem := pattern_problem(pattern):
        raise ValueError(problem)
    return pattern


def _bytes(size: str) -> int:
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(f'{quoted(size)} is not a size such as "512M" or "1G"')
    return int(match[1]) << (20 if match[2] == "M" else 30)


def _value(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{quoted(value)} is neither a number nor a text")
    return str(value)


def _command(value: object) -> object:
    if isinstance(value, bool):
        return value
    if isinstance(value, list) and value and all(isinstance(it, str) and it for it in value):
        return tuple(value)
    raise ValueError(f"{quoted(value)} is neither true, false nor a list of texts")


Said = Annotated[str, AfterValidator(_said)]
Words = Annotated[list[Said], Field(min_length=1)]
Pattern = Annotated[str, AfterValidator(_pattern)]
Positive = Annotated[float, Field(gt=0, lt=1e18)]
Settings = dict[str, Annotated[Any, BeforeValidator(_value)]]


class CaseFile(FromFile):
    """A table ``[case.NAME]``."""

    help: Said
    unit: Said
    better: Literal["higher", "lower"]
    bench: Said | None = None
    args: list[str] = Field(default_factory=list)
    score: Literal["rate", "time"] | None = None
    scale: Positive = 1.0
    control: bool = False
    baseline: Positive | None = None
    timeout: Positive = 60.0
    command: Annotated[Any, BeforeValidator(_command)] = False
    figure: Pattern | None = None
    also: dict[str, Pattern] = Field(default_factory=dict)
    settings: Settings = Field(default_factory=dict)
    quick: Settings = Field(default_factory=dict)
    needs: list[Said] = Field(default_factory=list)
    install: Said = ""
    warmups: Annotated[int, Field(ge=0, le=100)] = 1
    disk: Annotated[str, AfterValidator(_bytes)] | None = None
    tree: bool = False
    prepare: Words = Field(default_factory=list)
    work: Annotated[str, BeforeValidator(_value)] = ""
    load: Said = ""
    uncounted: Said = ""

    @property
    def program(self) -> tuple[str, ...]:
        """The command line of an existing program; empty where there is none."""
        return self.command if isinstance(self.command, tuple) else ()

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.score is not None and (self.score == "rate") != (self.better == "higher"):
            raise wrong("score", f'"{self.score}" does not fit better = "{self.better}"')
        for key in ("settings", "quick"):
            for name in getattr(self, key):
                if not _SETTING.fullmatch(name) or name in BUILTIN:
                    raise wrong(f"{key}.{name}", "is not a name of a setting: a-z, 0-9 and _")
        if self.program:
            self._fit_program()
        else:
            self._fit_bench()
        return self

    def _fit_bench(self) -> None:
        if self.bench is None:
            raise wrong("bench", "is missing: a benchmark of the guest program, or command = [...]")
        for key in _WRAPPING & self.model_fields_set:
            if not (key == "needs" or self.command is True):
                raise wrong(key, "belongs to a case with command = [...]")

    def _fit_program(self) -> None:
        for key in ("bench", "args"):
            if key in self.model_fields_set:
                raise wrong(key, "excludes command, which is the program and its arguments")
        known = list(self.settings)
        for name in self.quick:
            if name not in (*known, "warmups"):
                raise wrong(f"quick.{name}", "is not a setting", name, known)
        if self.work and self.figure is None:
            raise wrong("work", "belongs to a case with a figure; else the time is it")
        if self.work and self.work not in known and not _COUNT.fullmatch(self.work):
            text = f"{quoted(self.work)} is neither a whole number from 1 nor a setting"
            raise wrong("work", text, self.work, known)
        if self.load and self.load not in known:
            raise wrong("load", f"{quoted(self.load)} is not a setting", self.load, known)
        for key, words in (("command", self.program), ("prepare", self.prepare)):
            for name in (name for word in words for name in placeholders(word)):
                if name not in {*known, *BUILTIN}:
                    raise wrong(key, f"{{{name}}} is unknown", name, [*known, *sorted(BUILTIN)])
        used = {name for word in self.program for name in placeholders(word)}
        for name in known:
            if name not in used:
                raise wrong(f"settings.{name}", f"the command has no {{{name}}}")
        for key in ("disk", "tree"):
            if (key in used) != bool(getattr(self, key)):
                raise wrong(key, f"goes together with {{{key}}} in the command")

    def case(self, suite: SuiteFile, name: str) -> Case:
        return Case(
            suite=suite.name,
            name=name,
            help=self.help,
            unit=self.unit,
            better=self.better,
            bench="run" if self.program else self.bench or "",
            args=tuple(self.args),
            score=self.score or ("rate" if self.better == "higher" else "time"),
            scale=self.scale,
            control=self.control,
            baseline=self.baseline,
            timeout_s=self.timeout,
            command=self.command is True,
            program=self.program,
            figure=self.figure,
            also=tuple(self.also.items()),
            settings=tuple(self.settings.items()),
            quick=tuple(self.quick.items()),
            needs=tuple(self.needs) or self.program[:1],
            install=self.install,
            warmups=self.warmups,
            disk_bytes=int(self.disk or 0),
            tree=self.tree,
            prepare=tuple(self.prepare),
            work=self.work,
            load=self.load,
            uncounted=self.uncounted or suite.uncounted,
        )


_LARGEST_BYTES = 1_000_000
_WRAPPING = {
    *("figure", "also", "settings", "quick", "needs", "install", "warmups", "disk", "tree"),
    *("load", "prepare", "work"),
}


class SuiteFile(FromFile):
    """The whole file."""

    name: Annotated[str, AfterValidator(_named)]
    help: Said
    index: Positive | None = None
    uncounted: Said = ""
    groups: dict[str, Words] = Field(default_factory=dict)
    case: Annotated[dict[str, CaseFile], Field(min_length=1)]

    @model_validator(mode="after")
    def _fit(self) -> Self:
        for name in self.case:
            if not _NAME.match(name):
                raise wrong(f"case.{name}", "a name has only a-z, 0-9, '.', '_' and '-'")
        known = list(self.case)
        for name, members in self.groups.items():
            if name in self.case:
                raise wrong(f"groups.{name}", "is the name of a case already")
            for member in members:
                if member not in known:
                    raise wrong(f"groups.{name}", f"{quoted(member)} is unknown", member, known)
            if len(set(members)) < len(members):
                raise wrong(f"groups.{name}", "names something twice")
            known.append(name)
        return self


def load_file(path: Path) -> Suite:
    """One suite. UsageError names file, line, key, what was found and what is allowed."""
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST_BYTES + 1)
        if len(content) > _LARGEST_BYTES:
            raise UsageError(f"{path}: is larger than 1 MB, so it is not a suite")
        text = content.decode("utf-8")
        data = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: cannot read the suite: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: this is not TOML: {error}") from None
    found = check(SuiteFile, data, str(path), text)
    return Suite(
        name=found.name,
        help=found.help,
        cases=tuple(case.case(found, name) for name, case in found.case.items()),
        index=found.index,
        groups=tuple(CaseGroup(name, tuple(members)) for name, members in found.groups.items()),
        path=path,
    )
