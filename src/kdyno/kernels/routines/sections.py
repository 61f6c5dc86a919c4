# SPDX-License-Identifier: MIT
"""What an assembled routine may bring: code and data of one function, nothing that runs unasked.

A linker collects initialisers by their sections, and a loader calls them, and resolvers of
indirect functions, before anything of the program itself. The layout read here is that of ELF's
64-bit objects (System V ABI, chapter 4).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from kdyno.errors import UsageError
from kdyno.kernels.routines.routine import FUNCTIONS

_HEADER = struct.Struct("<16s2HI3QI6H")
_SECTION = struct.Struct("<2I4Q2I2Q")
_SYMBOL = struct.Struct("<IBBHQQ")
_OBJECT = b"\x7fELF\x02\x01\x01"
_PLAIN = frozenset((0, 1, 2, 3, 4, 7, 8, 0x7000_0001))
"""Nothing, content, symbols, names, relocations, notes, zeros, unwinding: not initialisers (14 to
16), nor groups of sections (17)."""
_KNOWN = re.compile(
    r"|\.(noinstr\.)?text(\..+)?|\.rodata(\..+)?|\.data(\..+)?|\.bss(\..+)?|\.note\..+|\.eh_frame"
    r"|\.comment|\.debug_.+|\.symtab|\.strtab|\.shstrtab"
)
_SYMBOLS, _INDIRECT = 2, 10
_ROUTINES = tuple(f"{function}_" for function in FUNCTIONS)
_UNASKED = ("_init", "_fini")
"""Global names that a linker has called when a program starts and ends."""


def refuse_unasked(content: bytes, origin: str, *, routine: bool) -> None:
    """UsageError for an object that has a place for code which runs unasked.

    routine: its global names must be those of routines, so that they replace nothing else.
    """
    try:
        sections = list(_sections(content))
        names = [(name, kind) for name, kind, _ in sections]
        found = [pair for _, kind, table in sections if kind == _SYMBOLS for pair in table]
    except (struct.error, IndexError, ValueError) as problem:
        raise UsageError(f"{origin}: gcc made no object of it that can be read") from problem
    for name, kind in names:
        if kind not in _PLAIN or not _KNOWN.fullmatch(re.sub(r"^\.rela(?=\.)", "", name)):
            raise UsageError(
                f"{origin}: the section {name!r} is refused. A routine has code in .text and "
                "data in .rodata, .data or .bss, and nothing that runs before it is called"
            )
    for name, kind in found:
        if kind == _INDIRECT:
            raise UsageError(f"{origin}: {name!r} is an indirect function, which is refused")
        if name in _UNASKED or (routine and not name.startswith(_ROUTINES)):
            raise UsageError(
                f"{origin}: the global name {name!r} is refused. A routine has one, FUNCTION_NAME, "
                "as routine.h makes it"
            )


def _sections(content: bytes) -> Iterator[tuple[str, int, list[tuple[str, int]]]]:
    """(name, type, symbols that other objects see as (name, type)) of every section."""
    if not content.startswith(_OBJECT):
        raise ValueError("no object of 64 bits")
    header = _HEADER.unpack_from(content)
    at, size, count, names_at = header[6], header[11], header[12], header[13]
    if size != _SECTION.size or not count:
        raise ValueError("no table of sections")
    table = [_SECTION.unpack_from(content, at + number * size) for number in range(count)]
    names = _part(content, table[names_at])
    for section in table:
        symbols: list[tuple[str, int]] = []
        if section[1] == _SYMBOLS:
            texts = _part(content, table[section[6]])
            for name, info, _, index, _, _ in _SYMBOL.iter_unpack(_part(content, section)):
                if index and (info >> 4 or info & 15 == _INDIRECT):
                    symbols.append((_text(texts, name), info & 15))
        yield _text(names, section[0]), section[1], symbols


def _part(content: bytes, section: tuple[int, ...]) -> bytes:
    return content[section[4] : section[4] + section[5]]


def _text(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode("utf-8", "replace")
