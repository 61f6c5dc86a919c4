# SPDX-License-Identifier: MIT
"""An experiment as values: the tables of its file as pydantic checks them, and what they become.
docs/experiment-file.md explains the keys; a ``Vocabulary`` gives the words that others own."""

from __future__ import annotations

import math
import os.path
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    StrictBool,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from kdyno.errors import UsageError
from kdyno.experiment import limits
from kdyno.reading.checked import INSIDE, Closed, adapter, keys_of, tables_of, wrong
from kdyno.reading.mistakes import KeyPath, Mistakes, nearest, quoted, stands_where

HARDWARE_COUNTERS = (
    *("cycles", "instructions", "cache-references", "cache-misses"),
    *("branches", "branch-misses", "dtlb-misses", "itlb-misses"),
)
COUNTERS = (*HARDWARE_COUNTERS, "page-faults", "context-switches", "migrations", "task-clock")
"""As guest/counters.c has them."""
METRICS = ("time", "instructions", *(name for name in COUNTERS if name != "instructions"))
INTERLEAVES = ("auto", "turns", "boots")
PROGRAMS = {"32-bit": 32, "64-bit": 64}
"""Word sizes that ``programs`` of a variant may name."""
NATIVE_COPIES: Mapping[str, tuple[str, ...]] = {"erms": ("fsrm",), "plain": ("fsrm", "erms")}
"""``memcpy`` of a native kernel that is to see less of its CPU → the features hidden from its
alternatives. It is the same image with other words on its command line."""
RUN_SUITE = "run"
"""The suite that times a command line of the user's; always there."""
OWN_MEMCPY = "stock"
"""``memcpy = "stock"``: the kernel's own routine, to undo what [kernel] requests."""
BEST = "best"
"""``memcpy = "best"``: what is best on the CPU at hand."""
OWN_SCHEDULER = "fair"
"""``scheduler = "fair"``: the kernel's own, to undo what [kernel] requests."""
SUFFIX = ".bpf.c"
"""Of a scheduler's file."""

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,79}")
NAME_RULE = "a name is 1 to 80 letters, digits and . _ + -, and does not begin with . + -"
_MEMORY = re.compile(r"(\d{1,12})([KMGT])(?:i?B)?", re.IGNORECASE)
_PERCENT = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*%")
_SMALLEST_MEMORY_BYTES = 32 << 20
_PATTERN_CHARACTERS = 1000
_LARGEST_PATCH_BYTES = 16 << 20
_GIT_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/:]+@[^/:]+:.|-|.*::")


@dataclass(frozen=True)
class Vocabulary:
    """What exists in this installation of kdyno."""

    suites: Mapping[str, tuple[str, ...]]
    """Suite → its cases, in the suite's order."""
    settings: Mapping[str, Mapping[str, tuple[str, ...]]]
    """Suite → case → the ``{name}``s that its arguments leave to a factor."""
    routines: Mapping[str, tuple[str, ...]]
    """Function → names of its routines."""
    schedulers: tuple[str, ...]
    """Names of schedulers beside the kernel's own."""
    runs_here: Callable[[str, str], bool]
    """(function, routine) → whether this machine's CPU can run it."""
    best: Callable[[str, str], tuple[str, str]]
    """(function, architecture) → the best routine on this machine's CPU, and why; or UsageError."""
    fragment_dirs: tuple[Path, ...]
    """Where ``NAME.config`` is looked up after the experiment's own folder."""
    patch_dirs: tuple[Path, ...]
    """Where a patch is looked up after the experiment's own folder."""
    machines: Mapping[str, tuple[str, ...]]
    """Kind of machine → architectures that it boots, its default first. None: it boots nothing,
    and its one variant is the kernel that runs."""
    check_source: Callable[[str], object]
    """Called with each source, paths resolved; raises UsageError for one that cannot be."""
    check_image: Callable[[str], object]
    """So with each image."""
    no_images: Mapping[str, str]
    """Kind of machine → why it boots no kernel that is built already."""

    @property
    def archs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arch for archs in self.machines.values() for arch in archs))


@dataclass(frozen=True)
class Place:
    """Where an experiment is read: its keys' meaning depends on it. The context of validators."""

    folder: Path
    """Where relative paths begin."""
    vocabulary: Vocabulary

    @staticmethod
    def of(info: ValidationInfo) -> Place:
        assert isinstance(info.context, Place)
        return info.context

    def path(self, name: str) -> Path:
        """A path from the folder, written one way: without ``.`` and leading ``..``."""
        path = Path(name)
        with suppress(RuntimeError):  # ~somebody who does not exist
            path = path.expanduser()
        return path if path.is_absolute() else Path(os.path.normpath(self.folder / path))


def exists(path: Path, folder: bool = False) -> bool:
    """Whether it is a file, or a folder; False too for what no path can be."""
    try:
        return path.is_dir() if folder else path.is_file()
    except (OSError, ValueError):
        return False


def names_in(folder: Path, *patterns: str) -> list[str]:
    try:
        return [file.name for pattern in patterns for file in folder.glob(pattern)]
    except OSError:
        return []


def _line(text: str) -> str:
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in text):
        raise ValueError(f"{quoted(text)} contains a control character or a line end")
    return text


def _entry(text: str) -> str:
    if not text.strip():
        raise ValueError("an empty text")
    return text.strip()


def word(value: str, allowed: Collection[str]) -> str:
    if value not in allowed:
        raise wrong((), f"{quoted(value)} is not known", value, allowed)
    return value


def like(pattern: str, why: str) -> AfterValidator:
    """A text that matches; else ``why`` goes right after it."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{quoted(text)}{why}")
        return text

    return AfterValidator(check)


def _question(text: str) -> str:
    """One written over several lines is one line on screen."""
    return "".join(letter for letter in " ".join(text.split()) if letter.isprintable())


def whole(low: int, high: int) -> PlainValidator:
    def check(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(stands_where(value, "an integer"))
        if not low <= value <= high:
            raise ValueError(f"{quoted(value)} is out of range. Allowed: {low} to {high}")
        return value

    return PlainValidator(check)


def up_to(high: float, unit: str) -> PlainValidator:
    def check(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(stands_where(value, f"a number of {unit}"))
        if not 0 < value <= high:
            allowed = f"more than 0, at most {high:g} {unit}"
            raise ValueError(f"{quoted(value)} is out of range. Allowed: {allowed}")
        return float(value)

    return PlainValidator(check)


def _share(value: object, low: float = 0.0, high: float = 0.25) -> float:
    """``"0.5%"`` or ``0.005``; more than ``low`` and at most ``high``."""
    if isinstance(value, str) and (match := _PERCENT.fullmatch(value.strip())):
        share = float(match[1]) / 100
    elif isinstance(value, int | float) and not isinstance(value, bool):
        share = float(max(-1, min(value, 1e9))) if abs(value) < math.inf else math.nan
    else:
        raise ValueError(stands_where(value, 'a share like "0.5%" or 0.005'))
    if not low < share <= high:
        percent = isinstance(value, int | float) and low == 0 < share <= 100 * high
        hint = f' Did you mean "{share:g}%"?' if percent else ""
        allowed = f'more than "{low * 100:g}%", at most "{high * 100:g}%"'
        raise ValueError(f"{quoted(value)} is out of range.{hint} Allowed: {allowed}")
    return share


def _bytes(value: object) -> int:
    match = _MEMORY.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        what = f"{quoted(value)} is not an amount of memory"
        raise ValueError(f'{what}. Allowed: text like "512M" or "1G"')
    size_bytes = int(match[1]) << {"K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]
    if not _SMALLEST_MEMORY_BYTES <= size_bytes <= 1 << 42:
        least = f"{_SMALLEST_MEMORY_BYTES >> 20}M"
        raise ValueError(f'{quoted(value)} is out of range. Allowed: "{least}" to "4T"')
    return size_bytes


def _of(allowed: Collection[str]) -> AfterValidator:
    return AfterValidator(partial(word, allowed=allowed))


Text = Annotated[str, AfterValidator(_line)]
Entry = Annotated[Text, AfterValidator(_entry)]
Texts = tuple[Entry, ...]
Words = tuple[Text, ...]
"""Of a command: nothing is taken from them."""
Name = Annotated[Text, like(NAME.pattern, f" is not a name: {NAME_RULE}")]
# These strings pass through make and a shell on their way to the compiler.
Flags = Annotated[
    Text,
    AfterValidator(str.strip),
    like(
        r"(-[A-Za-z0-9_=,.+:/@%~ -]*)?",
        " is not accepted: flags begin with - and hold letters, digits, spaces and "
        "_ = , . + : / @ % ~ - only",
    ),
]
CFile = Annotated[
    str,
    like(
        r"\*|(?!(.*/)?\.\./)[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*\.c",
        ' is not a .c file of a kernel tree, like "lib/sort.c", and not "*"',
    ),
]
Compiler = Annotated[
    Text,
    AfterValidator(str.strip),
    AfterValidator(lambda name, info: str(Place.of(info).path(name)) if "/" in name else name),
    like(
        r"[A-Za-z0-9_/][A-Za-z0-9._+/-]{0,200}",
        ' is not a compiler. Allowed: one program, like "gcc-12" or a path; flags go into cflags',
    ),
]
Sysctl = Annotated[
    str,
    like(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_:-]+)+", " is not a sysctl, like vm.swappiness"),
    AfterValidator(lambda name: name.replace("/", ".")),
]
Setting = Annotated[
    str,
    like(
        r"[a-z][a-z0-9_]{0,39}",
        " is not a setting: a setting is 1 to 40 of a-z, 0-9 and _, and begins with a letter",
    ),
]
Share = Annotated[float, PlainValidator(_share)]
Pairs = tuple[tuple[str, str], ...]


def _known(words_of: Callable[[Vocabulary], Collection[str]]) -> AfterValidator:
    def check(text: str, info: ValidationInfo) -> str:
        return word(text, words_of(Place.of(info).vocabulary))

    return AfterValidator(check)


def _source(text: str, info: ValidationInfo) -> str:
    place = Place.of(info)
    source = text.strip()
    kind, _, rest = source.partition(":")
    if kind in ("path", "tar") and rest:
        path = place.path(rest)
        wanted = "folder" if kind == "path" else "file"
        if not exists(path, wanted == "folder"):
            raise ValueError(f"{quoted(source)}: there is no {wanted} {path}")
        source = f"{kind}:{path}"
    elif kind == "git" and rest.partition("#")[0] and not _GIT_URL.match(rest):
        repository, mark, ref = rest.rpartition("#") if "#" in rest else (rest, "", "")
        source = f"git:{place.path(repository)}{mark}{ref}"
    return _checked(source, place.vocabulary.check_source)


def _checked(text: str, check: Callable[[str], object]) -> str:
    """The text, a mistake where ``check`` refuses it."""
    try:
        check(text)
    except UsageError as problem:
        raise ValueError(str(problem)) from None
    return text


def _image(text: str, info: ValidationInfo) -> str:
    place = Place.of(info)
    kind, colon, rest = text.strip().partition(":")
    if colon and rest and kind in ("deb", "rpm", "path"):
        rest = str(place.path(rest))
        if not exists(Path(rest)):
            raise ValueError(f"{quoted(text)}: there is no file {rest}")
    return _checked(f"{kind}{colon}{rest}", place.vocabulary.check_image)


def _patch(value: object, info: ValidationInfo) -> Path:
    place = Place.of(info)
    name: str = adapter(Entry).validate_python(value)
    folders = place.vocabulary.patch_dirs
    candidates = (place.path(name), *(folder / name for folder in folders))
    file = next((path for path in candidates if exists(path)), None)
    if file is None:
        own = sorted(names_in(place.folder, "*.patch", "*.diff"))
        shipped = [own for path in folders for own in names_in(path, "*.patch", "*.diff")]
        what = f"there is no patch {quoted(name)} in {place.folder}"
        # All end alike, so that less is like a person's own name of a file.
        if hint := nearest(name, [*own, *shipped], 0.8):
            what += f". Did you mean {quoted(hint)}?"
        raise wrong((), what, allowed=own)
    try:
        if file.stat().st_size > _LARGEST_PATCH_BYTES:
            raise ValueError(f"{quoted(name)} is larger than 16 MB, so it is not a patch")
        content = file.read_bytes()
    except OSError as problem:
        raise ValueError(f"{quoted(name)} cannot be read: {problem.strerror}") from None
    if b"\n@@ " not in content and b"\nGIT binary patch" not in content:
        what = "it has no hunk (a line beginning with @@). Use diff -u or git"
        raise ValueError(f"{quoted(name)} is not a patch: {what}")
    return file


def _once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    for index, value in enumerate(values):
        if value in values[:index]:
            name = value.name if isinstance(value, Path) else value
            raise wrong((index,), f"{quoted(name)} is listed twice", value=name)
    return values


def _cflags(value: object) -> dict[str, str]:
    """File, or "*" for all others → flags. ``"-O3"`` is short for ``{ "*" = "-O3" }``."""
    if isinstance(value, str):
        return {"*": adapter(Flags).validate_python(value)}
    if not isinstance(value, dict):
        wanted = 'text like "-O3" or a table like { "lib/sort.c" = "-O3", "*" = "-O2" }'
        raise ValueError(stands_where(value, wanted))
    flags: dict[str, str] = adapter(dict[CFile, Flags]).validate_python(value)
    return flags


def _flat(value: object, depth: int = 8) -> object:
    """``vm.swappiness = 10`` without quotes is a table in a table in TOML: take it as meant."""
    if not isinstance(value, dict):
        return value
    flat: dict[str, object] = {}
    for name, inner in value.items():
        below = _flat(inner, depth - 1) if depth else inner
        if isinstance(below, dict) and below:
            flat |= {f"{name}.{rest}": number for rest, number in below.items()}
        else:
            flat[name] = below
    return flat


def _sysctl_value(value: object) -> str:
    if isinstance(value, str) and value and value.isprintable():
        return value
    if isinstance(value, int) and abs(value) < 1 << 64:
        return str(int(value))
    raise ValueError(stands_where(value, "an integer of 64 bits or one line of text"))


def is_routine_file(name: str) -> bool:
    """Whether ``name`` means a file of the person's own and no routine of the project."""
    return "/" in name or name.endswith(".S")


def _routines(value: object, info: ValidationInfo) -> Pairs:
    """(function, routine) pairs, sorted."""
    if not isinstance(value, dict):
        wanted = 'a table like { memset = "avx512", copy_page = "mine.S" }'
        raise ValueError(stands_where(value, wanted))
    functions = [name for name in Place.of(info).vocabulary.routines if name != "memcpy"]
    chosen = {}
    for function, given in value.items():
        if function not in functions:
            raise wrong((function,), "unknown key", function, functions)
        chosen[function] = _routine(given, info, function)
    return tuple(sorted((function, name) for function, name in chosen.items() if name))


def _routine(value: object, info: ValidationInfo, function: str = "memcpy") -> str | None:
    """A routine's name or file; of several the first that this machine's CPU can run."""
    place = Place.of(info)
    at = () if function == "memcpy" else (function,)
    own = (OWN_MEMCPY, BEST, *(() if at else NATIVE_COPIES))
    allowed = dict.fromkeys((OWN_MEMCPY, BEST, *place.vocabulary.routines[function], *own))
    chosen: list[str] = []
    for index, name in enumerate(value if isinstance(value, list) else [value]):
        path: KeyPath = (*at, index) if isinstance(value, list) else at
        if not isinstance(name, str):
            raise wrong(path, stands_where(name, "text"), value=name)
        file = place.path(name)
        if is_routine_file(name):
            if not name.endswith(".S") or not exists(file):
                why = "no file" if name.endswith(".S") else "a routine's file is named FILE.S"
                raise wrong(path, f"{quoted(name)}: {why} {file}", value=name)
        elif name not in allowed:
            raise wrong(path, f"{quoted(name)} is not known", name, allowed, name)
        chosen.append(str(file) if is_routine_file(name) else name)
    if len(chosen) > 1:
        runs_here = place.vocabulary.runs_here
        running = [name for name in chosen if name in own or runs_here(function, name)]
        # Where none does, whoever builds refuses or skips the first, with the reason.
        chosen = running or chosen
    return next(iter(chosen), None)


def is_scheduler_file(name: str) -> bool:
    """Whether ``name`` means a file of the person's own and no scheduler of the project."""
    return "/" in name or name.endswith(SUFFIX)


def called(scheduler: str) -> str:
    """What a scheduler calls itself, from its name or its file's path."""
    return Path(scheduler).name.removesuffix(SUFFIX)


def _scheduler(name: str, info: ValidationInfo) -> str:
    """One of the project's by its name, or a file as an absolute path."""
    place = Place.of(info)
    if not is_scheduler_file(name):
        return word(name, dict.fromkeys((OWN_SCHEDULER, *place.vocabulary.schedulers)))
    file = place.path(name)
    if not name.endswith(SUFFIX):
        raise ValueError(f"{quoted(name)}: a scheduler's file is named NAME{SUFFIX}")
    if not re.fullmatch(r"[A-Za-z0-9_]{1,40}", called(name)):
        rule = "its name is what the kernel calls it: letters, digits and _"
        raise ValueError(f"{quoted(name)}: {rule}")
    if not exists(file):
        raise ValueError(f"{quoted(name)}: no file {file}")
    return str(file)


@dataclass(frozen=True)
class ConfigFragment:
    """Lines of a kernel configuration and where they come from, for messages."""

    origin: str
    """A fragment's file name, or the key of the experiment file that holds the line."""
    lines: tuple[str, ...]
    """Only ``CONFIG_X=value`` and ``# CONFIG_X is not set`` lines; comments removed."""


@dataclass(frozen=True)
class Layer(Closed):
    """[kernel]. None or empty where the layer does not have the key."""

    source: Annotated[Text, AfterValidator(_source)] | None = None
    image: Annotated[Text, AfterValidator(_image)] | None = None
    arch: Annotated[Text, _known(lambda words: words.archs)] | None = None
    config: Texts = ()
    patches: Annotated[
        tuple[Annotated[Path, PlainValidator(_patch)], ...], AfterValidator(_once)
    ] = ()
    cflags: Annotated[dict[str, str] | None, PlainValidator(_cflags)] = None
    compiler: Compiler | None = None
    cmdline: Text = ""
    sysctl: Annotated[
        dict[Sysctl, Annotated[str, PlainValidator(_sysctl_value)]], BeforeValidator(_flat)
    ] = field(default_factory=dict)
    memcpy: Annotated[str | None, PlainValidator(_routine)] = None
    routines: Annotated[Pairs | None, PlainValidator(_routines)] = None
    scheduler: Annotated[Text, AfterValidator(_scheduler)] | None = None
    path: Annotated[KeyPath, INSIDE] = ()
    """Where the layer stands in the file."""
    fragments: Annotated[tuple[ConfigFragment, ...], INSIDE] = ()
    """What ``config`` names."""


@dataclass(frozen=True)
class VariantLayer(Layer):
    cpus: Annotated[int, whole(1, 1024)] | None = None
    programs: Annotated[Text, _of(PROGRAMS)] | None = None


def _setting_value(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(stands_where(value, "a number or text"))
    if not str(value).isprintable() or not str(value):
        raise ValueError(f"{quoted(value)} is empty or contains a control character")
    return str(value)


@dataclass(frozen=True)
class Level(VariantLayer):
    """[factor.NAME.LEVEL]: a layer of kernels; or of cases what fills ``{name}`` in arguments, or
    the case that this level is: ``{ set = { jobs = 4 } }`` or ``{ case = "fscopy-256" }``."""

    set: dict[Setting, Annotated[str, PlainValidator(_setting_value)]] = field(default_factory=dict)
    case: Text = ""


def userland_of(text: str) -> tuple[str, str, int]:
    """(suite, architecture, word size) of ``debian:SUITE/ARCH``."""
    match = re.fullmatch(r"debian:([a-z]+)/(i386|amd64)", text)
    if match is None:
        raise ValueError(
            f"{quoted(text)} is no userland: debian:SUITE/i386 or debian:SUITE/amd64, such as "
            '"debian:bookworm/i386"'
        )
    return match[1], match[2], 32 if match[2] == "i386" else 64


@dataclass(frozen=True)
class Machine(Closed):
    kind: Annotated[Text, _known(lambda words: tuple(words.machines))] = "uml"
    cpus: Annotated[int, whole(1, 1024)] = 1
    memory_bytes: Annotated[int, Field(alias="memory"), PlainValidator(_bytes)] = 1 << 30
    timeout_s: Annotated[float | None, Field(alias="timeout"), up_to(7 * 86_400, "seconds")] = None
    """Wall-clock limit per boot; None derives it from the cases' own limits."""
    accel: Annotated[Text, _of(("auto", "kvm", "tcg", "icount"))] = "auto"
    """How a machine that emulates runs its guests."""
    userland: Annotated[Text, AfterValidator(lambda text: userland_of(text) and text)] = ""
    """Whose programs guests see, as ``debian:SUITE/ARCH``; empty: this machine's."""
    host: Annotated[Text, like(r"[\w.@:-]{0,253}", " is no name of a host")] = ""
    hosts: Annotated[Texts, Field(max_length=64), AfterValidator(_once)] = ()

    @property
    def all_hosts(self) -> tuple[str, ...]:
        """One empty name for a machine that has none."""
        return self.hosts or (self.host,)


@dataclass(frozen=True)
class Box(Closed):
    quiet: StrictBool = False
    watchdog: StrictBool = True
    power: Text = ""
    firmware_every: Annotated[int, whole(0, 1000)] = 0
    boot_timeout_s: Annotated[float, Field(alias="boot_timeout"), up_to(86_400, "seconds")] = 600.0


@dataclass(frozen=True)
class Measure(Closed):
    precision: Share = 0.005
    """Half-width of an effect's interval, as a fraction, at which measuring stops."""
    max_boots: Annotated[int, whole(2, limits.MOST_BOOTS)] = 60
    min_boots: Annotated[int, whole(2, limits.MOST_BOOTS)] = 10
    max_minutes: Annotated[float, up_to(limits.MOST_MINUTES, "minutes")] | None = None
    equivalent: Share = 0.01
    confidence: Annotated[
        float,
        PlainValidator(partial(_share, low=limits.LEAST_CONFIDENCE, high=limits.MOST_CONFIDENCE)),
    ] = 0.95
    profile: Annotated[Text, _of(("none", "perf", "gprof", "count"))] = "none"
    seed: Annotated[int, whole(0, (1 << 63) - 1)] | None = None
    calibrate: StrictBool = False
    interleave: Annotated[Text, _of(INTERLEAVES)] = "auto"
    metric: Annotated[Text, _of(METRICS)] = "time"
    exact_boots: Annotated[int, whole(1, limits.MOST_EXACT_BOOTS)] = 3
    """Boots of each kernel after which counts that agree are exact."""
    insist: StrictBool = False
    """Measure by the metric also what it does not decide; the verdict says so."""
    apart: StrictBool = False
    """Instructions of programs and of the kernel are counted apart as well."""
    counters: Annotated[
        tuple[Annotated[Text, _of(COUNTERS)], ...], Field(max_length=4), AfterValidator(_once)
    ] = ()
    """Counted by the CPU or the kernel beside the time."""
    layouts: Annotated[int, INSIDE] = 0
    """Links of each kernel, its functions in random orders; 0: one, the linker's own."""


def _measure(data: Any, handler: ValidatorFunctionWrapHandler) -> Measure:
    """With a default of min_boots that gives way to max_boots."""
    measure: Measure = handler(data)
    most = measure.max_boots
    if "min_boots" in data and measure.min_boots > most:
        what = f"min_boots is {measure.min_boots}, more than max_boots, which is {most}"
        raise wrong("min_boots", what)
    return replace(measure, min_boots=min(measure.min_boots, most))


@dataclass(frozen=True)
class Layout(Closed):
    draws: Annotated[int, whole(limits.FEWEST_LINKS, limits.MOST_LINKS)] = 8
    """Becomes Measure.layouts."""


def _command(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        try:
            words = tuple(shlex.split(_line(value)))
        except ValueError as problem:
            raise ValueError(f"{quoted(value)}: {problem}") from None
    else:
        words = adapter(Words).validate_python(value)
    if not words or not words[0].strip():
        raise ValueError("the command is empty")
    return words


def one_group(pattern: str) -> str:
    """A regular expression with one group, for the figure in what a program prints."""
    if not 0 < len(pattern) <= _PATTERN_CHARACTERS:
        what = f"{quoted(pattern)} has {len(pattern)} characters"
        raise ValueError(f"{what}; a regular expression has 1 to {_PATTERN_CHARACTERS}")
    try:
        groups = re.compile(pattern, re.MULTILINE).groups
    except (re.error, RecursionError, OverflowError) as problem:
        raise ValueError(f"{quoted(pattern)} is not a regular expression: {problem}") from None
    if groups != 1:
        what = f"{quoted(pattern)} has {groups} groups"
        raise ValueError(f"{what}: the figure is what one group (…) matches")
    return pattern


@dataclass(frozen=True)
class SuiteUse(Closed):
    """A suite of an experiment: which of its cases, and for how long each per boot."""

    name: Text = ""
    cases: Texts = ()
    seconds: Annotated[float, up_to(limits.MOST_SECONDS, "seconds")] = 0.5
    operations: Annotated[int, whole(1, 1 << 62)] | None = None
    """Fixed work instead of fixed time, for profiles."""
    command: Annotated[tuple[str, ...], PlainValidator(_command)] = ()
    """Only for the suite ``run``: the command line to time."""
    figure: Annotated[Text, AfterValidator(one_group)] | None = None
    """Only for the suite ``run``: regular expression for the figure in what the command prints."""
    unit: Text = ""
    better: Annotated[Text, _of(("higher", "lower"))] = ""
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


def _use(data: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> SuiteUse:
    """A [[suite]] whose keys fit each other, with the names of its cases."""
    use: SuiteUse = handler(data)
    suites = Place.of(info).vocabulary.suites
    names = tuple(dict.fromkeys((*suites, RUN_SUITE)))
    if "name" not in data:
        raise wrong((), "name is missing: which suite?", allowed=names)
    if use.name not in names:
        raise wrong("name", f"{quoted(use.name)} is not known", use.name, names)
    if "seconds" in data and "operations" in data:
        raise wrong("operations", "operations and seconds exclude each other: leave one out")
    cases = _run_cases(use, data) if use.name == RUN_SUITE else _cases(use, data, suites[use.name])
    return replace(use, cases=cases)


def _cases(use: SuiteUse, data: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """The cases meant, in the order given; what a pattern matches in the suite's order."""
    for key in ("figure", "unit", "better", "command"):
        if key in data:
            has = f"; the suite {quoted(use.name)} has cases" if key == "command" else ""
            raise wrong(key, f'{key} belongs to the suite "{RUN_SUITE}"{has}')
    if "cases" not in data:
        return names
    if not use.cases:
        raise wrong("cases", "no case: leave the key out for all of them", allowed=names)
    chosen: dict[str, bool] = {}
    for index, text in enumerate(use.cases):
        is_pattern = any(letter in text for letter in "*?[")
        matched = [case for case in names if fnmatchcase(case, text)] if is_pattern else [text]
        if not matched or not set(matched) <= set(names):
            what = "matches no case" if is_pattern else "is not a case"
            what = f"{quoted(text)} {what} of {use.name}"
            raise wrong(("cases", index), what, text, names, text)
        if not is_pattern and chosen.get(text):
            raise wrong(("cases", index), f"{quoted(text)} is listed twice", value=text)
        chosen.update({case: chosen.get(case, False) or not is_pattern for case in matched})
    return tuple(chosen)


def _run_cases(use: SuiteUse, data: Mapping[str, Any]) -> tuple[str, ...]:
    """The one name under which the figures of the user's command appear."""
    if "command" not in data:
        what = f'the suite "{RUN_SUITE}" needs command, for example command = "sort words.txt"'
        raise wrong((), what)
    for key in ("unit", "better"):
        if "figure" in data and key not in data:
            raise wrong((), f"figure needs {key} beside it")
        if key in data and "figure" not in data:
            raise wrong(key, f"{key} goes with figure; a time is in s, lower")
    if "cases" not in data:
        program = PurePosixPath(use.command[0]).name
        return (program if NAME.fullmatch(program) else "command",)
    if len(use.cases) != 1:
        what = f'the suite "{RUN_SUITE}" times one command: cases holds one name for it'
        raise wrong("cases", what)
    if not NAME.fullmatch(use.cases[0]):
        raise wrong(("cases", 0), f"{quoted(use.cases[0])} is not a name: {NAME_RULE}")
    return use.cases


def _levels(value: object) -> object:
    """``jobs = [1, 4]`` as the levels that it is short for; anything else as it is. The values of a
    factor called ``cpus`` are CPUs of the machine, of any other a setting."""
    if not isinstance(value, dict):
        return value
    return {
        factor: {
            str(level): {"cpus": level} if factor == "cpus" else {"set": {factor: level}}
            for level in levels
        }
        if isinstance(levels, list)
        else levels
        for factor, levels in value.items()
    }


def _listed(value: object) -> object:
    if not isinstance(value, list):
        raise ValueError("suites are written [[suite]], in double brackets")
    return value


@dataclass(frozen=True)
class File(Closed):
    name: Name = ""
    question: Annotated[str, AfterValidator(_question)] = ""
    baseline: Text | None = None
    skip_unsupported: Annotated[StrictBool, Field(alias="skip-unsupported")] = False
    kernel: Layer = field(default_factory=Layer)
    variant: dict[Name, VariantLayer] = field(default_factory=dict)
    factor: Annotated[dict[Name, dict[Name, Level]], BeforeValidator(_levels)] = field(
        default_factory=dict
    )
    machine: Machine = field(default_factory=Machine)
    box: Box = field(default_factory=Box)
    suite: Annotated[
        tuple[Annotated[SuiteUse, WrapValidator(_use)], ...], BeforeValidator(_listed)
    ] = ()
    measure: Annotated[Measure, WrapValidator(_measure)] = field(default_factory=Measure)
    layout: Layout | None = None
    matrix: Any = None
    watch: Any = None
    bisect: Any = None


TABLES: Mapping[str, tuple[str, ...]] = {"": keys_of(File), **tables_of(File), "matrix": ("refs",)}
"""Table → keys. ``variant`` stands for each [variant.NAME], ``factor`` for each level."""


def home_of(key: str) -> str:
    """The table that has ``key``, as it is written in the file; empty when none has."""
    home = next((table for table, keys in TABLES.items() if key in keys), None)
    names = {None: "", "": "the top of the file", "suite": "[[suite]]"}
    return names.get(home, f"[{home}]")


@dataclass(frozen=True)
class Variant:
    """One kernel under test. Everything that may differ between two kernels is here."""

    name: str
    source: str
    """As written: ``debian:NAME``, ``path:DIR``, ``tar:FILE``, ``git:DIR_OR_URL#REF``,
    ``kernel.org:VERSION``; relative paths already resolved against the experiment's folder. Empty
    where nothing is built."""
    image: str = ""
    """A kernel that is built already: ``debian:PACKAGE[=VERSION]``, ``deb:FILE``, ``rpm:FILE``,
    ``path:FILE``."""
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
    """(function, why it is this routine) pairs of the routines requested as the best."""
    scheduler: str | None = None
    """A scheduler that is loaded as a program, or a person's own file. None: the kernel's own."""
    cpus: int | None = None
    """CPUs of its machine; None: as [machine] says."""
    program_bits: int | None = None
    """Word size of the programs that it runs; None: the kernel's own."""
    levels: Pairs = ()
    """(factor, level) pairs when the variant is a cell of a cross."""

    @property
    def words(self) -> str:
        """Of the command line, with those that hide features of the CPU for ``memcpy``."""
        hidden = ",".join(NATIVE_COPIES.get(self.memcpy or "", ()))
        return f"clearcpuid={hidden} {self.cmdline}".strip() if hidden else self.cmdline

    @property
    def all_routines(self) -> dict[str, str]:
        """Function → routine, memcpy's among them."""
        return {**({"memcpy": self.memcpy} if self.memcpy else {}), **dict(self.routines)}


@dataclass(frozen=True)
class Experiment:
    name: str
    question: str
    baseline: str
    variants: tuple[Variant, ...]
    suites: tuple[SuiteUse, ...]
    machine: Machine = field(default_factory=Machine)
    measure: Measure = field(default_factory=Measure)
    box: Box = field(default_factory=Box)
    skip_unsupported: bool = False
    """Variants whose CPU features this machine lacks are skipped with the reason, not refused."""
    path: Path | None = None
    text: str = ""
    """The file as given, for the run folder."""
    mistakes: Callable[[], Mistakes] = field(default=lambda: Mistakes("experiment"), compare=False)
    """An empty list for what is found to be wrong later, which has the file's lines."""

    @property
    def cpus(self) -> int:
        """CPUs that the largest of its machines has."""
        return max([self.machine.cpus, *(variant.cpus or 0 for variant in self.variants)])
