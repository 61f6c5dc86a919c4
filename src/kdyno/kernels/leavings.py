# SPDX-License-Identifier: MIT
"""Files that a build left in its object tree, read and written with care; what objects are made of,
and linker scripts that put their code in a random order. Whatever make ran could put anything in
the place of a file: a link to a file of the host, which kdyno outside of the sandbox would then
read or write, a pipe that nobody writes into, a hole of terabytes."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kdyno.errors import BuildError

MOST_BYTES = 1 << 28
_MOST_KERNEL_BYTES = 1 << 32
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def read(tree: Path, name: str) -> bytes:
    """The content of an ordinary file of an object tree, without following a link on the way.
    BuildError for anything else, OSError for none."""
    # One component at a time, for O_NOFOLLOW is about the last alone.
    descriptor = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in Path(name).parts:
            inner = os.open(part, _PLAIN, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            raise _odd(tree / name)
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as problem:
        if problem.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _odd(tree / name) from problem
        raise
    finally:
        os.close(descriptor)


def read_text(tree: Path, name: str) -> str:
    """The same as text; what is no UTF-8 is replaced."""
    try:
        return read(tree, name).decode("utf-8", "replace")
    except OSError as problem:
        raise _odd(tree / name) from problem


def write(path: Path, content: bytes) -> None:
    """Put a file in the place of whatever lies there."""
    aside = path.with_name(f".{path.name}.kdyno")
    for stale in (aside, path):
        if stale.is_dir() and not stale.is_symlink():
            raise _odd(stale)
    aside.unlink(missing_ok=True)
    with aside.open("xb") as file:
        file.write(content)
        owner = path.parent.stat()
        if os.geteuid() == 0:  # the next make is another user, see VIEWS in sandbox.py
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
    aside.replace(path)


def require_file(tree: Path, name: str) -> None:
    """BuildError unless ``name`` in an object tree is an ordinary file, with no link on the way and
    no larger than a kernel. It loses the right to run as its owner."""
    path = tree / name
    try:
        status = path.lstat()
        linked = path.resolve(strict=True) != tree.resolve() / name
    except (OSError, RuntimeError) as problem:
        raise _odd(path) from problem
    if linked or not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_KERNEL_BYTES:
        raise _odd(path)
    path.chmod(0o755 if status.st_mode & 0o100 else 0o644)


def disarm(tree: Path) -> None:
    """Take from every file of an object tree the right to run as its owner."""
    for folder, _folders, names in os.walk(tree):
        for name in names:
            place = Path(folder, name)
            status = place.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_mode & (stat.S_ISUID | stat.S_ISGID):
                place.chmod(stat.S_IMODE(status.st_mode) & 0o777)


def _odd(path: Path) -> BuildError:
    return BuildError(f"the build left no ordinary file in the place of {path.name}")


# Objects, by the layout of ELF (System V ABI, chapter 4).
OBJECT_64 = b"\x7fELF\x02\x01\x01"
"""The beginning of an object of 64 bits."""
SYMBOLS = 2
"""The kind of a section with symbols."""
_NO_CONTENT = 8
"""The kind of a section that is all zeros and not in the file."""
INDIRECT = 10
"""The kind of a symbol whose resolver a loader calls."""
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    code: bool
    content: bytes
    strings: int
    """Number of the section with its names, for one with symbols."""


def sections(content: bytes) -> list[Section]:
    """Of an object of 32 or 64 bits; ValueError for what is none."""
    try:
        wide = content[4] == 2
        (at,) = struct.unpack_from("<Q" if wide else "<I", content, 40 if wide else 32)
        size, count, names_at = struct.unpack_from("<3H", content, 58 if wide else 46)
        # Name, type, flags, address, offset, size, link, info, alignment, size of an entry.
        header = struct.Struct("<2I4Q2I2Q" if wide else "<10I")
        if content[:4] != OBJECT_64[:4] or size != header.size or not count:
            raise ValueError("no table of sections")
        table = [header.unpack_from(content, at + number * size) for number in range(count)]
        kept = [0 if row[1] == _NO_CONTENT else row[5] for row in table]
        if sum(kept) > len(content):
            raise ValueError("sections that overlap")
        names = content[table[names_at][4] : sum(table[names_at][4:6])]
        return [
            Section(_name_at(names, at), kind, bool(flags & 4), content[start : start + size], link)
            for (at, kind, flags, _address, start, _, link, *_), size in zip(
                table, kept, strict=True
            )
        ]
    except (struct.error, IndexError) as problem:
        raise ValueError("cut short") from problem


def _name_at(names: bytes, at: int) -> str:
    """The name that begins at ``at``; ValueError where none ends."""
    return names[at : names.index(b"\0", at)].decode("utf-8", "replace")


def symbols(content: bytes) -> list[tuple[str, int]]:
    """(name, kind) of the symbols of an object of 64 bits that other objects see, and of those that
    a loader resolves. ValueError."""
    if not content.startswith(OBJECT_64):
        raise ValueError("no object of 64 bits")
    table = sections(content)
    try:
        return [
            (_name_at(table[each.strings].content, name), info & 15)
            for each in table
            if each.kind == SYMBOLS
            for name, info, _, index, _, _ in _SYMBOL.iter_unpack(each.content)
            if index and (info >> 4 or info & 15 == INDIRECT)
        ]
    except (struct.error, IndexError) as problem:
        raise ValueError("cut short") from problem


# Where a kernel's code lies, at random: the same objects, linked in another order. One link puts
# every function at one address. Which of them then share cache lines, sets and branch predictors
# moves benchmarks by several per cent and is nobody's intention (Mytkowicz et al., *Producing Wrong
# Data Without Doing Anything Obviously Wrong!*, ASPLOS 2009; Curtsinger & Berger, *Stabilizer*,
# ASPLOS 2013). Code alone is moved: the linker goes through the objects in the same order as ever,
# so initcalls, tables and data stay where they are.
FLAG = "-ffunction-sections"
"""Of the compiler: each function in a section of its own, so that the linker can place it."""
_APART = (".text", ".sched.text", ".spinlock.text", ".noinstr.text")
"""Sections of code of which an object has one, whatever functions are in it; in the script each of
them stands in a statement of its own."""
_FUNCTION = re.compile(
    r"\.text\.(?!(?:hot|unlikely|startup|exit|split|unknown|asan|tsan|fixup)(?:\.|\Z))"
    r"[A-Za-z0-9_][A-Za-z0-9_.$]*"
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
    """The sections of code of all objects in a tree. BuildError for one that cannot be read."""
    placed = {}
    for folder, folders, names in os.walk(tree):
        if Path(folder) == tree:
            folders[:] = [name for name in folders if name not in _TOOLS]
        for name in names:
            path = str(Path(folder, name).relative_to(tree))
            # At the top lies what the linker made of all of them.
            if name.endswith(".o") and folder != str(tree) and _FILE.fullmatch(path):
                content = read(tree, path)
                try:
                    table = sections(content) if content[:4] == OBJECT_64[:4] else []
                except ValueError as problem:
                    why = f"{path}: the build left no object that can be read"
                    raise BuildError(why) from problem
                code = (each.name for each in table if each.code and each.content)
                own = (name for name in code if name in _APART or _FUNCTION.fullmatch(name))
                placed[path] = tuple(own)
    return placed


def script_of(tree: Path) -> str:
    """The linker script of the tree's kernel, from its top. BuildError where there is none."""
    scripts = sorted(tree.glob("arch/*/kernel/vmlinux.lds"))
    if len(scripts) != 1:
        raise BuildError("[layout]: no linker script arch/*/kernel/vmlinux.lds in the object tree")
    return str(scripts[0].relative_to(tree))


def reordered(script: str, sections: Sections, seed: int) -> str:
    """The linker script with the code of ``sections`` in the random order of ``seed``.

    Objects are shuffled, and functions within their objects, so that what is compiled together
    stays together. An object's place depends on its name, a function's on its own and its object's,
    and on nothing else: kernels that have code in common have it in one order. BuildError for a
    script that has no place for them."""
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
