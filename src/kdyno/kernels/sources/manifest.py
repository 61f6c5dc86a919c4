# SPDX-License-Identifier: MIT
"""The manifest of a tree: a hash, a mode and a path for every file, sorted by path."""

# Paths are strings here: with 96,000 of them, Path objects would take most of the time.
# ruff: noqa: PTH101, PTH115, PTH117, PTH118, PTH120, PTH123

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from kdyno.errors import UsageError

CANONICAL_MTIME_S = 1_577_836_800
"""2020-01-01 00:00 UTC, the modification time of every file of every tree: make and ccache see
the same time whichever way a source was fetched, and objects are always newer."""

MOST_FILE_BYTES = 256_000_000
MOST_BYTES = 20_000_000_000
"""7.3 has 1.4 GB in 96,000 files, the largest of 24 MB."""
_CHUNK_BYTES = 1 << 20
_BATCH = 512


def content_hash(path: str, mode: int, size_bytes: int) -> str:
    """BLAKE2b-128, hexadecimal, of a file's content or a link's target."""
    if stat.S_ISLNK(mode):
        return hashlib.blake2b(os.fsencode(os.readlink(path)), digest_size=16).hexdigest()
    summer = hashlib.blake2b(digest_size=16)
    with open(path, "rb", buffering=0) as file:
        if size_bytes <= _CHUNK_BYTES:
            summer.update(file.read())
        while chunk := file.read(_CHUNK_BYTES):
            summer.update(chunk)
    return summer.hexdigest()


def short_mode(mode: int) -> str:
    """``link``, ``755`` or ``644``: all that a build can depend on."""
    if stat.S_ISLNK(mode):
        return "link"
    return "755" if mode & 0o100 else "644"


def walk(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """(relative path, lstat) of everything below ``root`` but folders, in no order."""
    stack = [""]
    while stack:
        below = stack.pop()
        with os.scandir(os.path.join(root, below)) as entries:
            for entry in entries:
                path = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir(follow_symlinks=False):
                    stack.append(path)
                else:
                    yield path, entry.stat(follow_symlinks=False)


def settle(root: Path, asked: str) -> list[str]:
    """Give all below ``root`` its canonical mode and time; manifest lines, sorted by path.

    UsageError for what has no place in kernel source: devices, sockets, links that leave the
    tree, names with line ends. ``asked`` names the source in the message.
    """
    base = str(root)
    files = list(walk(base))
    refuse_large(files, asked)

    def lines(batch: list[tuple[str, os.stat_result]]) -> list[tuple[str, str]]:
        done = []
        for path, found in batch:
            full = f"{base}/{path}"
            _refuse_oddities(path, found.st_mode, full, asked)
            mode = short_mode(found.st_mode)
            if mode != "link" and stat.S_IMODE(found.st_mode) != int(mode, 8):
                os.chmod(full, int(mode, 8))
            digest = content_hash(full, found.st_mode, found.st_size)
            os.utime(full, (CANONICAL_MTIME_S,) * 2, follow_symlinks=False)
            done.append((path, f"{digest} {mode} {path}"))
        return done

    # Hashing and most system calls drop the interpreter lock, so threads do help.
    with ThreadPoolExecutor(max_workers=min(8, (os.cpu_count() or 1) + 2)) as pool:
        found = [pair for part in pool.map(lines, _batches(iter(files))) for pair in part]
    for folder, _folders, _files in os.walk(base, topdown=False):
        os.chmod(folder, 0o755)
        os.utime(folder, (CANONICAL_MTIME_S,) * 2)
    return [line for _path, line in sorted(found)]


def refuse_large(files: Iterable[tuple[str, os.stat_result]], asked: str) -> None:
    """UsageError for (path, lstat) pairs that no kernel source has, before any is read.

    A file may have a length of terabytes and take no room on the disk.
    """
    total_bytes = 0
    for path, found in files:
        total_bytes += found.st_size
        if found.st_size > MOST_FILE_BYTES:
            raise UsageError(
                f"source {asked}: {path!r} has {found.st_size / 1e6:,.0f} MB; a file of kernel "
                f"source has {MOST_FILE_BYTES / 1e6:.0f} MB at most"
            )
    if total_bytes > MOST_BYTES:
        raise UsageError(
            f"source {asked}: its files have {total_bytes / 1e9:,.1f} GB together; kernel source "
            f"has {MOST_BYTES / 1e9:.0f} GB at most"
        )


def digest_of(lines: Iterable[str]) -> str:
    """One hexadecimal digest (BLAKE2b-256) for a whole manifest."""
    summer = hashlib.blake2b(digest_size=32)
    for line in lines:
        summer.update(line.encode("utf-8", "surrogateescape"))
        summer.update(b"\n")
    return summer.hexdigest()


def write(path: Path, lines: Iterable[str]) -> None:
    """The manifest file. Names that are no UTF-8 keep their bytes."""
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))


def read(path: Path) -> dict[str, str]:
    """Path → ``"HASH MODE"``, as ``write`` left it."""
    content: dict[str, str] = {}
    for line in path.read_bytes().decode("utf-8", "surrogateescape").split("\n"):
        if line:
            digest, mode, name = line.split(" ", 2)
            content[name] = f"{digest} {mode}"
    return content


def _batches(
    files: Iterator[tuple[str, os.stat_result]],
) -> Iterator[list[tuple[str, os.stat_result]]]:
    while batch := list(islice(files, _BATCH)):
        yield batch


def _refuse_oddities(path: str, mode: int, full: str, asked: str) -> None:
    if "\n" in path:
        raise UsageError(f"source {asked}: a file name with a line end: {path!r}")
    if stat.S_ISLNK(mode):
        target = os.readlink(full)
        landed = os.path.normpath(os.path.join(os.path.dirname(path), target))
        # A patch or a build that follows such a link would write outside its own tree.
        if os.path.isabs(target) or landed == ".." or landed.startswith("../"):
            raise UsageError(
                f"source {asked}: the link {path!r} leads out of the tree, to {target!r}. "
                "Remove it, or replace it by the file itself"
            )
    elif not stat.S_ISREG(mode):
        raise UsageError(f"source {asked}: {path!r} is neither file, folder nor link")
