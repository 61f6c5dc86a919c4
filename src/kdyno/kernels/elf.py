# SPDX-License-Identifier: MIT
"""The sections of an object file, by the layout of ELF's objects (System V ABI, chapter 4)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

OBJECT_64 = b"\x7fELF\x02\x01\x01"
"""The beginning of an object of 64 bits."""
SYMBOLS = 2
"""The kind of a section with symbols."""
INDIRECT = 10
"""The kind of a symbol whose resolver a loader calls."""
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    code: bool
    content: bytes
    strings: int
    """Number of the section with its names, for one with symbols."""


def sections(content: bytes) -> list[Section]:
    """Of an object of 32 or 64 bits; ValueError for what is none."""
    try:
        wide = content[4] == 2
        (at,) = struct.unpack_from("<Q" if wide else "<I", content, 40 if wide else 32)
        size, count, names_at = struct.unpack_from("<3H", content, 58 if wide else 46)
        # Name, type, flags, address, offset, size, link, info, alignment, size of an entry.
        header = struct.Struct("<2I4Q2I2Q" if wide else "<10I")
        if content[:4] != OBJECT_64[:4] or size != header.size or not count:
            raise ValueError("no table of sections")
        table = [header.unpack_from(content, at + number * size) for number in range(count)]
        names = content[table[names_at][4] : sum(table[names_at][4:6])]
        return [
            Section(
                text(names, it[0]), it[1], bool(it[2] & 4), content[it[4] : it[4] + it[5]], it[6]
            )
            for it in table
        ]
    except (struct.error, IndexError) as problem:
        raise ValueError("cut short") from problem


def text(names: bytes, at: int) -> str:
    """The name that begins at ``at``; ValueError where none ends."""
    return names[at : names.index(b"\0", at)].decode("utf-8", "replace")


def symbols(content: bytes) -> list[tuple[str, int]]:
    """(name, kind) of the symbols of an object of 64 bits that other objects see, and of those that
    a loader resolves. ValueError."""
    if not content.startswith(OBJECT_64):
        raise ValueError("no object of 64 bits")
    table = sections(content)
    try:
        return [
            (text(table[each.strings].content, name), info & 15)
            for each in table
            if each.kind == SYMBOLS
            for name, info, _, index, _, _ in _SYMBOL.iter_unpack(each.content)
            if index and (info >> 4 or info & 15 == INDIRECT)
        ]
    except (struct.error, IndexError) as problem:
        raise ValueError("cut short") from problem
