# SPDX-License-Identifier: MIT
"""The parameters by which memory routines differ, how a shape is written as a name, and as a file.

``avx512-256-overlap-mask64-rep-8192`` reads: 64-byte registers, 256 bytes a turn of the loop, what
is left over by accesses that overlap, up to 64 bytes by one masked register, rep movsb from 8192
bytes on. Another function than memcpy comes first: ``memset-avx2-128-overlap``. Pages have no
tail: ``copy_page-sse-128``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType

from kdyno.errors import UsageError
from kdyno.kernels.routines.routine import FUNCTIONS, PAGES, label

WIDTHS = MappingProxyType({"general": 8, "sse": 16, "avx2": 32, "avx512vl": 32, "avx512": 64})
"""Registers → bytes of one. ``avx512vl``: the registers that AVX cannot name, half of each."""
REQUIRES = MappingProxyType(
    {
        "general": ("sse2",),
        "sse": ("sse2",),
        "avx2": ("avx2",),
        "avx512vl": ("avx512f", "avx512vl"),
        "avx512": ("avx512f", "avx512vl"),
    }
)
TAILS = ("overlap", "string", "mask", "none")
AVX512 = ("avx512", "avx512vl")
SHORT = ("", "mask", "bytes")
STORES = ("", "aligned", "unaligned")
LARGE = ("plain", "rep-movsb", "non-temporal")
PAGE_BYTES = 4096
_SHORT = MappingProxyType({"rep-movsb": "rep", "non-temporal": "nt"})
_MOST_LOOP_REGISTERS = 64
_LEAST_LARGE_BYTES = 256

FORM = (
    "[FUNCTION-]REGISTERS-LOOPBYTES[-TAIL][-maskBYTES|-bytesBYTES][-smallBYTES]"
    "[-aligned|-unaligned][-rep-BYTES|-nt-BYTES]"
)
_NAME = re.compile(
    r"(?:(?P<function>memcpy|memmove|memset|copy_page|clear_page)-)?"
    r"(?P<registers>[a-z0-9]+)-(?P<loop>\d{1,5})(?:-(?P<tail>overlap|string|mask))?"
    r"(?:-(?P<short>mask|bytes)(?P<upto>\d{1,3}))?(?:-small(?P<small>\d{1,3}))?"
    r"(?:-(?P<stores>aligned|unaligned))?(?:-(?P<large>rep|nt)(?:-(?P<above>\d{1,9}))?)?"
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
    large: str = "plain"
    """What moves blocks from ``large_from`` bytes on."""
    large_from: int = 0
    small_bytes: int = 0
    """A narrower register, in bytes; 0: none. With overlap it is the widest below the loop, with
    mask that of the loop. A block that is not at a line's start crosses lines with each access of
    64 bytes, with 32 only with every other."""
    short: str = ""
    """What moves the shortest blocks: one masked register, or a string instruction byte by byte.
    Empty: what the tail is made of, branches with overlap."""
    short_to: int = 0
    """Up to so many bytes."""
    stores: str = ""
    """Whether the loop begins at a boundary of the target. Empty: with overlap and with narrower
    registers it does."""

    def __post_init__(self) -> None:
        if problem := _problem(self):
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
        features = list(REQUIRES[self.registers])
        if "mask" in (self.tail, self.short):
            features += ["avx512bw", "bmi2"]
        if self.large == "rep-movsb":
            features.append("erms")
        if self.short == "bytes":
            features.append("fsrm")
        return tuple(features)

    @property
    def name(self) -> str:
        """The shape in one word; ``parse_shape`` reads it."""
        words = [] if self.function == "memcpy" else [self.function]
        words += [self.registers, str(self.loop_bytes)]
        if not self.is_page:
            words.append(self.tail)
        if self.short:
            words.append(f"{self.short}{self.short_to}")
        if self.small_bytes:
            words.append(f"small{self.small_bytes}")
        if self.stores:
            words.append(self.stores)
        if self.large != "plain":
            words.append(_SHORT.get(self.large, self.large))
            if not self.is_page:
                words.append(str(self.large_from))
        return "-".join(words)


def parse_shape(text: str) -> Shape:
    """The shape called ``text``; UsageError with the form when it is none."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise UsageError(
            f"{text!r} is not a shape. A shape is {FORM}, like avx512-256-overlap-rep-8192; "
            f"registers: {', '.join(WIDTHS)}; tails: overlap, string, mask"
        )
    function = match["function"] or "memcpy"
    page = function in PAGES
    if page and (match["tail"] or match["above"]):
        raise UsageError(f"{text!r}: a page has neither a tail nor a size from which it is large")
    if not page and (match["tail"] is None or (match["large"] and match["above"] is None)):
        raise UsageError(f"{text!r}: a tail or a number of bytes is missing. A shape is {FORM}")
    large = {"rep": "rep-movsb", "nt": "non-temporal", None: "plain"}[match["large"]]
    return Shape(
        function=function,
        registers=match["registers"],
        loop_bytes=int(match["loop"]),
        tail="none" if page else match["tail"],
        large=large,
        large_from=int(match["above"] or 0),
        small_bytes=int(match["small"] or 0),
        short=match["short"] or "",
        short_to=int(match["upto"] or 0),
        stores=match["stores"] or "",
    )


def generate(shape: Shape, name: str | None = None) -> str:
    """The text of ``NAME.S``, a file as in ``kernel/memcpy/``: its description and one line, which
    the macros of ``shape.h`` there make the routine of.

    name: without the function in front (``avx2-128-overlap`` of ``memset-avx2-128-overlap.S``);
    None: the shape's."""
    own = shape.name.removeprefix(f"{shape.function}-")
    name = name or own
    function = "" if shape.function == "memcpy" else f"{shape.function}-"
    command = f"kdyno lab memcpy generate {shape.name}" + f" --name {name}" * (name != own)
    native = shape.registers == "general" and not shape.is_page
    macro = "PAGE_ROUTINE" if shape.is_page else "ROUTINE"
    of = "" if shape.is_page else "_OF"
    arguments = f"({label(name)})"
    if shape.function != "memcpy":
        arguments = f"{of}({shape.function}, {label(name)})"
    parameters = [shape.function, shape.registers, str(shape.loop_bytes)]
    parameters += [] if shape.is_page else [shape.tail]
    if shape.short:
        parameters += [f"short={shape.short}", f"up_to={shape.short_to}"]
    if shape.small_bytes:
        parameters.append(f"small={shape.small_bytes}")
    if shape.stores:
        parameters.append(f"stores={shape.stores}")
    if shape.large != "plain":
        parameters.append(f"large={_SHORT[shape.large]}")
        parameters += [] if shape.is_page else [f"from={shape.large_from}"]
    lines = (
        "/* SPDX-License-Identifier: GPL-2.0-only */",
        "/*",
        f" * help: {describe(shape)}",
        f" * requires: {' '.join(shape.requires)}",
        f" * source: generated: {command} -o {function}{name}.S",
        f" * arch: um{' x86_64' if native else ''}",
        *([f" * function: {shape.function}"] if shape.function != "memcpy" else []),
        " */",
        '#include "routine.h"',
        '#include "shape.h"',
        "",
        f"{macro}_START{arguments}",
        f"\tshape\t{', '.join(parameters)}",
        f"{macro}_END{arguments}",
    )
    return "\n".join(lines) + "\n"


def describe(shape: Shape) -> str:
    """The shape in a line."""
    kinds = {"general": "8-byte general", "sse": "16-byte SSE", "avx2": "32-byte AVX"}
    kinds |= {"avx512vl": "32-byte AVX-512", "avx512": "64-byte AVX-512"}
    tails = {
        "overlap": "the ends by accesses that overlap",
        "string": "the rest by string instructions",
        "mask": "the rest by a masked register",
    }
    string = "rep movsb" if shape.function not in ("memset", "clear_page") else "rep stosb"
    if shape.is_page and shape.large == "rep-movsb":
        return string
    words = [f"{kinds[shape.registers]} registers", f"{shape.loop_bytes} bytes a turn"]
    if not shape.is_page:
        words.append(tails[shape.tail])
    if shape.small_bytes and shape.tail == "mask":
        words.append(f"a loop of {shape.small_bytes}-byte registers at the target's boundaries")
    elif shape.small_bytes:
        words.append(f"{shape.small_bytes}-byte registers below the loop")
    if shape.stores:
        words.append(f"{shape.stores} stores")
    if shape.short:
        way = "a masked register" if shape.short == "mask" else "a string instruction"
        words.append(f"up to {shape.short_to} bytes by {way}")
    if shape.large != "plain":
        way = string if shape.large == "rep-movsb" else "past the caches"
        words.append(way if shape.is_page else f"{way} from {shape.large_from} bytes")
    return ", ".join(words)


def _problem(shape: Shape) -> str:
    """What is wrong with it, or nothing."""
    for value, allowed, what in (
        (shape.function, tuple(FUNCTIONS), "function"),
        (shape.registers, tuple(WIDTHS), "registers"),
        (shape.tail, TAILS, "tail"),
        (shape.large, LARGE, "large"),
        (shape.short, SHORT, "short"),
        (shape.stores, STORES, "stores"),
    ):
        if value not in allowed:
            return f"{what} {value!r} is not known; there are {', '.join(allowed)}"
    if (shape.tail == "none") != shape.is_page:
        return "pages have no tail" if shape.is_page else "a tail is missing"
    return next(_problems(shape), "")


def _problems(shape: Shape) -> Iterator[str]:
    width, loop, tail = shape.width, shape.loop_bytes, shape.tail
    function, registers, short = shape.function, shape.registers, shape.short
    if loop < width or loop % width or loop & (loop - 1):
        yield f"{loop} bytes a turn must be a power of two and at least a register's {width} bytes"
    if loop > width * _MOST_LOOP_REGISTERS or (shape.is_page and loop > PAGE_BYTES):
        most = min(width * _MOST_LOOP_REGISTERS, PAGE_BYTES)
        yield f"{loop} bytes a turn are more than {most}"
    if shape.small_bytes not in (0, 32):
        yield "narrower registers are of 32 bytes"
    if shape.small_bytes and (registers != "avx512" or tail == "string"):
        yield "only avx512 with overlap or mask can use narrower registers"
    if shape.small_bytes and tail == "mask" and function != "memcpy":
        yield "with mask only memcpy has a loop of narrower registers"
    if shape.small_bytes and tail == "mask" and loop == width:
        yield "with mask the loop is what uses narrower registers: 128 bytes a turn or more"
    if shape.large == "plain" or shape.is_page:
        if shape.large_from:
            yield "a plain loop has no size from which it changes"
    elif shape.large_from < max(_LEAST_LARGE_BYTES, 2 * loop):
        yield f"large blocks begin at {max(_LEAST_LARGE_BYTES, 2 * loop)} bytes or more"
    if tail == "mask" and registers != "avx512":
        yield "only avx512 has masks"
    if function == "memmove":
        if tail == "mask":
            yield "memmove must load its two ends before the loop: only overlap does that"
        if tail == "string":
            yield "string instructions go forward only; memmove needs overlap"
        if shape.large == "non-temporal":
            yield "non-temporal stores are for blocks that do not overlap"
        held = 16 if registers == "general" else 4 * width
        if loop > held:
            yield f"memmove holds one turn of the loop in registers: {held} at most"
    if short:
        if tail != "overlap":
            yield "only with overlap can the shortest blocks go another way"
        if short == "mask" and registers not in AVX512:
            yield "only avx512 and avx512vl have masks"
        if short == "bytes" and function == "memmove":
            yield "string instructions go forward only; memmove needs branches or a mask"
        most = 16 if registers == "general" else 2 * (shape.small_bytes or shape.width)
        allowed = {"mask": (32, 64), "bytes": (16, 32, 64, 128)}[short]
        allowed = tuple(upto for upto in allowed if upto <= most)
        if shape.short_to not in allowed:
            yield f"{short} is for blocks of up to {' or '.join(map(str, allowed))} bytes here"
    elif shape.short_to:
        yield "a size up to which a block is short needs a way"
    if shape.stores == "aligned":
        if tail != "mask" or shape.small_bytes or function != "memcpy":
            yield "only a memcpy with mask and without narrower registers is not aligned anyway"
        if loop == width:
            yield "aligned needs a loop of 128 bytes or more"
    elif shape.stores and (tail != "overlap" or registers == "general" or function == "memmove"):
        yield "only memcpy and memset with overlap and vector registers can do without boundaries"
