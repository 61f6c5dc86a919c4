# SPDX-License-Identifier: MIT
"""A memory routine from its shape: the text of a file as in ``kernel/memcpy/``."""

from __future__ import annotations

from kdyno.kernels.routines.routine import label
from kdyno.labs.memcpy.make.assembly import Place, Registers, Text, broadcast, copies, spread, value
from kdyno.labs.memcpy.make.blocks import above, masked, masked_move, page, rep, strings
from kdyno.labs.memcpy.make.moving import moved
from kdyno.labs.memcpy.make.shape import Shape

_WORDS = {
    "general": "8-byte general",
    "sse": "16-byte SSE",
    "avx2": "32-byte AVX",
    "avx512vl": "32-byte AVX-512",
}
_TAILS = {
    "overlap": "the ends by accesses that overlap",
    "string": "the rest by string instructions",
    "mask": "the rest by a masked register",
}
_RESULT = {"memcpy": "copies", "memmove": "moves", "memset": "fills"}


def generate(shape: Shape, name: str | None = None) -> str:
    """The text of ``NAME.S``; the name is the shape's unless told.

    name: without the function in front (``avx2-128-overlap`` of ``memset-avx2-128-overlap.S``).
    """
    own = shape.name.removeprefix(f"{shape.function}-")
    called = name or own
    text = Text()
    _head(text, shape, called, own)
    macro = "PAGE_ROUTINE" if shape.is_page else "ROUTINE"
    whom = label(called)
    if shape.function == "memcpy":
        text.lines.append(f"ROUTINE_START({whom})")
    else:
        of = "" if shape.is_page else "_OF"
        text.lines.append(f"{macro}_START{of}({shape.function}, {whom})")
    if shape.is_page:
        page(text, shape)
    elif shape.tail == "string":
        strings(text, shape)
    elif shape.tail == "mask":
        masked(text, shape)
    else:
        _ladder(text, shape)
        (moved if shape.function == "memmove" else above)(text, shape)
    if shape.function == "memcpy":
        text.lines.append(f"ROUTINE_END({whom})")
    else:
        of = "" if shape.is_page else "_OF"
        text.lines.append(f"{macro}_END{of}({shape.function}, {whom})")
    return text.whole()


def describe(shape: Shape) -> str:
    """The shape in a line."""
    words = f"{_WORDS.get(shape.registers, '64-byte AVX-512')} registers"
    if not shape.is_page:
        words += f", {shape.loop_bytes} bytes a turn, {_TAILS[shape.tail]}"
        if shape.small_bytes and shape.tail == "mask":
            words += f", a loop of {shape.small_bytes}-byte registers at the target's boundaries"
        elif shape.small_bytes:
            words += f", {shape.small_bytes}-byte registers below the loop"
        words += f", {shape.stores} stores" * bool(shape.stores)
        words += _of_short(shape)
    elif shape.large != "rep-movsb":
        words += f", {shape.loop_bytes} bytes a turn"
    size = "" if shape.is_page else f" from {shape.large_from} bytes"
    string = "rep movsb" if copies(shape) else "rep stosb"
    if shape.large == "rep-movsb":
        words = string if shape.is_page else f"{words}, {string}{size}"
    elif shape.large == "non-temporal":
        words += f", past the caches{size}"
    return words


def _of_short(shape: Shape) -> str:
    if not shape.short:
        return ""
    way = "a masked register" if shape.short == "mask" else "a string instruction"
    return f", up to {shape.short_to} bytes by {way}"


def _head(text: Text, shape: Shape, called: str, own: str) -> None:
    function = "" if shape.function == "memcpy" else f"{shape.function}-"
    command = f"kdyno memcpy generate {shape.name}"
    if called != own:
        command += f" --name {called}"
    native = shape.registers == "general" and not shape.is_page
    text.lines += [
        "/* SPDX-License-Identifier: GPL-2.0-only */",
        "/*",
        f" * help: {describe(shape)}",
        f" * requires: {' '.join(shape.requires)}",
        f" * source: generated: {command} -o {function}{called}.S",
        f" * arch: um{' x86_64' if native else ''}",
    ]
    if shape.function != "memcpy":
        text.lines.append(f" * function: {shape.function}")
    text.lines += [
        " *",
        " * Change the shape or the generator (kdyno memcpy generate), not this file.",
        " */",
        '#include "routine.h"',
        "",
    ]


def _ladder(text: Text, shape: Shape) -> None:
    """All sizes up to ``limit``: both ends, all loads before the first store.

    So memmove can have the same lines.
    """
    fills = not copies(shape)
    text.op("movq", "%rdi", "%rax")
    if fills:
        spread(text, shape)
        if shape.registers != "general":
            broadcast(text, shape, 16)
    width_so_far = 16
    if shape.short:
        width_so_far = _short(text, shape)
    else:
        text.op("cmpq", "$32", "%rdx")
        text.op("ja", ".Lover_32")
        # The shortest fall through: a branch that is not taken costs the predictor least.
        text.op("cmpl", "$16", "%edx")
        text.op("jae", ".Lfrom_16")
        _under_16(text, shape)
    for low, width, count in _steps(shape):
        high = 2 * low
        if low < shape.short_to:
            continue
        text.label("from_16" if low == 16 and not shape.short else f"over_{low}", 4)
        if fills and width > width_so_far:
            broadcast(text, shape, width)
        width_so_far = width
        if low > 16 or shape.short:
            text.op("cmpq", f"${high}", "%rdx")
            text.op("ja", f".Lover_{high}")
        _ends(text, shape, width, count)
    text.label(f"over_{limit(shape)}", 4)
    if fills and shape.width > width_so_far:
        broadcast(text, shape, shape.width)


def _short(text: Text, shape: Shape) -> int:
    """All sizes up to ``short_to``, without a branch; the widest register that has what fills."""
    fills = not copies(shape)
    if shape.short == "bytes":
        text.op("cmpq", f"${shape.short_to}", "%rdx")
        text.op("ja", f".Lover_{shape.short_to}")
        rep(text, shape)
        return 16
    if fills:
        broadcast(text, shape, shape.short_to)
    text.op("cmpq", f"${shape.short_to}", "%rdx")
    text.op("ja", f".Lover_{shape.short_to}")
    text.op("movq", "$-1", "%rcx")
    text.op("bzhiq", "%rdx", "%rcx", "%rcx")
    masked_move(text, Registers(shape.registers, shape.short_to)[0], fills)
    text.leave()
    return shape.short_to


def limit(shape: Shape) -> int:
    """The largest size that needs no loop."""
    low, _width, _count = _steps(shape)[-1]
    return 2 * low


def _steps(shape: Shape) -> list[tuple[int, int, int]]:
    """(low, width, count): sizes low … 2 × low by ``count`` registers from each end."""
    if shape.registers == "general":
        return [(16, 8, 2)]
    widest, found, low = shape.small_width, [], 16
    while low < widest:
        found.append((low, low, 1))
        low *= 2
    most = 8 if shape.small_bytes or shape.registers == "avx512vl" else 4
    count = 1
    while count <= most:
        found.append((low, widest, count))
        low, count = 2 * low, 2 * count
    return found


def _ends(text: Text, shape: Shape, width: int, count: int) -> None:
    registers = Registers(shape.registers, width)
    source, target = Place("%rsi"), Place("%rdi")
    from_end, to_end = Place("%rsi", "%rdx"), Place("%rdi", "%rdx")
    first = [width * index for index in range(count)]
    last = [-width * (count - index) for index in range(count)]
    if copies(shape):
        for index, offset in enumerate(first):
            text.op(registers.move, source.at(offset), registers.small(index))
        for index, offset in enumerate(last):
            text.op(registers.move, from_end.at(offset), registers.small(count + index))
        names = [registers.small(index) for index in range(2 * count)]
    else:
        names = [value(shape, width)] * (2 * count)
    for name, offset in zip(names[:count], first, strict=True):
        text.op(registers.move, name, target.at(offset))
    for name, offset in zip(names[count:], last, strict=True):
        text.op(registers.move, name, to_end.at(offset))
    text.leave(registers.dirty)


def _under_16(text: Text, shape: Shape) -> None:
    """8 to 15 by two words, 4 to 7 by two halves, 1 to 3 by first, middle and last byte."""
    fills = not copies(shape)
    text.op("cmpl", "$8", "%edx")
    text.op("jae", ".Lfrom_8")
    text.op("cmpl", "$4", "%edx")
    text.op("jae", ".Lfrom_4")
    text.op("testl", "%edx", "%edx")
    text.op("jz", ".Lnothing")
    text.op("movl", "%edx", "%r10d")
    text.op("shrl", "$1", "%r10d")
    names = ("%sil", "%sil", "%sil")
    if not fills:
        names = ("%cl", "%r9b", "%r8b")
        text.op("movzbl", "(%rsi)", "%ecx")
        text.op("movzbl", "(%rsi, %r10)", "%r9d")
        text.op("movzbl", "-1(%rsi, %rdx)", "%r8d")
    text.op("movb", names[0], "(%rdi)")
    text.op("movb", names[1], "(%rdi, %r10)")
    text.op("movb", names[2], "-1(%rdi, %rdx)")
    text.label("nothing")
    text.leave()
    for size, move, one, two, filler in (
        (8, "movq", "%rcx", "%r8", "%rsi"),
        (4, "movl", "%ecx", "%r8d", "%esi"),
    ):
        text.label(f"from_{size}", 4)
        if not fills:
            text.op(move, "(%rsi)", one)
            text.op(move, f"-{size}(%rsi, %rdx)", two)
        text.op(move, filler if fills else one, "(%rdi)")
        text.op(move, filler if fills else two, f"-{size}(%rdi, %rdx)")
        text.leave()
