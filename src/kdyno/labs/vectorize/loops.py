# SPDX-License-Identifier: MIT
"""Loops as GCC describes them, why they were left alone, and what the machine code has: a
compiler's word alone is not enough, for it also says "vectorized" of two ints moved in one 64-bit
general register.

Read are the dumps of its vectoriser; ``-fsave-optimization-record`` writes down every pass, and
doubled the time of a compile where these dumps added a twentieth (GCC 12.2, CPU seconds)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kdyno.command import capture, require
from kdyno.errors import BuildError, ToolError
from kdyno.kernels import leavings
from kdyno.sandbox import confined
from kdyno.store.reading import AS_WRITTEN

REGISTER = {16: "xmm", 32: "ymm", 64: "zmm"}
"""Width of a vector in bytes → the registers that hold it. Narrower "vectors" are integers."""
_MOST_WORDS = 300


class Loop(NamedTuple):
    """A loop in the function that it ended up in: inlined twice, it is there twice.

    file, line, column: where the source has it. width_bytes: of its widest vectors; 0: missed."""

    file: str
    line: int
    column: int
    function: str
    width_bytes: int = 0
    epilogue_bytes: int = 0
    """Width of the vectorised rest loop behind it; 0: the rest is scalar."""
    library: bool = False
    """Not vectorised because it became a call of memset, memcpy or the like."""
    reason: str = ""
    """Why it was missed: a key of REASONS."""
    words: str = ""
    """The compiler's own words for that."""
    in_code: str = ""
    """What the machine code has: "loop" such registers inside a loop of the function, "function"
    elsewhere in it, "no" nowhere, "" not looked at."""

    @property
    def place(self) -> tuple[str, int, int]:
        return (self.file, self.line, self.column)

    @property
    def is_vector(self) -> bool:
        """Done in vector registers, by the compiler's word: 8 bytes fit a general register."""
        return self.width_bytes in REGISTER


class ObjectRecord(NamedTuple):
    """What the compiler wrote about one object; ``object`` is its path in the tree."""

    object: str
    damage: str = ""
    """Why the record, or its end, cannot be read; the loops before it count."""
    loops: tuple[Loop, ...] = ()


@dataclass(frozen=True)
class Records:
    """Everything a build left behind."""

    objects: tuple[ObjectRecord, ...]
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
        return {key: vars(self)[key] for key in ("schema", "kind", "columns", "objects")}


OTHER = "other"
_GCC: dict[str, Any] = tomllib.loads(Path(__file__).with_name("gcc.toml").read_text("utf-8"))
REASONS: Mapping[str, str] = {
    **{name: reason["help"] for name, reason in _GCC["reason"].items()},
    OTHER: "other",
}
_RULES = {
    name: re.compile("|".join(reason["words"]), re.IGNORECASE)
    for name, reason in _GCC["reason"].items()
}
_EMPTY = re.compile(rf"(?:{'|'.join(_GCC['empty'])})\.?\s*$")
_ASIDE = re.compile("|".join(_GCC["aside"]))


def reason_of(messages: Iterable[str]) -> tuple[str, str]:
    """(reason, the compiler's words) of the messages about one missed loop, in their order.

    GCC tries every vector width and says on the way what would not stop it alone: the last
    message that says what did stop it counts, the asides only where there is no other."""
    every = [text.strip() for text in messages]
    telling = [text for text in every if not _EMPTY.match(text)]
    firm = [text for text in telling if not _ASIDE.search(text)]
    vague = [text for text in firm if text.startswith("not vectorized: loop contains function")]
    specific = [text for text in firm if text not in vague]
    for candidates in (specific, telling if not firm else [], vague, telling, every):
        for text in reversed(candidates):
            for name, rule in _RULES.items():
                if rule.search(text):
                    return name, text
    return OTHER, (telling or every or [""])[-1]


FLAGS = "-fdump-tree-vect-missed-optimized -fdump-tree-ldist-optimized"
"""What a build is asked for beside its own."""


def read_object(name: str, files: Iterable[Path], source: str) -> ObjectRecord:
    """All of the object ``name``. source: the tree's path as the compiler saw it."""
    loops: list[Loop] = []
    damage = ""
    for file in files:
        try:
            text = leavings.read(file.parent, file.name).decode("utf-8", "replace")
        except OSError as problem:
            damage = f"{file.name}: {problem.strerror}"
        except BuildError as problem:
            damage = str(problem)
        else:
            own, wrong = gcc_loops(file, text, source)
            loops += (loop._replace(words=loop.words[:_MOST_WORDS]) for loop in own)
            damage = f"{file.name}: {wrong}" if wrong else damage
    return ObjectRecord(name, damage, tuple(loops))


def _settled(loops: Iterable[Loop]) -> list[Loop]:
    """One of each loop, function and kind: the one with the widest vectors. Compilers come back to
    some loops: a loop that was vectorised once is vectorised."""
    best: dict[tuple[object, ...], Loop] = {}
    for loop in loops:
        key = (*loop[:4], loop.library)
        if key not in best or best[key][4:6] < loop[4:6]:
            best[key] = loop
    return list(best.values())


_DUMP = re.compile(r"^(?P<name>.+)\.[a-z]+\.\d+t\.(?P<pass>vect|ldist)$")
_MESSAGE = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d{1,9}):(?P<column>\d{1,9}): "
                      r"(?P<kind>missed|optimized): +(?P<text>.*)$")  # fmt: skip
_FUNCTION = re.compile(r"^;; Function (?P<shown>.*) \((?P<symbol>[^,]+), funcdef_no=")
_WIDTH = re.compile(r"^loop vectorized using (?P<bytes>\d{1,9}) byte vectors")
_LIBRARY = re.compile(r"transformed into a builtin|(?P<calls>\d+) library calls?")


def files_of(tree: Path) -> dict[str, list[Path]]:
    """The path in the object tree of every object with a record → the files of that."""
    objects: dict[str, list[Path]] = {}
    for path in sorted(tree.rglob("*t.[vl][ed][ci][ts]*")):
        if match := _DUMP.match(path.name):
            name = path.relative_to(tree).parent / f"{match['name']}.o"
            objects.setdefault(str(name), []).append(path)
    return objects


def gcc_loops(file: Path, text: str, source: str) -> tuple[list[Loop], str]:
    """Of a dump of ``vect`` what the pass did with each loop; of one of ``ldist`` the loops that
    it made calls of memset, memcpy and the like; and what is wrong with the dump."""
    loops: list[Loop] = []
    function = ""
    pending: list[str] = []
    for line in text.splitlines():
        if line.startswith(";; Function"):
            match = _FUNCTION.match(line)
            function, pending = (match["symbol"].strip() if match else ""), []
            continue
        message = _MESSAGE.match(line)
        if message is None:
            continue
        words, file_name = message["text"].strip(), message["file"]
        file_name = file_name.removeprefix(f"{source}/").removeprefix("./")
        where = file_name, int(message["line"]), int(message["column"]), function
        if file.suffix == ".ldist":
            if (match := _LIBRARY.search(words)) and match["calls"] != "0":
                loops.append(Loop(*where, library=True))
        elif width := _WIDTH.match(words):
            loop = Loop(*where, width_bytes=int(width["bytes"]))
            last = loops[-1] if loops else loop
            # The rest loop is named right behind its loop, at the same place, and is narrower.
            same = last[:4] == where and not last.epilogue_bytes
            if same and 0 < loop.width_bytes < last.width_bytes:
                loops[-1] = last._replace(epilogue_bytes=loop.width_bytes)
            else:
                loops.append(loop)
            pending = []
        elif words == "couldn't vectorize loop":
            reason, why = reason_of(pending)
            loops.append(Loop(*where, reason=reason, words=why))
            pending = []
        elif message["kind"] == "missed":
            pending.append(words)
    lines = [line for line in text[-4000:].splitlines() if line.strip()]
    is_cut = bool(lines) and not (text.endswith("\n") and lines[-1] == "}")
    return _settled(loops), "ends in the middle of a function" if is_cut else ""


_HEAD = re.compile(r"^[0-9a-f]+ <(?P<symbol>[^>]+)>:$")
_LINE = re.compile(r"^\s*(?P<at>[0-9a-f]+):\t(?P<code>.*)$")
_JUMP = re.compile(r"^(?:bnd |notrack )?(?:j[a-z]+|loop[a-z]*)\s+(?P<to>[0-9a-f]+)\b")
_USE = re.compile(r"%([xyz])mm\d")
_BYTES = {"x": 16, "y": 32, "z": 64}
_PART = re.compile(r"\.(?:part|constprop|isra|cold|lto_priv|llvm)\b.*$")


@dataclass(frozen=True)
class Code:
    """Widths in bytes of the vector registers of one function: anywhere, and within loops, for
    straight copies of structures use them too."""

    anywhere: frozenset[int] = frozenset()
    in_loops: frozenset[int] = frozenset()


def code_of(path: Path) -> dict[str, Code]:
    """Symbol → its registers, of an object. ToolError where objdump is missing or refuses it."""
    objdump = require("objdump", "to see what a compiler made of loops")
    argv = [objdump, "-d", "--no-show-raw-insn", str(path)]
    result = capture(confined(argv, reads=[path]), apart=True)
    if result.status != 0:
        raise ToolError(f"objdump refuses {path}: {result.complaint.strip()}")
    return parse_code(result.output)


def parse_code(text: str) -> dict[str, Code]:
    """``objdump -d --no-show-raw-insn`` → symbol → its registers."""
    functions: dict[str, list[tuple[int, str]]] = {}
    lines: list[tuple[int, str]] = []
    for line in text.splitlines():
        if head := _HEAD.match(line):
            lines = functions[head["symbol"]] = []
        elif match := _LINE.match(line):
            lines.append((int(match["at"], 16), match["code"]))
    return {symbol: _registers(lines) for symbol, lines in functions.items()}


def _registers(lines: list[tuple[int, str]]) -> Code:
    used: list[tuple[int, int]] = []
    loops: list[tuple[int, int]] = []
    for at, code in lines:
        used += [(at, _BYTES[letter]) for letter in set(_USE.findall(code))]
        jump = _JUMP.match(code)
        # Backwards within the function: a loop from there to here.
        if jump and lines[0][0] <= int(jump["to"], 16) <= at:
            loops.append((int(jump["to"], 16), at))
    inside = {width for at, width in used if any(low <= at <= high for low, high in loops)}
    return Code(frozenset(width for _, width in used), frozenset(inside))


def stem(symbol: str) -> str:
    """A symbol without what the compiler adds to the names of the copies that it makes."""
    return _PART.sub("", symbol)


def checked(loop: Loop, code: Mapping[str, Code]) -> Loop:
    """The loop with ``in_code`` set: where its function has registers of its width."""
    if not loop.is_vector:
        return loop
    own = [each for name, each in code.items() if stem(name) == stem(loop.function)]
    inside = {width for each in own for width in each.in_loops}
    anywhere = {width for each in own for width in each.anywhere}
    width = loop.width_bytes
    place = "loop" if width in inside else "function" if width in anywhere else "no"
    return loop._replace(in_code=place)
