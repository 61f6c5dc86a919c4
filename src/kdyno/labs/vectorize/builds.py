# SPDX-License-Identifier: MIT
"""Making a survey: one build for each set of flags, or what other builds left behind."""

from __future__ import annotations

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
from kdyno.kernels.build import build
from kdyno.kernels.compiler import Compiler
from kdyno.kernels.extract import Extract, has
from kdyno.kernels.image import find
from kdyno.kernels.progress import Report, silent
from kdyno.kernels.recipe import Recipe, recipe_of
from kdyno.kernels.source import Tree
from kdyno.labs.vectorize.collecting import FILE, extract, read, records_of
from kdyno.labs.vectorize.flags import FlagSet
from kdyno.labs.vectorize.survey import Side, Survey, survey_from_json

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
