# SPDX-License-Identifier: MIT
"""A file over HTTP: resumed where it broke off, used only when its checksum is right."""

from __future__ import annotations

import hashlib
import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kdyno.errors import ToolError
from kdyno.kernels.source import Progress

_TIMEOUT_S = 60
_CHUNK_BYTES = 1 << 18
_ATTEMPTS = 4
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class NotFound(ToolError):
    """The server has no such file (404)."""


def text(url: str, limit_bytes: int = 8 << 20) -> str:
    """A small text file of the server."""
    with _opened(url, {}) as response:
        return response.read(limit_bytes).decode("utf-8", "replace")


def file(url: str, target: Path, sha256: str, progress: Progress) -> None:
    """Download ``url`` to ``target``, which exists afterwards only with the right ``sha256``.

    What arrives is kept as ``target.part`` and continued by the next attempt or the next
    process. A wrong checksum deletes it: ToolError.
    """
    part = target.with_name(f"{target.name}.part")
    resumed = part.exists()
    if not _complete(url, part, progress):
        raise ToolError(
            f"{url} broke off {_ATTEMPTS} times; the last byte received was "
            f"{part.stat().st_size}. Run the command again: it continues there"
        )
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found == sha256:
        part.replace(target)
        return
    part.unlink()
    if resumed:  # the earlier part may have been another version of the file
        file(url, target, sha256, progress)
        return
    raise ToolError(
        f"{url} has the wrong checksum and was deleted: SHA-256 is {found}, "
        f"the server's list says {sha256}. Try again later; if it stays so, the file or the "
        "list was changed on the way"
    )


def _complete(url: str, part: Path, progress: Progress) -> bool:
    """Append to ``part`` until it has all bytes that the server announced."""
    for _attempt in range(_ATTEMPTS):
        have_bytes = part.stat().st_size if part.exists() else 0
        headers = {"Range": f"bytes={have_bytes}-"} if have_bytes else {}
        with _opened(url, headers) as response:
            if response.status == 416:  # nothing after what we have, or less than we have
                return True
            span = _RANGE.match(response.headers.get("Content-Range", ""))
            continued = response.status == 206 and span and int(span[1]) == have_bytes
            total_bytes = int(span[2]) if continued and span else _length(response)
            with part.open("ab" if continued else "wb") as sink:
                while chunk := _read(response):
                    sink.write(chunk)
                    done = sink.tell() / total_bytes if total_bytes else None
                    progress(f"downloading {url.rpartition('/')[2]}", done)
                size_bytes = sink.tell()
        if total_bytes is None or size_bytes >= total_bytes:
            return True
    return False


def _length(response: http.client.HTTPResponse) -> int | None:
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdigit() else None


def _read(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK_BYTES)
    except (http.client.HTTPException, OSError):
        return b""  # broke off: the caller sees that bytes are missing


@contextmanager
def _opened(url: str, headers: dict[str, str]) -> Iterator[http.client.HTTPResponse]:
    request = urllib.request.Request(url, headers=headers)
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as problem:
        if problem.code == 416:
            with problem:
                yield problem  # type: ignore[misc]  # has status and headers, all that is used
            return
        problem.close()
        error = NotFound if problem.code == 404 else ToolError
        raise error(f"{url}: the server answered {problem.code} {problem.reason}") from problem
    except (OSError, http.client.HTTPException, ValueError) as problem:
        reason = getattr(problem, "reason", problem)
        raise ToolError(f"cannot reach {url}: {reason}. Is there a network, or a proxy?") from (
            problem
        )
    with response:
        yield response
