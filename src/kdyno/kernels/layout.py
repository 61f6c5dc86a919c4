# SPDX-License-Identifier: MIT
"""Where a kernel's code lies, drawn: the same objects, linked in another order.

One link puts every function at one address. Which of them then share cache lines, sets and
branch predictors moves benchmarks by several per cent and is nobody's intention (Mytkowicz et al.,
*Producing Wrong Data Without Doing Anything Obviously Wrong!*, ASPLOS 2009; Curtsinger & Berger,
*Stabilizer*, ASPLOS 2013). A linker script that names the sections one by one gives another link.

Code alone is moved: the linker goes through the objects in the same order as ever, so initcalls,
tables and data stay where they are.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

from kdyno.errors import BuildError
from kdyno.kernels import leavings

FLAG = "-ffunction-sections"
"""Of the compiler: each function in a section of its own, so that the linker can place it."""
_APART = (".text", ".sched.text", ".spinlock.text", ".noinstr.text")
"""Sections of code of which an object has one, whatever functions are in it; in the script each of
them stands in a statement of its own."""
_FUNCTION = re.compile(r"\.text\.([A-Za-z0-9_][A-Za-z0-9_.$]*)")
_NO_FUNCTION = frozenset(
    ("hot", "unlikely", "startup", "exit", "split", "unknown", "asan", "tsan", "fixup")
)
"""``.text.hot.NAME`` and the like have places of their own in the script."""
_TOOLS = frozenset(("scripts", "tools"))
"""Folders of an object tree in which nothing of the kernel lies."""
_FILE = re.compile(r"[A-Za-z0-9_+,./-]+")
_LEAST_STEP_BYTES, _STEPS, _PADDED = 16, 4, 4
"""One section of four is put 16 to 64 bytes further than it would be."""

Sections = Mapping[str, tuple[str, ...]]
"""Object, from the top of the tree → its sections of code."""


def sections_of(tree: Path) -> Sections:
    """The sections of code of all objects in an object tree.

    BuildError for an object that cannot be read.
    """
    sections = {}
    for folder, folders, names in os.walk(tree):
        if Path(folder) == tree:
            folders[:] = [name for name in folders if name not in _TOOLS]
        for name in names:
            path = str(Path(folder, name).relative_to(tree))
            # At the top lies what the linker made of all of them.
            if name.endswith(".o") and folder != str(tree) and _FILE.fullmatch(path):
                sections[path] = _sections(leavings.read(tree, path), path)
    return sections


def script_of(tree: Path) -> str:
    """The linker script of the tree's kernel, from its top. BuildError where there is none."""
    scripts = sorted(tree.glob("arch/*/kernel/vmlinux.lds"))
    if len(scripts) != 1:
        raise BuildError("[layout]: no linker script arch/*/kernel/vmlinux.lds in the object tree")
    return str(scripts[0].relative_to(tree))


def drawn(script: str, sections: Sections, seed: int) -> str:
    """The linker script with the code of ``sections`` in an order that ``seed`` draws.

    Objects are shuffled, and functions within their objects, so that what is compiled together
    stays together. An object's place depends on its name, a function's on its own and its
    object's, and on nothing else: kernels that have code in common have it in one order.
    BuildError for a script that has no place for them.
    """
    objects = sorted(sections, key=lambda path: _number(seed, path))
    for kind in _APART:
        pattern = re.compile(rf"\*\(\s*{re.escape(kind)}(?=[\s)])")
        lines = [
            line
            for path in objects
            for name in sorted(sections[path], key=lambda it: _number(seed, path, it))
            if name == kind or (kind == ".text" and name not in _APART)
            for line in _statement(seed, path, name)
        ]
        if statement := pattern.search(script):
            at = statement.start()
            script = script[:at] + "\n".join([*lines, ""]) + script[at:]
        elif kind == ".text":
            raise BuildError("[layout]: the linker script has no statement for .text")
    return script


def _statement(seed: int, path: str, name: str) -> Iterable[str]:
    number = _number(seed, "padding", path, name)
    if number % _PADDED == 0:
        yield f". = . + {_LEAST_STEP_BYTES * (1 + number // _PADDED % _STEPS)};"
    # An object is named by a pattern: a plain name would be an input of its own.
    yield f"*({name})" if name not in _APART else f"*{path}({name})"


def _number(seed: int, *names: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join((str(seed), *names)).encode()).digest()[:8])


def _sections(content: bytes, path: str) -> tuple[str, ...]:
    """By the layout of ELF's objects of 32 and 64 bits, System V ABI, chapter 4."""
    try:
        if content[:4] != b"\x7fELF":
            return ()
        wide = content[4] == 2
        (at,) = struct.unpack_from("<Q" if wide else "<I", content, 40 if wide else 32)
        size, count, names_at = struct.unpack_from("<3H", content, 58 if wide else 46)
        # Name, type, flags, address, offset, size.
        header = struct.Struct("<2I4Q" if wide else "<6I")
        table = [header.unpack_from(content, at + number * size) for number in range(count)]
        names = content[table[names_at][4] :]
        found = [
            names[it[0] : names.index(b"\0", it[0])].decode("ascii", "replace")
            for it in table
            if it[2] & 4 and it[5]  # code, and some of it
        ]
    except (struct.error, IndexError, ValueError) as problem:
        raise BuildError(f"{path}: the build left no object that can be read") from problem
    return tuple(name for name in found if name in _APART or _function(name))


def _function(section: str) -> bool:
    match = _FUNCTION.fullmatch(section)
    return match is not None and match[1].partition(".")[0] not in _NO_FUNCTION
