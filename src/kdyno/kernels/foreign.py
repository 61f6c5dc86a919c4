# SPDX-License-Identifier: MIT
"""What code a build runs that came with an experiment or a source, and who may share its products.

A kernel's build runs what its tree, patches, flags, compiler and even option texts say. In the
sandbox that harms nobody, but what it leaves (objects, cached compilations, configurations,
images) says what that code made it say. So each product belongs to the set of foreign parts that
ran, and goes to builds that run all of them anyway. Nothing foreign is in kernels that are signed
or have a published checksum, in the files that come with kdyno, and in plain options and flags.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from kdyno.experiment.model import Variant
from kdyno.kernels.config import Wish
from kdyno.kernels.routines.routine import Routine, flatten, patches_folder, routines_folder
from kdyno.kernels.source import Tree

_SOURCE = "source "
SUFFIX_LETTERS = 12
_COMPILER = re.compile(r"(?:x86_64-linux-gnu-)?(?:gcc|clang)(?:-[0-9]{1,3})?")
_FLAG = re.compile(
    r"-O(?:[0-3sgz]|fast)?|-g[0-3]?|-m(?!llvm)[a-z0-9.=_+-]+|-D[A-Za-z_]\w*(?:=\w*)?"
    r"|-f(?!plugin|pass-plugin|dump|profile|save|callgraph|sanitize|stack-usage|auto-profile)"
    r"[a-z0-9=_+-]+|-W[a-z0-9=+-]*"
)
"""Flags that name no file, no program and no further output."""
_VALUE = re.compile(r"[ynm]|-?[0-9]{1,20}|0x[0-9a-fA-F]{1,16}|\"[A-Za-z0-9 _.-]*\"")
"""Values that neither make nor a shell takes for more than text."""


def parts(
    variant: Variant, tree: Tree, routines: Iterable[Routine], wishes: Iterable[Wish]
) -> frozenset[str]:
    """The foreign parts of a variant, each under a name that its content or its place gives it."""
    found = {_SOURCE + tree.origin} if tree.origin else set()
    own = patches_folder().resolve()
    found |= {
        f"patch {_digest(patch.read_bytes())}"
        for patch in variant.patches
        if patch.resolve().parent != own
    }
    found |= {
        f"routine {_digest(flatten(routine.path).encode())}"
        for routine in routines
        if routine.path.resolve().parent != routines_folder().resolve()
    }
    flags = [variant.cflags, *(flags for _file, flags in variant.file_cflags)]
    found |= {
        f"flag {word}" for line in flags for word in line.split() if not _FLAG.fullmatch(word)
    }
    found |= {f"option {wish.line}" for wish in wishes if not _VALUE.fullmatch(wish.value)}
    if not _COMPILER.fullmatch(variant.compiler):
        found.add(f"compiler {variant.compiler}")
    return frozenset(found)


def source_of(foreign: frozenset[str]) -> frozenset[str]:
    """The part that is the source's own: what every variant of it shares."""
    return frozenset(part for part in foreign if part.startswith(_SOURCE))


def suffix(foreign: frozenset[str]) -> str:
    """For the names of files and folders that belong to these parts; empty where there are none."""
    if not foreign:
        return ""
    names = "\0".join(sorted(foreign)).encode("utf-8", "surrogateescape")
    return f"-{_digest(names)[:SUFFIX_LETTERS]}"


def compile_cache(cache: Path, foreign: frozenset[str]) -> tuple[Path, bool]:
    """The folder of compilations that a build may read, and whether it may add to them.

    One for all signed sources, one for each other source. What an experiment adds to a source only
    reads the source's, so that a patch cannot change what a build without it finds there.
    """
    home = source_of(foreign)
    return cache / "ccache" / f"signed{suffix(home)}".removeprefix("signed-"), foreign == home


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
