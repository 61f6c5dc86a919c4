# SPDX-License-Identifier: MIT
"""memmove beyond the sizes that branches cover: upwards or downwards."""

from __future__ import annotations

from kdyno.labs.memcpy.make.assembly import Place, Registers, Text
from kdyno.labs.memcpy.make.blocks import rep
from kdyno.labs.memcpy.make.shape import Shape

_MOVED = Place("%rsi", "%rdi")
"""The source, once rsi holds its distance from the target."""
_TARGET = Place("%rdi")


def moved(text: Text, shape: Shape) -> None:
    """memmove: upwards, unless the target begins within the source. Both ends are loaded first."""
    loop = shape.loop_bytes
    general = shape.registers == "general"
    registers = Registers(shape.registers, shape.width)
    count = loop // shape.width
    kept = ["%r10", "%r11"] if general else [registers[8 + index] for index in range(count)]
    turn = ["%rcx", "%rdx"] if general else [registers[index] for index in range(count)]
    edge = registers[7] if not general else ""

    def move(source: Place, start: int, names: list[str], *, store: bool = False) -> None:
        for index, name in enumerate(names[:count]):
            where = source.at(start + index * shape.width)
            text.op(registers.move, *((name, where) if store else (where, name)))

    text.op("movq", "%rdi", "%rcx")
    text.op("subq", "%rsi", "%rcx")
    text.op("cmpq", "%rdx", "%rcx")
    text.op("jb", ".Lbackward")
    if shape.large == "rep-movsb":
        text.op("cmpq", f"${shape.large_from}", "%rdx")
        text.op("jb", ".Lupward")
        text.note("rep movsb crawls where the blocks are close: rcx is the target minus the source")
        text.op("cmpq", "$-4096", "%rcx")
        text.op("jb", ".Llarge")
        text.label("upward")
    move(Place("%rsi", "%rdx"), -loop, kept)
    if edge:
        text.op(registers.move, "(%rsi)", edge)
    text.op("leaq", f"{-loop}(%rdi, %rdx)", "%r9")
    text.op("subq", "%rdi", "%rsi")
    if edge:
        text.op("addq", f"${shape.width}", "%rdi")
        text.op("andq", f"${-shape.width}", "%rdi")
    text.label("up", 6)
    move(_MOVED, 0, turn)
    move(_TARGET, 0, turn, store=True)
    text.op("addq", f"${loop}", "%rdi")
    text.op("cmpq", "%r9", "%rdi")
    text.op("jb", ".Lup")
    move(Place("%r9"), 0, kept, store=True)
    if edge:
        text.op(registers.move, edge, "(%rax)")
    text.leave(registers.dirty)

    text.label("backward", 6)
    move(Place("%rsi"), 0, kept)
    if edge:
        text.op(registers.move, f"{-shape.width}(%rsi, %rdx)", edge)
    text.op("leaq", f"{loop}(%rdi)", "%r9")
    text.op("leaq", "(%rdi, %rdx)", "%r8")
    text.op("subq", "%rdi", "%rsi")
    if edge:
        text.op("leaq", "-1(%r8)", "%rdi")
        text.op("andq", f"${-shape.width}", "%rdi")
    else:
        text.op("movq", "%r8", "%rdi")
    text.label("down", 6)
    move(_MOVED, -loop, turn)
    move(_TARGET, -loop, turn, store=True)
    text.op("subq", f"${loop}", "%rdi")
    text.op("cmpq", "%r9", "%rdi")
    text.op("ja", ".Ldown")
    move(Place("%rax"), 0, kept, store=True)
    if edge:
        text.op(registers.move, edge, f"{-shape.width}(%r8)")
    text.leave(registers.dirty)
    if shape.large == "rep-movsb":
        text.label("large", 6)
        rep(text, shape)
