# SPDX-License-Identifier: MIT
"""The catalogue of suites: one TOML file each, the packaged ones beside this file.

name  = "unixbench"             # required; the file is unixbench.toml
help  = "one line"              # required
index = 10.0                    # optional: index of a case = index * score / baseline

[case.pipe]                     # the cases, in the order in which they are listed and run
help     = "what one operation is"   # required
unit     = "loops/s"            # required
better   = "higher"             # required: higher | lower
bench    = "pipe"               # required: a benchmark of the guest program, or "run"
args     = ["512"]              # optional: the benchmark's arguments
score    = "rate"               # optional: rate (operations a second, the default for
                                #   higher) | time (seconds an operation, for lower)
scale    = 1.0                  # optional: the score is multiplied by this
control  = false                # optional: true when the kernel should not matter
baseline = 12440.0              # optional: the score that makes the index
timeout  = 60.0                 # optional: seconds, at most, for one sample
command  = false                # optional: the experiment's command line becomes args
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kdyno.errors import UsageError
from kdyno.suites.job import CaseJob

Better = Literal["higher", "lower"]
Score = Literal["rate", "time"]
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*\Z")


@dataclass(frozen=True)
class Case:
    """A benchmark with its arguments, and how its repetitions become a score."""

    suite: str
    name: str
    help: str
    unit: str
    better: Better
    bench: str
    args: tuple[str, ...] = ()
    score: Score = "rate"
    scale: float = 1.0
    control: bool = False
    """The kernel should not matter: a negative control."""
    baseline: float | None = None
    timeout_s: float = 60.0
    command: bool = False
    """The experiment says which command line to run."""


@dataclass(frozen=True)
class Suite:
    name: str
    help: str
    cases: tuple[Case, ...]
    index: float | None = None
    """Index of a case = index × score ÷ baseline; None: the suite has none."""
    path: Path | None = None

    def case(self, name: str) -> Case:
        """UsageError with the nearest right word when there is none of this name."""
        for case in self.cases:
            if case.name == name:
                return case
        raise UsageError(
            f"suite {self.name} has no case {name!r}{nearest(name, [c.name for c in self.cases])}"
        )


Catalogue = Mapping[str, Suite]
"""All suites there are, by name."""


def nearest(word: str, allowed: Iterable[str]) -> str:
    """The end of a message: the nearest right word, if one is near, and all that are allowed."""
    names = list(allowed)
    close = difflib.get_close_matches(word, names, 1, 0.6)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f"{hint} (allowed: {', '.join(names)})"


class _Table:
    """One TOML table: hands out each key once with its type, and refuses what nobody asked for."""

    def __init__(self, path: Path, prefix: str, data: Mapping[str, Any]) -> None:
        self.path, self.prefix, self.data = path, prefix, data
        self.known: list[str] = []

    def refuse(self, key: str, what: str) -> UsageError:
        return UsageError(f"{self.path}: {self.prefix}{key} {what}")

    def take(self, key: str, kind: type, words: str, default: Any = ...) -> Any:
        self.known.append(key)
        if key not in self.data:
            if default is ...:
                raise self.refuse(key, f"is missing; it must be {words}")
            return default
        value = self.data[key]
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (isinstance(value, str) and not value.strip()):
            raise self.refuse(key, f"is {value!r}, but must be {words}")
        return value

    def positive(self, key: str, default: float | None) -> float | None:
        value = self.take(key, float, "a number above 0", default)
        if value is not None and not 0 < value < 1e18:
            raise self.refuse(key, f"is {value}, but must be a number above 0")
        return value  # type: ignore[no-any-return]

    def one_of(self, key: str, allowed: tuple[str, ...], default: Any = ...) -> Any:
        value = self.take(key, str, f"one of {', '.join(allowed)}", default)
        if value not in allowed:
            raise self.refuse(key, f"is {value!r}{nearest(value, allowed)}")
        return value

    def finish(self) -> None:
        for key in self.data:
            if key not in self.known:
                raise self.refuse(key, f"is an unknown key{nearest(key, self.known)}")


def _case(path: Path, suite: str, name: str, data: object) -> Case:
    prefix = f"case.{name}"
    if not _NAME.match(name):
        raise UsageError(f"{path}: {prefix}: a name has only a-z, 0-9, '.', '_' and '-'")
    if not isinstance(data, dict):
        raise UsageError(f"{path}: {prefix} is {data!r}, but must be a table [{prefix}]")
    table = _Table(path, prefix + ".", data)
    help_ = table.take("help", str, "one line that says what one operation is")
    unit = table.take("unit", str, 'a unit, such as "loops/s"')
    better = table.one_of("better", ("higher", "lower"))
    bench = table.take("bench", str, "a benchmark of the guest program")
    args = table.take("args", list, "a list of texts", [])
    if not all(isinstance(arg, str) for arg in args):
        raise table.refuse("args", f"is {args!r}, but must be a list of texts")
    score = table.one_of("score", ("rate", "time"), "rate" if better == "higher" else "time")
    if (score == "rate") != (better == "higher"):
        raise table.refuse("score", f"is {score!r}, which does not fit better = {better!r}")
    case = Case(
        suite=suite,
        name=name,
        help=help_,
        unit=unit,
        better=better,
        bench=bench,
        args=tuple(args),
        score=score,
        scale=table.positive("scale", 1.0) or 1.0,
        control=table.take("control", bool, "true or false", False),
        baseline=table.positive("baseline", None),
        timeout_s=table.positive("timeout", 60.0) or 60.0,
        command=table.take("command", bool, "true or false", False),
    )
    table.finish()
    return case


def load_file(path: Path) -> Suite:
    """One suite. UsageError names file, key, what was found and what is allowed."""
    import tomllib

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot read the suite: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: this is not TOML: {error}") from None
    table = _Table(path, "", data)
    name = table.take("name", str, "the suite's name")
    if not _NAME.match(name):
        raise table.refuse("name", f"is {name!r}: only a-z, 0-9, '.', '_' and '-' may be in it")
    help_ = table.take("help", str, "one line")
    index = table.positive("index", None)
    cases = table.take("case", dict, "tables [case.NAME]")
    table.finish()
    if not cases:
        raise table.refuse("case", "has no case")
    return Suite(
        name=name,
        help=help_,
        cases=tuple(_case(path, name, case, value) for case, value in cases.items()),
        index=index,
        path=path,
    )


def load(extra: Iterable[Path] = ()) -> dict[str, Suite]:
    """The packaged suites and the user's own files, by name. Two of one name are an error."""
    packaged = sorted((Path(__file__).parent / "catalogue").glob("*.toml"))
    suites: dict[str, Suite] = {}
    for path in [*packaged, *extra]:
        suite = load_file(path)
        if suite.name in suites:
            raise UsageError(f"{path}: {suites[suite.name].path} already has suite {suite.name!r}")
        suites[suite.name] = suite
    return suites


def find(suites: Catalogue, name: str) -> Suite:
    """UsageError with the nearest right word when there is none of this name."""
    if name in suites:
        return suites[name]
    raise UsageError(f"there is no suite {name!r}{nearest(name, suites)}")


def case_job(
    case: Case,
    seconds: float | None = 0.5,
    operations: int | None = None,
    command: tuple[str, ...] = (),
) -> CaseJob:
    """The case as a guest runs it. ``operations`` wins over ``seconds``.

    The time limit grows with the seconds asked for. UsageError when the case wants a command line
    and there is none, or the other way round.
    """
    where = f"{case.suite}/{case.name}"
    if case.command and not command:
        raise UsageError(f'{where}: command is missing, such as command = ["sort", "words"]')
    if command and not case.command:
        raise UsageError(f"{where}: this case takes no command; the suite run does")
    if operations is not None:
        seconds = None
    return CaseJob(
        suite=case.suite,
        case=case.name,
        bench=case.bench,
        args=case.args + command,
        seconds=seconds,
        operations=operations,
        timeout_s=case.timeout_s + 4 * (seconds or 0.0),
    )
