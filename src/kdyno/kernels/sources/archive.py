# SPDX-License-Identifier: MIT
"""Tar archives, unpacked by the system's tar into a folder of their own."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

from kdyno import space
from kdyno.command import dying_with_us, started
from kdyno.confined import confined
from kdyno.errors import KdynoError, ToolError
from kdyno.kernels.source import Progress
from kdyno.kernels.sources import manifest, tool

_COMPRESSIONS = (
    (b"\xfd7zXZ\0", "xz"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
)
_FEED_BYTES = 1 << 18
_TOO_LARGE = "kdyno: too large"
_OUTSIDE = ("Member name contains '..'", "Removing leading")
_END_BYTES = 1024
_USUAL_RATIO = 11
"""Kernel source packs 1:10 to 1:11 with xz, less with the others."""
_DISK_OVER_TAR = 1.15
"""Files on disk against bytes in the archive: half a block is lost per file."""


def unpack(file: Path, into: Path, progress: Progress, blame: type[KdynoError]) -> str:
    """Unpack ``file`` below ``into``; SHA-256 of what was read.

    Nothing is written outside ``into``: absolute names and ``..`` are errors. ``blame`` is
    raised for a damaged or hostile archive, ToolError for a full disk.
    """
    with file.open("rb") as stream:
        magic = stream.peek(6)[:6]
        packed_by = next((name for start, name in _COMPRESSIONS if magic.startswith(start)), None)
        size_bytes = file.stat().st_size
        space.require(into, int(_unpacked_bytes(file, packed_by, size_bytes) * _DISK_OVER_TAR))
        return feed(
            stream,
            into,
            progress,
            blame,
            packed_by=packed_by,
            size_bytes=size_bytes,
            name=file.name,
        )


def feed(
    stream: IO[bytes],
    into: Path,
    progress: Progress,
    blame: type[KdynoError],
    *,
    packed_by: str | None,
    size_bytes: int,
    name: str,
) -> str:
    """``unpack`` for an open stream; ``size_bytes`` 0 when its length is not known."""
    if packed_by and shutil.which(packed_by) is None:
        raise ToolError(f"{name} is packed with {packed_by}, which is not installed. Install it")
    argv = ["tar", "--extract", "--file=-", f"--directory={into}"]
    argv += ["--no-same-owner", "--no-same-permissions", "--delay-directory-restore"]
    argv += [f"--{packed_by}"] if packed_by else []
    # tar counts what it has read, unpacked, in records of 10 KiB; it is stopped at its first mark.
    most_bytes = min(manifest.MOST_BYTES, shutil.disk_usage(into).free * 9 // 10)
    argv += [f"--checkpoint={max(1, most_bytes // 10240)}"]
    argv += [f"--checkpoint-action=exec=echo {_TOO_LARGE} >&2; kill -KILL $PPID"]
    summer = hashlib.sha256()
    line = dying_with_us(confined(argv, writes=[into]))
    env = tool.environment()
    with started(line, stdin=subprocess.PIPE, stdout=None, env=env, umask=0o022) as tar:
        sink: IO[bytes] | None = tar.stdin
        done_bytes = 0
        tail = b""
        while chunk := stream.read(_FEED_BYTES):
            summer.update(chunk)
            tail = (tail + chunk)[-_END_BYTES:]
            done_bytes += len(chunk)
            if sink is not None:
                try:
                    sink.write(chunk)
                except BrokenPipeError:  # tar has seen the end, or failed: its status tells
                    sink = None
            progress(f"unpacking {name}", done_bytes / size_bytes if size_bytes else None)
        with suppress(BrokenPipeError):
            tar.stdin.close()
        status = tar.process.wait()
        stderr = tar.complaint()
    if any(word in stderr for word in _OUTSIDE):
        raise blame(f"{name} is refused: it holds names outside its own folder:\n  {stderr[:500]}")
    if _TOO_LARGE in stderr:
        raise blame(
            f"{name} is refused: more than {most_bytes / 1e9:,.1f} GB come out of it: more than "
            "kernel source has, or nine tenths of what is free on the disk"
        )
    why = ""
    if status:
        tool.refuse_full(status, stderr)
        # Of all that tar says, the first line is the reason.
        why = next((it for it in stderr.splitlines() if it.strip()), "tar gave no reason")
    # Packers notice a missing end; tar does not when the cut is between two members.
    elif packed_by is None and tail != bytes(_END_BYTES):
        why = "the two blocks of zeros that end an archive are missing"
    if why:
        raise blame(
            f"{name} cannot be unpacked; it is damaged, cut short or no tar archive ({why})"
        )
    return summer.hexdigest()


def only_folder(into: Path) -> Path:
    """Where source begins: the archive's one top folder, else ``into`` itself."""
    entries = list(into.iterdir())
    # pax_global_header is what a tar that knows no pax headers makes of one.
    folders = [entry for entry in entries if entry.name != "pax_global_header"]
    if len(folders) == 1 and folders[0].is_dir() and not folders[0].is_symlink():
        return folders[0]
    return into


def _unpacked_bytes(file: Path, packed_by: str | None, size_bytes: int) -> int:
    if packed_by == "xz":
        argv = ["xz", "--robot", "--list", "--", str(file)]
        with suppress(ToolError, ValueError, IndexError):
            listing = tool.run(confined(argv, reads=[file])).decode()
            return int(listing.rsplit("totals", 1)[1].split()[3])
    return size_bytes * _USUAL_RATIO if packed_by else size_bytes
