# SPDX-License-Identifier: MIT
"""``tar:FILE``: a tar archive on this machine, packed or not. Its identity is its SHA-256."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from kdyno.errors import ToolError, UsageError
from kdyno.kernels.source import Progress, SourceSpec, Tree
from kdyno.kernels.sources import archive, shelf

_SETTLED_S = 2.0
"""A file younger than this may change again without its times telling."""


def resolve(spec: SourceSpec, cache: Path, progress: Progress, refresh: bool) -> Tree:
    file = Path(spec.rest).expanduser().absolute()
    if not file.is_file():
        kind = "is a folder: write path:DIR for it" if file.is_dir() else "does not exist"
        raise UsageError(f"source {spec}: {file} {kind}")
    digest = _digest(file, cache, progress)

    def fill(scratch: Path) -> Path:
        into = scratch / "unpacked"
        into.mkdir()
        if archive.unpack(file, into, progress, UsageError) != digest:
            raise ToolError(f"{file} changed while it was read. Run the command again")
        return archive.only_folder(into)

    key = f"tar-{digest[:40]}"
    description = f"{file.name}, SHA-256 {digest[:12]}"
    return shelf.place(cache, spec, key, digest, description, fill, progress)


def _digest(file: Path, cache: Path, progress: Progress) -> str:
    """SHA-256 of the file, remembered as long as size, times and inode stay the same."""
    found = file.stat()
    stamp = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
    name = hashlib.blake2b(str(file).encode("utf-8", "surrogateescape"), digest_size=16)
    record = cache / "sources" / "tar" / f"{name.hexdigest()}.json"
    known = shelf.read_json(record)
    if known and known.get("stamp") == stamp and isinstance(known.get("sha256"), str):
        return str(known["sha256"])
    progress(f"checking {file.name}", None)
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if time.time() - max(found.st_mtime, found.st_ctime) > _SETTLED_S:
        shelf.write_json(record, {"file": str(file), "stamp": stamp, "sha256": digest})
    return digest
