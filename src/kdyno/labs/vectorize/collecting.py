# SPDX-License-Identifier: MIT
"""From the object tree that a build leaves to one file of records beside its image."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

from kdyno.errors import ToolError
from kdyno.kernels import leavings
from kdyno.kernels.compiler import Compiler
from kdyno.kernels.extract import Extract
from kdyno.kernels.view import BUILD_SOURCE
from kdyno.labs.vectorize import clang, disassembly, gcc
from kdyno.labs.vectorize.loops import ObjectRecord, Records, from_json, to_json

FILE = "loops.json.gz"
_LEFT = ".kdyno-loops.json.gz"


def extract(compiler: Compiler) -> Extract:
    """What a survey asks of a build."""
    module = clang if compiler.clang else gcc
    word = "clang" if compiler.clang else "gcc"

    def collect(tree: Path, file: Path) -> None:
        write(records_of(tree, word), file)

    return Extract(FILE, module.FLAGS, collect)


def records_of(tree: Path, compiler: str, source: str | None = BUILD_SOURCE) -> Records:
    """Everything the compiler wrote into the object tree, checked against the machine code.

    source: the tree's path as the compiler saw it. In a build of kdyno's what the compiler wrote
    is deleted and the tree keeps the records, since the next build in a copy of it compiles only
    what differs. None: a tree of somebody else's, in which nothing is changed.
    """
    module = clang if compiler == "clang" else gcc
    kept = {} if source is None else {each.object: each for each in _earlier(tree)}
    for name, files in module.dumps(tree):
        found = _without_root(module.read(name, files, source or ""))
        kept[name] = _with_code(tree, found)
        if source is not None:
            for file in files:
                file.unlink()
    records = Records(compiler, tuple(kept[name] for name in sorted(kept)))
    if source is not None:
        leavings.write(tree / _LEFT, _packed(records))
    return records


def _without_root(record: ObjectRecord) -> ObjectRecord:
    """Paths as in the source tree, whose root is what stands before the object's own source.

    clang tells paths below the last folder that sources and objects share.
    """
    own = f"/{record.object.rpartition('.')[0]}.c"
    for loop in record.loops:
        if loop.file.endswith(own):
            root = loop.file.removesuffix(own) + "/"
            shorter = (replace(it, file=it.file.removeprefix(root)) for it in record.loops)
            return replace(record, loops=tuple(shorter))
    return record


def _earlier(tree: Path) -> tuple[ObjectRecord, ...]:
    left = tree / _LEFT
    return read(left).objects if left.is_file() else ()


def _with_code(tree: Path, record: ObjectRecord) -> ObjectRecord:
    path = tree / record.object
    if not _is_object(path) or not any(loop.is_vector or loop.lanes for loop in record.loops):
        return record
    code = disassembly.disassemble([path])[path]
    loops = tuple(disassembly.checked(loop, code) for loop in record.loops)
    return ObjectRecord(record.object, loops, record.damage)


def _is_object(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def write(records: Records, file: Path) -> None:
    """Compressed, the same bytes for the same records."""
    file.write_bytes(_packed(records))


def _packed(records: Records) -> bytes:
    text = json.dumps(to_json(records), separators=(",", ":"))
    return gzip.compress(text.encode(), 6, mtime=0)


def read(file: Path) -> Records:
    """ToolError names a file that is damaged, and how to get it again."""
    try:
        return from_json(json.loads(gzip.decompress(leavings.read(file.parent, file.name))))
    except (OSError, EOFError, ValueError, gzip.zlib.error) as problem:  # type: ignore[attr-defined]
        raise ToolError(
            f"{file}: this record of a build is damaged ({problem}). Delete it: the next survey "
            "builds that kernel again"
        ) from None
