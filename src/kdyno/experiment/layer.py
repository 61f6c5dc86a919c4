# SPDX-License-Identifier: MIT
"""One level of kernel keys: [kernel], a [variant.NAME], or a level of a factor; and the words that
its keys may use, given by the rooms that own them."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import PlainValidator, ValidationInfo

from kdyno.errors import UsageError
from kdyno.experiment.model import (
    NATIVE_COPIES,
    PROGRAMS,
    ConfigFragment,
    Machine,
    Pairs,
    Text,
    Texts,
    text,
    texts,
    whole,
    word,
)
from kdyno.reading.checked import INSIDE, Closed, wrong
from kdyno.reading.mistakes import KeyPath, Mistakes, nearest, quoted, spelled, stands_where

RUN_SUITE = "run"
"""The suite that times a command line of the user's; always there."""
OWN_MEMCPY = "stock"
"""``memcpy = "stock"``: the kernel's own routine, to undo what [kernel] asks for."""
BEST = "best"
"""``memcpy = "best"``: what is best on the CPU at hand."""
OWN_SCHEDULER = "fair"
"""``scheduler = "fair"``: the kernel's own, to undo what [kernel] asks for."""
SUFFIX = ".bpf.c"
"""Of a scheduler's file."""
NO_SCHEDULER: Mapping[str, str] = {
    "um": "a kernel for User Mode Linux has no compiler for such programs",
    "um32": "a kernel for User Mode Linux has no compiler for such programs",
    "i386": "a 32-bit kernel does not call such programs",
}
"""Architecture → why its kernels take no scheduler that is a program."""

# These strings pass through make and a shell on their way to the compiler.
_FLAGS = re.compile(r"-[A-Za-z0-9_=,.+:/@%~ -]*")
_FLAGS_RULE = "flags begin with - and hold letters, digits, spaces and _ = , . + : / @ % ~ - only"
_COMPILER = re.compile(r"[A-Za-z0-9_/][A-Za-z0-9._+/-]{0,200}")
_C_FILE = re.compile(r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*\.c")
_SYSCTL = re.compile(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_:-]+)+")
_GIT_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/:]+@[^/:]+:.|-|.*::")
_SCHEDULER = re.compile(r"[A-Za-z0-9_]{1,40}")
_LINE = re.compile(r'CONFIG_(\w+)=(y|m|n|-?\d+|0[xX][0-9a-fA-F]+|"(?:\\.|[^"\\])*")', re.ASCII)
_UNSET = re.compile(r"# CONFIG_(\w+) is not set", re.ASCII)
_LINE_RULE = 'a line is CONFIG_X=y, =m, =n, =NUMBER, ="TEXT", or "# CONFIG_X is not set"'
_LARGEST_CONFIG_BYTES = 1 << 20
_LARGEST_PATCH_BYTES = 16 << 20


def _no_best(function: str, _arch: str) -> tuple[str, str]:
    raise UsageError(f"no table says which {function} is best")


@dataclass(frozen=True)
class Vocabulary:
    """What exists in this installation of kdyno."""

    suites: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Suite → its cases, in the suite's order."""
    settings: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Suite → case → the ``{name}``s that its arguments leave to a factor."""
    routines: tuple[str, ...] = ()
    """Names of memory routines that ``memcpy`` may ask for."""
    function_routines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Function other than memcpy → names of its routines, which ``routines`` may ask for."""
    schedulers: tuple[str, ...] = ()
    """Names that ``scheduler`` may ask for, beside the kernel's own."""
    runs_here: Callable[[str], bool] = lambda _routine: True
    """Whether this machine's CPU can run a routine; ``memset-avx2`` is avx2 of memset."""
    best: Callable[[str, str], tuple[str, str]] = _no_best
    """(function, architecture) → the routine that is best on this machine's CPU, and why;
    UsageError where there is none."""
    fragment_dirs: tuple[Path, ...] = ()
    """Where ``NAME.config`` is looked up after the experiment's own folder."""
    patch_dirs: tuple[Path, ...] = ()
    """Where a patch is looked up after the experiment's own folder."""
    machines: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: {Machine.kind: ("um", "um32")}
    )
    """Kind of machine → architectures that it boots, its default first. None: it boots nothing,
    and its one variant is the kernel that runs."""
    source_kinds: tuple[str, ...] = ("debian", "path", "tar", "git", "kernel.org")
    check_source: Callable[[str], object] | None = None
    """Called with each source, paths resolved; raises UsageError for one that cannot be."""

    @property
    def archs(self) -> tuple[str, ...]:
        """Of all machines."""
        return tuple(dict.fromkeys(arch for archs in self.machines.values() for arch in archs))


@dataclass(frozen=True)
class Place:
    """Where an experiment is read: what its keys mean depends on it."""

    folder: Path
    """Where relative paths begin."""
    vocabulary: Vocabulary
    machine: str
    """The kind of machine: fragments bring what its kernels need besides."""


def _place(info: ValidationInfo) -> Place:
    assert isinstance(info.context, Place)
    return info.context


def _source(value: object, info: ValidationInfo) -> str:
    """The source, paths resolved."""
    place = _place(info)
    source = text(value).strip()
    kind, colon, rest = source.partition(":")
    if not colon or kind not in place.vocabulary.source_kinds or not rest:
        problem = "has nothing after the colon" if colon and not rest else "is not a source"
        forms = [f"{name}:…" for name in place.vocabulary.source_kinds]
        raise wrong((), f"{quoted(source)} {problem}", f"{kind}:…", forms)
    if kind in ("path", "tar"):
        path = _below(place.folder, rest)
        wanted = "folder" if kind == "path" else "file"
        if not _is_there(path, wanted == "folder"):
            raise ValueError(f"{quoted(source)}: there is no {wanted} {path}")
        source = f"{kind}:{path}"
    elif kind == "git" and not _GIT_URL.match(rest):
        repository, mark, ref = rest.rpartition("#") if "#" in rest else (rest, "", "")
        source = f"git:{_below(place.folder, repository)}{mark}{ref}"
    if place.vocabulary.check_source is not None:
        try:
            place.vocabulary.check_source(source)
        except UsageError as problem:
            raise ValueError(str(problem)) from None
    return source


def _arch(value: object, info: ValidationInfo) -> str:
    return word(value, _place(info).vocabulary.archs)


def _patches(value: object, info: ValidationInfo) -> tuple[Path, ...]:
    place = _place(info)
    folders = (place.folder, *place.vocabulary.patch_dirs)
    patches: list[Path] = []
    for index, name in enumerate(texts(value)):
        candidates = [_below(folder, name) for folder in folders]
        file = next((path for path in candidates if name and _is_there(path)), None)
        if file is None and name:
            own = sorted(_names(place.folder, "*.patch", "*.diff"))
            shipped = [it for folder in folders[1:] for it in _names(folder, "*.patch", "*.diff")]
            what = f"there is no patch {quoted(name)} in {place.folder}"
            if not own:
                what += ", and no other *.patch or *.diff"
            # All end alike, so that less is like a person's own name of a file.
            if hint := nearest(name, [*own, *shipped], 0.8):
                what += f". Did you mean {quoted(hint)}?"
            raise wrong((index,), what, allowed=own, found=name)
        if file is not None:
            if problem := "is listed twice" if file in patches else _no_patch(file):
                raise wrong((index,), f"{quoted(name)} {problem}", found=name)
            patches.append(file)
    return tuple(patches)


def _no_patch(file: Path) -> str | None:
    try:
        if file.stat().st_size > _LARGEST_PATCH_BYTES:
            return "is larger than 16 MB, so it is not a patch"
        content = file.read_bytes()
    except OSError as problem:
        return f"cannot be read: {problem.strerror}"
    if b"\n@@ " not in content and b"\nGIT binary patch" not in content:
        return "is not a patch: it has no hunk (a line beginning with @@). Use diff -u or git"
    return None


def _cflags(value: object) -> tuple[str, Pairs]:
    """(for every file, (file, flags) pairs)."""
    if not isinstance(value, str | dict):
        wanted = 'text like "-O3" or a table like { "lib/sort.c" = "-O3", "*" = "-O2" }'
        raise ValueError(stands_where(value, wanted))
    flags: dict[str, str] = {}
    for name, given in value.items() if isinstance(value, dict) else [("*", text(value))]:
        at = (name,) if isinstance(value, dict) else ()
        if not isinstance(given, str):
            raise wrong(at, stands_where(given, 'text like "-O3"'))
        flags[name] = given.strip()
        if flags[name] and not _FLAGS.fullmatch(flags[name]):
            raise wrong(at, f"{quoted(flags[name])} is not accepted: {_FLAGS_RULE}", found=given)
        if name != "*" and (not _C_FILE.fullmatch(name) or ".." in name.split("/")):
            what = f'{quoted(name)} is not a .c file of a kernel tree, like "lib/sort.c", and not'
            raise wrong(at, f'{what} "*"')
    return flags.pop("*", ""), tuple(sorted(flags.items()))


def _compiler(value: object) -> str:
    if not _COMPILER.fullmatch(text(value).strip()):
        allowed = 'one program, like "gcc-12" or a path; flags go into cflags'
        raise ValueError(f"{quoted(str(value).strip())} is not a compiler. Allowed: {allowed}")
    return str(value).strip()


def _sysctl(value: object) -> Pairs:
    if not isinstance(value, dict):
        raise ValueError(stands_where(value, 'a table like { "vm.swappiness" = 10 }'))
    values: dict[str, str] = {}
    for name, given in _flattened(value):
        if not _SYSCTL.fullmatch(name):
            raise wrong((name,), f"{quoted(name)} is not a sysctl, like vm.swappiness")
        if isinstance(given, str) and given and given.isprintable():
            values[name.replace("/", ".")] = given
        elif isinstance(given, int) and abs(given) < 1 << 64:
            values[name.replace("/", ".")] = str(int(given))
        else:
            raise wrong((name,), stands_where(given, "an integer of 64 bits or one line of text"))
    return tuple(sorted(values.items()))


def _flattened(table: dict[str, object], above: str = "") -> list[tuple[str, object]]:
    """``vm.swappiness = 10`` without quotes is a table in a table in TOML: take it as meant."""
    flat: list[tuple[str, object]] = []
    for name, value in table.items():
        if isinstance(value, dict) and value and above.count(".") < 8:
            flat += _flattened(value, f"{above}{name}.")
        else:
            flat.append((above + name, value))
    return flat


def is_routine_file(name: str) -> bool:
    """Whether ``name`` means a file of the person's own and no routine of the project."""
    return "/" in name or name.endswith(".S")


def _memcpy(value: object, info: ValidationInfo) -> str | None:
    place = _place(info)
    return _routine(value, (), (*place.vocabulary.routines, *NATIVE_COPIES), place)


def _routines(value: object, info: ValidationInfo) -> Pairs:
    """(function, routine) pairs, sorted."""
    place = _place(info)
    if not isinstance(value, dict):
        wanted = 'a table like { memset = "avx512", copy_page = "mine.S" }'
        raise ValueError(stands_where(value, wanted))
    functions = place.vocabulary.function_routines
    chosen = {}
    for function, given in value.items():
        if function not in functions:
            raise wrong((function,), "unknown key", function, functions)
        chosen[function] = _routine(given, (function,), functions[function], place)
    return tuple(sorted((function, name) for function, name in chosen.items() if name))


def _routine(value: object, at: KeyPath, routines: Iterable[str], place: Place) -> str | None:
    """A routine's name or file; of several the first that this machine's CPU can run."""
    allowed = tuple(dict.fromkeys((OWN_MEMCPY, BEST, *routines)))
    if isinstance(value, list):
        names = [((*at, index), name) for index, name in enumerate(texts(value, at)) if name]
    elif isinstance(value, str):
        names = [(at, value)]
    else:
        raise wrong(at, stands_where(value, 'text in quotes, "…",'))
    stems = {}
    for path, name in names:
        if is_routine_file(name):
            file = _below(place.folder, name)
            if not name.endswith(".S") or not _is_there(file):
                why = "no file" if name.endswith(".S") else "a routine's file is named FILE.S"
                raise wrong(path, f"{quoted(name)}: {why} {file}", found=name)
            stems[str(file)] = str(file)
        elif name in allowed:
            stems[name] = "-".join((*map(str, at), name))
        else:
            raise wrong(path, f"{quoted(name)} is not known", name, allowed, name)
    own = (OWN_MEMCPY, BEST, *NATIVE_COPIES)
    for name, stem in stems.items() if len(stems) > 1 else ():
        if name in own or place.vocabulary.runs_here(stem):
            return name
    # None of them runs here: whoever builds refuses or skips the first, with the reason.
    return next(iter(stems), None)


def is_scheduler_file(name: str) -> bool:
    """Whether ``name`` means a file of the person's own and no scheduler of the project."""
    return "/" in name or name.endswith(SUFFIX)


def called(scheduler: str) -> str:
    """What a scheduler calls itself, of its name or its file's path."""
    return Path(scheduler).name.removesuffix(SUFFIX)


def _scheduler(value: object, info: ValidationInfo) -> str:
    """One of the project's by its name, or a file as an absolute path; relative ones begin at the
    experiment's folder."""
    place = _place(info)
    if not (isinstance(value, str) and is_scheduler_file(value)):
        return word(value, dict.fromkeys((OWN_SCHEDULER, *place.vocabulary.schedulers)))
    file = _below(place.folder, value)
    if not value.endswith(SUFFIX):
        raise ValueError(f"{quoted(value)}: a scheduler's file is named NAME{SUFFIX}")
    if not _SCHEDULER.fullmatch(called(value)):
        rule = "its name is what the kernel calls it: letters, digits and _"
        raise ValueError(f"{quoted(value)}: {rule}")
    if not _is_there(file):
        raise ValueError(f"{quoted(value)}: no file {file}")
    return str(file)


@dataclass(frozen=True)
class Layer(Closed):
    """[kernel]. None or empty where the level does not have the key."""

    source: Annotated[str | None, PlainValidator(_source)] = None
    arch: Annotated[str | None, PlainValidator(_arch)] = None
    config: Texts = ()
    patches: Annotated[tuple[Path, ...], PlainValidator(_patches)] = ()
    cflags: Annotated[tuple[str, Pairs] | None, PlainValidator(_cflags)] = None
    compiler: Annotated[str | None, PlainValidator(_compiler)] = None
    cmdline: Text = ""
    sysctl: Annotated[Pairs, PlainValidator(_sysctl)] = ()
    memcpy: Annotated[str | None, PlainValidator(_memcpy)] = None
    routines: Annotated[Pairs | None, PlainValidator(_routines)] = None
    scheduler: Annotated[str | None, PlainValidator(_scheduler)] = None
    path: Annotated[KeyPath, INSIDE] = ()
    """Where the level stands in the file."""
    fragments: Annotated[tuple[ConfigFragment, ...], INSIDE] = ()
    """What ``config`` names."""


@dataclass(frozen=True)
class VariantLayer(Layer):
    """[variant.NAME]."""

    cpus: Annotated[int | None, whole(1, 1024)] = None
    programs: Annotated[str | None, PlainValidator(partial(word, allowed=PROGRAMS))] = None


@dataclass(frozen=True)
class Level(VariantLayer):
    """A level of a factor of kernels. One with ``set`` or ``case`` is of cases: see CaseLevel."""

    set: Any = None
    case: Any = None


L = TypeVar("L", bound=Layer)


def placed(layer: L, path: KeyPath, place: Place, mistakes: Mistakes) -> L:
    """The layer that stands at ``path`` of the file, with the fragments that its ``config`` names:
    looked up beside the experiment, and then in those of kdyno. Beside NAME.config may lie
    NAME.MACHINE.config, with what kernels for that kind of machine need besides."""
    fragments: list[ConfigFragment] = []
    for index, entry in enumerate(layer.config):
        at = (*path, "config", index)
        line = normal_line(entry)
        if line is not None:
            named = [ConfigFragment(spelled(at), (line,))]
        elif "=" in entry or entry.startswith("#") or entry.upper().startswith("CONFIG_"):
            what = f"{quoted(entry)} is not a configuration line: {_LINE_RULE}"
            mistakes.add(at, what, found=entry)
            continue
        else:
            named = _from_files(at, entry, place, mistakes) if entry else []
        for fragment in named:
            fragments.append(fragment)
            if problem := contradiction(fragments):
                mistakes.add(at, problem, found=entry)
    return replace(layer, path=path, fragments=tuple(fragments))


def normal_line(line: str) -> str | None:
    """The line as a .config has it; None when it is not a configuration line."""
    if match := _LINE.fullmatch(line):
        return line if match[2] != "n" else f"# CONFIG_{match[1]} is not set"
    return line if _UNSET.fullmatch(line) else None


def option_of(line: str) -> str:
    """``CONFIG_X`` of a normal line."""
    return line.split(" ", 2)[1] if line.startswith("#") else line.partition("=")[0]


def contradiction(fragments: list[ConfigFragment]) -> str | None:
    """How the last fragment contradicts an earlier one, or None."""
    *before, last = fragments
    earlier = {option_of(line): (line, it.origin) for it in before for line in it.lines}
    for line in last.lines:
        other, origin = earlier.get(option_of(line), (line, ""))
        if other != line:
            return f"{line!r} (from {last.origin}) contradicts {other!r} (from {origin})"
    return None


def _from_files(at: KeyPath, entry: str, place: Place, mistakes: Mistakes) -> list[ConfigFragment]:
    folders = [place.folder, *place.vocabulary.fragment_dirs]
    candidates = [folder / name for folder in folders for name in (f"{entry}.config", entry)]
    file = next((candidate for candidate in candidates if _is_there(candidate)), None)
    if file is None:
        stems = (Path(name).stem for folder in folders for name in _names(folder, "*.config"))
        names = sorted({stem for stem in stems if "." not in stem})
        hint = nearest(entry.removesuffix(".config"), names)
        meant = f". Did you mean {quoted(hint)}?" if hint else "."
        what = f"{quoted(entry)} is neither a fragment nor a file beside the experiment{meant}"
        what += f" Fragments: {', '.join(names) or 'none'}; or write CONFIG_X=y"
        mistakes.add(at, what, found=entry)
        return []
    besides = file.with_name(f"{file.stem}.{place.machine}.config")
    fragments = []
    for path in [
        file,
        *([besides] if file.suffix == ".config" and _is_there(besides) else []),
    ]:
        try:
            if path.stat().st_size > _LARGEST_CONFIG_BYTES:
                mistakes.add(at, f"{path.name} is larger than 1 MB, so it is not a fragment")
                continue
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            mistakes.add(at, f"{path.name} cannot be read: {problem}", found=entry)
            continue
        lines: dict[str, tuple[str, int]] = {}
        for number, raw in enumerate(text.splitlines(), start=1):
            stripped = raw.strip()
            if (line := normal_line(stripped)) is not None:
                earlier, before = lines.setdefault(option_of(line), (line, number))
                if earlier != line:
                    what = f"line {before} has {earlier!r}, line {number} {line!r}"
                    mistakes.add(at, f"{path.name} contradicts itself: {what}", found=path.name)
            elif stripped and not stripped.startswith("#"):
                what = f"{quoted(stripped)} is not a configuration line: {_LINE_RULE}"
                mistakes.add(at, f"{path.name}, line {number}: {what}", found=path.name)
        fragments.append(ConfigFragment(path.name, tuple(line for line, _number in lines.values())))
    return fragments


def _below(folder: Path, name: str) -> Path:
    """A path from the experiment's folder, written one way: without ``.`` and leading ``..``."""
    path = Path(name)
    with suppress(RuntimeError):  # ~somebody who does not exist
        path = path.expanduser()
    return path if path.is_absolute() else Path(os.path.normpath(folder / path))


def _is_there(path: Path, folder: bool = False) -> bool:
    """Whether it is a file, or a folder; False too for what no path can be."""
    try:
        return path.is_dir() if folder else path.is_file()
    except (OSError, ValueError):
        return False


def _names(folder: Path, *patterns: str) -> list[str]:
    try:
        return [file.name for pattern in patterns for file in folder.glob(pattern)]
    except OSError:
        return []
