# SPDX-License-Identifier: MIT
"""``tar:FILE`` and ``kernel.org:VERSION``, unpacked by the system's tar into a folder of their own.
A release's checksum comes from the kernel project's signed list, read over HTTPS; the list's
OpenPGP signature itself is not checked. ``$KDYNO_KERNEL_ORG``: another site of the same layout."""

from __future__ import annotations

import difflib
import hashlib
import http.client
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from kdyno import whole
from kdyno.command import dying_with_us, started
from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.kernels.sources import tree as trees
from kdyno.kernels.sources.tree import Request, Tree
from kdyno.sandbox import confined

_CHUNK_BYTES = 1 << 18
_TOO_LARGE = "kdyno: too large"
_OUTSIDE = ("Member name contains '..'", "Removing leading")
_END_BYTES = 1024
_USUAL_RATIO = 11
"""Kernel source packs 1:10 to 1:11 with xz, less with the others."""
_DISK_OVER_TAR = 1.15
"""Files on disk against bytes in the archive: half a block is lost per file."""
_TIMEOUT_S = 60


def unpack(
    stream: IO[bytes],
    size_bytes: int,
    name: str,
    scratch: Path,
    request: Request,
    blame: type[KdynoError],
) -> tuple[Path, str]:
    """Unpack an archive below ``scratch``: (where source begins, SHA-256 of what was read).

    size_bytes: of the archive, 0 where nobody knows. Source begins in the archive's one top folder,
    else beside all that came out. Nothing is written outside: absolute names and ``..`` are errors.
    ``blame`` is raised for a damaged or hostile archive, ToolError for a full disk and for a stream
    that breaks off."""
    into = scratch / "unpacked"
    into.mkdir()
    magic: bytes = stream.peek(6)  # type: ignore[attr-defined]
    packed_by = next((by for number, by in trees.PACKERS.items() if magic.startswith(number)), None)
    if packed_by and shutil.which(packed_by) is None:
        raise ToolError(f"{name} is packed with {packed_by}, which is not installed. Install it")
    needed_bytes = size_bytes * (_USUAL_RATIO if packed_by else 1) * _DISK_OVER_TAR
    whole.require_space(request.cache, int(needed_bytes))
    argv = ["tar", "--extract", "--file=-", f"--directory={into}"]
    argv += ["--no-same-owner", "--no-same-permissions", "--delay-directory-restore"]
    argv += [f"--{packed_by}"] if packed_by else []
    # tar counts what it has read, unpacked, in records of 10 KiB; it is stopped at its first mark.
    most_bytes = min(trees.MOST_BYTES, shutil.disk_usage(into).free * 9 // 10)
    argv += [f"--checkpoint={max(1, most_bytes // 10240)}"]
    argv += [f"--checkpoint-action=exec=echo {_TOO_LARGE} >&2; kill -KILL $PPID"]
    summer = hashlib.sha256()
    line = dying_with_us(confined(argv, writes=[into]))
    env = trees.environment()
    with started(line, stdin=subprocess.PIPE, stdout=None, env=env, umask=0o022) as tar:
        read_bytes = 0
        tail = b""
        for chunk in _chunks(stream):
            summer.update(chunk)
            tail = (tail + chunk)[-_END_BYTES:]
            read_bytes += len(chunk)
            # tar has seen the end, or failed: its status shows which.
            with suppress(BrokenPipeError):
                tar.stdin.write(chunk)
            request.progress(f"unpacking {name}", read_bytes / size_bytes if size_bytes else None)
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
    if read_bytes < size_bytes:
        raise ToolError(
            f"{name} broke off after {read_bytes:,} of {size_bytes:,} bytes. Run the command again"
        )
    why = ""
    if status:
        trees.refuse_full(status, stderr)
        # tar's first line is the reason; the others follow from it.
        why = next((line for line in stderr.splitlines() if line.strip()), "tar gave no reason")
    # Packers notice a missing end; tar does not when the cut is between two members.
    elif packed_by is None and tail != bytes(_END_BYTES):
        why = "the two blocks of zeros that end an archive are missing"
    if why:
        raise blame(
            f"{name} cannot be unpacked; it is damaged, cut short or no tar archive ({why})"
        )
    # pax_global_header is what a tar that knows no pax headers makes of one.
    top = [entry for entry in into.iterdir() if entry.name != "pax_global_header"]
    alone = len(top) == 1 and top[0].is_dir() and not top[0].is_symlink()
    return (top[0] if alone else into), summer.hexdigest()


def _chunks(stream: IO[bytes]) -> Iterator[bytes]:
    # A connection that breaks off, whatever TLS or the route calls it, shows as missing bytes.
    network = isinstance(stream, http.client.HTTPResponse)
    with suppress(*((http.client.HTTPException, OSError) if network else ())):
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk


def unpack_file(
    file: Path, scratch: Path, request: Request, blame: type[KdynoError]
) -> tuple[Path, str]:
    with file.open("rb") as stream:
        return unpack(stream, file.stat().st_size, file.name, scratch, request, blame)


def from_file(request: Request) -> Tree:
    """A tar archive on this machine, packed or not. Its identity is its SHA-256."""
    file = Path(request.spec.rest).expanduser().absolute()
    if not file.is_file():
        kind = "is a folder: write path:DIR for it" if file.is_dir() else "does not exist"
        raise UsageError(f"source {request.spec}: {file} {kind}")
    request.progress(f"checking {file.name}", None)
    digest = trees.sha256_of(file)

    def fill(scratch: Path) -> Path:
        source, checksum = unpack_file(file, scratch, request, UsageError)
        if checksum != digest:
            raise ToolError(f"{file} changed while it was read. Run the command again")
        return source

    description = f"{file.name}, SHA-256 {digest[:12]}"
    return request.place(f"tar-{digest[:40]}", digest, description, fill)


_DEFAULT_SITE = "https://www.kernel.org/pub/linux/kernel"
_SUM = re.compile(r"^([0-9a-f]{64}) [ *]linux-([0-9][0-9.]*)\.tar\.xz$", re.MULTILINE)


def from_kernel_org(request: Request) -> Tree:
    version = request.spec.rest

    def make() -> tuple[Tree, dict[str, Any]]:
        site = os.environ.get("KDYNO_KERNEL_ORG") or _DEFAULT_SITE
        folder = f"{site.rstrip('/')}/v{version.partition('.')[0]}.x"
        wanted = _checksum(request, folder)

        def fill(scratch: Path) -> Path:
            name = f"linux-{version}.tar.xz"
            url = f"{folder}/{name}"
            with _opened(url) as response:
                size_bytes = response.length or 0
                source, checksum = unpack(response, size_bytes, name, scratch, request, ToolError)
            if checksum != wanted:
                raise ToolError(
                    f"{url} has the wrong checksum: SHA-256 is {checksum}, the server's list says "
                    f"{wanted}. Try again later; if it stays so, the file or the list was changed "
                    "on the way"
                )
            return source

        key = f"kernel.org-{version}-{wanted[:24]}"
        description = f"Linux {version}, SHA-256 {wanted[:12]} verified"
        digest = hashlib.sha256(f"{version} {wanted}".encode()).hexdigest()
        return request.place(key, digest, description, fill), {"sha256": wanted}

    # A release never changes, so there is nothing to refresh.
    record = request.home / f"{version}.json"
    return replace(request, refresh=False).once(record, f"kernel.org-{version}", make)


def _checksum(request: Request, folder: str) -> str:
    """SHA-256 that the site's list has for the release; UsageError lists the nearest others."""
    spec = request.spec
    listing = f"{folder}/sha256sums.asc"
    request.progress(f"reading {listing}", None)
    try:
        with _opened(listing) as response:
            text = response.read(8 << 20).decode("utf-8", "replace")
            if response.length:  # a read of at most so many bytes takes fewer for all
                raise ConnectionError(f"{response.length:,} bytes are missing")
    except NotFound as problem:
        raise UsageError(f"source {spec}: {problem}. Is there such a major version?") from problem
    except (OSError, http.client.HTTPException) as problem:
        raise ToolError(f"{listing} broke off: {problem}. Run the command again") from problem
    sums: dict[str, str] = {version: digest for digest, version in _SUM.findall(text)}
    if spec.rest in sums:
        return sums[spec.rest]
    if "-rc" in spec.rest:
        raise UsageError(
            f"source {spec}: the site keeps no archive with a checksum of a release candidate. "
            "Use git:URL#vX.Y-rcZ"
        )
    near = ", ".join(sorted(difflib.get_close_matches(spec.rest, sums, 5, 0)))
    raise UsageError(
        f"source {spec}: there is no release {spec.rest}. Nearest: "
        + (near or f"none; {listing} lists no release")
    )


class NotFound(ToolError):
    """The server has no such file (404)."""


def _opened(url: str) -> http.client.HTTPResponse:
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(url, timeout=_TIMEOUT_S)
        return response
    except urllib.error.HTTPError as problem:
        problem.close()
        error = NotFound if problem.code == 404 else ToolError
        raise error(f"{url}: the server answered {problem.code} {problem.reason}") from problem
    except (OSError, http.client.HTTPException, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        text = f"cannot reach {url}: {reason}. Is there a network, or a proxy?"
        raise ToolError(text) from problem
