# SPDX-License-Identifier: MIT
"""Run a guest's process: read its pipes with limits, watch the clock, leave nothing behind.

kdyno sleeps in poll() while the guest runs; it wakes for what the guest prints and for
deadlines, and for nothing else.
"""

from __future__ import annotations

import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

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


@dataclass
class Watch:
    """What ends a guest early: its deadlines, or anybody who sets ``stop``."""

    limit_s: float
    """Wall-clock seconds for the whole process, whatever happens."""
    stop: str = ""
    """Kill now, for this reason."""
    began_s: float = field(default_factory=time.monotonic)
    _due_s: float = math.inf

    def allow(self, seconds: float) -> None:
        """The guest must show the next sign of life within ``seconds`` from now."""
        self._due_s = time.monotonic() + seconds

    def left_s(self) -> float:
        """Seconds until the guest is killed for its silence or its length."""
        return min(self._due_s, self.began_s + self.limit_s) - time.monotonic()


def run(
    argv: Sequence[str],
    *,
    streams: Mapping[int, Stream],
    pass_fds: Sequence[int],
    watch: Watch,
    cpus: frozenset[int],
    output: int,
    environment: Mapping[str, str],
) -> Ended:
    """Run ``argv`` pinned to ``cpus`` until it ends or ``watch`` ends it.

    streams: read ends of pipes (closed here), whose write ends are in ``pass_fds`` and are
    closed here once the process has them. output: the descriptor for stdout and stderr.
    """
    began_s = time.monotonic()
    with ExitStack() as closing:
        for descriptor in streams:
            closing.callback(os.close, descriptor)
        try:
            process = _spawn(argv, pass_fds, cpus, output, environment)
        finally:
            for descriptor in {*pass_fds, output}:
                os.close(descriptor)
        try:
            stopped = _pump(process, streams, watch)
        finally:
            _kill(process)
    return Ended(process.returncode, stopped, time.monotonic() - began_s)


def _spawn(
    argv: Sequence[str],
    pass_fds: Sequence[int],
    cpus: frozenset[int],
    output: int,
    environment: Mapping[str, str],
) -> subprocess.Popen[bytes]:
    # A child inherits its parent's CPUs: moving this thread for a moment is far cheaper than
    # running Python code in the child (preexec_fn forces a slow fork).
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(pass_fds),
            env=dict(environment),
            start_new_session=True,
        )
    finally:
        os.sched_setaffinity(0, own)


def _pump(
    process: subprocess.Popen[bytes],
    streams: Mapping[int, Stream],
    watch: Watch,
) -> str:
    with selectors.DefaultSelector() as selector:
        for descriptor, stream in streams.items():
            os.set_blocking(descriptor, False)
            selector.register(descriptor, selectors.EVENT_READ, stream)
        child = os.pidfd_open(process.pid)
        try:
            selector.register(child, selectors.EVENT_READ, None)
            alive = True
            while alive:
                left_s = watch.left_s()
                if watch.stop or left_s <= 0:
                    return watch.stop or "timeout"
                for key, _ in selector.select(left_s):
                    if key.data is None:
                        alive = False
                    elif not _read(key.fd, key.data, watch):
                        selector.unregister(key.fd)
            for descriptor, stream in streams.items():  # what was still in the pipes
                while not watch.stop and _read(descriptor, stream, watch, drain=True):
                    pass
            return watch.stop
        finally:
            os.close(child)


def _read(descriptor: int, stream: Stream, watch: Watch, drain: bool = False) -> bool:
    try:
        data = os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return not drain
    except OSError:
        return False
    if not data:
        return False
    stream.seen += len(data)
    stream.take(data)
    if stream.seen > stream.most_bytes:
        watch.stop = stream.too_many
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    # In the sandbox the namespace dies with bwrap; without it, the session is the group.
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
