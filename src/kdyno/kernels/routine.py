# SPDX-License-Identifier: MIT
"""The memory routines of ``kernel/memcpy/``: what each says of itself, and its kernel form.

A routine is one assembly file whose first comment block holds ``key: value`` lines. The same
file becomes ``memcpy_NAME`` in a program and ``memcpy`` in a kernel; see ``routine.h`` there.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.paths import data_root

HEADER = "routine.h"
PLACE = "arch/x86/lib/memcpy_64.S"
"""The file of the kernel tree that a routine replaces: UML and x86-64 both link it."""

_KEYS = ("help", "requires", "source", "arch")
_LINE = re.compile(r"^[ \t]*\*[ \t]*([a-z]+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]*)".*\n', re.MULTILINE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Routine:
    """One memory routine, as its file describes it."""

    name: str
    path: Path
    help: str
    requires: tuple[str, ...]
    """CPU features, named as /proc/cpuinfo names them."""
    source: str
    """The publication or the idea that it follows."""
    archs: tuple[str, ...] = ("um",)
    """Kernels it may go into. A native kernel must not touch vector registers unasked, because
    they hold a process's values; in User Mode Linux those are kept elsewhere."""

    @property
    def symbol(self) -> str:
        """Name of the function when the file is assembled for a program."""
        return "memcpy_" + self.name.replace("-", "_")


def routines_folder() -> Path:
    return data_root() / "kernel" / "memcpy"


def parse_routine(path: Path, text: str) -> Routine:
    """The routine that ``text``, the content of ``path``, describes.

    UsageError when a line is missing, empty, given twice, or unknown.
    """
    said: dict[str, str] = {}
    for key, value in _described(text):
        if key not in _KEYS:
            raise UsageError(f"{path}: unknown key {key!r}; a routine has {', '.join(_KEYS)}")
        if key in said:
            raise UsageError(f"{path}: {key!r} is given twice")
        said[key] = value
    for key in _KEYS:
        if not said.get(key):
            raise UsageError(
                f"{path}: no {key!r}; its first comment must hold a line ' * {key}: …' "
                f"(see the other files in {path.parent})"
            )
    return Routine(
        name=path.stem,
        path=path,
        help=said["help"],
        requires=tuple(said["requires"].split()),
        source=said["source"],
        archs=tuple(said["arch"].split()),
    )


def _described(text: str) -> list[tuple[str, str]]:
    for block in _COMMENT.findall(text):
        if pairs := _LINE.findall(block):
            return list(pairs)
    return []


def list_routines(folder: Path | None = None) -> tuple[Routine, ...]:
    """Every routine of ``folder`` (the project's own unless told), sorted by name."""
    where = routines_folder() if folder is None else folder
    return tuple(parse_routine(path, path.read_text("utf-8")) for path in sorted(where.glob("*.S")))


def find_routine(name: str) -> Routine:
    """The routine called ``name``; UsageError with the known ones otherwise."""
    known = {routine.name: routine for routine in list_routines()}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"memcpy = {name!r}: no such routine ({', '.join(known)}){hint}")


def kernel_source(routine: Routine, arch: str = "um") -> dict[str, str]:
    """The files (path in the tree → text) that put ``routine`` into a kernel of ``arch``.

    The text includes nothing from outside the tree: routine.h is written into it.
    UsageError when the routine may not go into such a kernel.
    """
    if arch not in routine.archs:
        raise UsageError(
            f"memcpy = {routine.name!r} cannot go into a kernel of arch {arch!r}, "
            f"only into {', '.join(routine.archs)}"
        )
    return {PLACE: flatten(routine.path)}


def flatten(path: Path) -> str:
    """The text of ``path`` with each include in quotes replaced by that file's text."""

    def inlined(match: re.Match[str]) -> str:
        included = path.parent / match[1]
        if not included.is_file():
            raise UsageError(f"{path}: includes {match[1]!r}, which is not in {path.parent}")
        return flatten(included)

    return _INCLUDE.sub(inlined, path.read_text("utf-8"))
