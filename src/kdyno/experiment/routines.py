# SPDX-License-Identifier: MIT
"""The keys ``memcpy`` and ``routines``: which memory routines a variant has."""

from __future__ import annotations

import os.path
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.experiment.model import NATIVE_COPIES, Variant
from kdyno.experiment.table import Table, is_file
from kdyno.experiment.vocabulary import Vocabulary
from kdyno.reading.mistakes import Mistakes, quoted
from kdyno.reading.position import KeyPath

OWN_MEMCPY = "stock"
"""``memcpy = "stock"``: the kernel's own routine, to undo what [kernel] asks for."""

BEST = "best"
"""``memcpy = "best"``: what is best on the CPU at hand."""


def is_file_name(name: str) -> bool:
    """Whether ``name`` means a file of the person's own and no routine of the project."""
    return "/" in name or name.endswith(".S")


def read_memcpy(table: Table, folder: Path, vocabulary: Vocabulary) -> str | None:
    """One routine or file, or of several the first that this machine's CPU can run."""
    raw = table.raw("memcpy")
    if isinstance(raw, str) and is_file_name(raw):
        return _file(table, table.at("memcpy"), raw, folder)
    allowed = tuple(dict.fromkeys((OWN_MEMCPY, BEST, *vocabulary.routines, *NATIVE_COPIES)))
    if not isinstance(raw, list):
        return table.word("memcpy", allowed, "") or None
    return _first(table, table.texts("memcpy"), allowed, folder, vocabulary)


def read_routines(
    table: Table, folder: Path, vocabulary: Vocabulary
) -> tuple[tuple[str, str], ...] | None:
    """(function, routine) pairs, sorted; None where the level does not have the key."""
    raw = table.raw("routines")
    if raw is None:
        return None
    if not isinstance(raw, dict):
        wanted = 'a table like { memset = "avx512", copy_page = "mine.S" }'
        table.wrong_type(table.at("routines"), raw, wanted)
        return None
    inner = Table(raw, table.at("routines"), table.mistakes, tuple(vocabulary.function_routines))
    found = {}
    for function, known in vocabulary.function_routines.items():
        if function not in inner:
            continue
        allowed = tuple(dict.fromkeys((OWN_MEMCPY, BEST, *known)))
        value = inner.raw(function)
        if isinstance(value, list):
            names = inner.texts(function)
            name = _first(inner, names, allowed, folder, vocabulary, f"{function}-")
        elif isinstance(value, str) and is_file_name(value):
            name = _file(inner, inner.at(function), value, folder)
        else:
            name = inner.word(function, allowed, "") or None
        if name is not None:
            found[function] = name
    return tuple(sorted(found.items()))


def with_best(
    variants: Iterable[Variant], vocabulary: Vocabulary, mistakes: Mistakes
) -> tuple[Variant, ...]:
    """The variants with a routine's name wherever one asks for the best, and why it is that one."""
    return tuple(_resolved(variant, vocabulary, mistakes) for variant in variants)


def _resolved(variant: Variant, vocabulary: Vocabulary, mistakes: Mistakes) -> Variant:
    asked = [("memcpy", variant.memcpy), *variant.routines]
    wanted = [function for function, name in asked if name == BEST]
    found: dict[str, tuple[str, str]] = {}
    for function in wanted:
        try:
            found[function] = vocabulary.best(function, variant.arch)
        except UsageError as problem:
            mistakes.add(("variant", variant.name), str(problem))
            return variant
    if not found:
        return variant
    routines = tuple(
        (function, found[function][0] if name == BEST else name)
        for function, name in variant.routines
    )
    return replace(
        variant,
        memcpy=found["memcpy"][0] if variant.memcpy == BEST else variant.memcpy,
        routines=routines,
        best=tuple((function, why) for function, (_name, why) in sorted(found.items())),
    )


def _first(
    table: Table,
    names: list[tuple[KeyPath, str]],
    allowed: tuple[str, ...],
    folder: Path,
    vocabulary: Vocabulary,
    prefix: str = "",
) -> str | None:
    wanted = []
    for path, name in names:
        if is_file_name(name):
            if file := _file(table, path, name, folder):
                wanted.append(file)
        elif name in allowed:
            wanted.append(name)
        else:
            table.mistakes.add(path, f"{quoted(name)} is not known", allowed=allowed, near=name)
    runs = [
        name
        for name in wanted
        if name in (OWN_MEMCPY, BEST, *NATIVE_COPIES)
        or vocabulary.runs_here(name if is_file_name(name) else f"{prefix}{name}")
    ]
    # None of them runs here: whoever builds refuses or skips the first, with the reason.
    return next(iter([*runs, *wanted]), None)


def _file(table: Table, path: KeyPath, name: str, folder: Path) -> str | None:
    """The file as an absolute path; the experiment's folder is where relative ones begin."""
    place = Path(os.path.normpath(folder / Path(name).expanduser()))
    if not name.endswith(".S") or not is_file(place):
        why = "a routine's file is named FILE.S" if not name.endswith(".S") else "no file"
        table.mistakes.add(path, f"{quoted(name)}: {why} {place}".rstrip(), found=name)
        return None
    return str(place)
