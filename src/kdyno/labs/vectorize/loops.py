# SPDX-License-Identifier: MIT
"""Loops as GCC and clang describe them, why they were left alone, and what the machine code has: a
compiler's word alone is not enough, for it also says "vectorized" of two ints moved in one 64-bit
general register.

GCC: the dumps of the vectoriser with what it did and what it missed. Not
``-fsave-optimization-record``: that writes down every pass, and doubled the time of a compile where
these dumps added a twentieth (GCC 12.2, a dozen kernel files, CPU seconds).

clang: ``-fsave-optimization-record=yaml`` of its loop vectoriser only, a stream of YAML documents
of one fixed shape, read here line by line: a whole kernel's are some hundred thousand lines, and a
general YAML reader would take longer than the compile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
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
        keys = ("schema", "kind", "compiler", "columns", "objects")
        return {key: vars(self)[key] for key in keys}


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

_RULES = tuple(
    (name, re.compile(rule, re.IGNORECASE))
    for name, rule in (
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
        ("aliasing", r"versioning for alias|possible alias|cannot check memory"
                     r"|unsafe dependent memory|runtime (?:alias|memory) check"
                     r"|cannot prove it is safe to reorder memory"),
        ("reduction", r"def-use cycle|reduc|could not be identified as|used outside (?:of )?the "
                      r"loop|unsupported use in stmt|value that could not"),
        ("layout", r"not consecutive|array mode|strided|interleav|bad data references|load_lanes"
                   r"|store_lanes|permut"),
        ("type", r"no vectype|unsupported data-type|not supported|cannot be vectorized|unsupported"
                 r"|can't determine vectorization factor|operation"),
    )
)  # fmt: skip
# Followed by the actual reason, or printed for every loop that is given up.
_EMPTY = re.compile(
    r"(?:bad loop form|couldn't vectorize loop|bad data dependence|bad data references"
    r"|loop not vectorized|bad operation or unsupported loop bound)\.?\s*$"
)
# Printed on the way, also for loops that are vectorised.
_ASIDE = re.compile(
    r"misalign|epilogue loop|versioning for alias required|alignment may not|not consecutive access"
    r"|Unsupported pattern|Unknown def-use cycle pattern|SLP|use not simple|original stmt"
    r"|no array mode|lanes<|unexpected pattern|evolution of|reduction: not"
    r"|Loop costings may not|worthwhile"
)


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
            for name, rule in _RULES:
                if rule.search(text):
                    return name, text
    return OTHER, (telling or every or [""])[-1]


@dataclass(frozen=True)
class Dialect:
    """How a compiler is asked for its records, and how they are found and read."""

    flags: str
    files: Callable[[Path], Mapping[str, list[Path]]]
    """An object tree → the path in it of every object with a record → the files of that."""
    loops: Callable[[Path, str, str], tuple[list[Loop], str]]
    """(file, its text, the tree's path as the compiler saw it) → its loops, and what is wrong."""

    def read(self, name: str, files: Iterable[Path], source: str) -> ObjectRecord:
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
                own, wrong = self.loops(file, text, source)
                loops += (loop._replace(words=loop.words[:_MOST_WORDS]) for loop in own)
                damage = f"{file.name}: {wrong}" if wrong else damage
        return ObjectRecord(name, damage, tuple(loops))


def _in_tree(file: str, source: str) -> str:
    """A path as a compiler wrote it, from the root of the tree that it saw as ``source``."""
    return file.removeprefix(f"{source}/").removeprefix("./")


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
_MESSAGE = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+): "
                      r"(?P<kind>missed|optimized): +(?P<text>.*)$")  # fmt: skip
_FUNCTION = re.compile(r"^;; Function (?P<shown>.*) \((?P<symbol>[^,]+), funcdef_no=")
_WIDTH = re.compile(r"^loop vectorized using (?P<bytes>\d+) byte vectors")
_LIBRARY = re.compile(r"transformed into a builtin|(?P<calls>\d+) library calls?")


def _gcc_files(tree: Path) -> dict[str, list[Path]]:
    objects: dict[str, list[Path]] = {}
    for path in sorted(tree.rglob("*t.[vl][ed][ci][ts]*")):
        if match := _DUMP.match(path.name):
            name = path.relative_to(tree).parent / f"{match['name']}.o"
            objects.setdefault(str(name), []).append(path)
    return objects


def gcc_loops(file: Path, text: str, source: str) -> tuple[list[Loop], str]:
    """Of a dump of ``vect`` what the pass did with each loop; of one of ``ldist`` the loops that
    it made calls of memset, memcpy and the like. In the dump's order."""
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
        words, file_name = message["text"].strip(), _in_tree(message["file"], source)
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


@dataclass
class _Remark:
    """One document. ``kind``: Passed, Missed or Analysis."""

    kind: str
    name: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    function: str = ""
    strings: list[str] = field(default_factory=list)
    lanes: int = 0

    @property
    def text(self) -> str:
        return "".join(self.strings).replace("\\n", " ").strip()


_KIND = re.compile(r"^--- !(\w+)$")
_WHERE = re.compile(r"^DebugLoc: +\{ File: '?(?P<file>.*?)'?, Line: (?P<line>\d+), "
                    r"Column: (?P<column>\d+) \}$")  # fmt: skip
_FIELD = re.compile(r"^(?P<key>Name|Function): +(?P<value>.*)$")
_ARGUMENT = re.compile(r"^  - (?P<key>\w+): +(?P<value>.*)$")
_VAGUE = re.compile(r"instruction cannot be vectorized|value that could not be identified")


def _clang_files(tree: Path) -> dict[str, list[Path]]:
    return {
        str(path.relative_to(tree).parent / f"{path.name.removesuffix('.opt.yaml')}.o"): [path]
        for path in sorted(tree.rglob("*.opt.yaml"))
    }


def clang_loops(_file: Path, text: str, source: str) -> tuple[list[Loop], str]:
    """What the loop vectoriser did, by its remarks."""
    wrong = ""
    if text and not text.endswith("\n...\n"):
        wrong = "ends in the middle of a remark"
        text = text[: text.rfind("\n...\n") + 5]
    loops: list[Loop] = []
    pending: list[str] = []
    for remark in _remarks(text):
        where = _in_tree(remark.file, source), remark.line, remark.column, remark.function
        if remark.kind == "Analysis":
            pending.append(remark.text.removeprefix("loop not vectorized").lstrip(": "))
        elif remark.kind == "Passed" and remark.name.startswith("ProcessLoop"):
            loops.append(Loop(*where, library=True))
        elif remark.kind == "Passed" and remark.name == "Vectorized":
            loops.append(Loop(*where, lanes=remark.lanes))
            pending = []
        elif remark.kind == "Missed" and not remark.name.startswith("Interleaving"):
            if remark.name != "MissedDetails":
                pending.append(remark.text)
            # clang goes on after what stopped it: its first word counts, and least what it says
            # of many loops.
            telling = [words for words in pending if not _VAGUE.match(words)]
            reason, why = reason_of(reversed(telling or pending))
            loops.append(Loop(*where, reason=reason, words=why))
            pending = []
    return _settled(loops), wrong


def _remarks(text: str) -> Iterator[_Remark]:
    now: _Remark | None = None
    for line in text.splitlines():
        if kind := _KIND.match(line):
            now = _Remark(kind[1])
        elif now is None:
            continue
        elif line == "...":
            yield now
            now = None
        elif where := _WHERE.match(line):
            now.file, now.line, now.column = where["file"], int(where["line"]), int(where["column"])
        elif own := _FIELD.match(line):
            setattr(now, own["key"].lower(), _bare(own["value"]))
        elif argument := _ARGUMENT.match(line):
            value = _bare(argument["value"])
            if argument["key"] == "VectorizationFactor" and value.isdigit():
                now.lanes = int(value)
            now.strings.append(value)


def _bare(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace("''", "'")
    return value


_GCC_FLAGS = "-fdump-tree-vect-missed-optimized -fdump-tree-ldist-optimized"
# A regular expression that a shell leaves alone: Kbuild does not quote it. Any match will do.
_CLANG_FLAGS = "-fsave-optimization-record=yaml -foptimization-record-passes=loop-[vi]"
DIALECTS = {
    "gcc": Dialect(_GCC_FLAGS, _gcc_files, gcc_loops),
    "clang": Dialect(_CLANG_FLAGS, _clang_files, clang_loops),
}

_HEAD = re.compile(r"^[0-9a-f]+ <(?P<symbol>[^>]+)>:$")
_LINE = re.compile(r"^\s*(?P<at>[0-9a-f]+):\t(?P<code>.*)$")
_JUMP = re.compile(r"^(?:bnd |notrack )?(?:j[a-z]+|loop[a-z]*)\s+(?P<to>[0-9a-f]+)\b")
_USE = re.compile(r"%([xyz])mm\d")
_BYTES = {"x": 16, "y": 32, "z": 64}
_NARROW = 8
"""Bytes of a general register: "vectors" in there are integer arithmetic."""
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
    """The loop with ``in_code`` set: where its function has registers of its width.

    A compiler that names no width has the widest of the function's loops."""
    if not loop.is_vector and not loop.lanes:
        return loop
    own = [each for name, each in code.items() if stem(name) == stem(loop.function)]
    inside = {width for each in own for width in each.in_loops}
    anywhere = {width for each in own for width in each.anywhere}
    width = loop.width_bytes or max(inside or anywhere or {_NARROW})
    place = "loop" if width in inside else "function" if width in anywhere else "no"
    return loop._replace(width_bytes=width, in_code=place if width != _NARROW else "")
