# SPDX-License-Identifier: MIT
"""clang's record of one object: ``-fsave-optimization-record=yaml``, of its loop vectoriser only.

A stream of YAML documents of one fixed shape, read here line by line: a whole kernel's are some
hundred thousand lines, and a general YAML reader would take longer than the compile.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kdyno.labs.vectorize.loops import Loop, ObjectRecord, in_tree, record_of
from kdyno.labs.vectorize.reasons import reason_of

# A regular expression that a shell leaves alone: Kbuild does not quote it. Any match will do.
FLAGS = "-fsave-optimization-record=yaml -foptimization-record-passes=loop-[vi]"


def dumps(tree: Path) -> Iterator[tuple[str, list[Path]]]:
    """(object's path in the tree, its record) for every object that has one."""
    for path in sorted(tree.rglob("*.opt.yaml")):
        name = path.relative_to(tree).parent / f"{path.name.removesuffix('.opt.yaml')}.o"
        yield str(name), [path]


@dataclass
class _Document:
    """One remark. ``kind``: Passed, Missed or Analysis."""

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
_FOREWORD = "loop not vectorized"


def read(name: str, files: Iterable[Path], source: str) -> ObjectRecord:
    """The loops of the object ``name``. source: the tree's path as the compiler saw it."""

    def loops_of(_file: Path, text: str) -> tuple[list[Loop], str]:
        wrong = ""
        if text and not text.endswith("\n...\n"):
            wrong = "ends in the middle of a remark"
            text = text[: text.rfind("\n...\n") + 5]
        return _loops(_documents(text), source), wrong

    return record_of(name, files, loops_of)


def _documents(text: str) -> Iterator[_Document]:
    now: _Document | None = None
    for line in text.splitlines():
        if kind := _KIND.match(line):
            now = _Document(kind[1])
        elif now is None:
            continue
        elif line == "...":
            yield now
            now = None
        elif where := _WHERE.match(line):
            now.file = where["file"]
            now.line, now.column = int(where["line"]), int(where["column"])
        elif found := _FIELD.match(line):
            setattr(now, found["key"].lower(), _bare(found["value"]))
        elif given := _ARGUMENT.match(line):
            value = _bare(given["value"])
            if given["key"] == "VectorizationFactor" and value.isdigit():
                now.lanes = int(value)
            now.strings.append(value)


def _bare(value: str) -> str:
    value = value.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1].replace("''", "'")
    return value


def _loops(documents: Iterable[_Document], source: str) -> list[Loop]:
    """One entry a loop and function; a loop that was done once is done."""
    best: dict[tuple[object, ...], Loop] = {}
    pending: list[str] = []
    for each in documents:
        loop = None
        if each.kind == "Analysis":
            pending.append(each.text.removeprefix(_FOREWORD).lstrip(": "))
        elif each.kind == "Passed" and each.name.startswith("ProcessLoop"):
            loop = _loop(each, source, library=True)
        elif each.kind == "Passed" and each.name == "Vectorized":
            loop = _loop(each, source, lanes=each.lanes)
            pending = []
        elif each.kind == "Missed" and not each.name.startswith("Interleaving"):
            if each.name != "MissedDetails":
                pending.append(each.text)
            reason, words = reason_of(_first(pending))
            loop = _loop(each, source, reason=reason, words=words)
            pending = []
        if loop is None:
            continue
        key = (*loop.place, loop.function, loop.library)
        if key not in best or best[key].lanes < loop.lanes:
            best[key] = loop
    return list(best.values())


def _first(said: list[str]) -> list[str]:
    """clang goes on after what stopped it: the first word counts, what is said of many least."""
    telling = [text for text in said if not _VAGUE.match(text)]
    return list(reversed(telling or said))


def _loop(
    each: _Document,
    source: str,
    *,
    lanes: int = 0,
    library: bool = False,
    reason: str = "",
    words: str = "",
) -> Loop:
    return Loop(
        in_tree(each.file, source),
        each.line,
        each.column,
        each.function,
        lanes=lanes,
        library=library,
        reason=reason,
        words=words,
    )
