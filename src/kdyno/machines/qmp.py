# SPDX-License-Identifier: MIT
"""QEMU's monitor, as far as pausing a guest takes it (docs/interop/qmp-spec.rst in QEMU).

``stop`` stops the guest's CPUs and timers where SIGSTOP would stop the process that has to serve
them; what comes back from an emulator that a guest may have taken over is read within limits.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Protocol

from kdyno.reading.checked import values

LIMIT_S = 5.0
"""For an answer, which takes less than a millisecond."""
_MOST_BYTES = 1 << 16


class NoAnswer(Exception):
    """The emulator does not do what it is asked; it is of no use any more."""


class Pauser(Protocol):
    """Stops a guest and lets it go on, where signals to its processes are not the way."""

    def stop(self) -> None:
        """It stands still when this returns. NoAnswer."""

    def go_on(self) -> None:
        """NoAnswer."""

    def close(self) -> None: ...


class Monitor:
    """One connection, which it owns."""

    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self._unread = b""
        self._met = False

    def stop(self) -> None:
        self._ask("stop")

    def go_on(self) -> None:
        self._ask("cont")

    def close(self) -> None:
        self._own.close()

    def _ask(self, command: str) -> None:
        until_s = time.monotonic() + LIMIT_S
        try:
            if not self._met:
                if "QMP" not in self._line(until_s):
                    raise NoAnswer("it did not greet")
                self._execute("qmp_capabilities", until_s)
                self._met = True
            self._execute(command, until_s)
        except OSError as problem:
            raise NoAnswer(f"{command}: {problem}") from None

    def _execute(self, command: str, until_s: float) -> None:
        self._own.settimeout(max(0.001, until_s - time.monotonic()))
        self._own.sendall(json.dumps({"execute": command}).encode() + b"\n")
        while True:
            said = self._line(until_s)
            if "return" in said:
                return
            if "event" not in said:
                raise NoAnswer(f"{command}: {json.dumps(said)[:200]}")

    def _line(self, until_s: float) -> dict[str, object]:
        while b"\n" not in self._unread:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or len(self._unread) > _MOST_BYTES:
                raise NoAnswer("no whole line")
            self._own.settimeout(left_s)
            data = self._own.recv(4096)
            if not data:
                raise NoAnswer("it hung up")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        try:
            said = values(line)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            raise NoAnswer(f"not an object: {line[:100]!r}")
        return said
