# SPDX-License-Identifier: MIT
"""GCC's record of one object: its dump of the vectoriser with what it did and what it missed.

Not ``-fsave-optimization-record``: that writes down every pass, and doubled the time of a compile
where these dumps added a twentieth (GCC 12.2, a dozen kernel files, CPU seconds).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from kdyno.labs.vectorize.loops import Loop, ObjectRecord, in_tree, record_of
from kdyno.labs.vectorize.reasons import reason_of

FLAGS = "-fdump-tree-vect-missed-optimized -fdump-tree-ldist-optimized"
_DUMP = re.compile(r"^(?P<name>.+)\.[a-z]+\.\d+t\.(?P<pass>vect|ldist)$")
_SAID = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?P<column>\d+): "
                   r"(?P<kind>missed|optimized): +(?P<text>.*)$")  # fmt: skip
_FUNCTION = re.compile(r"^;; Function (?P<shown>.*) \((?P<symbol>[^,]+), funcdef_no=")
_WIDTH = re.compile(r"^loop vectorized using (?P<bytes>\d+) byte vectors")
_LIBRARY = re.compile(r"transformed into a builtin|(?P<calls>\d+) library calls?")
_MISSED = "couldn't vectorize loop"
_END = re.compile(r"^}$")


def dumps(tree: Path) -> Iterator[tuple[str, list[Path]]]:
    """(object's path in the tree, its dumps) for every object that has some."""
    found: dict[str, list[Path]] = {}
    for path in sorted(tree.rglob("*t.[vl][ed][ci][ts]*")):
        if match := _DUMP.match(path.name):
            name = path.relative_to(tree).parent / f"{match['name']}.o"
            found.setdefault(str(name), []).append(path)
    yield from found.items()


def read(name: str, files: Iterable[Path], source: str) -> ObjectRecord:
    """The loops of the object ``name``. source: the tree's path as the compiler saw it."""

    def loops_of(file: Path, text: str) -> tuple[list[Loop], str]:
        found = vectorised(text, source) if file.suffix == ".vect" else replaced(text, source)
        return found, "ends in the middle of a function" if is_cut(text) else ""

    return record_of(name, files, loops_of)


def vectorised(text: str, source: str) -> list[Loop]:
    """What the pass ``vect`` did with each loop, in the order of the dump."""
    found: list[Loop] = []
    function = ""
    pending: list[str] = []
    for line in text.splitlines():
        if line.startswith(";; Function"):
            match = _FUNCTION.match(line)
            function, pending = (match["symbol"].strip() if match else ""), []
            continue
        said = _SAID.match(line)
        if said is None:
            continue
        words = said["text"].strip()
        if width := _WIDTH.match(words):
            loop = _loop(said, function, source, width_bytes=int(width["bytes"]))
            last = found[-1] if found else None
            # The rest loop is told right behind its loop, at the same place, and is narrower.
            if last and _is_rest(last, loop):
                found[-1] = _loop(
                    said, function, source,
                    width_bytes=last.width_bytes, epilogue_bytes=loop.width_bytes,
                )  # fmt: skip
            else:
                found.append(loop)
            pending = []
        elif words == _MISSED:
            reason, told = reason_of(pending)
            found.append(_loop(said, function, source, reason=reason, words=told))
            pending = []
        elif said["kind"] == "missed":
            pending.append(words)
    return _settled(found)


def replaced(text: str, source: str) -> list[Loop]:
    """Loops that the pass ``ldist`` made calls of memset, memcpy and the like."""
    found = []
    function = ""
    for line in text.splitlines():
        if line.startswith(";; Function"):
            match = _FUNCTION.match(line)
            function = match["symbol"].strip() if match else ""
            continue
        said = _SAID.match(line)
        if said and (match := _LIBRARY.search(said["text"])) and match["calls"] != "0":
            found.append(_loop(said, function, source, library=True))
    return list(dict.fromkeys(found))


def is_cut(text: str) -> bool:
    """Whether a dump ends before a function's body did. An empty one is whole."""
    lines = [line for line in text[-4000:].splitlines() if line.strip()]
    return bool(lines) and not (text.endswith("\n") and _END.match(lines[-1]))


def _is_rest(last: Loop, loop: Loop) -> bool:
    return (
        (last.place, last.function) == (loop.place, loop.function)
        and not last.epilogue_bytes
        and 0 < loop.width_bytes < last.width_bytes
    )


def _settled(loops: list[Loop]) -> list[Loop]:
    """One entry a loop and function. GCC comes back to some loops; done once is done."""
    best: dict[tuple[object, ...], Loop] = {}
    for loop in loops:
        key = (*loop.place, loop.function)
        if key not in best or best[key].width_bytes < loop.width_bytes:
            best[key] = loop
    return list(best.values())


def _loop(
    said: re.Match[str],
    function: str,
    source: str,
    *,
    width_bytes: int = 0,
    epilogue_bytes: int = 0,
    library: bool = False,
    reason: str = "",
    words: str = "",
) -> Loop:
    return Loop(
        in_tree(said["file"], source),
        int(said["line"]),
        int(said["column"]),
        function,
        width_bytes,
        epilogue_bytes=epilogue_bytes,
        library=library,
        reason=reason,
        words=words,
    )
