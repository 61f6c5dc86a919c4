# SPDX-License-Identifier: MIT
"""Routines as machine code: assembled once each, then linked at places drawn anew.

The same code was seen at 1.9 or 2.7 ns for 8 bytes, depending on the address at which it lay. So
a routine is timed at several: a rack is a shared object with all routines in a random order and
random gaps of whole cache lines between them.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kdyno import whole
from kdyno.command import capture, require
from kdyno.confined import confined
from kdyno.errors import ToolError, UsageError
from kdyno.kernels.compiler import identify
from kdyno.kernels.routines.routine import PLACE, Routine, flatten, read_text
from kdyno.kernels.routines.sections import refuse_unasked

NATIVE = Path(__file__).parent / "native"
GAPS = tuple(64 << power for power in range(6))
"""Bytes of the gaps that are put together to any multiple of 64 below 4096."""


@dataclass(frozen=True)
class Contender:
    """One function that copies, and where its code comes from."""

    name: str
    symbol: str
    """In the rack; ``=libc`` stands for the C library's memcpy."""
    object: Path | None
    help: str
    rank: str = "routine"
    """``routine``, ``rival`` (what a kernel has today), ``other``, or ``bound``: copies nothing."""


def routine_contender(routine: Routine, cache_root: Path) -> Contender:
    """A routine of a kernel as a program runs it. BuildError of gcc becomes a UsageError."""
    made = assembled(flatten(routine.path), str(routine.path), cache_root, routine=True)
    return Contender(routine.name, routine.symbol, made, routine.help)


def standing(cache_root: Path) -> list[Contender]:
    """What routines are always held against, but for the kernel's own loop."""
    made = assembled((NATIVE / "rivals.S").read_text("utf-8"), "rivals.S", cache_root)
    return [
        Contender("rep-movsb", "memcpy_rep_movsb", made, "one string instruction", "rival"),
        Contender("rep-movsq", "memcpy_rep_movsq", made, "8 bytes a step, then the rest", "other"),
        Contender("glibc", "=libc", None, "the C library's memcpy", "other"),
        Contender("nothing", "memcpy_nothing", made, "returns at once: the bound", "bound"),
    ]


def kernels_own(tree: Path, cache_root: Path) -> Contender:
    """``memcpy_orig``, assembled from the kernel source in ``tree``; nothing of it is kept here.

    UsageError where the tree has no such loop.
    """
    path = tree / PLACE
    try:
        text = read_text(path)
    except UsageError as problem:
        raise UsageError(f"{problem}; --tree must be a kernel source") from None
    if "memcpy_orig" not in text:
        raise UsageError(f"{path}: has no memcpy_orig; --tree must be a source of 3.x to 7.x")
    shim = ("-D__ASSEMBLY__", "-I", str(NATIVE / "shim"))
    made = assembled(text, str(path), cache_root, shim)
    return Contender("orig", "kernel_memcpy_orig", made, "the kernel's loop over 32 bytes", "rival")


def assembled(
    text: str,
    origin: str,
    cache_root: Path,
    options: Sequence[str] = (),
    *,
    routine: bool = False,
) -> Path:
    """The object file of an assembly text. ``routine``: a stranger's, of one function.

    UsageError with gcc's words where it is not assembly, and where it brings more than a function.
    """
    folder = cache_root / "memcpy" / "objects"
    shim = "".join(it.read_text("utf-8") for it in sorted((NATIVE / "shim").rglob("*.h")))
    made = folder / f"{_digest(text, *options, shim if options else '')}.o"
    if not made.is_file():
        words = ["-c", *options, "-x", "assembler-with-cpp", "-"]
        try:
            _gcc(words, made, text, reads=[NATIVE])
        except ToolError as problem:
            raise UsageError(f"{origin} does not assemble: {problem}") from None
    refuse_unasked(made.read_bytes(), origin, routine=routine)
    return made


@cache
def timing_program(cache_root: Path) -> Path:
    """The program that times, compiled at need."""
    sources = sorted(NATIVE.glob("*.c"))
    texts = [it.read_text("utf-8") for it in (*sources, *sorted(NATIVE.glob("*.h")))]
    made = cache_root / "memcpy" / "programs" / _digest(*texts)
    if not made.is_file():
        words = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra"]
        _gcc([*words, *map(str, sources), "-ldl"], made, reads=[NATIVE])
    return made


def rack(contenders: Sequence[Contender], seed: int, folder: Path, cache_root: Path) -> Path:
    """A shared object with all of them, placed as ``seed`` says; written into ``folder``."""
    objects = list(dict.fromkeys(it.object for it in contenders if it.object is not None))
    dice = random.Random(seed)
    dice.shuffle(objects)
    gaps = {size: _gap(size, cache_root) for size in GAPS}
    words: list[str] = []
    for each in objects:
        chosen = dice.randrange(64)
        words += [str(gaps[size]) for bit, size in enumerate(GAPS) if chosen >> bit & 1]
        words.append(str(each))
    made = folder / f"rack-{seed}.so"
    _gcc(["-shared", "-nostdlib", *words], made, reads=[*objects, *gaps.values()])
    return made


def _gap(size: int, cache_root: Path) -> Path:
    text = f'.section .text.gap,"ax"\n.p2align 6\n.skip {size}, 0xcc\n'
    return assembled(text + '.section .note.GNU-stack,"",@progbits\n', "a gap", cache_root)


def _digest(*texts: str) -> str:
    total = hashlib.sha256(identify("gcc").version.encode())
    for text in texts:
        total.update(b"\0" + text.encode())
    return total.hexdigest()[:32]


def _gcc(words: Sequence[str], made: Path, text: str = "", reads: Sequence[Path] = ()) -> None:
    """Run gcc in the sandbox; ToolError with its words. The file is whole or not there at all."""
    program = require("gcc", "to assemble routines and to time them")
    made.parent.mkdir(parents=True, exist_ok=True)
    with whole.scratch("gcc", made.parent.absolute()) as folder:
        aside = folder / made.name
        argv = [program, *words, "-o", str(aside)]
        inside = confined(argv, reads=reads, writes=[aside.parent])
        done = capture(inside, stdin=text.encode())
        if done.status != 0:
            raise ToolError(f"gcc: {done.output.strip()[-1500:]}")
        aside.rename(made)
