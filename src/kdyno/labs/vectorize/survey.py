# SPDX-License-Identifier: MIT
"""A survey: one kernel compiled with several sets of flags, and what became of its loops.

Made by a build for each set of flags, or read from what other builds left; joined with a profile,
it says which loops lie where a kernel spends its time."""

from __future__ import annotations

import gzip
import io
import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from kdyno.command import capture
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Variant
from kdyno.kernels import leavings
from kdyno.kernels.build import Report, build, silent
from kdyno.kernels.changes import BUILD_SOURCE
from kdyno.kernels.compiler import Compiler
from kdyno.kernels.image import Extract, find
from kdyno.kernels.recipe import Recipe, recipe_of
from kdyno.kernels.source import Tree
from kdyno.labs.profile.record import Profile
from kdyno.labs.vectorize.loops import (
    FLAGS,
    REGISTER,
    Loop,
    ObjectRecord,
    Records,
    checked,
    code_of,
    files_of,
    read_object,
    stem,
)
from kdyno.reading.mistakes import meant
from kdyno.sandbox import confined
from kdyno.store.reading import AS_WRITTEN, content, parse

FILE = "gcc-loops.json.gz"
"""Beside an image."""
_LEFT = ".kdyno-gcc-loops.json.gz"
"""In an object tree."""
_LARGEST_BYTES = 256 << 20


_SSE2 = "-O3 -msse -msse2"
_AVX2 = f"{_SSE2} -mavx -mavx2"
_AVX512 = f"{_AVX2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512"
KNOWN: Mapping[str, str] = {"o3": "-O3", "sse2": _SSE2, "avx2": _AVX2, "avx512": _AVX512}
"""Set → flags that come after the kernel's own, which forbid vector registers."""
DEFAULT = ("avx2",)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,30}")
_FLAG = re.compile(r"-[A-Za-z0-9_=+,./:-]*")


def flag_set(text: str) -> tuple[str, str]:
    """(name, flags) of ``avx2``, or of ``NAME=FLAGS``. UsageError lists what is allowed."""
    name, equals, cflags = text.partition("=")
    if not equals and text in KNOWN:
        return text, KNOWN[text]
    words = cflags.split()
    if not equals:
        hint = meant(text, KNOWN, " Did you mean {}?")
        problem = f'no such set of flags.{hint} Known: {", ".join(KNOWN)}; or NAME="FLAGS", '
        problem += 'such as mine="-O2 -ftree-vectorize -msse2"'
    elif not _NAME.fullmatch(name) or name in KNOWN:
        problem = f"{name!r} is {'taken' if name in KNOWN else 'no name'}; "
        problem += 'write NAME="FLAGS" with a short name of your own'
    elif not words or not all(map(_FLAG.fullmatch, words)):
        problem = f'{cflags!r} is not a list of compiler flags, such as "-O3 -msse2"'
    else:
        return name, " ".join(words)
    raise UsageError(f"--flags {text!r}: {problem}")


def flag_sets(texts: Sequence[str]) -> dict[str, str]:
    """All of them, none twice."""
    sets = [flag_set(text) for text in texts or DEFAULT]
    if len(dict(sets)) < len(sets):
        raise UsageError(f"--flags: {', '.join(name for name, _ in sets)}: each set once")
    return dict(sets)


@dataclass(frozen=True)
class Side:
    """One set of flags and the build that it gave."""

    flags: str
    """The set's name."""
    cflags: str
    records: Records
    image: str = ""
    """Digest of the kernel; empty where only a build's leavings were read."""
    seconds: float | None = None
    """What the build took, reading the record included; None where that is not known."""
    __pydantic_config__ = AS_WRITTEN

    @cached_property
    def loops(self) -> list[Loop]:
        return self.records.loops

    @cached_property
    def vectors(self) -> list[Loop]:
        """Loops in vector registers, in every function that they ended up in."""
        return [loop for loop in self.loops if loop.is_vector]

    @property
    def narrow(self) -> list[Loop]:
        """What the compiler calls vectorised but does in general registers."""
        return [loop for loop in self.loops if loop.width_bytes and not loop.is_vector]

    @property
    def calls(self) -> int:
        """Places that became calls of memset, memcpy and the like."""
        return len({loop.place for loop in self.loops if loop.library})

    @cached_property
    def places(self) -> set[tuple[str, int, int]]:
        """Places of the source: a loop that was inlined into ten functions is one."""
        return {loop.place for loop in self.vectors}

    def widths(self) -> dict[int, int]:
        """Width in bytes → vectorised loops; every width is there."""
        counted = Counter(loop.width_bytes for loop in self.vectors)
        return {width: counted[width] for width in REGISTER}

    def in_machine_code(self) -> dict[str, int]:
        """What the machine code says of the vectorised loops: loop, function, no."""
        counted = Counter(loop.in_code for loop in self.vectors)
        return {word: counted[word] for word in ("loop", "function", "no")}

    def files(self) -> Counter[str]:
        """File of the source → vectorised places in it."""
        return Counter(file for file, _, _ in self.places)

    def reasons(self) -> Counter[str]:
        """Reason → missed places of the source; a place that was vectorised somewhere is none."""
        missed = {loop.place: loop.reason for loop in self.loops if loop.reason}
        return Counter(why for place, why in missed.items() if place not in self.places)

    def damaged(self) -> list[str]:
        """Records that could not be read to their end."""
        return [f"{each.object}: {each.damage}" for each in self.records.objects if each.damage]

    def to_json(self) -> dict[str, Any]:
        return {
            **{key: vars(self)[key] for key in ("flags", "cflags", "image", "seconds")},
            "vectorized": {
                "places": len(self.places),
                "loops": len(self.vectors),
                "by_width_bytes": {str(width): count for width, count in self.widths().items()},
                "in_machine_code": self.in_machine_code(),
                "in_general_registers": len(self.narrow),
                "files": dict(sorted(self.files().items())),
            },
            "replaced_by_calls": self.calls,
            "missed": {
                "places": self.reasons().total(),
                "reasons": dict(self.reasons().most_common()),
            },
            "damaged": self.damaged(),
            "records": self.records.to_json(),
        }


@dataclass(frozen=True)
class Survey:
    """Sides in the order in which they were asked for."""

    source: str
    version: str
    compiler: str
    sides: Annotated[tuple[Side, ...], Field(min_length=1)]
    kind: Literal["vectorization"] = "vectorization"
    schema: Literal[1] = 1
    __pydantic_config__ = AS_WRITTEN

    def files(self) -> list[tuple[str, list[int]]]:
        """(file, vectorised places on each side), the one with most on any side first."""
        rows = _by_side([side.files() for side in self.sides])
        return sorted(rows, key=lambda row: (-max(row[1]), -sum(row[1]), row[0]))

    def reasons(self) -> list[tuple[str, list[int]]]:
        """(reason, missed places on each side), the commonest first."""
        rows = _by_side([side.reasons() for side in self.sides])
        return sorted(rows, key=lambda row: (-max(row[1]), row[0]))

    def to_json(self) -> dict[str, Any]:
        """Totals for programs, and every loop, to count again."""
        keys = ("schema", "kind", "source", "version", "compiler")
        sides = [side.to_json() for side in self.sides]
        return {key: vars(self)[key] for key in keys} | {"sides": sides}


def _by_side(counts: Sequence[Counter[str]]) -> list[tuple[str, list[int]]]:
    return [(key, [count[key] for count in counts]) for key in set().union(*counts)]


def check(base: Variant, sets: Mapping[str, str], tree: Tree) -> dict[str, Recipe]:
    """A recipe for each set of flags on top of the variant's own.

    UsageError, before anything is built, where the compiler does not know a flag."""
    recipes = {}
    for name, cflags in sets.items():
        flags = f"{base.cflags} {cflags}".strip()
        recipes[name] = recipe_of(replace(base, name=name, cflags=flags), tree)
        refuse_unknown(recipes[name].compiler, name, cflags)
    return recipes


def refuse_unknown(compiler: Compiler, name: str, cflags: str) -> None:
    """UsageError for another compiler than GCC, or with its words where it takes no such flags."""
    if compiler.clang:
        raise UsageError(f"{compiler.name}: loops are surveyed by GCC, whose dumps kdyno reads")
    # Flags of an experiment can name plugins and programs.
    argv = [compiler.path, *cflags.split(), "-x", "c", "-c", "-o", "/dev/null", "/dev/null"]
    result = capture(confined(argv, reads=[Path(compiler.path)]))
    if result.status != 0:
        lines = "; ".join(line for line in result.output.splitlines() if "error" in line)
        raise UsageError(f"{compiler.name} does not take the flags of {name!r} ({cflags}): {lines}")


def survey(
    base: Variant,
    sets: Mapping[str, str],
    recipes: Mapping[str, Recipe],
    cache: Path,
    *,
    jobs: int | None = None,
    report: Report = silent,
) -> Survey:
    """One build for each set of flags; what was surveyed before is not built again."""
    sides = []
    for number, (flags, recipe) in enumerate(recipes.items(), start=1):
        image = find(cache, recipe)
        cached = image is not None and image.has(EXTRACT)
        began_s = time.monotonic()
        name = flags if len(sets) == 1 else f"{flags} ({number} of {len(sets)})"
        image = build(recipe, cache, name=name, jobs=jobs, report=report, extract=EXTRACT)
        seconds = None if cached else round(time.monotonic() - began_s, 2)
        records = read(image.folder / FILE)
        sides.append(Side(flags, sets[flags], records, image.digest, seconds))
    return Survey(base.source, recipe.tree.version, recipe.compiler.version, tuple(sides))


def survey_of_folder(folder: Path) -> Survey:
    """What the user's own build left in its object tree. Nothing there is changed."""
    tree = folder.resolve()  # in the sandbox a relative path is one of another folder
    records = records_of(tree, None)
    if not records.objects:
        raise UsageError(
            f"{folder}: no optimisation record below it. Build with GCC and "
            'KCFLAGS="-fdump-tree-vect-missed-optimized"'
        )
    return Survey(str(folder), "", "gcc", (Side(tree.name, "", records),))


def survey_of_file(path: Path) -> Survey:
    """A survey as ``--json`` wrote it; ToolError when it is damaged."""
    return parse(Survey, content(path, _LARGEST_BYTES, "survey", ToolError), path)


def records_of(tree: Path, source: str | None = BUILD_SOURCE) -> Records:
    """Everything the compiler wrote into the object tree, checked against the machine code.

    source: the tree's path as the compiler saw it. In a build of kdyno's what the compiler wrote
    is deleted and the tree keeps the records, since the next build in a copy of it compiles only
    what differs. None: the user's own tree, in which nothing is changed."""
    kept: dict[str, ObjectRecord] = {}
    if source is not None and (tree / _LEFT).is_file():
        kept = {each.object: each for each in read(tree / _LEFT).objects}
    files = files_of(tree)
    records = {name: read_object(name, own, source or "") for name, own in files.items()}
    # Paths as in the source tree, whose root is what stands before an object's own source. One that
    # has loops of headers only is read with the others' root.
    roots = {name: root for name, record in records.items() if (root := _root(record)) is not None}
    common = next((root for root, _ in Counter(roots.values()).most_common(1)), None)
    for name, record in records.items():
        root = roots.get(name, common)
        prefix = f"{root}/" if root is not None else ""
        loops = [loop._replace(file=loop.file.removeprefix(prefix)) for loop in record.loops]
        path = tree / name
        is_object = path.is_file() and not path.is_symlink()
        if is_object and any(loop.is_vector for loop in loops):
            code = code_of(path)
            loops = [checked(loop, code) for loop in loops]
        kept[name] = record._replace(loops=tuple(loops))
        if source is not None:
            for file in files[name]:
                file.unlink()
    whole = Records(tuple(kept[name] for name in sorted(kept)))
    if source is not None:
        leavings.write(tree / _LEFT, packed(whole))
    return whole


def _root(record: ObjectRecord) -> str | None:
    """Of the source tree, as the loops of the object's own source have it; None: it has none."""
    own = f"/{record.object.rpartition('.')[0]}.c"
    files = (loop.file for loop in record.loops if loop.file.endswith(own))
    return next((file.removesuffix(own) for file in files), None)


EXTRACT = Extract(FILE, FLAGS, lambda tree, file: file.write_bytes(packed(records_of(tree))))
"""What a survey asks of a build."""


def packed(records: Records) -> bytes:
    """Compressed, the same bytes for the same records."""
    text = json.dumps(records.to_json(), separators=(",", ":"))
    return gzip.compress(text.encode(), 6, mtime=0)


def read(file: Path) -> Records:
    """ToolError names a file that is damaged, and how to get it again."""
    try:
        # Some kilobytes unpack to any size.
        packed_bytes = io.BytesIO(leavings.read(file.parent, file.name))
        text = gzip.GzipFile(fileobj=packed_bytes).read(_LARGEST_BYTES + 1)
        if len(text) > _LARGEST_BYTES:
            raise ToolError(f"unpacked it is larger than {_LARGEST_BYTES >> 20} MB")
        return parse(Records, text, file)
    except (OSError, EOFError, ToolError, gzip.zlib.error) as problem:  # type: ignore[attr-defined]
        raise ToolError(
            f"{file}: this record of a build is damaged ({problem}). Delete it: the next survey "
            "builds that kernel again"
        ) from None


@dataclass(frozen=True)
class HotFunction:
    """A function of the kernel with its loops. seconds: mean per profiled boot."""

    function: str
    seconds: float
    share: float
    """Of all the kernel's own seconds."""
    missed: tuple[Loop, ...]


@dataclass(frozen=True)
class Hot:
    """Where the kernel of a profile spends its time."""

    variant: str
    method: str
    total_s: float
    shares: Mapping[str, float]
    """Of the kernel's seconds in functions with a loop that is ``missed``; else with a
    ``vectorized`` one; else with neither: ``none``. They add up to 1."""
    missed: tuple[HotFunction, ...]
    """Functions with a missed loop, the hottest first."""


def join(loops: Sequence[Loop], profile: Profile) -> Hot:
    """The kernel's functions of ``profile`` with their loops.

    By name, without what compilers add to the names of copies (``.isra.0``, ``.part.1``): the
    profile may come from the kernel without vectors, where other copies were made. A static
    function that shares its name with another gets the loops of both."""
    by_function: dict[str, list[Loop]] = {}
    for loop in loops:
        by_function.setdefault(stem(loop.function), []).append(loop)
    spent: defaultdict[str, float] = defaultdict(float)
    for where, function in profile.names:
        if where == "kernel":
            spent[stem(function)] += profile.mean_s(where, function)
    total_s = sum(spent.values())
    shares = dict.fromkeys(("missed", "vectorized", "none"), 0.0)
    functions = []
    for function, seconds_s in sorted(spent.items(), key=lambda row: (-row[1], row[0])):
        here = by_function.get(function, [])
        places = {loop.place for loop in here if loop.is_vector}
        missed = dict.fromkeys(loop for loop in here if loop.reason and loop.place not in places)
        share = seconds_s / total_s if total_s else 0.0
        shares["missed" if missed else "vectorized" if places else "none"] += share
        if missed:
            functions.append(HotFunction(function, seconds_s, share, tuple(missed)))
    return Hot(profile.variant, profile.method, total_s, shares, tuple(functions))
