# SPDX-License-Identifier: MIT
"""A guest that is a process of this machine: its pipes, its deadlines, its end."""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kdyno.machines.cpu_time import CpuTime, used_s
from kdyno.machines.events import Events
from kdyno.machines.listening import Listening
from kdyno.machines.pipes import READ_BYTES, Ended, Stream
from kdyno.machines.qmp import NoAnswer, Pauser
from kdyno.machines.session import Outcome
from kdyno.sandbox import FILTER
from kdyno.suites.record import Record


@dataclass(frozen=True)
class Pipes:
    """The guest's ends of the pipes, which it is started with."""

    console: int
    results: int
    report: int
    orders: int


@dataclass(frozen=True)
class Command:
    """How a guest is started."""

    argv: tuple[str, ...]
    pass_fds: tuple[int, ...]
    """Beside those of the pipes; closed here once the process has them."""
    environment: Mapping[str, str]
    pauser: Pauser | None = None
    """Where signals to the guest's processes are not the way; closed with the session."""


_SOON_S = 0.25
"""That only an answer is waited for; then for everything that may happen to a guest."""

Start = Callable[[Pipes], Command]
Conclude = Callable[[Ended, tuple[str, ...]], Outcome]


class ProcessSession:
    """A process pinned to its CPUs, and the four pipes to it."""

    def __init__(
        self,
        events: Events,
        guest: Listening,
        start: Start,
        conclude: Conclude,
        cpus: frozenset[int],
        closing: ExitStack,
    ) -> None:
        """closing: what is to be undone when the guest is gone, whatever happens."""
        self._events, self._guest, self._conclude = events, guest, conclude
        self._closing = closing
        self._pids: tuple[int, ...] = ()
        self._pauser: Pauser | None = None
        self._paused = False
        self.ended = False
        self._streams: dict[int, Stream] = {}
        self._answer = select.poll()
        self._cpu = CpuTime()
        self._unread: list[bytes] = []
        """Of the results, by ``ask``."""
        try:
            self._start(start, cpus)
        except BaseException:
            closing.close()
            raise

    def _start(self, start: Start, cpus: frozenset[int]) -> None:
        self._began_s = time.monotonic()
        # Whatever fails on the way, all that was there by then is gone again.
        with ExitStack() as low, ExitStack() as undo, ExitStack() as handed:
            # What the guest is given has higher numbers than the sandbox's filter is opened with.
            while (spare := os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) <= FILTER:
                low.callback(os.close, spare)
            os.close(spare)
            console_in, console_out = _pipe(undo, handed)
            self._results, results_out = _pipe(undo, handed)
            report_in, report_out = _pipe(undo, handed)
            orders_in, self._orders = _pipe(handed, undo)
            theirs = (console_out, results_out, report_out, orders_in)
            command = start(Pipes(*theirs))
            for descriptor in command.pass_fds:
                handed.callback(os.close, descriptor)
            self._argv = command.argv
            if command.pauser is not None:
                self._pauser = command.pauser
                self._closing.callback(command.pauser.close)
            self._process = _spawn(command, (*theirs, *command.pass_fds), cpus, console_out)
            handed.close()  # or the pipes would not end with the guest
            undo.callback(_wait_for_all, (console_in, self._results, report_in))
            undo.callback(_kill, self._process)
            os.set_blocking(self._orders, False)
            child = os.pidfd_open(self._process.pid)
            undo.callback(os.close, child)
            self._streams = self._guest.streams(console_in, self._results, report_in)
            self._answer.register(self._results, select.POLLIN)
            for descriptor in self._streams:
                os.set_blocking(descriptor, False)
                self._events.add(descriptor, partial(self._read, descriptor))
                undo.callback(self._events.remove, descriptor)
            self._events.add(child, self._over)
            undo.callback(self._events.remove, child)
            self._undo = undo.pop_all()
        self._events.watch(self)

    def send(self, order: str, limit_s: float = math.inf) -> None:
        if self.ended:
            return
        self._guest.watch.allow(limit_s)
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(self._orders, order.encode() + b"\n")

    def ask(self, order: str, limit_s: float = math.inf) -> bool:
        self.send(order, limit_s)
        if self.ended or not self._answer.poll(min(limit_s, _SOON_S) * 1000):
            return False
        self._unread.append(os.read(self._results, READ_BYTES))
        return True

    def records(self) -> list[Record]:
        self._take_unread()
        said = self._guest.said
        if not said:
            return said
        self._guest.said = []
        return said

    def due_s(self) -> float:
        return self._guest.watch.due_s()

    def overdue(self) -> None:
        self._stop("timeout")

    def meter(self) -> None:
        self._cpu.close()
        self._cpu = CpuTime() if self.ended else CpuTime(_family(self._process.pid))

    def cpu_ns(self) -> int:
        return self._cpu.ns()

    def used_s(self) -> float:
        return 0.0 if self.ended else used_s(_family(self._process.pid))

    def pause(self) -> None:
        if self._paused or self.ended:
            return
        self._paused = True
        self._guest.watch.pause()
        self._hold(True)

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._hold(False)
            self._guest.watch.resume()

    def _hold(self, still: bool) -> None:
        if self._pauser is None:
            self._signal(signal.SIGSTOP if still else signal.SIGCONT)
            return
        if self.ended:
            return
        try:
            self._pauser.stop() if still else self._pauser.go_on()
        except NoAnswer:
            self._stop("no-answer")

    def _signal(self, number: signal.Signals) -> None:
        if not self._pids:
            self._pids = _kernel_groups(self._process.pid)
        for group in self._pids:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    def _take_unread(self) -> None:
        while self._unread and not self.ended:
            self._take(self._results, self._unread.pop(0))

    def _read(self, descriptor: int, drain: bool = False) -> bool:
        """False when there is no more to read, now (``drain``) or ever."""
        self._take_unread()
        try:
            data = os.read(descriptor, READ_BYTES)
        except BlockingIOError:
            return not drain
        except OSError:
            data = b""
        return self._take(descriptor, data)

    def _take(self, descriptor: int, data: bytes) -> bool:
        if not data:
            self._events.remove(descriptor)
            return False
        stream = self._streams[descriptor]
        stream.seen += len(data)
        stream.take(data)
        if stream.seen > stream.most_bytes:
            self._stop(stream.too_many)
        return True

    def _over(self) -> None:
        for descriptor in self._streams:  # what was still in the pipes
            while not self._guest.watch.stop and self._read(descriptor, drain=True):
                pass
        self._end()

    def _stop(self, why: str) -> None:
        self._guest.watch.stop = self._guest.watch.stop or why
        self._end()

    def _end(self) -> None:
        """No process of it is left, and nobody waits for it any more."""
        if self.ended:
            return
        self.ended = True
        self._events.forget(self)
        self._undo.close()
        self._wall_s = time.monotonic() - self._began_s
        self._cpu.close()

    def close(self) -> Outcome:
        if not self.ended:
            self._stop("closed")
        with self._closing:
            ended = Ended(self._process.returncode, self._guest.watch.stop, self._wall_s)
            return self._conclude(ended, self._argv)


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """(end to read, end to write), each of which is closed with its owner."""
    ends = os.pipe()
    reader.callback(os.close, ends[0])
    writer.callback(os.close, ends[1])
    return ends


def _spawn(
    command: Command, descriptors: Sequence[int], cpus: frozenset[int], output: int
) -> subprocess.Popen[bytes]:
    # A child inherits its parent's CPUs: moving this thread for a moment is far cheaper than
    # running Python code in the child (preexec_fn forces a slow fork).
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        return subprocess.Popen(
            list(command.argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=tuple(descriptors),
            env=dict(command.environment),
            start_new_session=True,
        )
    finally:
        os.sched_setaffinity(0, own)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # In the sandbox all dies with its first process. Without it nothing but this does it; a group
    # that was stopped dies of SIGKILL all the same.
    groups = [process.pid, *_kernel_groups(process.pid)]
    gone = process.poll() is not None
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    if not gone:
        process.wait()


def _wait_for_all(pipes: Iterable[int], limit_s: float = 5.0) -> None:
    """Until nobody holds the guest's ends: the kernel takes down what was killed in its own time.

    The limit is for what got away where there is no sandbox.
    """
    held, poller = set(pipes), select.poll()
    for descriptor in held:
        poller.register(descriptor, 0)  # its end alone
    until_s = time.monotonic() + limit_s
    while held and (left_s := until_s - time.monotonic()) > 0:
        for descriptor, _ in poller.poll(left_s * 1000):
            poller.unregister(descriptor)
            held.discard(descriptor)


def _kernel_groups(pid: int) -> tuple[int, ...]:
    """The process group that the guest's kernel and its stubs are in: the innermost one.

    Around it are the sandbox and the supervisor, which must go on running: it is they who see to
    it that nothing is left when kdyno is killed.
    """
    group = 0
    for child in _family(pid)[1:]:
        with suppress(ProcessLookupError):
            if os.getpgid(child) == child:
                group = child
    return (group,) if group else ()


def _family(pid: int) -> list[int]:
    """The process and all below it, level by level."""
    found = [pid]
    for one in found:
        found += _children(one)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, task.read_text().split())
    return found
