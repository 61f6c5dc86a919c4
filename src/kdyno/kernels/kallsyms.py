# SPDX-License-Identifier: MIT
"""The functions of a kernel's ELF file that was stripped, by the table that the kernel itself has.

Debian's packages have no System.map but that of the package with debug data. What /proc/kallsyms
shows lies in the file's read-only data (scripts/kallsyms.c in Linux): names, compressed by a table
of 256 tokens, and 32-bit offsets from a base. Nothing says where; the tokens of the digits, which
stand for themselves, and a table that fits them do. The order of the parts changed in 6.4.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

from kdyno import whole
from kdyno.errors import ToolError
from kdyno.kernels.image import Image

SYMBOLS = "System.map"
"""The file beside an installed image with its functions."""
_DIGITS = b"".join(b"%d\0" % digit for digit in range(10))
_TOKENS = 256
_EACH = 256
"""Symbols between two entries of the table of markers."""
_FEWEST_SYMBOLS, _MOST_SYMBOLS = 4000, 2_000_000
_MOST_NAME_BYTES = 512
_BASE_AND_NUMBER = re.compile(
    rb"\0\0[\0\x20\x40\x60\x80\xa0\xc0\xe0][\x80-\xbf]\xff{4}[\0-\xff]{2}[\0-\x1f]\0{5}"
)
"""A base, which is that of the kernel's text and so a multiple of 2 MiB, and a number of symbols
below two million, each in 8 bytes."""
_NAME = re.compile(rb"[A-Za-z][\x21-\x7e]+")


def symbols(image: Image) -> Path:
    """The file with the symbols of an installed image, made when it is asked for first."""
    file = image.folder / SYMBOLS
    if not file.is_file():
        percpu = "KALLSYMS_ABSOLUTE_PERCPU" in image.build["options"]
        whole.write(file, "".join(f"{line}\n" for line in lines(image.kernel, percpu)).encode())
    return file


def lines(kernel: Path, percpu: bool) -> Iterator[str]:
    """``ADDRESS KIND NAME`` of each symbol, as ``nm`` has it.

    percpu: CONFIG_KALLSYMS_ABSOLUTE_PERCPU, by which offsets of code are negative. ToolError where
    there is no such table.
    """
    data = kernel.read_bytes()
    at = data.find(_DIGITS)
    while at >= 0:
        for start, tokens in _tables(data, at):
            index = start + len(b"".join(tokens)) + _TOKENS
            after = _even(index) + 2 * _TOKENS
            for names, offsets, base in _parts(data, start, after):
                yield from _symbols(data, names, offsets, base, tokens, percpu)
                return
        at = data.find(_DIGITS, at + 1)
    raise ToolError(f"{kernel}: no table of symbols in it (CONFIG_KALLSYMS)")


def _tables(data: bytes, digits: int) -> Iterator[tuple[int, list[bytes]]]:
    """(beginning, tokens) of the table in which the digits stand, each at its own number."""
    second = digits
    for _token in range(ord("0") - 1):
        second = data.rfind(b"\0", 0, second - 1) + 1
        if digits - second > 1 << 12:
            return
    # What lies before the first token need not end in a zero.
    for start in range((second - 2) // 8 * 8, max(0, second - _MOST_NAME_BYTES), -8):
        tokens = data[start : start + (1 << 14)].split(b"\0", _TOKENS)[:_TOKENS]
        places, at = [], 0
        for token in tokens:
            places.append(at)
            at += len(token) + 1
        index = (
            data[_even(start + at) : _even(start + at) + 2 * _TOKENS]
            if len(tokens) == _TOKENS
            else b""
        )
        if index == struct.pack(f"<{len(places)}H", *places):
            yield start, tokens
            return


def _parts(data: bytes, tokens: int, after: int) -> Iterator[tuple[list[bytes], int, int]]:
    """(packed names, place of the offsets, base)."""
    # Until 6.4: offsets, base, number, names, markers.
    for match in _BASE_AND_NUMBER.finditer(data):
        base, count = struct.unpack("<QI", match[0][:12])
        names = _names(data, match.end(), count)
        if names is not None:
            yield names, match.start() - _even(4 * count), base
    # Since: number, names, markers, tokens, their index, offsets, base.
    end = tokens - 4 if data[tokens - 4 : tokens] == bytes(4) else tokens
    marks = [struct.unpack_from("<I", data, end - 4)[0]]
    while marks[-1] and len(marks) < _MOST_SYMBOLS // _EACH:
        marks.append(struct.unpack_from("<I", data, end - 4 * (len(marks) + 1))[0])
        if marks[-1] >= marks[-2]:
            return
    last = _even(end - 4 * len(marks) - marks[0])
    for start in range(last, max(8, last - _EACH * _MOST_NAME_BYTES), -8):
        (count,) = struct.unpack_from("<I", data, start - 8)
        if -(-count // _EACH) == len(marks) and (names := _names(data, start, count)) is not None:
            offsets = after
            yield names, offsets, struct.unpack_from("<Q", data, offsets + _even(4 * count))[0]


def _even(size: int) -> int:
    """The next multiple of 8."""
    return -(-size // 8) * 8


def _names(data: bytes, start: int, count: int) -> list[bytes] | None:
    """Packed; None where the markers that follow them do not fit."""
    names, marks, at = list[bytes](), list[int](), start
    if not _FEWEST_SYMBOLS < count < _MOST_SYMBOLS:
        return None
    for number in range(count):
        if number % _EACH == 0:
            marks.append(at - start)
        if at + 2 > len(data):
            return None
        length = data[at]
        at += 1
        if length & 0x80:  # since 6.1
            length = length & 0x7F | data[at] << 7
            at += 1
        names.append(data[at : at + length])
        at += length
    table = struct.pack(f"<{len(marks)}I", *marks)
    return names if data[_even(at) : _even(at) + len(table)] == table else None


def _symbols(
    data: bytes, names: list[bytes], offsets: int, base: int, tokens: list[bytes], percpu: bool
) -> Iterator[str]:
    for packed, (offset,) in zip(
        names, struct.iter_unpack("<i", data[offsets : offsets + 4 * len(names)]), strict=False
    ):
        symbol = b"".join(tokens[byte] for byte in packed)
        if percpu:
            address = base - 1 - offset if offset < 0 else offset
        else:
            address = base + (offset & 0xFFFFFFFF)
        if len(symbol) < _MOST_NAME_BYTES and _NAME.fullmatch(symbol):
            yield f"{address:016x} {chr(symbol[0])} {symbol[1:].decode('ascii')}"
