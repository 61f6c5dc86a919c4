# SPDX-License-Identifier: MIT
"""What the options of verbs are made of, and those that several verbs share. Nothing heavy is
imported here: the page of help of a verb must be quick."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from typer.models import ParameterInfo

from kdyno import deferred, sandbox
from kdyno.errors import UsageError
from kdyno.experiment.limits import MOST_BOOTS, MOST_MINUTES, MOST_SECONDS
from kdyno.paths import runs_root

_PLAIN = re.compile(r"[\w./][\w./@%+=:,-]*")
"""Words that no shell takes for more than a word: it puts them into the line as they are, or has
them evaluated. Others are not offered."""
RUN_NAMES = "run_names"


def _offered(place: str) -> Callable[[typer.Context, str], list[str]] | None:
    """What the shell is offered when Tab is pressed: words of the function at ``place`` that begin
    with what was typed. On any error none, and no message: the shell shows its own file names."""

    def offer(ctx: typer.Context, begun: str) -> list[str]:
        try:
            function = deferred(place if ":" in place else f"kdyno.verbs.subject:{place}")
            words = function(ctx, begun)
            return [word for word in words if word.startswith(begun) and _PLAIN.fullmatch(word)]
        except Exception:  # a traceback would end up on the person's command line
            return []

    return offer if place else None


def option(words: str, help: str, default: Any = ..., offer: str = "", **more: Any) -> Any:
    """``words``: flags, and what stands for the value: "-o --output FILE". ``default``: none where
    it must be given, or in Annotated. ``offer``: a function that has the words to complete, of
    ``subject.py``, else MODULE:NAME; ``more``: as typer's."""
    flags = [word for word in words.split() if word.startswith("-")]
    more["metavar"] = " ".join(word for word in words.split() if word not in flags) or None
    more["readable"] = False  # who reads a file says what is wrong with it
    return typer.Option(default, *flags, help=help, autocompletion=_offered(offer), **more)


def argument(metavar: str, help: str, default: Any = ..., offer: str = "") -> Any:
    """As ``option``, for what stands without a flag."""
    more: Any = {"autocompletion": _offered(offer), "readable": False}
    return typer.Argument(default, metavar=metavar, help=help, **more)


@dataclass(frozen=True)
class Bundle:
    """Options that go together, as a frozen dataclass: instances have plain values."""

    def __init_subclass__(cls) -> None:
        for name, info in list(vars(cls).items()):
            if isinstance(info, ParameterInfo):
                default = MISSING if info.default is ... else info.default
                setattr(cls, name, field(default=default, metadata={"info": info}))


def flat(verb: Callable[..., int]) -> Callable[..., int]:
    """As typer takes it: a bundle becomes its fields. ValueError where a name comes twice."""
    parameters: list[Parameter] = []
    bundles: dict[str, type[Bundle]] = {}

    def add(name: str, default: object, kind: object) -> None:
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))

    hints = get_type_hints(verb, include_extras=True)
    for own in inspect.signature(verb).parameters.values():
        kind = hints[own.name]
        if isinstance(kind, type) and issubclass(kind, Bundle):
            bundles[own.name] = kind
            kinds = get_type_hints(kind, include_extras=True)
            for each in fields(kind):
                add(each.name, each.metadata.get("info", each.default), kinds[each.name])
        else:
            add(own.name, own.default, kind)

    def call(**given: Any) -> int:
        for name, kind in bundles.items():
            given[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
        return verb(**given)

    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _waived(given: bool) -> bool:
    """Heard before the verb begins: an experiment may want a tool to be read at all."""
    if given:
        sandbox.waive()
    return given


Json = Annotated[str | None, option("--json FILE", "Write the result as JSON; - is stdout.")]
ExperimentFile = Annotated[
    Path | None, argument("EXPERIMENT", "Experiment file (TOML).", offer="experiment_files")
]
Output = Annotated[str | None, option("-o --output FILE", "Write there.")]
Runs = Annotated[Path | None, option("--runs DIR", "Folder of the runs [$KDYNO_RUNS or XDG].")]
NoSandbox = Annotated[
    bool, option("--no-sandbox", "Run kernels and builds without bubblewrap.", callback=_waived)
]
NoWait = Annotated[bool, option("--no-wait", "Fail if another kdyno is measuring on this machine.")]
FailOn = Annotated[
    list[str] | None,
    option(
        "--fail-on WORD[:CASES]",
        "Exit 10 if slower, 11 if inconclusive: slower, slower:pipe, inconclusive.",
    ),
]
Jobs = Annotated[int | None, option("-j --jobs N", "Parallel jobs of a kernel build.", min=1)]
Refresh = Annotated[bool, option("--refresh", "Fetch newer packages and branches of the sources.")]
Variants = Annotated[
    list[str] | None,
    option("--variant NAME", "Only this variant (may be repeated).", offer="variant_names"),
]
Cases = Annotated[
    list[str] | None,
    option("--case CASE", "Only these cases; patterns allowed.", offer="case_names"),
]
Metric = Annotated[
    str | None,
    option("--metric time|instructions", "Compare seconds, or instructions counted by QEMU."),
]
Ref = Annotated[str | None, option("--ref REF", "Only this commit of an experiment with [matrix].")]
Push = Annotated[bool, option("--push", "Put the run into the store that KDYNO_STORE names.")]
Yes = Annotated[
    bool, option("--yes", "Accept an experiment with very many kernels, or somebody else's run.")
]
Scoring = Annotated[
    str | None,
    option(
        "--scoring WORD",
        "Also show indices and group scores: kdyno (medians) or unixbench (its own trimming).",
    ),
]


@dataclass(frozen=True)
class Extent(Bundle):
    """How much is measured, for verbs that measure."""

    quick: bool = option(
        "--quick", "First impression: 0.2 s per case, at most 12 boots and 2 minutes.", False
    )
    seconds: float | None = option(
        "--seconds SECONDS", "Seconds per case and boot.", None, min=0.05, max=MOST_SECONDS
    )
    max_boots: int | None = option(
        "--max-boots N", "At most this many boots of each variant.", None, min=1, max=MOST_BOOTS
    )
    max_minutes: float | None = option(
        "--max-minutes MINUTES",
        "At most this many minutes of measuring.",
        None,
        min=0.05,
        max=MOST_MINUTES,
    )
    precision: str | None = option(
        "--precision SHARE", 'Half-width at which measuring stops, such as "0.5%".', None
    )
    seed: int | None = option("--seed N", "Seed of the order of boots.", None, min=0)


@dataclass(frozen=True)
class Working(Bundle):
    """How a run is made, and where it and its figures go, for verbs that make one."""

    jobs: Jobs = None
    runs: Runs = None
    no_sandbox: NoSandbox = False
    no_wait: NoWait = False
    json: Json = None


def leave_out(why: str, options: Mapping[str, object]) -> None:
    """UsageError where one of these options has a value."""
    if given := [name for name, value in options.items() if value]:
        raise UsageError(f"{why}: leave out {', '.join(given)}")


def runs_folder(given: Path | None) -> Path:
    """--runs, else where runs live."""
    runs = given.absolute() if given is not None else runs_root()
    if runs.exists() and not runs.is_dir():
        raise UsageError(f"{runs}: the folder of runs is not a folder (--runs DIR, $KDYNO_RUNS)")
    return runs


def where(runs: Path) -> str:
    """What a command line needs to find a run of this folder again: "" or " --runs DIR"."""
    return "" if runs == runs_root() else f" --runs {shlex.quote(str(runs))}"


def percent(text: str | None, option: str = "--precision") -> float | None:
    """A fraction from "0.5%" or 0.005."""
    if text is None:
        return None
    try:
        value = float(text.strip().removesuffix("%")) / (100 if "%" in text else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise UsageError(f'{option} {text!r}: give a share such as "0.5%" or 0.005')
    return value
