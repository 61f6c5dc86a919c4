# SPDX-License-Identifier: MIT
"""A trace: the copies of a kernel in their order, for replay.

Text, one line `size dst src` for each copy after the first line `# kdyno copies trace 1`; dst and
src are addresses modulo 64. A file that ends in .gz is compressed. Other lines that begin with #
are comments.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kdyno.errors import UsageError
from kdyno.labs.memcpy.count.distribution import (
    LINE,
    MOST_COPY_BYTES,
    MOST_FILE_BYTES,
    Distribution,
    distribution,
    write_whole,
)

FIRST_LINE = "# kdyno copies trace 1"


class Copy(NamedTuple):
    """One copy: bytes, and target and source modulo 64."""

    size: int
    dst: int
    src: int


def read_trace(path: Path) -> tuple[Copy, ...]:
    """The copies in their order; UsageError names the file and the line at fault."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(MOST_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise UsageError(f"{path}: cannot be read: {reason}") from problem
    if len(content) > MOST_FILE_BYTES:
        raise UsageError(f"{path}: has more than {MOST_FILE_BYTES >> 20} MiB: no trace to replay")
    return parse_trace(content, str(path))


def parse_trace(content: bytes, origin: str) -> tuple[Copy, ...]:
    """The copies that ``content`` lists; UsageError otherwise, with ``origin`` in it."""
    lines = content.split(b"\n")
    if lines[0].rstrip() != FIRST_LINE.encode():
        raise UsageError(f"{origin}: no trace of copies: its first line is not {FIRST_LINE!r}")
    if lines.pop() != b"":
        raise UsageError(f"{origin}:{len(lines) + 1}: the last line does not end: it is cut off")
    copies = []
    for number, line in enumerate(lines[1:], start=2):
        if line.startswith(b"#"):
            continue
        words = line.split()
        if len(words) != 3 or not all(word.isdigit() and len(word) <= 10 for word in words):
            text = line[:40].decode("utf-8", "replace")
            raise UsageError(f"{origin}:{number}: {text!r} is not `size dst src`")
        copy = Copy(*map(int, words))
        if copy.size > MOST_COPY_BYTES or copy.dst >= LINE or copy.src >= LINE:
            raise UsageError(
                f"{origin}:{number}: size is at most {MOST_COPY_BYTES}, dst and src are "
                f"addresses modulo {LINE}, not {' '.join(map(str, copy))}"
            )
        copies.append(copy)
    if not copies:
        raise UsageError(f"{origin}: the trace has no copy in it")
    return tuple(copies)


def render_trace(copies: Iterable[Copy], comment: str = "") -> bytes:
    """The content of a trace file."""
    lines = [FIRST_LINE, *(f"# {line}" for line in comment.splitlines())]
    lines += [f"{copy.size} {copy.dst} {copy.src}" for copy in copies]
    return "\n".join([*lines, ""]).encode()


def write_trace(copies: Iterable[Copy], path: Path, comment: str = "") -> None:
    """Write a trace file, whole or not at all, compressed when its name ends in .gz."""
    content = render_trace(copies, comment)
    # No time stamp inside: the same copies give the same file.
    write_whole(gzip.compress(content, 9, mtime=0) if path.suffix == ".gz" else content, path)


def distribution_of(copies: Iterable[Copy], source: str) -> Distribution:
    """The distribution of a trace's copies."""
    return distribution(Counter((copy.size, copy.dst, copy.src) for copy in copies), source)
