# SPDX-License-Identifier: MIT
"""What the machine code of an object really has: vector registers, function by function.

A compiler's word alone is not enough: it also says "vectorized" of two ints moved in one 64-bit
general register. Registers inside a loop are told from those outside, which straight copies of
structures use too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kdyno.command import capture, require
from kdyno.confined import confined
from kdyno.errors import ToolError
from kdyno.labs.vectorize.loops import Loop

_HEAD = re.compile(r"^[0-9a-f]+ <(?P<symbol>[^>]+)>:$")
_LINE = re.compile(r"^\s*(?P<at>[0-9a-f]+):\t(?P<code>.*)$")
_JUMP = re.compile(r"^(?:bnd |notrack )?(?:j[a-z]+|loop[a-z]*)\s+(?P<to>[0-9a-f]+)\b")
_REGISTER = re.compile(r"%([xyz])mm\d")
NARROW = 8
"""Bytes of a general register: "vectors" in there are integer arithmetic."""
_BYTES = {"x": 16, "y": 32, "z": 64}
_PART = re.compile(r"\.(?:part|constprop|isra|cold|lto_priv|llvm)\b.*$")


@dataclass(frozen=True)
class Code:
    """Widths in bytes of the vector registers of one function: anywhere, and within loops."""

    anywhere: frozenset[int] = frozenset()
    in_loops: frozenset[int] = frozenset()


def read(text: str) -> dict[str, Code]:
    """``objdump -d --no-show-raw-insn`` → symbol → its registers."""
    found: dict[str, Code] = {}
    symbol = ""
    lines: list[tuple[int, str]] = []

    def close() -> None:
        if symbol:
            found[symbol] = _code(lines)

    for line in text.splitlines():
        if head := _HEAD.match(line):
            close()
            symbol, lines = head["symbol"], []
        elif match := _LINE.match(line):
            lines.append((int(match["at"], 16), match["code"]))
    close()
    return found


def _code(lines: list[tuple[int, str]]) -> Code:
    if not lines:
        return Code()
    first = lines[0][0]
    used: list[tuple[int, int]] = []
    loops: list[tuple[int, int]] = []
    for at, code in lines:
        used += [(at, _BYTES[letter]) for letter in set(_REGISTER.findall(code))]
        jump = _JUMP.match(code)
        # Backwards within the function: a loop from there to here.
        if jump and first <= int(jump["to"], 16) <= at:
            loops.append((int(jump["to"], 16), at))
    inside = {width for at, width in used if any(low <= at <= high for low, high in loops)}
    return Code(frozenset(width for _, width in used), frozenset(inside))


def disassemble(objects: Iterable[Path]) -> Mapping[Path, dict[str, Code]]:
    """The code of each object; ToolError where objdump is missing or refuses one."""
    objdump = require("objdump", "to see what a compiler made of loops")
    found = {}
    for path in objects:
        argv = [objdump, "-d", "--no-show-raw-insn", str(path)]
        done = capture(confined(argv, reads=[path]), apart=True)
        if done.status != 0:
            raise ToolError(f"objdump refuses {path}: {done.complaint.strip()}")
        found[path] = read(done.output)
    return found


def stem(symbol: str) -> str:
    """A symbol without what the compiler adds to the names of the copies that it makes."""
    return _PART.sub("", symbol)


def checked(loop: Loop, code: Mapping[str, Code]) -> Loop:
    """The loop with ``seen`` set: where its function has registers of its width.

    A compiler that tells no width has the widest of the function's loops.
    """
    if not loop.is_vector and not loop.lanes:
        return loop
    own = stem(loop.function)
    of = [it for name, it in code.items() if stem(name) == own]
    inside = {width for it in of for width in it.in_loops}
    anywhere = {width for it in of for width in it.anywhere}
    width = loop.width_bytes or max(inside or anywhere or {NARROW})
    seen = "loop" if width in inside else "function" if width in anywhere else "no"
    return replace(loop, width_bytes=width, seen=seen if width != NARROW else "")
