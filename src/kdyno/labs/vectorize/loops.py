# SPDX-License-Identifier: MIT
"""One loop as a compiler speaks of it, and all of one object file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kdyno.errors import BuildError
from kdyno.kernels import leavings

REGISTER = {16: "xmm", 32: "ymm", 64: "zmm"}
"""Width of a vector in bytes → the registers that hold it. Narrower "vectors" are integers."""


@dataclass(frozen=True)
class Loop:
    """A loop in the function that it ended up in: inlined twice, it is there twice.

    file, line, column: where the source has it. width_bytes: of its widest vectors; 0: missed.
    """

    file: str
    line: int
    column: int
    function: str
    width_bytes: int = 0
    lanes: int = 0
    """Elements of a vector, where the compiler tells those and not bytes (clang)."""
    epilogue_bytes: int = 0
    """Width of the vectorised rest loop behind it; 0: the rest is scalar."""
    library: bool = False
    """Not vectorised because it became a call of memset, memcpy or the like."""
    reason: str = ""
    """Why it was missed: a key of reasons.REASONS."""
    words: str = ""
    """The compiler's own words for that."""
    seen: str = ""
    """What the machine code has: "loop" such registers inside a loop of the function, "function"
    elsewhere in it, "no" nowhere, "" not looked at."""

    @property
    def place(self) -> tuple[str, int, int]:
        return (self.file, self.line, self.column)

    @property
    def is_vector(self) -> bool:
        """Done in vector registers, by the compiler's word: 8 bytes fit a general register."""
        return self.width_bytes in REGISTER


@dataclass(frozen=True)
class ObjectRecord:
    """What the compiler said of one object; ``object`` is its path in the tree."""

    object: str
    loops: tuple[Loop, ...] = ()
    damage: str = ""
    """Why the record, or its end, cannot be read; the loops before it count."""


_MOST_WORDS = 300


def in_tree(file: str, source: str) -> str:
    """A path as a compiler wrote it, from the root of the tree that it saw as ``source``."""
    return file.removeprefix(f"{source}/").removeprefix("./")


def record_of(
    name: str, files: Iterable[Path], loops_of: Callable[[Path, str], tuple[list[Loop], str]]
) -> ObjectRecord:
    """All of one object. loops_of: a file and its text → its loops, and what is wrong with it."""
    loops: list[Loop] = []
    damage = ""
    for file in files:
        try:
            text = leavings.read(file.parent, file.name).decode("utf-8", "replace")
        except OSError as problem:
            damage = f"{file.name}: {problem.strerror}"
            continue
        except BuildError as problem:
            damage = str(problem)
            continue
        found, wrong = loops_of(file, text)
        loops += (replace(loop, words=loop.words[:_MOST_WORDS]) for loop in found)
        damage = f"{file.name}: {wrong}" if wrong else damage
    return ObjectRecord(name, tuple(loops), damage)


@dataclass(frozen=True)
class Records:
    """Everything a build left behind. compiler: "gcc" or "clang"."""

    compiler: str
    objects: tuple[ObjectRecord, ...] = field(default_factory=tuple)

    @property
    def loops(self) -> list[Loop]:
        return [loop for each in self.objects for loop in each.loops]


_FIELDS = tuple(Loop.__dataclass_fields__)


def to_json(records: Records) -> dict[str, Any]:
    """Columns once and loops as rows: a kernel has some ten thousand."""
    return {
        "schema": 1,
        "kind": "loops",
        "compiler": records.compiler,
        "columns": list(_FIELDS),
        "objects": [
            [
                each.object,
                each.damage,
                [[getattr(loop, it) for it in _FIELDS] for loop in each.loops],
            ]
            for each in records.objects
        ],
    }


def from_json(data: Any) -> Records:
    """ValueError for anything that ``to_json`` did not write."""
    try:
        if data["schema"] != 1 or data["kind"] != "loops" or data["columns"] != list(_FIELDS):
            raise ValueError("no record of loops that this kdyno knows")
        objects = tuple(
            ObjectRecord(str(name), tuple(_loop(row) for row in rows), str(damage))
            for name, damage, rows in data["objects"]
        )
        return Records(str(data["compiler"]), objects)
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"no record of loops: {problem!r}") from None


def _loop(row: Any) -> Loop:
    values = dict(zip(_FIELDS, row, strict=True))
    for name, value in values.items():
        wanted: type = type(getattr(_BLANK, name))
        if type(value) is not wanted:
            raise ValueError(f"{name} is {value!r}, not {wanted.__name__}")
    return Loop(**values)


_BLANK = Loop("", 0, 0, "")
