# SPDX-License-Identifier: MIT
"""The loops of generated routines: what a shape does with blocks that no branch covers."""

from __future__ import annotations

from kdyno.labs.memcpy.make.assembly import Place, Registers, Text, broadcast, chunk, copies, spread
from kdyno.labs.memcpy.make.shape import PAGE_BYTES, Shape

_MOVED = Place("%rsi", "%rdi")
"""The source, once rsi holds its distance from the target."""
_TARGET = Place("%rdi")


def _offsets(shape: Shape, size: int, start: int = 0, width: int = 0) -> list[int]:
    return list(range(start, start + size, width or shape.width))


def _last_bytes(shape: Shape) -> int:
    """What is left to the accesses that overlap: one turn, at most four registers."""
    return min(shape.loop_bytes, 4 * shape.width)


def _dirty(shape: Shape) -> bool:
    return Registers(shape.registers, shape.width).dirty


def above(text: Text, shape: Shape) -> None:
    """memcpy and memset, tail overlap: r9 is where the last bytes begin in the target."""
    last = _last_bytes(shape)
    if shape.large != "plain":
        text.op("cmpq", f"${shape.large_from}", "%rdx")
        text.op("jae", ".Llarge")
    _begun(text, shape, last)
    if shape.loop_bytes > last:
        text.note("r10: the last place where a whole turn still fits")
        text.op("leaq", f"{last - shape.loop_bytes}(%r9)", "%r10")
        text.op("cmpq", "%r10", "%rdi")
        text.op("ja", ".Lrest")
    _turns(text, shape, last, "loop")
    if shape.loop_bytes > last:
        text.label("rest")
        text.op("cmpq", "%r9", "%rdi")
        text.op("jae", ".Llast")
        text.label("rest_loop", 6)
        chunk(text, shape, _offsets(shape, last), _MOVED, _TARGET)
        text.op("addq", f"${last}", "%rdi")
        text.op("cmpq", "%r9", "%rdi")
        text.op("jb", ".Lrest_loop")
    text.label("last")
    _last(text, shape, last)
    text.leave(_dirty(shape))
    if shape.large == "rep-movsb":
        text.label("large", 6)
        rep(text, shape)
    elif shape.large == "non-temporal":
        text.label("large", 6)
        _begun(text, shape, last, always=True)
        if shape.loop_bytes > last:
            text.op("leaq", f"{last - shape.loop_bytes}(%r9)", "%r10")
        _turns(text, shape, last, "stream", stream=True)
        text.op("sfence")
        text.op("jmp", ".Lrest" if shape.loop_bytes > last else ".Llast")


def _begun(text: Text, shape: Shape, last: int, *, always: bool = False) -> None:
    """The first register's bytes, then the target at a multiple of its width.

    That only where the shape says so, or ``always``.

    The last bytes are loaded here and wait: their loads need not wait for the loop. General
    registers are too few for that, and stay where they are: what they lose by that is little.
    """
    boundary = shape.registers != "general" and (shape.aligns or always)
    if shape.registers != "general":
        registers = Registers(shape.registers, shape.width)
        if copies(shape):
            if boundary:
                text.op(registers.move, "(%rsi)", registers[0])
            for index, offset in enumerate(_offsets(shape, last, -last)):
                text.op(registers.move, Place("%rsi", "%rdx").at(offset), registers[8 + index])
        if boundary:
            text.op(registers.move, registers[0], "(%rdi)")
    text.op("leaq", f"{-last}(%rdi, %rdx)", "%r9")
    if copies(shape):
        text.op("subq", "%rdi", "%rsi")
    if boundary:
        text.op("addq", f"${shape.width}", "%rdi")
        text.op("andq", f"${-shape.width}", "%rdi")


def _last(text: Text, shape: Shape, last: int) -> None:
    """The last bytes, at r9; registers 8 and following hold them where they were copied."""
    if shape.registers == "general" or not copies(shape):
        chunk(text, shape, _offsets(shape, last), Place("%rsi", "%r9"), Place("%r9"))
        return
    registers = Registers(shape.registers, shape.width)
    for index, offset in enumerate(_offsets(shape, last)):
        text.op(registers.move, registers[8 + index], Place("%r9").at(offset))


def _turns(text: Text, shape: Shape, last: int, name: str, *, stream: bool = False) -> None:
    text.label(name, 6)
    chunk(text, shape, _offsets(shape, shape.loop_bytes), _MOVED, _TARGET, stream=stream)
    text.op("addq", f"${shape.loop_bytes}", "%rdi")
    whole = shape.loop_bytes > last
    text.op("cmpq", "%r10" if whole else "%r9", "%rdi")
    text.op("jbe" if whole else "jb", f".L{name}")


def rep(text: Text, shape: Shape) -> None:
    if copies(shape):
        text.op("movq", "%rdx", "%rcx")
        text.op("rep movsb")
        text.leave()
    else:
        text.op("movq", "%rdi", "%r8")
        text.op("movl", "%esi", "%eax")
        text.op("movq", "%rdx", "%rcx")
        text.op("rep stosb")
        text.op("movq", "%r8", "%rax")
        # The byte was spread into a wide register already.
        text.leave(_dirty(shape))


def strings(text: Text, shape: Shape) -> None:
    """Whole turns through the registers, the rest by string instructions."""
    fills = not copies(shape)
    if fills:
        spread(text, shape)
        text.op("movq", "%rdi", "%r8")
    else:
        text.op("movq", "%rdi", "%rax")
    if shape.large != "plain":
        text.op("cmpq", f"${shape.large_from}", "%rdx")
        text.op("jae", ".Llarge")
    if fills:
        text.op("movq", "%rsi", "%rax")
    text.op("movq", "%rdx", "%r9")
    text.op("shrq", f"${shape.loop_bytes.bit_length() - 1}", "%r9")
    text.op("jz", ".Lrest")
    text.op("movq", "%rdx", "%r10")
    _fill_register(text, shape)
    text.label("loop", 4)
    chunk(text, shape, _offsets(shape, shape.loop_bytes), Place("%rsi"), _TARGET)
    if not fills:
        text.op("addq", f"${shape.loop_bytes}", "%rsi")
    text.op("addq", f"${shape.loop_bytes}", "%rdi")
    text.op("decq", "%r9")
    text.op("jnz", ".Lloop")
    if _dirty(shape):
        text.op("vzeroupper")
    text.op("movq", "%r10", "%rdx")
    text.label("rest")
    for mask, shift, string in ((shape.loop_bytes - 1, 3, "q"), (7, 0, "b")):
        text.op("movl", "%edx", "%ecx")
        text.op("andl", f"${mask}", "%ecx")
        if shift:
            text.op("shrl", f"${shift}", "%ecx")
        text.op(f"rep {'stos' if fills else 'movs'}{string}")
    if fills:
        text.op("movq", "%r8", "%rax")
    text.leave()
    if shape.large == "rep-movsb":
        text.label("large", 6)
        if fills:
            text.op("movl", "%esi", "%eax")
        text.op("movq", "%rdx", "%rcx")
        text.op(f"rep {'stos' if fills else 'movs'}b")
        if fills:
            text.op("movq", "%r8", "%rax")
        text.leave()
    elif shape.large == "non-temporal":
        _streamed_strings(text, shape)


def _streamed_strings(text: Text, shape: Shape) -> None:
    """Bytes up to the target's boundary, whole turns past the caches, then what is left."""
    fills = not copies(shape)
    string = "stosb" if fills else "movsb"
    text.label("large", 6)
    if fills:
        text.op("movq", "%rsi", "%rax")
    text.op("movl", "%edi", "%ecx")
    text.op("negl", "%ecx")
    text.op("andl", f"${shape.width - 1}", "%ecx")
    text.op("subq", "%rcx", "%rdx")
    text.op(f"rep {string}")
    text.op("movq", "%rdx", "%r9")
    text.op("movq", "%rdx", "%r10")
    text.op("shrq", f"${shape.loop_bytes.bit_length() - 1}", "%r9")
    _fill_register(text, shape)
    text.label("stream", 4)
    chunk(text, shape, _offsets(shape, shape.loop_bytes), Place("%rsi"), _TARGET, stream=True)
    if not fills:
        text.op("addq", f"${shape.loop_bytes}", "%rsi")
    text.op("addq", f"${shape.loop_bytes}", "%rdi")
    text.op("decq", "%r9")
    text.op("jnz", ".Lstream")
    text.op("sfence")
    if _dirty(shape):
        text.op("vzeroupper")
    text.op("movq", "%r10", "%rdx")
    text.op("jmp", ".Lrest")


def _fill_register(text: Text, shape: Shape) -> None:
    if not copies(shape) and shape.registers != "general":
        broadcast(text, shape, 16)
        if shape.width > 16:
            broadcast(text, shape, shape.width)


def masked(text: Text, shape: Shape) -> None:
    """Up to 64 bytes by one masked register; after the loop the same for what is left.

    With narrower registers the loop begins at a boundary of the target, so that no store and only
    every other load of the longest blocks crosses a line.
    """
    fills = not copies(shape)
    register = Registers(shape.registers, shape.width)[0]
    text.op("movq", "%rdi", "%rax")
    if fills:
        spread(text, shape)
        broadcast(text, shape, shape.width)
    text.op("cmpq", f"${shape.width}", "%rdx")
    text.op("ja", ".Lover_64")
    text.label("tail")
    text.op("movq", "$-1", "%rcx")
    text.op("bzhiq", "%rdx", "%rcx", "%rcx")
    masked_move(text, register, fills)
    text.leave()
    text.label("over_64", 6)
    if shape.large != "plain":
        text.op("cmpq", f"${shape.large_from}", "%rdx")
        text.op("jae", ".Llarge")
    if shape.loop_bytes > shape.width:
        first = shape.small_width if shape.aligns else 0
        text.op("cmpq", f"${shape.loop_bytes + first}", "%rdx")
        text.op("jb", ".Lone")
        if shape.aligns:
            _to_boundary(text, shape)
        _counted(text, shape, "loop", shape.loop_bytes, "jae", width=shape.small_bytes)
        text.label("few")
        text.op("cmpq", f"${shape.width}", "%rdx")
        text.op("jbe", ".Ltail")
    _counted(text, shape, "one", shape.width, "ja")
    text.op("jmp", ".Ltail")
    if shape.large == "plain":
        return
    text.label("large", 6)
    if shape.large == "rep-movsb":
        rep(text, shape)
        return
    text.op("movl", "%edi", "%r8d")
    text.op("negl", "%r8d")
    text.op("andl", f"${shape.width - 1}", "%r8d")
    text.op("movq", "$-1", "%rcx")
    text.op("bzhiq", "%r8", "%rcx", "%rcx")
    masked_move(text, register, fills)
    text.op("addq", "%r8", "%rdi")
    text.op("addq", "%r8", "%rsi")
    text.op("subq", "%r8", "%rdx")
    _counted(text, shape, "stream", shape.loop_bytes, "jae", stream=True)
    text.op("sfence")
    text.op("cmpq", f"${shape.width}", "%rdx")
    text.op("jbe", ".Ltail")
    text.op("jmp", ".Lone")


def _to_boundary(text: Text, shape: Shape) -> None:
    """One register's bytes, then on to the target's next boundary of such registers."""
    width = shape.small_width
    chunk(text, shape, (0,), Place("%rsi"), _TARGET, width=width)
    text.op("movq", "%rdi", "%r8")
    text.op("andl", f"${width - 1}", "%r8d")
    text.op("subq", f"${width}", "%r8")
    text.note("r8: minus the bytes that are done with, 1 to the register's")
    text.op("subq", "%r8", "%rdi")
    text.op("subq", "%r8", "%rsi")
    text.op("addq", "%r8", "%rdx")


def masked_move(text: Text, register: str, fills: bool) -> None:
    """The bytes whose bits are set in rcx."""
    text.op("kmovq", "%rcx", "%k1")
    if not fills:
        text.op("vmovdqu8", "(%rsi)", register + "{%k1}{z}")
    text.op("vmovdqu8", register, "(%rdi){%k1}")


def _counted(
    text: Text,
    shape: Shape,
    name: str,
    size: int,
    again: str,
    *,
    stream: bool = False,
    width: int = 0,
) -> None:
    """A loop over pieces of ``size`` bytes while rdx says that there are enough."""
    text.label(name, 6)
    offsets = _offsets(shape, size, width=width)
    chunk(text, shape, offsets, Place("%rsi"), _TARGET, stream=stream, width=width)
    if copies(shape):
        text.op("addq", f"${size}", "%rsi")
    text.op("addq", f"${size}", "%rdi")
    text.op("subq", f"${size}", "%rdx")
    text.op("cmpq", f"${size}", "%rdx")
    text.op(again, f".L{name}")


def page(text: Text, shape: Shape) -> None:
    """copy_page and clear_page: 4096 bytes at their multiples, nothing to test."""
    if not copies(shape):
        zero = "%eax" if shape.large == "rep-movsb" else "%esi"
        text.op("xorl", zero, zero)
    if shape.large == "rep-movsb":
        text.op("movl", f"${PAGE_BYTES}", "%ecx")
        text.op("rep movsb" if copies(shape) else "rep stosb")
        text.leave()
        return
    stream = shape.large == "non-temporal"
    _fill_register(text, shape)
    text.op("movl", f"${PAGE_BYTES // shape.loop_bytes}", "%r9d")
    text.label("loop", 6)
    chunk(text, shape, _offsets(shape, shape.loop_bytes), Place("%rsi"), _TARGET, stream=stream)
    if copies(shape):
        text.op("addq", f"${shape.loop_bytes}", "%rsi")
    text.op("addq", f"${shape.loop_bytes}", "%rdi")
    text.op("decl", "%r9d")
    text.op("jnz", ".Lloop")
    if stream:
        text.op("sfence")
    text.leave(_dirty(shape))
