# SPDX-License-Identifier: MIT
"""A run's folder as a few compressed archives, and back: byte for byte."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from kdyno.errors import ToolError
from kdyno.store.folder import TEMPORARY, Folder
from kdyno.whole import NO_SPACE

_FILE_BYTES = 64 << 20
_PART_BYTES = 8 << 20
"""Of files, before they are compressed: what a push holds in memory beside the compressed ones."""
_UNPACKED_BYTES = _FILE_BYTES + 4 * _PART_BYTES
"""Nobody's archive becomes larger than this in memory."""
_DEEPEST = 3
"""boots/0000-stock/job.json"""
_LEVEL = 4


@dataclass(frozen=True)
class Packed:
    parts: tuple[bytes, ...]
    digest: str
    """Of all names and contents."""
    files: int
    size_bytes: int
    """Of the files, not compressed."""
    left_out: tuple[str, ...]
    """Links, devices, and files beyond what a run's files may have."""


def pack(folder: Path) -> Packed:
    """All files of a run; hidden and temporary ones are nobody's."""
    whole, parts, left_out = sha256(), [], []
    files = size = 0
    archive = _Archive()
    for name, data in _files(folder):
        if data is None:
            left_out.append(name)
            continue
        files, size = files + 1, size + len(data)
        whole.update(b"%s\0%s" % (os.fsencode(name), sha256(data).digest()))
        archive.add(name, data)
        if archive.size_bytes >= _PART_BYTES:
            parts.append(archive.compressed())
            archive = _Archive()
    if archive.size_bytes or not parts:
        parts.append(archive.compressed())
    return Packed(tuple(parts), whole.hexdigest(), files, size, tuple(left_out))


def unpack(content: bytes, into: Path) -> tuple[int, int]:
    """Writes the files of one part below a folder that is nobody else's: (files, bytes).

    ToolError for anything that ``pack`` does not write.
    """
    unzip = zlib.decompressobj(wbits=31)
    files = size = 0
    try:
        plain = unzip.decompress(content, _UNPACKED_BYTES)
        if unzip.unconsumed_tail or not unzip.eof:
            raise ToolError("an archive of a run is larger than any that kdyno writes")
        for name, data in _members(plain):
            parts = name.split("/")
            if not 0 < len(parts) <= _DEEPEST or not all(map(_plain, parts)):
                raise ToolError(f"an archive of a run holds {name[:100]!r}")
            _write(into.joinpath(*parts), data, name)
            files, size = files + 1, size + len(data)
    except (tarfile.TarError, zlib.error, ValueError) as problem:
        raise ToolError(f"an archive of a run is damaged: {problem}") from None
    return files, size


def _members(plain: bytes) -> Iterator[tuple[str, memoryview]]:
    """(name, content) of the files in an archive as ``pack`` writes it.

    Python's own reader of archives believes what they say of themselves: with a size below 0 it
    reads in circles, a sparse file of some bytes becomes one of any size.
    """
    at, name, whole = 0, "", memoryview(plain)
    while any(header := plain[at : at + tarfile.BLOCKSIZE]):
        about = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        at += tarfile.BLOCKSIZE
        if not 0 <= about.size <= len(plain) - at:
            raise ValueError(f"a file of {about.size} bytes")
        data = whole[at : at + about.size]
        at += -(-about.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
        if about.type == tarfile.XHDTYPE and not name:
            name = _said_name(bytes(data))
        elif about.type == tarfile.REGTYPE:
            yield name or about.name, data
            name = ""
        else:
            raise ToolError(f"an archive of a run holds {about.name[:100]!r}, which is no file")


def _said_name(records: bytes) -> str:
    """Of a file whose name has no room in its header: lines "LENGTH KEY=VALUE"."""
    found = ""
    while records:
        length = int(records[:10].partition(b" ")[0])
        key, _, value = records[: max(0, length)].partition(b" ")[2].partition(b"=")
        known = key in (b"path", b"hdrcharset") and value.endswith(b"\n")
        if not known or length > len(records):
            raise ValueError(f"a record {records[:100]!r}")
        if key == b"path":
            found = value[:-1].decode("utf-8", "surrogateescape")
        records = records[length:]
    return found


def _write(target: Path, data: memoryview, name: str) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            file.write(data)
    except OSError as problem:
        if problem.errno in NO_SPACE:
            raise
        why = f"an archive of a run holds {name[:100]!r}: {problem.strerror}"
        raise ToolError(why) from None


def weighed(folder: Path) -> tuple[int, int]:
    """(files, bytes) of what lies there."""
    files = size = 0
    for place, _folders, names in os.walk(folder):
        for name in names:
            if not name.startswith("."):
                files, size = files + 1, size + os.lstat(Path(place, name)).st_size
    return files, size


class _Archive:
    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._buffer, mode="w", format=tarfile.PAX_FORMAT)
        self.size_bytes = 0

    def add(self, name: str, data: bytes) -> None:
        about = tarfile.TarInfo(name)
        about.size = len(data)
        self._tar.addfile(about, io.BytesIO(data))
        self.size_bytes += len(data)

    def compressed(self) -> bytes:
        self._tar.close()
        return gzip.compress(self._buffer.getbuffer(), _LEVEL, mtime=0)


def _files(path: Path) -> Iterator[tuple[str, bytes | None]]:
    """(name, content) in a fixed order; None for what is left out."""
    with Folder.open(path) as folder:
        yield from _inside(folder, (), set(folder.folders()))


def _inside(
    folder: Folder, above: Sequence[str], folders: set[str]
) -> Iterator[tuple[str, bytes | None]]:
    for name in folder.names():
        if name.startswith(TEMPORARY):
            continue
        full = "/".join((*above, name))
        if name in folders:
            if len(above) + 1 >= _DEEPEST:
                yield full, None
                continue
            with folder.folder(name) as inside:
                yield from _inside(inside, (*above, name), set(inside.folders()))
            continue
        try:
            yield full, folder.read(name, _FILE_BYTES) if _plain(name) else None
        except ToolError:
            yield full, None


def _plain(name: str) -> bool:
    return bool(name) and not name.startswith(".") and "\0" not in name and len(name) <= 255
