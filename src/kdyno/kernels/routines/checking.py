# SPDX-License-Identifier: MIT
"""Routines as machine code: what they may bring, where they are put, whether they copy right.

A checker in a program calls a routine with sizes at offsets between guard pages, and compares the
bytes, what is around them, the result, the registers that a callee must keep, the direction flag
and whether upper halves were left in use (check.c), before it is timed or built in."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kdyno import whole
from kdyno.command import capture, require
from kdyno.errors import ToolError, UsageError
from kdyno.kernels import cpu, leavings
from kdyno.kernels.compiler import identify
from kdyno.kernels.routines.routine import FUNCTIONS, PLACE, Routine, flatten, read_text
from kdyno.reading.checked import adapter, values_in
from kdyno.sandbox import confined, plain_status

# An assembled routine may bring code and data of one function, nothing that runs unasked. A linker
# collects initialisers by their sections, and a loader calls them, and resolvers of indirect
# functions, before anything of the program itself.
_PLAIN = frozenset((0, 1, 2, 3, 4, 7, 8, 0x7000_0001))
"""Nothing, content, symbols, names, relocations, notes, zeros, unwinding: not initialisers (14 to
16), nor groups of sections (17)."""
_KNOWN = re.compile(
    r"|\.(noinstr\.)?text(\..+)?|\.rodata(\..+)?|\.data(\..+)?|\.bss(\..+)?|\.note\..+|\.eh_frame"
    r"|\.comment|\.debug_.+|\.symtab|\.strtab|\.shstrtab"
)
_ROUTINES = tuple(f"{function}_" for function in FUNCTIONS)
_UNASKED = ("_init", "_fini")
"""Global names that a linker has called when a program starts and ends."""


def refuse_unasked(content: bytes, origin: str, *, routine: bool) -> None:
    """UsageError for an object that has a place for code which runs unasked. routine: its global
    names must be those of routines, so that they replace nothing else."""
    try:
        sections, symbols = leavings.sections(content), leavings.symbols(content)
    except ValueError as problem:
        raise UsageError(f"{origin}: gcc made no object of it that can be read") from problem
    for section in sections:
        plain_name = re.sub(r"^\.rela(?=\.)", "", section.name)
        if section.kind not in _PLAIN or not _KNOWN.fullmatch(plain_name):
            raise UsageError(
                f"{origin}: the section {section.name!r} is refused. A routine has code in .text "
                "and data in .rodata, .data or .bss, and nothing that runs before it is called"
            )
    for name, kind in symbols:
        if kind == leavings.INDIRECT:
            raise UsageError(f"{origin}: {name!r} is an indirect function, which is refused")
        if name in _UNASKED or (routine and not name.startswith(_ROUTINES)):
            raise UsageError(
                f"{origin}: the global name {name!r} is refused. A routine has one, FUNCTION_NAME, "
                "as routine.h makes it"
            )


NATIVE = Path(__file__).parent / "native"
GAPS = tuple(64 << power for power in range(6))
"""Bytes of the gaps that are put together to any multiple of 64 below 4096: the same code was seen
at 1.9 or 2.7 ns for 8 bytes, depending on the address at which it lay. So a routine is timed at
several, in racks: shared objects with all routines in a random order and random gaps between."""


@dataclass(frozen=True)
class Contender:
    """One function that copies, and where its code comes from."""

    name: str
    symbol: str
    """In the rack; ``=libc`` stands for the C library's memcpy."""
    object: Path | None
    rank: str = "routine"
    """``routine``, ``rival`` (what a kernel has today), ``other``, or ``bound``: copies nothing."""


def routine_contender(routine: Routine, cache_root: Path) -> Contender:
    """A routine of a kernel as a program runs it. BuildError of gcc becomes a UsageError."""
    code = assembled(flatten(routine.path), str(routine.path), cache_root, routine=True)
    return Contender(routine.name, routine.symbol, code)


def standing(cache_root: Path) -> list[Contender]:
    """What routines are always held against, but for the kernel's own loop."""
    code = assembled((NATIVE / "rivals.S").read_text("utf-8"), "rivals.S", cache_root)
    return [
        Contender("rep-movsb", "memcpy_rep_movsb", code, "rival"),
        Contender("rep-movsq", "memcpy_rep_movsq", code, "other"),
        Contender("glibc", "=libc", None, "other"),
        Contender("nothing", "memcpy_nothing", code, "bound"),
    ]


def kernels_own(tree: Path, cache_root: Path) -> Contender:
    """``memcpy_orig``, assembled from the kernel source in ``tree``; nothing of it is kept here.
    UsageError where the tree has no such loop."""
    path = tree / PLACE
    try:
        text = read_text(path)
    except UsageError as problem:
        raise UsageError(f"{problem}; {tree} must be a kernel source") from None
    if "memcpy_orig" not in text:
        raise UsageError(f"{path}: has no memcpy_orig; sources of 3.x to 7.x have it")
    shim = ("-D__ASSEMBLY__", "-I", str(NATIVE / "shim"))
    code = assembled(text, str(path), cache_root, shim)
    return Contender("orig", "kernel_memcpy_orig", code, "rival")


def assembled(
    text: str, origin: str, cache_root: Path, options: Sequence[str] = (), *, routine: bool = False
) -> Path:
    """The object file of an assembly text. ``routine``: a stranger's, of one function. UsageError
    with gcc's words where it is not assembly, and where it brings more than a function."""
    folder = cache_root / "memcpy" / "objects"
    shim = "".join(header.read_text("utf-8") for header in sorted((NATIVE / "shim").rglob("*.h")))
    parts = (identify("gcc").version, text, *options, shim if options else "")
    code = folder / f"{_digest(*parts)}.o"
    if not code.is_file():
        words = ["-c", *options, "-x", "assembler-with-cpp", "-"]
        try:
            _gcc(words, code, text, reads=[NATIVE])
        except ToolError as problem:
            raise UsageError(f"{origin} does not assemble: {problem}") from None
    refuse_unasked(code.read_bytes(), origin, routine=routine)
    return code


@cache
def timing_program(cache_root: Path) -> Path:
    """The program that times, compiled at need."""
    sources = sorted(NATIVE.glob("*.c"))
    texts = [file.read_text("utf-8") for file in (*sources, *sorted(NATIVE.glob("*.h")))]
    program = cache_root / "memcpy" / "programs" / _digest(identify("gcc").version, *texts)
    if not program.is_file():
        words = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra"]
        _gcc([*words, *map(str, sources), "-ldl"], program, reads=[NATIVE])
    return program


def rack(contenders: Sequence[Contender], seed: int, folder: Path, cache_root: Path) -> Path:
    """A shared object with all of them, placed as ``seed`` says; written into ``folder``."""
    objects = list(dict.fromkeys(each.object for each in contenders if each.object is not None))
    dice = random.Random(seed)
    dice.shuffle(objects)
    gap = '.section .text.gap,"ax"\n.p2align 6\n.skip {}, 0xcc\n'
    gap += '.section .note.GNU-stack,"",@progbits\n'
    gaps = {size: assembled(gap.format(size), "a gap", cache_root) for size in GAPS}
    words: list[str] = []
    for each in objects:
        chosen = dice.randrange(64)
        words += [str(gaps[size]) for bit, size in enumerate(GAPS) if chosen >> bit & 1]
        words.append(str(each))
    library = folder / f"rack-{seed}.so"
    _gcc(["-shared", "-nostdlib", *words], library, reads=[*objects, *gaps.values()])
    return library


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]


def _gcc(words: Sequence[str], target: Path, text: str = "", reads: Sequence[Path] = ()) -> None:
    """Run gcc in the sandbox; ToolError with its words. The file is whole or not there at all."""
    program = require("gcc", "to assemble routines, to check and to time them")
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole.scratch("gcc", target.parent.absolute()) as folder:
        aside = folder / target.name
        argv = [program, *words, "-o", str(aside)]
        inside = confined(argv, reads=reads, writes=[aside.parent])
        result = capture(inside, stdin=text.encode())
        if result.status != 0:
            raise ToolError(f"gcc: {result.output.strip()[-1500:]}")
        aside.rename(target)


PROGRAM = NATIVE / "check" / "check.c"
TIMEOUT_S = 600.0
_MOST_OUTPUT = 20_000
_TIMED_OUT = 1000
"""In the place of an exit status."""


@dataclass(frozen=True)
class Checked:
    """The checker's answer for one routine."""

    violations: tuple[str, ...]
    """``KIND: where it was seen first``, one per kind; kinds: see check.c."""
    cases: int
    upper_readable: bool
    """Whether this CPU tells which register halves are in use."""

    @property
    def passed(self) -> bool:
        return not self.violations


def check(routine: Routine, cache_root: Path, *, mode: str = "full") -> Checked:
    """Check ``routine``, or take the answer for the same code on the same CPU from before.
    UsageError when the file is not assembly or this CPU lacks what it requires."""
    if lacking := cpu.missing(routine.requires):
        raise UsageError(
            f"{routine.function} routine {routine.name!r} needs {', '.join(lacking)}, "
            "which this CPU lacks: it cannot be checked here"
        )
    text, here = flatten(routine.path), cpu.this_cpu()
    # The record's name holds all that the answer depends on.
    parts = (text, PROGRAM.read_text("utf-8"), routine.symbol, mode, here.model, here.microcode)
    name = _digest("", *parts, *sorted(here.flags))
    record = cache_root / "memcpy" / "checked" / f"{name}.json"
    with suppress(OSError, ValueError):
        value: Checked = adapter(Checked).validate_python(values_in(record))
        if value.cases:  # else the machine may have failed it: no memory, no time
            return value
    code = assembled(text, str(routine.path), cache_root, routine=True)
    with whole.scratch("check") as folder:
        program = _linked(routine, code, folder)
        inside = confined([str(program), routine.function, mode], reads=[program])
        result = capture(inside, apart=True, limit_s=TIMEOUT_S)
    checked = judge(_TIMED_OUT if result.late else plain_status(result.status), result.output)
    record.parent.mkdir(parents=True, exist_ok=True)
    whole.write(record, adapter(Checked).dump_json(checked))
    return checked


def require_correct(routines: Iterable[Routine], cache_root: Path) -> None:
    """UsageError that says what went wrong when one of ``routines`` fails its check."""
    for routine in routines:
        checked = check(routine, cache_root)
        if not checked.passed:
            wrong = "; ".join(checked.violations)
            raise UsageError(
                f"{routine.function} routine {routine.name!r} is refused, it fails its check: "
                f"{wrong}. See: kdyno lab memcpy check {routine.path}"
            )


def judge(status: int, output: str) -> Checked:
    """What the checker's exit status (negative: a signal) and its output mean."""
    lines = output[:_MOST_OUTPUT].splitlines()
    violations = [line for line in lines[:-1] if ": " in line]
    summary = lines[-1] if lines else ""
    match = re.match(r"([0-9]{1,18}) cases,", summary)
    if status not in (0, 1) or not match:
        why = f"signal {-status}" if status < 0 else f"exit status {status}"
        if status == _TIMED_OUT:
            why = f"did not end within {TIMEOUT_S:.0f} s"
        violations.append(f"died: the program that checks it ended with {why}")
    elif bool(violations) != bool(status):
        violations.append("died: the program that checks it contradicts itself")
    cases = int(match[1]) if match else 0
    return Checked(tuple(violations), cases, "not readable" not in summary)


def _linked(routine: Routine, code: Path, folder: Path) -> Path:
    program = folder / "check"
    words = ["-std=gnu11", "-O2", str(PROGRAM), str(code)]
    words.append(f"-Wl,--defsym=routine_under_test={routine.symbol}")
    try:
        _gcc(words, program, reads=[PROGRAM, code])
    except ToolError as problem:
        if routine.symbol in str(problem):
            what = f"{routine.path}: has no function {routine.symbol}, see routine.h"
            raise UsageError(what) from None
        raise
    return program
