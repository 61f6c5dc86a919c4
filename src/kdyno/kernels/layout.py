# SPDX-License-Identifier: MIT
"""Where a kernel's code lies, at random: the same objects, linked in another order.

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
from collections.abc import Mapping
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
    """The linker script with the code of ``sections`` in the random order of ``seed``.

    Objects are shuffled, and functions within their objects, so that what is compiled together
    stays together. An object's place depends on its name, a function's on its own and its
    object's, and on nothing else: kernels that have code in common have it in one order.
    BuildError for a script that has no place for them.
    """
    for kind in _APART:
        lines: list[str] = []
        for path in sorted(sections, key=lambda path: _number(seed, path)):
            for name in sorted(sections[path], key=lambda name: _number(seed, path, name)):
                if name != kind and (kind != ".text" or name in _APART):
                    continue
                number = _number(seed, "padding", path, name)
                if number % _PADDED == 0:
                    lines.append(f". = . + {_LEAST_STEP_BYTES * (1 + number // _PADDED % _STEPS)};")
                # An object is named by a pattern: a plain name would be an input of its own.
                lines.append(f"*({name})" if name not in _APART else f"*{path}({name})")
        if statement := re.search(rf"\*\(\s*{re.escape(kind)}(?=[\s)])", script):
            at = statement.start()
            script = script[:at] + "\n".join([*lines, ""]) + script[at:]
        elif kind == ".text":
            raise BuildError("[layout]: the linker script has no statement for .text")
    return script


def _number(seed: int, *names: str) -> int:
    return int.from_bytes(hashlib.sha256("\0".join((str(seed), *names)).encode()).digest()[:8])


def _sections(content: bytes, path: str) -> tuple[str, ...]:
    try:
        table = leavings.sections(content) if content[:4] == leavings.OBJECT_64[:4] else []
    except ValueError as problem:
        raise BuildError(f"{path}: the build left no object that can be read") from problem
    code = (section.name for section in table if section.code and section.content)
    functions = ((name, _FUNCTION.fullmatch(name)) for name in code)
    return tuple(
        name
        for name, match in functions
        if name in _APART or (match and match[1].partition(".")[0] not in _NO_FUNCTION)
    )
