# SPDX-License-Identifier: MIT
"""Making a survey: a build for each set of flags, or what other builds left, read into records."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kdyno import whole
from kdyno.command import Finished, capture
from kdyno.confined import confined
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Variant
from kdyno.kernels import leavings
from kdyno.kernels.build import build
from kdyno.kernels.compiler import Compiler
from kdyno.kernels.image import Extract, find, has
from kdyno.kernels.progress import Report, silent
from kdyno.kernels.recipe import Recipe, recipe_of
from kdyno.kernels.source import Tree
from kdyno.kernels.view import BUILD_SOURCE
from kdyno.labs.vectorize import clang, disassembly, gcc
from kdyno.labs.vectorize.flags import FlagSet
from kdyno.labs.vectorize.loops import ObjectRecord, Records, from_json, to_json
from kdyno.labs.vectorize.survey import Side, Survey, survey_from_json

FILE = "loops.json.gz"
_LEFT = ".kdyno-loops.json.gz"


def extract(compiler: Compiler) -> Extract:
    """What a survey asks of a build."""
    module = clang if compiler.clang else gcc
    word = "clang" if compiler.clang else "gcc"

    def collect(tree: Path, file: Path) -> None:
        write(records_of(tree, word), file)

    return Extract(FILE, module.FLAGS, collect)


def records_of(tree: Path, compiler: str, source: str | None = BUILD_SOURCE) -> Records:
    """Everything the compiler wrote into the object tree, checked against the machine code.

    source: the tree's path as the compiler saw it. In a build of kdyno's what the compiler wrote
    is deleted and the tree keeps the records, since the next build in a copy of it compiles only
    what differs. None: a tree of somebody else's, in which nothing is changed.
    """
    module = clang if compiler == "clang" else gcc
    kept = {} if source is None else {each.object: each for each in _earlier(tree)}
    for name, files in module.dumps(tree):
        found = _without_root(module.read(name, files, source or ""))
        kept[name] = _with_code(tree, found)
        if source is not None:
            for file in files:
                file.unlink()
    records = Records(compiler, tuple(kept[name] for name in sorted(kept)))
    if source is not None:
        leavings.write(tree / _LEFT, _packed(records))
    return records


def _without_root(record: ObjectRecord) -> ObjectRecord:
    """Paths as in the source tree, whose root is what stands before the object's own source.

    clang tells paths below the last folder that sources and objects share.
    """
    own = f"/{record.object.rpartition('.')[0]}.c"
    for loop in record.loops:
        if loop.file.endswith(own):
            root = loop.file.removesuffix(own) + "/"
            shorter = (replace(it, file=it.file.removeprefix(root)) for it in record.loops)
            return replace(record, loops=tuple(shorter))
    return record


def _earlier(tree: Path) -> tuple[ObjectRecord, ...]:
    left = tree / _LEFT
    return read(left).objects if left.is_file() else ()


def _with_code(tree: Path, record: ObjectRecord) -> ObjectRecord:
    path = tree / record.object
    if not _is_object(path) or not any(loop.is_vector or loop.lanes for loop in record.loops):
        return record
    code = disassembly.disassemble([path])[path]
    loops = tuple(disassembly.checked(loop, code) for loop in record.loops)
    return ObjectRecord(record.object, loops, record.damage)


def _is_object(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def write(records: Records, file: Path) -> None:
    """Compressed, the same bytes for the same records."""
    file.write_bytes(_packed(records))


def _packed(records: Records) -> bytes:
    text = json.dumps(to_json(records), separators=(",", ":"))
    return gzip.compress(text.encode(), 6, mtime=0)


def read(file: Path) -> Records:
    """ToolError names a file that is damaged, and how to get it again."""
    try:
        return from_json(json.loads(gzip.decompress(leavings.read(file.parent, file.name))))
    except (OSError, EOFError, ValueError, gzip.zlib.error) as problem:  # type: ignore[attr-defined]
        raise ToolError(
            f"{file}: this record of a build is damaged ({problem}). Delete it: the next survey "
            "builds that kernel again"
        ) from None


_LARGEST_BYTES = 256 << 20


def check(base: Variant, sets: Sequence[FlagSet], tree: Tree) -> tuple[Recipe, ...]:
    """A recipe for each set of flags on top of the variant's own.

    UsageError, before anything is built, where the compiler does not know a flag.
    """
    recipes = []
    for each in sets:
        flags = f"{base.cflags} {each.cflags}".strip()
        recipes.append(recipe_of(replace(base, name=each.name, cflags=flags), tree))
    for each, recipe in zip(sets, recipes, strict=True):
        refuse_unknown(recipe.compiler, each, extract(recipe.compiler))
    return tuple(recipes)


def refuse_unknown(compiler: Compiler, flags: FlagSet, wanted: Extract) -> None:
    """UsageError with the compiler's words where it takes these flags or its record's not."""
    # Flags of an experiment can name plugins and programs.
    program = Path(compiler.path)
    with whole.scratch("flags") as folder:
        # clang lays its record beside the object, which therefore cannot be /dev/null.
        empty = ["-x", "c", "-c", "-o", str(folder / "empty.o"), "/dev/null"]

        def tried(words: Sequence[str]) -> Finished:
            return capture(
                confined([compiler.path, *words, *empty], reads=[program], writes=[folder])
            )

        done = tried(flags.cflags.split())
        # GCC names its dumps after the object, which is not a file here: those are left out.
        asked = [word for word in wanted.flags.split() if not word.startswith("-fdump")]
        record = tried(asked) if asked and done.status == 0 else None
    if done.status != 0:
        said = "; ".join(line for line in done.output.splitlines() if "error" in line)
        raise UsageError(
            f"{compiler.name} does not take the flags of {flags.name!r} ({flags.cflags}): {said}"
        )
    if record is not None and record.status != 0:
        raise UsageError(
            f"{compiler.name} ({compiler.version}) writes no optimisation record that kdyno reads "
            f"({wanted.flags}): {record.output.strip()}. Take GCC 9 or clang 12, or later ones"
        )


def survey(
    base: Variant,
    sets: Sequence[FlagSet],
    recipes: Sequence[Recipe],
    cache: Path,
    *,
    sandboxed: bool = True,
    jobs: int | None = None,
    report: Report = silent,
) -> Survey:
    """One build for each set of flags; what was surveyed before is not built again."""
    sides = []
    for number, (flags, recipe) in enumerate(zip(sets, recipes, strict=True), start=1):
        wanted = extract(recipe.compiler)
        there = find(cache, recipe)
        known = there is not None and has(there, wanted)
        began_s = time.monotonic()
        name = flags.name if len(sets) == 1 else f"{flags.name} ({number} of {len(sets)})"
        image = build(
            recipe, cache, name=name, sandboxed=sandboxed, jobs=jobs, report=report, extract=wanted
        )
        seconds = None if known else round(time.monotonic() - began_s, 2)
        sides.append(Side(flags, read(image.folder / FILE), image.digest, seconds))
    first = recipes[0]
    return Survey(base.source, first.tree.version, first.compiler.version, tuple(sides))


def survey_of_folder(folder: Path) -> Survey:
    """What a build of one's own left in its object tree. Nothing there is changed."""
    compiler = "clang" if next(folder.rglob("*.opt.yaml"), None) is not None else "gcc"
    records = records_of(folder, compiler, None)
    if not records.objects:
        raise UsageError(
            f"{folder}: no optimisation record below it. Build with KCFLAGS="
            '"-fdump-tree-vect-missed-optimized" (GCC) or '
            '"-fsave-optimization-record=yaml" (clang)'
        )
    return Survey(str(folder), "", compiler, (Side(FlagSet(folder.name, ""), records),))


def survey_of_file(path: Path) -> Survey:
    """A survey as ``--json`` wrote it; ToolError when it is damaged."""
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise ToolError(f"{path}: larger than {_LARGEST_BYTES >> 20} MB: that is not a survey")
        return survey_from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as problem:
        raise ToolError(f"{path}: is not a survey, or a damaged one: {problem}") from None
