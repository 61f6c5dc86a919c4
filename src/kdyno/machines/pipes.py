# SPDX-License-Identifier: MIT
"""What comes out of a guest, kept within limits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

READ_BYTES = 1 << 16


class Gathered:
    """A guest's output, kept up to a limit: the beginning and the end, the middle counted."""

    def __init__(self, head_bytes: int = 1 << 20, tail_bytes: int = 1 << 20) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._head_bytes, self._tail_bytes = head_bytes, tail_bytes
        self.total = 0

    def add(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_bytes:
            del self._tail[: -self._tail_bytes]

    def content(self) -> bytes:
        """What was kept, with one line in place of what was not."""
        tail = bytes(self._tail[-self._tail_bytes :])
        left_out = self.total - len(self._head) - len(tail)
        if left_out <= 0:
            return bytes(self._head) + tail
        return bytes(self._head) + b"\n[kdyno left out %d bytes here]\n" % left_out + tail


@dataclass
class Stream:
    """One pipe from the guest: what to do with its bytes, and how many are too many."""

    take: Callable[[bytes], None]
    most_bytes: int
    too_many: str
    """Why the boot is stopped when there are more."""
    seen: int = 0


@dataclass(frozen=True)
class Ended:
    """How the process ended. ``stopped`` says why kdyno killed it; empty when it did not."""

    status: int
    stopped: str
    wall_s: float
