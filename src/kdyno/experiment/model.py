# SPDX-License-Identifier: MIT
"""An experiment as values: the tables of its file, as pydantic checks them, and what becomes of
them. See docs/experiment-file.md."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PlainValidator, ValidationInfo

from kdyno.reading.checked import INSIDE, Closed, wrong
from kdyno.reading.mistakes import KeyPath, Mistakes, Positions, quoted, stands_where

ACCELS = ("auto", "kvm", "tcg", "icount")
METRICS = ("time", "instructions")
INTERLEAVES = ("auto", "turns", "boots")
PROFILES = ("none", "perf", "gprof", "count")
PROGRAMS = {"32-bit": 32, "64-bit": 64}
"""What ``programs`` of a variant may say."""
NATIVE_COPIES: Mapping[str, tuple[str, ...]] = {"erms": ("fsrm",), "plain": ("fsrm", "erms")}
"""``memcpy`` of a native kernel that is to see less of its CPU → the features that its
alternatives are not to see. It is the same image, with other words on its command line."""
FEWEST_LINKS, MOST_LINKS = 6, 100
"""Of each kernel. An interval is over them, and below six there is none."""
MOST_BOOTS = 100_000

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,79}")
NAME_RULE = "a name is 1 to 80 letters, digits and . _ + -, and does not begin with . + -"
_MEMORY = re.compile(r"(\d{1,12})([KMGT])(?:i?B)?", re.IGNORECASE)
_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*%")
_SHIFTS = {"K": 10, "M": 20, "G": 30, "T": 40}
_SMALLEST_MEMORY_BYTES = 32 << 20


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(stands_where(value, 'text in quotes, "…",'))
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise ValueError(f"{quoted(value)} contains a control character or a line end")
    return value


def word(value: object, allowed: Collection[str]) -> str:
    """A text that is one of ``allowed``."""
    if text(value) not in allowed:
        raise wrong((), f"{quoted(value)} is not known", str(value), allowed)
    return str(value)


def texts(value: object, at: KeyPath = ()) -> tuple[str, ...]:
    """An array of texts; empty where an entry was wrong."""
    if not isinstance(value, list):
        raise ValueError(stands_where(value, 'an array of texts, ["…", "…"],'))
    for index, entry in enumerate(value):
        if isinstance(entry, str) and not entry.strip():
            raise wrong((*at, index), "an empty text")
        try:
            text("" if entry is None else entry)
        except ValueError as problem:
            raise wrong((*at, index), str(problem), found=entry) from None
    return tuple("" if entry is None else entry.strip() for entry in value)


def _name(value: object) -> str:
    if not NAME.fullmatch(text(value)):
        raise ValueError(f"{quoted(value)} is not a name: {NAME_RULE}")
    return str(value)


def _question(value: object) -> str:
    """One written over several lines is one line on screen."""
    if not isinstance(value, str):
        return text(value)
    return "".join(letter for letter in " ".join(value.split()) if letter.isprintable())


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(stands_where(value, "true or false"))
    return value


def _integer(value: object, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(stands_where(value, "an integer"))
    if not low <= value <= high:
        raise ValueError(f"{quoted(value)} is out of range. Allowed: {low} to {high}")
    return value


def _number(value: object, high: float, unit: str) -> float:
    """A finite number greater than 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(stands_where(value, f"a number of {unit}"))
    if not 0 < value <= high:
        limits = f"more than 0, at most {high:g} {unit}"
        raise ValueError(f"{quoted(value)} is out of range. Allowed: {limits}")
    return float(value)


def _share(value: object, low: float, high: float) -> float:
    """``"0.5%"`` or ``0.005``; more than ``low`` and at most ``high``."""
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
        share = float(match[1]) / 100
    elif isinstance(value, int | float) and not isinstance(value, bool):
        share = float(min(value, 1e9)) if math.isfinite(value) else math.nan
    else:
        raise ValueError(stands_where(value, 'a share like "0.5%" or 0.005'))
    if not low < share <= high:
        percent = isinstance(value, int | float) and low == 0 < share <= 100 * high
        hint = f' Did you mean "{share:g}%"?' if percent else ""
        limits = f'more than "{low * 100:g}%", at most "{high * 100:g}%"'
        raise ValueError(f"{quoted(value)} is out of range.{hint} Allowed: {limits}")
    return share


def _bytes(value: object) -> int:
    """Of ``"1G"``, ``"512M"``."""
    match = _MEMORY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        what = f"{quoted(value)} is not an amount of memory"
        raise ValueError(f'{what}. Allowed: text like "512M" or "1G"')
    size_bytes = int(match[1]) << _SHIFTS[match[2].upper()]
    if not _SMALLEST_MEMORY_BYTES <= size_bytes <= 1 << 42:
        least = f"{_SMALLEST_MEMORY_BYTES >> 20}M"
        raise ValueError(f'{quoted(value)} is out of range. Allowed: "{least}" to "4T"')
    return size_bytes


def _command(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        words = tuple(entry for entry in texts(value) if entry)
    else:
        try:
            words = tuple(shlex.split(text(value)))
        except ValueError as problem:
            is_text = isinstance(value, str) and value.isprintable()
            raise ValueError(f"{quoted(value)}: {problem}" if is_text else str(problem)) from None
    if not words and value != [None]:
        raise ValueError("the command is empty")
    return words


def _figure(value: object) -> str:
    pattern = text(value)
    try:
        groups = re.compile(pattern).groups
    except re.error as problem:
        raise ValueError(f"{quoted(pattern)} is not a regular expression: {problem}") from None
    if groups != 1:
        what = f"{quoted(pattern)} has {groups} groups"
        raise ValueError(f"{what}: the figure is what one group (…) matches")
    return pattern


def _machine_kind(value: object, info: ValidationInfo) -> str:
    place: Any = info.context
    return word(value, tuple(place.vocabulary.machines))


def _of(allowed: Collection[str]) -> PlainValidator:
    return PlainValidator(partial(word, allowed=allowed))


def whole(low: int, high: int) -> PlainValidator:
    return PlainValidator(partial(_integer, low=low, high=high))


def _up_to(high: float, unit: str) -> PlainValidator:
    return PlainValidator(partial(_number, high=high, unit=unit))


Text = Annotated[str, PlainValidator(text)]
Texts = Annotated[tuple[str, ...], PlainValidator(texts)]
Name = Annotated[str, PlainValidator(_name)]
Question = Annotated[str, PlainValidator(_question)]
Flag = Annotated[bool, PlainValidator(_flag)]
Share = Annotated[float, PlainValidator(partial(_share, low=0.0, high=0.25))]
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Machine(Closed):
    kind: Annotated[str, PlainValidator(_machine_kind)] = "uml"
    cpus: Annotated[int, whole(1, 1024)] = 1
    memory_bytes: Annotated[int, Field(alias="memory"), PlainValidator(_bytes)] = 1 << 30
    timeout_s: Annotated[float | None, Field(alias="timeout"), _up_to(7 * 86_400, "seconds")] = None
    """Wall-clock limit per boot; None derives it from the cases' own limits."""
    accel: Annotated[str, _of(ACCELS)] = "auto"
    """How a machine that emulates runs its guests."""

    @property
    def own_clock(self) -> bool:
        """Time goes on with what is executed, whatever else the host does."""
        return self.accel == "icount"


@dataclass(frozen=True)
class Measure(Closed):
    precision: Share = 0.005
    """Half-width of an effect's interval, as a fraction, at which measuring stops."""
    max_boots: Annotated[int, whole(2, MOST_BOOTS)] = 60
    min_boots: Annotated[int, whole(2, MOST_BOOTS)] = 10
    max_minutes: Annotated[float | None, _up_to(60 * 24 * 365, "minutes")] = None
    equivalent: Share = 0.01
    confidence: Annotated[float, PlainValidator(partial(_share, low=0.5, high=0.9999))] = 0.95
    profile: Annotated[str, _of(PROFILES)] = "none"
    seed: Annotated[int | None, whole(0, (1 << 63) - 1)] = None
    calibrate: Flag = False
    interleave: Annotated[str, _of(INTERLEAVES)] = "auto"
    """How the variants of a block alternate."""
    metric: Annotated[str, _of(METRICS)] = "time"
    """What is compared."""
    exact_boots: Annotated[int, whole(1, 100)] = 3
    """Boots of each kernel after which counts that agree are exact."""
    insist: Flag = False
    """Measure by the metric also what it does not decide; the verdict says so."""
    apart: Flag = False
    """Instructions of programs and of the kernel are counted apart as well."""
    layouts: Annotated[int, INSIDE] = 0
    """Links of each kernel, its functions in random orders; 0: one, the linker's own."""


@dataclass(frozen=True)
class Layout(Closed):
    draws: Annotated[int, whole(FEWEST_LINKS, MOST_LINKS)] = 8
    """Becomes Measure.layouts."""


@dataclass(frozen=True)
class SuiteUse(Closed):
    """A suite of an experiment: which of its cases, and for how long each per boot."""

    name: Text = ""
    cases: Texts = ()
    seconds: Annotated[float, _up_to(3600, "seconds")] = 0.5
    operations: Annotated[int | None, whole(1, 1 << 62)] = None
    """Fixed work instead of fixed time, for profiles."""
    command: Annotated[tuple[str, ...], PlainValidator(_command)] = ()
    """Only for the suite ``run``: the command line to time."""
    figure: Annotated[str | None, PlainValidator(_figure)] = None
    """Only for the suite ``run``: regular expression for the figure in what the command prints."""
    unit: Text = ""
    better: Annotated[str, _of(("higher", "lower"))] = ""
    quick: Annotated[bool, INSIDE] = False
    """The cases' own settings for a first impression hold."""
    settings: Annotated[Pairs, INSIDE] = ()
    """(name, value): what fills ``{name}`` in the cases' arguments."""
    levels: Annotated[Pairs, INSIDE] = ()
    """(factor, level) pairs when its cases are cells of a cross."""
    family: Annotated[str, INSIDE] = ""
    """What the cases of several levels are called together; empty: the case's own name."""

    def name_in_run(self, case: str) -> str:
        """``whole@4``: a case's name with its levels, where these fill its arguments."""
        if not self.settings:
            return case
        return f"{case}@{'+'.join(level for _factor, level in self.levels)}"


@dataclass(frozen=True)
class ConfigFragment:
    """Lines of a kernel configuration and where they come from, for messages."""

    origin: str
    """A fragment's file name, or the key of the experiment file that holds the line."""
    lines: tuple[str, ...]
    """Only ``CONFIG_X=value`` and ``# CONFIG_X is not set`` lines; comments removed."""


@dataclass(frozen=True)
class Variant:
    """One kernel under test. Everything that may differ between two kernels is here."""

    name: str
    source: str
    """As written: ``debian:NAME``, ``path:DIR``, ``tar:FILE``, ``git:DIR_OR_URL#REF``,
    ``kernel.org:VERSION``; relative paths already resolved against the experiment's folder."""
    arch: str = "um"
    config: tuple[ConfigFragment, ...] = ()
    patches: tuple[Path, ...] = ()
    cflags: str = ""
    file_cflags: Pairs = ()
    """(path of a .c file in the tree, flags) pairs, sorted by path."""
    compiler: str = "gcc"
    cmdline: str = ""
    sysctl: Pairs = ()
    memcpy: str | None = None
    """Name of a routine, one of NATIVE_COPIES, or the path of a person's own file."""
    routines: Pairs = ()
    """(function, routine) pairs for memmove, memset, copy_page and clear_page, sorted."""
    best: Pairs = ()
    """(function, why it is this routine) pairs of those that were requested as the best."""
    scheduler: str | None = None
    """Name of a scheduler that is loaded as a program, or the path of a person's own file.

    None: the kernel's own."""
    cpus: int | None = None
    """CPUs of its machine; None: as [machine] says."""
    program_bits: int | None = None
    """Word size of the programs that it runs; None: the kernel's own."""
    levels: Pairs = ()
    """(factor, level) pairs when the variant is a cell of a cross."""

    @property
    def all_routines(self) -> dict[str, str]:
        """Function → routine, memcpy's among them."""
        return {**({"memcpy": self.memcpy} if self.memcpy else {}), **dict(self.routines)}


@dataclass(frozen=True)
class Experiment:
    """What came of the whole file."""

    name: str
    question: str
    baseline: str
    variants: tuple[Variant, ...]
    suites: tuple[SuiteUse, ...]
    machine: Machine = field(default_factory=Machine)
    measure: Measure = field(default_factory=Measure)
    skip_unsupported: bool = False
    """Variants whose CPU features this machine lacks are skipped with the reason, not refused."""
    path: Path | None = None
    text: str = ""
    """The file as given, for the run folder."""
    mistakes: Callable[[], Mistakes] = field(
        default=lambda: Mistakes("experiment", Positions("")), compare=False
    )
    """An empty list for what is found to be wrong later, which has the file's lines."""

    @property
    def cpus(self) -> int:
        """CPUs that the largest of its machines has."""
        return max([self.machine.cpus, *(variant.cpus or 0 for variant in self.variants)])
