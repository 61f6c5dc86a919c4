# SPDX-License-Identifier: MIT
"""A guest's first files, as the kernel unpacks them: the same bytes for the same content.

The format is cpio "newc" (Documentation/driver-api/early-userspace/buffer-format.rst in Linux).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_FOLDER, _FILE, _DEVICE, _LINK = 0o040000, 0o100000, 0o020000, 0o120000


@dataclass(frozen=True)
class Entry:
    """One file, folder, link or character device. ``name`` is relative to the root."""

    name: str
    mode: int
    """Type and permissions, as stat(2) has them."""
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def folder(name: str) -> Entry:
    return Entry(name, _FOLDER | 0o755)


def file(name: str, content: bytes, permissions: int) -> Entry:
    return Entry(name, _FILE | permissions, content)


def link(name: str, target: str) -> Entry:
    return Entry(name, _LINK | 0o777, target.encode())


def device(name: str, major: int, minor: int) -> Entry:
    return Entry(name, _DEVICE | 0o600, device=(major, minor))


def archive(entries: Iterable[Entry]) -> bytes:
    """The archive: root's files, of the year 1970, numbered in their order."""
    made = [_packed(number, entry) for number, entry in enumerate(entries, start=1)]
    return b"".join([*made, _packed(0, Entry("TRAILER!!!", 0))])


def _packed(number: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if entry.mode & 0o170000 == _FOLDER else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device)
    head = b"070701" + b"".join(b"%08X" % value for value in (*fields, len(name), 0)) + name
    return _padded(head) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
