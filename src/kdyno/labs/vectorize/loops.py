# SPDX-License-Identifier: MIT
"""One loop as a compiler speaks of it, why it was left alone, and all loops of a build."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from kdyno.store.reading import AS_WRITTEN

REGISTER = {16: "xmm", 32: "ymm", 64: "zmm"}
"""Width of a vector in bytes → the registers that hold it. Narrower "vectors" are integers."""


class Loop(NamedTuple):
    """A loop in the function that it ended up in: inlined twice, it is there twice.

    file, line, column: where the source has it. width_bytes: of its widest vectors; 0: missed.
    """

    file: str
    line: int
    column: int
    function: str
    width_bytes: int = 0
    lanes: int = 0
    """Elements of a vector, where the compiler names those and not bytes (clang)."""
    epilogue_bytes: int = 0
    """Width of the vectorised rest loop behind it; 0: the rest is scalar."""
    library: bool = False
    """Not vectorised because it became a call of memset, memcpy or the like."""
    reason: str = ""
    """Why it was missed: a key of REASONS."""
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

    @property
    def outcome(self) -> str:
        if self.library:
            return "call"
        if self.reason:
            return "missed"
        return "vectorised" if self.is_vector else "general-registers"


class ObjectRecord(NamedTuple):
    """What the compiler said of one object; ``object`` is its path in the tree."""

    object: str
    damage: str = ""
    """Why the record, or its end, cannot be read; the loops before it count."""
    loops: tuple[Loop, ...] = ()


@dataclass(frozen=True)
class Records:
    """Everything a build left behind. compiler: "gcc" or "clang"."""

    compiler: str
    objects: tuple[ObjectRecord, ...] = ()
    columns: tuple[str, ...] = Loop._fields
    kind: Literal["loops"] = "loops"
    schema: Literal[1] = 1
    __pydantic_config__ = AS_WRITTEN

    def __post_init__(self) -> None:
        if self.columns != Loop._fields:
            raise ValueError("columns are not those that this kdyno knows")

    @property
    def loops(self) -> list[Loop]:
        return [loop for each in self.objects for loop in each.loops]

    def to_json(self) -> dict[str, Any]:
        """Loops as rows: a kernel has some ten thousand."""
        return {
            key: vars(self)[key] for key in ("schema", "kind", "compiler", "columns", "objects")
        }


OTHER = "other"
REASONS: Mapping[str, str] = MappingProxyType(
    {
        "branches": "a branch or an early way out inside the loop",
        "trips": "how often it runs cannot be known before it starts (lists, strings, retries)",
        "call": "calls a function, or touches memory that cannot be followed",
        "pointers": "the next address comes out of memory: linked, not flat data",
        "dependence": "a turn needs what an earlier turn wrote",
        "aliasing": "what it reads and writes may overlap, and a test for that was not worth it",
        "volatile": "volatile, atomic or assembly inside",
        "nest": "an outer loop whose inner loops are not simple enough",
        "layout": "the elements do not lie one after the other",
        "type": "no vector instruction for this type or operation",
        "reduction": "a value carried from turn to turn in a way with no vector form",
        "short": "too few turns to fill a vector",
        "unprofitable": "possible, but slower by the compiler's estimate",
        OTHER: "other",
    }
)

_RULES = (
    ("volatile", r"volatile|__asm__|irregular stmt|atomic|ordered memory"),
    ("short", r"iteration count (?:too )?small|not have enough iterations|small trip count"
              r"|iteration count smaller"),
    ("unprofitable", r"not profitable|not worthwhile|never be profitable|not beneficial"
                     r"|cost[- ]model indicates"),
    ("branches", r"control flow|early exit|multiple exits|cannot identify array bounds"
                 r"|loop control flow is not understood|not if-convert|latch block not empty"
                 r"|switch statement"),
    ("trips", r"number of iterations cannot be computed|could not determine number of loop"
              r"|iterations is not computable|trip count"),
    ("nest", r"nested loops|inner loops|inner-loop|outerloop|loop nest|not the innermost loop"
             r"|outer loop"),
    ("pointers", r"is not affine|step unknown|linked|gather/scatter|pointer chas"),
    ("call", r"contains function calls|call instruction cannot|clobbers memory"
             r"|function call|library call|may throw|nested-cycle call"),
    ("dependence", r"data dependence|backward loop carried|dependence distance"),
    ("aliasing", r"versioning for alias|possible alias|cannot check memory|unsafe dependent memory"
                 r"|runtime (?:alias|memory) check|cannot prove it is safe to reorder memory"),
    ("reduction", r"def-use cycle|reduc|could not be identified as|used outside (?:of )?the loop"
                  r"|unsupported use in stmt|value that could not"),
    ("layout", r"not consecutive|array mode|strided|interleav|bad data references|load_lanes"
               r"|store_lanes|permut"),
    ("type", r"no vectype|unsupported data-type|not supported|cannot be vectorized|unsupported"
             r"|can't determine vectorization factor|operation"),
)  # fmt: skip
_COMPILED = tuple((name, re.compile(rule, re.IGNORECASE)) for name, rule in _RULES)
# Followed by what it means, or said of every loop that is given up.
_EMPTY = re.compile(
    r"(?:bad loop form|couldn't vectorize loop|bad data dependence|bad data references"
    r"|loop not vectorized|bad operation or unsupported loop bound)\.?\s*$"
)
# Said on the way, of loops that are vectorised as well.
_ASIDE = re.compile(
    r"misalign|epilogue loop|versioning for alias required|alignment may not|not consecutive access"
    r"|Unsupported pattern|Unknown def-use cycle pattern|SLP|use not simple|original stmt"
    r"|no array mode|lanes<|unexpected pattern|evolution of|reduction: not"
    r"|Loop costings may not|worthwhile"
)


def reason_of(messages: Iterable[str]) -> tuple[str, str]:
    """(reason, the compiler's words) of the messages about one missed loop, in their order.

    GCC tries every vector width and says on the way what would not stop it alone: the last
    message that says what did stop it counts, the asides only where there is no other.
    """
    said = [text.strip() for text in messages]
    telling = [text for text in said if not _EMPTY.match(text)]
    firm = [text for text in telling if not _ASIDE.search(text)]
    vague = [text for text in firm if text.startswith("not vectorized: loop contains function")]
    specific = [text for text in firm if text not in vague]
    for candidates in (specific, telling if not firm else [], vague, telling, said):
        for text in reversed(candidates):
            for name, rule in _COMPILED:
                if rule.search(text):
                    return name, text
    return OTHER, (telling or said or [""])[-1]
