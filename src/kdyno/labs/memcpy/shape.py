# SPDX-License-Identifier: MIT
"""The parameters by which memory routines differ, how a shape is written as a name, and as a file.

``avx512-256-overlap-mask64-rep-8192`` reads: 64-byte registers, 256 bytes a turn of the loop, what
is left over by accesses that overlap, up to 64 bytes by one masked register, rep movsb from 8192
bytes on. Another function than memcpy comes first: ``copy_page-sse-128``; pages have no tail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kdyno.errors import UsageError
from kdyno.kernels.routines.routine import FUNCTIONS, PAGES, label

WIDTHS = MappingProxyType({"general": 8, "sse": 16, "avx2": 32, "avx512vl": 32, "avx512": 64})
"""Registers → bytes of one. ``avx512vl``: the registers that AVX cannot name, half of each."""
_REGISTERS = {
    "general": ("general", "sse2"),
    "sse": ("SSE", "sse2"),
    "avx2": ("AVX", "avx2"),
    "avx512vl": ("AVX-512", "avx512f", "avx512vl"),
    "avx512": ("AVX-512", "avx512f", "avx512vl"),
}
"""Registers → what people call them, and the CPU features that they need."""
TAILS = ("overlap", "string", "mask", "")
AVX512 = ("avx512", "avx512vl")
STORES = ("", "aligned", "unaligned")
_PAGE_BYTES = 4096
_MOST_LOOP_REGISTERS = 64
_LEAST_LARGE_BYTES = 256

FORM = (
    "[FUNCTION-]REGISTERS-LOOPBYTES[-TAIL][-maskBYTES|-bytesBYTES][-small32]"
    "[-aligned|-unaligned][-rep-BYTES|-nt-BYTES]; functions: "
    f"{', '.join(FUNCTIONS)}; registers: {', '.join(WIDTHS)}; tails: overlap, string, mask"
)
_NAME = re.compile(
    rf"(?:(?P<function>{'|'.join(FUNCTIONS)})-)?"
    rf"(?P<registers>{'|'.join(WIDTHS)})-(?P<loop_bytes>\d{{1,5}})(?:-(?P<tail>overlap|string|mask))?"
    r"(?:-(?P<short>mask|bytes)(?P<short_to>\d{1,3}))?(?:-small(?P<small_bytes>32))?"
    r"(?:-(?P<stores>aligned|unaligned))?(?:-(?P<large>rep|nt)(?:-(?P<large_from>\d{1,9}))?)?"
)


@dataclass(frozen=True)
class Shape:
    """One routine's parameters. UsageError when they contradict each other."""

    function: str = "memcpy"
    registers: str = "sse"
    loop_bytes: int = 128
    """Bytes that one turn of the loop moves."""
    tail: str = "overlap"
    """What moves the rest: accesses that overlap, string instructions, or masked registers."""
    large: str = ""
    """What moves blocks from ``large_from`` bytes on: rep movsb, or stores past the caches (nt)."""
    large_from: int = 0
    small_bytes: int = 0
    """A narrower register, in bytes; 0: none. With overlap it is the widest below the loop, with
    mask that of the loop. A block that is not at a line's start crosses lines with each access of
    64 bytes, with 32 only with every other."""
    short: str = ""
    """What moves the shortest blocks, of up to ``short_to`` bytes: one masked register, or a string
    instruction byte by byte. Empty: what the tail is made of, branches with overlap."""
    short_to: int = 0
    stores: str = ""
    """Whether the loop begins at a boundary of the target. Empty: with overlap and with narrower
    registers it does."""

    def __post_init__(self) -> None:
        if problem := next(_problems(self), ""):
            raise UsageError(f"shape {self.name!r}: {problem}")

    @property
    def width(self) -> int:
        """Bytes of one register of the loop."""
        return WIDTHS[self.registers]

    @property
    def is_page(self) -> bool:
        return self.function in PAGES

    @property
    def requires(self) -> tuple[str, ...]:
        """CPU features, named as /proc/cpuinfo names them."""
        features = list(_REGISTERS[self.registers][1:])
        if "mask" in (self.tail, self.short):
            features += ["avx512bw", "bmi2"]
        if self.large == "rep":
            features.append("erms")
        if self.short == "bytes":
            features.append("fsrm")
        return tuple(features)

    @property
    def name(self) -> str:
        """The shape in one word; ``parse_shape`` reads it."""
        words = [
            "" if self.function == "memcpy" else self.function,
            *(self.registers, str(self.loop_bytes), self.tail),
            f"{self.short}{self.short_to}" if self.short else "",
            f"small{self.small_bytes}" if self.small_bytes else "",
            *(self.stores, self.large),
            str(self.large_from) if self.large_from else "",
        ]
        return "-".join(filter(None, words))


def parse_shape(text: str) -> Shape:
    """The shape called ``text``; UsageError with the form when it is none."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a shape. A shape is {FORM}")
    numbers = ("loop_bytes", "short_to", "small_bytes", "large_from")
    parts: dict[str, Any] = match.groupdict("") | {key: int(match[key] or 0) for key in numbers}
    return Shape(**(parts | {"function": match["function"] or "memcpy"}))


def generate(shape: Shape, name: str | None = None) -> str:
    """The text of ``NAME.S``, a file as in ``kernel/memcpy/``: its description and one line, which
    the macros of ``shape.h`` there make the routine of.

    name: without the function in front (``avx2-128-overlap`` of ``memset-avx2-128-overlap.S``);
    None: the shape's."""
    own = shape.name.removeprefix(f"{shape.function}-")
    name = name or own
    is_memcpy = shape.function == "memcpy"
    function = "" if is_memcpy else f"{shape.function}-"
    command = f"kdyno lab memcpy generate {shape.name}" + f" --name {name}" * (name != own)
    native = shape.registers == "general" and not shape.is_page
    macro = "PAGE_ROUTINE" if shape.is_page else "ROUTINE"
    of = "" if is_memcpy or shape.is_page else "_OF"
    arguments = f"({label(name)})" if is_memcpy else f"{of}({shape.function}, {label(name)})"
    parameters = [shape.function, shape.registers, str(shape.loop_bytes), shape.tail]
    if shape.short:
        parameters += [f"short={shape.short}", f"up_to={shape.short_to}"]
    more: dict[str, int | str] = {"small": shape.small_bytes, "stores": shape.stores}
    more |= {"large": shape.large, "from": shape.large_from}
    parameters += [f"{key}={value}" for key, value in more.items() if value]
    lines = (
        "/* SPDX-License-Identifier: GPL-2.0-only */",
        "/*",
        f" * help: {describe(shape)}",
        f" * requires: {' '.join(shape.requires)}",
        f" * source: generated: {command} -o {function}{name}.S",
        f" * arch: um{' x86_64' if native else ''}",
        *([] if is_memcpy else [f" * function: {shape.function}"]),
        " */",
        '#include "routine.h"',
        '#include "shape.h"',
        "",
        f"{macro}_START{arguments}",
        f"\tshape\t{', '.join(filter(None, parameters))}",
        f"{macro}_END{arguments}",
    )
    return "\n".join(lines) + "\n"


_REST = {
    "overlap": "the ends by accesses that overlap",
    "string": "the rest by string instructions",
    "mask": "the rest by a masked register",
    "": "",
}


def describe(shape: Shape) -> str:
    string = "rep stosb" if shape.function in ("memset", "clear_page") else "rep movsb"
    if shape.is_page and shape.large == "rep":
        return string
    small, short, large = "", "", ""
    if shape.small_bytes:
        small = f"{shape.small_bytes}-byte registers below the loop"
        if shape.tail == "mask":
            small = f"a loop of {shape.small_bytes}-byte registers at the target's boundaries"
    if shape.short:
        way = "a masked register" if shape.short == "mask" else "a string instruction"
        short = f"up to {shape.short_to} bytes by {way}"
    if shape.large:
        large = string if shape.large == "rep" else "past the caches"
        large += "" if shape.is_page else f" from {shape.large_from} bytes"
    words = (
        f"{shape.width}-byte {_REGISTERS[shape.registers][0]} registers",
        f"{shape.loop_bytes} bytes a turn",
        _REST[shape.tail],
        small,
        f"{shape.stores} stores" if shape.stores else "",
        short,
        large,
    )
    return ", ".join(filter(None, words))


def _problems(shape: Shape) -> Iterator[str]:
    width, loop, tail = shape.width, shape.loop_bytes, shape.tail
    function, registers, short = shape.function, shape.registers, shape.short
    most = min(width * _MOST_LOOP_REGISTERS, _PAGE_BYTES)
    least_large = max(_LEAST_LARGE_BYTES, 2 * loop)
    if bool(tail) == shape.is_page:
        yield "a page has no tail" if shape.is_page else f"a tail is missing. A shape is {FORM}"
    if loop < width or loop & (loop - 1):
        yield f"{loop} bytes a turn must be a power of two and at least a register's {width} bytes"
    if loop > most:
        yield f"{loop} bytes a turn are more than {most}"
    if shape.large_from and (shape.is_page or not shape.large):
        yield "only rep and nt of a block, not of a page, have a size from which on"
    if shape.large and not shape.is_page and shape.large_from < least_large:
        yield f"large blocks begin at {least_large} bytes or more"
    if tail == "mask" and registers != "avx512":
        yield "only avx512 has masks"
    if shape.small_bytes and (registers != "avx512" or tail == "string"):
        yield "only avx512 with overlap or mask can use narrower registers"
    if shape.small_bytes and tail == "mask" and (function != "memcpy" or loop == width):
        yield "with mask only memcpy has a loop of narrower registers, of 128 bytes a turn or more"
    if function == "memmove":
        if tail != "overlap":
            yield "memmove needs overlap: it must load its two ends before the loop"
        if shape.large == "nt":
            yield "non-temporal stores are for blocks that do not overlap"
        if loop > (held := 16 if registers == "general" else 4 * width):
            yield f"memmove holds one turn of the loop in registers: {held} at most"
    if short:
        if tail != "overlap":
            yield "only with overlap can the shortest blocks go another way"
        if short == "mask" and registers not in AVX512:
            yield "only avx512 and avx512vl have masks"
        if short == "bytes" and function == "memmove":
            yield "string instructions go forward only; memmove needs branches or a mask"
        short_most = 16 if registers == "general" else 2 * (shape.small_bytes or width)
        ways = {"mask": (32, 64), "bytes": (16, 32, 64, 128)}[short]
        allowed = [upto for upto in ways if upto <= short_most]
        if shape.short_to not in allowed:
            yield f"{short} is for blocks of up to {' or '.join(map(str, allowed))} bytes here"
    if shape.stores == "aligned":
        if tail != "mask" or shape.small_bytes or function != "memcpy":
            yield "only a memcpy with mask and without narrower registers is not aligned anyway"
        if loop == width:
            yield "aligned needs a loop of 128 bytes or more"
    elif shape.stores and (tail != "overlap" or registers == "general" or function == "memmove"):
        yield "only memcpy and memset with overlap and vector registers can do without boundaries"
