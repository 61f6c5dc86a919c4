# SPDX-License-Identifier: MIT
"""Assembly text: which registers a shape has, and what moves them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kdyno.labs.memcpy.make.shape import AVX512, Shape

_SETS = {16: "xmm", 32: "ymm", 64: "zmm"}
_GENERAL = ("rcx", "r8", "r11", "rdx")
"""Free once the size is spent; r9 and r10 hold the ends, rax the result."""
_GENERAL_SMALL = ("rcx", "r8", "r9", "r10")
"""Free while rdx still holds the size."""


@dataclass(frozen=True)
class Registers:
    """The registers of one width, in bytes, as a shape uses them."""

    kind: str
    width: int

    def __getitem__(self, index: int) -> str:
        if self.kind == "general":
            return f"%{_GENERAL[index]}"
        # No SSE or AVX instruction can name 16 to 31: no vzeroupper is needed after them.
        return f"%{_SETS[self.width]}{index + (16 if self.kind in AVX512 else 0)}"

    def small(self, index: int) -> str:
        """While rdx holds the size."""
        return f"%{_GENERAL_SMALL[index]}" if self.kind == "general" else self[index]

    @property
    def move(self) -> str:
        named = {"general": "movq", "sse": "movdqu", "avx2": "vmovdqu"}
        return named.get(self.kind, "vmovdqu64")

    @property
    def stream(self) -> str:
        """A store past the caches; vectors must be aligned for it."""
        return {"general": "movnti", "sse": "movntdq"}.get(self.kind, "vmovntdq")

    @property
    def dirty(self) -> bool:
        """Whether using them leaves upper halves that make later SSE instructions slow."""
        return self.kind == "avx2" and self.width > 16


@dataclass
class Text:
    """Lines of a routine, collected in order."""

    lines: list[str] = field(default_factory=list)

    def op(self, name: str, *operands: str) -> None:
        self.lines.append(f"\t{name}\t{', '.join(operands)}" if operands else f"\t{name}")

    def label(self, name: str, power: int = 0) -> None:
        if power:
            self.op(".p2align", str(power))
        self.lines.append(f".L{name}:")

    def note(self, text: str) -> None:
        self.lines.append(f"\t/* {text} */")

    def leave(self, dirty: bool = False) -> None:
        if dirty:
            self.op("vzeroupper")
        self.op("RET")

    def whole(self) -> str:
        return "\n".join(self.lines) + "\n"


@dataclass(frozen=True)
class Place:
    """An address: ``offset(base)`` or ``offset(base, index)``."""

    base: str
    index: str = ""

    def at(self, offset: int) -> str:
        inside = f"{self.base}, {self.index}" if self.index else self.base
        return f"{offset or ''}({inside})"


def chunk(
    text: Text,
    shape: Shape,
    offsets: Sequence[int],
    source: Place,
    target: Place,
    *,
    stream: bool = False,
    width: int = 0,
) -> None:
    """Move registers at ``offsets`` from ``source`` to ``target``, as many at once as there are.

    width: of the registers, in bytes; 0: the shape's.
    """
    registers = Registers(shape.registers, width or shape.width)
    store = registers.stream if stream else registers.move
    if not copies(shape):
        for offset in offsets:
            text.op(store, value(shape, shape.width), target.at(offset))
        return
    most = 4 if shape.registers == "general" else 8
    for group in _groups(offsets, most):
        for index, offset in enumerate(group):
            text.op(registers.move, source.at(offset), registers[index])
        for index, offset in enumerate(group):
            text.op(store, registers[index], target.at(offset))


def copies(shape: Shape) -> bool:
    """Whether it has a source, and does not fill."""
    return shape.function not in ("memset", "clear_page")


def value(shape: Shape, width: int) -> str:
    """The register that holds what is filled with, ``width`` bytes of it."""
    return "%rsi" if width == 8 else Registers(shape.registers, width)[0]


def spread(text: Text, shape: Shape) -> None:
    """memset: eight copies of the byte in rsi."""
    text.op("movzbl", "%sil", "%esi")
    text.op("movabsq", "$0x0101010101010101", "%rcx")
    text.op("imulq", "%rcx", "%rsi")


def broadcast(text: Text, shape: Shape, width: int) -> None:
    """rsi into all of the register of ``width`` bytes that holds what is filled with."""
    register = value(shape, width)
    if shape.registers == "sse":
        text.op("movq", "%rsi", register)
        text.op("punpcklqdq", register, register)
    elif shape.registers == "avx2":
        if width == 16:
            text.op("vmovq", "%rsi", register)
        text.op("vpbroadcastq", "%xmm0", register)
    elif shape.registers in AVX512:
        text.op("vpbroadcastq", "%rsi", register)


def _groups(offsets: Sequence[int], most: int) -> Iterable[Sequence[int]]:
    return (offsets[start : start + most] for start in range(0, len(offsets), most))
