# SPDX-License-Identifier: MIT
"""The memory routines of ``kernel/memcpy/``: the header of each, its kernel form, the best of them.

A routine is one assembly file whose first comment holds ``key: value`` lines; the same file becomes
``memcpy_NAME`` in a program and ``memcpy`` in a kernel, see ``routine.h`` there. One of another
function is ``memset-NAME.S``; a person's own file may lie anywhere and is named by its path."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from kdyno.errors import UsageError
from kdyno.experiment.model import BEST, NATIVE_COPIES, is_routine_file
from kdyno.kernels.cpu import Cpu, this_cpu
from kdyno.paths import data_root
from kdyno.reading.checked import INSIDE, Closed, FromFile, check, wrong
from kdyno.reading.mistakes import meant

HEADERS = ("routine.h", "shape.h")
PLACE = "arch/x86/lib/memcpy_64.S"
"""The file of the kernel tree that a routine replaces: UML and x86-64 both link it."""

FUNCTIONS: Mapping[str, str] = {
    "memcpy": PLACE,
    "memmove": "arch/x86/lib/memmove_64.S",
    "memset": "arch/x86/lib/memset_64.S",
    "copy_page": "arch/x86/lib/copy_page_64.S",
    "clear_page": "arch/x86/lib/clear_page_64.S",
}
"""Function → the file of the kernel tree that its routine replaces."""
PAGES = ("copy_page", "clear_page")
"""User Mode Linux has macros for these; PAGES_PATCH makes functions of them."""
PAGES_PATCH = "um-page-routines.patch"
OWN_PAGES = "plain"
"""The routine that does what the macro did, for the page function that is not asked for."""

_NOT_NATIVE = (
    ". A native kernel's vector registers hold a process's values: every copy would have to stand "
    "between kernel_fpu_begin() and kernel_fpu_end(), which take longer than most copies and are "
    "not allowed everywhere that memcpy is"
)
MOST_BYTES = 1 << 20
"""Of a routine, and of it with all that it includes."""
DEEPEST = 4
_LINE = re.compile(r"^[ \t]*\*[ \t]*([a-z]+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]*)".*\n', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_Words = Annotated[tuple[str, ...], BeforeValidator(str.split)]


@dataclass(frozen=True)
class Routine(Closed):
    """One memory routine, by the lines of its file's first comment."""

    help: str
    requires: _Words
    """CPU features, named as /proc/cpuinfo names them."""
    source: str
    """The publication or the idea that it follows."""
    archs: Annotated[_Words, Field(alias="arch")]
    """Kernels it may go into. A native kernel must not touch vector registers unasked, because
    they hold a process's values; in User Mode Linux those are kept elsewhere."""
    function: Literal["memcpy", "memmove", "memset", "copy_page", "clear_page"] = "memcpy"
    name: Annotated[str, INSIDE] = ""
    path: Annotated[Path, INSIDE] = Path()

    @property
    def symbol(self) -> str:
        """Name of the function when the file is assembled for a program."""
        return f"{self.function}_{label(self.name)}"


def label(name: str) -> str:
    """A routine's name as part of an assembler's symbol."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def routines_folder() -> Path:
    return data_root() / "kernel" / "memcpy"


def patches_folder() -> Path:
    return data_root() / "kernel" / "patches"


def parse_routine(path: Path, text: str) -> Routine:
    """The routine that ``text``, the content of ``path``, describes. UsageError lists what is wrong
    with its lines; an empty one is none."""
    comments = map(_LINE.findall, _COMMENT.findall(text))
    pairs: list[tuple[str, str]] = next(filter(None, comments), [])
    way = f"its first comment has lines ' * KEY: …', see the other files in {path.parent}"
    keys = [key for key, _value in pairs]
    if twice := [key for key in keys if keys.count(key) > 1]:
        raise UsageError(f"{path}: {twice[0]!r} is given twice")
    routine = check(Routine, dict(pair for pair in pairs if pair[1]), str(path), way=way)
    prefix = "" if routine.function == "memcpy" else f"{routine.function}-"
    if not path.stem.startswith(prefix):
        what = f"a routine of {routine.function} is called {routine.function}-NAME.S"
        raise UsageError(f"{path}: {what}")
    return replace(routine, name=path.stem.removeprefix(prefix), path=path)


def list_routines(function: str = "memcpy") -> tuple[Routine, ...]:
    """Every routine of the project's for ``function``, by name."""
    paths = sorted(routines_folder().glob("*.S"), key=lambda path: path.stem)
    routines = (parse_routine(path, path.read_text("utf-8")) for path in paths)
    return tuple(routine for routine in routines if routine.function == function)


def find_routine(name: str, function: str = "memcpy") -> Routine:
    """The routine called ``name``, or that of the file ``name``; UsageError otherwise."""
    wish = f"{function} = {name!r}"
    if is_routine_file(name):
        path = Path(name)
        text = read_text(path)
        routine = parse_routine(path, text)
        if routine.function != function:
            raise UsageError(f"{wish}: this file says that it is a {routine.function}")
        if start_of(routine) not in text:
            raise UsageError(f"{wish}: the function must begin with {start_of(routine)}")
        return routine
    routines = {routine.name: routine for routine in list_routines(function=function)}
    if name in routines:
        return routines[name]
    hint = meant(name, routines, "; did you mean {!r}?")
    raise UsageError(f"{wish}: no such routine ({', '.join(routines)}){hint}")


def find_by_stem(stem: str) -> Routine:
    """The routine of the file ``stem``.S, or of a path: ``avx2``, ``memset-avx2``, ``mine.S``."""
    first, dash, rest = Path(stem).name.partition("-")
    function = first if dash and first in FUNCTIONS else "memcpy"
    own_name = function == "memcpy" or is_routine_file(stem)
    return find_routine(stem if own_name else rest, function)


def start_of(routine: Routine) -> str:
    """The line that begins the function in the routine's file, see routine.h."""
    if routine.function == "memcpy":
        return f"ROUTINE_START({label(routine.name)})"
    macro = "PAGE_ROUTINE_START" if routine.function in PAGES else "ROUTINE_START_OF"
    return f"{macro}({routine.function}, {label(routine.name)})"


def of_variant(memcpy: str | None, routines: Iterable[tuple[str, str]]) -> tuple[Routine, ...]:
    """The routines that a variant names, as far as they are files. UsageError: one is not there."""
    own = [] if memcpy is None or memcpy in NATIVE_COPIES else [("memcpy", memcpy)]
    return tuple(find_routine(name, function) for function, name in [*own, *routines])


def kernel_sources(routines: Iterable[Routine], arch: str) -> dict[str, str]:
    """The files (path in the tree → text) that put ``routines`` into a kernel of ``arch``; a page
    function that is not among them stays plain. The texts include nothing from outside the tree:
    routine.h is written into them. UsageError when a routine may not go into such a kernel."""
    chosen: dict[str, Routine] = {routine.function: routine for routine in routines}
    if any(function in chosen for function in PAGES):
        for function in PAGES:
            chosen.setdefault(function, find_routine(OWN_PAGES, function))
    for routine in chosen.values():
        if arch not in routine.archs:
            raise UsageError(
                f"{routine.function} = {routine.name!r} cannot go into a kernel of arch {arch!r}, "
                f"only into {', '.join(routine.archs)}{'' if arch == 'um' else _NOT_NATIVE}",
                key=routine.function,
            )
    return {FUNCTIONS[name]: flatten(routine.path) for name, routine in chosen.items()}


def flatten(path: Path) -> str:
    """The text of ``path`` with each include in quotes replaced by that file's text.

    Those files have plain names and lie beside ``path``; the project's HEADERS are there for all.
    UsageError for any other, for a link, and for more than DEEPEST or MOST_BYTES of them. What a
    macro or the assembler includes is looked for in the sandbox alone."""
    left = MOST_BYTES

    def text_of(file: Path, depth: int) -> str:
        nonlocal left
        if depth > DEEPEST:
            raise UsageError(f"{path}: {file.name} is included {depth} deep; {DEEPEST} is the most")
        text = read_text(file)
        left -= len(text)
        if left < 0:
            raise UsageError(f"{path}: with its includes it has more than {MOST_BYTES} bytes")
        return _INCLUDE.sub(lambda match: text_of(beside(match[1]), depth + 1), text)

    def beside(name: str) -> Path:
        if name in (".", "..") or "/" in name or "\0" in name:
            raise UsageError(f"{path}: includes {name!r}; a routine includes files beside it")
        for folder in (path.parent, *([routines_folder()] if name in HEADERS else [])):
            if (folder / name).is_file():
                return folder / name
        raise UsageError(f"{path}: includes {name!r}, which is not in {path.parent}")

    return text_of(path, 0)


def read_text(file: Path) -> str:
    """What a regular file of at most MOST_BYTES holds; UsageError for all else, links too."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(file, flags), "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
                raise UsageError(f"{file}: not a regular file of at most {MOST_BYTES} bytes")
            return stream.read(MOST_BYTES).decode("utf-8")
    except OSError as problem:
        link = "a link, which is not followed" if problem.errno == errno.ELOOP else None
        raise UsageError(f"{file}: {link or problem.strerror}") from problem
    except ValueError as problem:
        raise UsageError(f"{file}: not text in UTF-8") from problem


# ``memcpy = "best"``: which routine that is on a CPU, from the table ``kernel/memcpy/best.toml``. A
# row is for the CPUs of a vendor, family and models, or for every CPU with some features: what is
# taken where nothing was measured. It names one routine per function and says how it came there.
# Rows of models go before rows of features, and of these the one that asks for more features; a row
# whose routine needs what this CPU lacks (a hypervisor may hide features) is passed over.
FILE = "best.toml"
BENCHES = "benches"
"""Folder beside the table: what was measured on a CPU, one folder a row, one file a function."""
COMMAND = "kdyno lab memcpy tune --cpu"
STATES = {
    "measured": "found and measured on this CPU",
    "composed": "put together of parts that were measured on this CPU, not measured as a whole",
    "default": "the default where nothing was measured",
}

WORD = r"^[a-z0-9][a-z0-9_.-]{0,60}$"
"""Of rows and of the routines that they name."""

Word = Annotated[str, Field(pattern=WORD)]
Feature = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,40}$")]
Models = Annotated[list[Annotated[int, Field(ge=0, lt=1 << 16)]], Field(min_length=2, max_length=2)]
Ratio = Annotated[float, Field(gt=0, lt=1000)]


class Figures(FromFile):
    """The four figures of `kdyno lab memcpy bench --figures` for one routine."""

    routine: Word
    worst: Ratio
    """Worst time ÷ the faster of memcpy_orig and rep movsb, in L1."""
    worst_at: Annotated[str, Field(max_length=100)] = ""
    ceiling: Ratio
    """Share of L1's ceiling at 4 KiB."""
    glibc: Ratio
    """Speed ÷ glibc's memcpy over the measured distribution."""
    rivals: Ratio
    """Speed ÷ the faster rival's there."""


class BestFor(FromFile):
    """What is best for some CPUs."""

    name: Word
    cpu: Annotated[str, Field(min_length=1, max_length=200)]
    """In a person's words."""
    state: Literal["measured", "composed", "default"]
    why: Annotated[str, Field(min_length=10, max_length=1000)]
    arch: Literal["um", "x86_64"] = "um"
    """Of the kernels that it is for."""
    vendor: Annotated[str, Field(max_length=40)] | None = None
    """As /proc/cpuinfo has it; None: any."""
    family: Annotated[int, Field(ge=0, lt=1 << 16)] | None = None
    models: list[Models] = Field(default_factory=list)
    """First and last of each range."""
    features: list[Feature] = Field(default_factory=list)
    memcpy: Word | None = None
    memmove: Word | None = None
    memset: Word | None = None
    copy_page: Word | None = None
    clear_page: Word | None = None
    bench: Word | None = None
    """Folder in BENCHES."""
    seen: list[Figures] = Field(default_factory=list)

    @model_validator(mode="after")
    def _says_for_whom(self) -> BestFor:
        if self.models and (self.vendor is None or self.family is None):
            raise wrong("models", "stand beside a vendor and a family")
        if any(first > last for first, last in self.models):
            raise wrong("models", "are ranges: the first of each is not above the last")
        if self.state == "measured" and self.bench is None:
            raise wrong("bench", "is missing: what was measured has one")
        if not self.routines:
            raise wrong("memcpy", "is missing: a row names a routine")
        return self

    @property
    def routines(self) -> Mapping[str, str]:
        """Function → routine."""
        named = {function: getattr(self, function) for function in FUNCTIONS}
        return {function: name for function, name in named.items() if name is not None}

    @property
    def rank(self) -> tuple[bool, int, bool]:
        """How closely it says for whom it is."""
        return bool(self.models), len(self.features), self.vendor is not None

    def fits(self, cpu: Cpu) -> bool:
        return (
            self.vendor in (None, cpu.vendor)
            and self.family in (None, cpu.family)
            and any(first <= cpu.number <= last for first, last in self.models or [[0, 1 << 16]])
            and cpu.flags >= set(self.features)
        )


class _File(FromFile):
    row: Annotated[list[BestFor], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_names(self) -> _File:
        names = [row.name for row in self.row]
        if twice := [name for name in names if names.count(name) > 1]:
            raise wrong("row", f"two rows are called {twice[0]!r}")
        return self


def read_rows(path: Path) -> tuple[BestFor, ...]:
    """The rows of a table. UsageError with every mistake in it."""
    try:
        text = path.read_text("utf-8")
        data = tomllib.loads(text)
    except (OSError, ValueError) as problem:
        raise UsageError(f"{path}: {problem}") from None
    return tuple(check(_File, data, str(path), text).row)


@cache
def rows() -> tuple[BestFor, ...]:
    """Those of the project."""
    return read_rows(routines_folder() / FILE)


def best(function: str, arch: str, cpu: Cpu | None = None) -> tuple[str, str]:
    """The best routine of ``function`` for a kernel of ``arch`` on ``cpu`` (this one by default),
    and why: ``best: row amd-zen4, found and measured on this CPU``, with the command where it was
    not. UsageError where no row has one."""
    here = this_cpu() if cpu is None else cpu
    kind = "um" if arch.startswith("um") else arch
    fitting = [row for row in rows() if row.arch == kind and row.fits(here)]
    for row in sorted(fitting, key=lambda row: row.rank, reverse=True):
        name = row.routines.get(function)
        if name is not None and here.flags >= set(find_routine(name, function).requires):
            why = f"{BEST}: row {row.name}, {STATES[row.state]}"
            return name, why if row.state == "measured" else f"{why}; `{COMMAND}` measures"
    raise UsageError(
        f'{function} = "{BEST}": {FILE} has no {function} for kernels of arch {arch!r} on this CPU'
    )
