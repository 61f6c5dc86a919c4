# SPDX-License-Identifier: MIT
"""A guest that is a process of this machine: its pipes, its deadlines, what it says, its end.

kdyno sleeps in epoll while guests run; it wakes for what a guest says and for deadlines, and for
nothing else. With guests that take turns it runs thousands of times a second, beside a guest that
is being timed, so it does as little as it can."""

from __future__ import annotations

import json
import math
import os
import secrets
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from kdyno.errors import UsageError
from kdyno.reading.checked import values
from kdyno.sandbox import FILTER
from kdyno.store.boot import BootHost
from kdyno.suites import protocol
from kdyno.suites.job import Job, in_place, render
from kdyno.suites.protocol import Begin, Bye, Fatal, Mark, Reader, Record, Transcript

FIRST_WORD_S = 20.0
"""A kernel that has not reached the guest program by then hangs (0.1 s is usual)."""
GRACE_S = 15.0
"""Beyond a case's own limit, which the guest program enforces itself."""
# The same for every boot: what a program's environment looks like moves its stack.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
_MOST_BYTES = 16 << 20
"""Of a guest's console, and of its results."""
_REPORT_MOST_BYTES = _READ_BYTES = 1 << 16
_FAILURES = (protocol.CaseError, protocol.Skip)
ANSWERS: Mapping[str, tuple[type[Record], ...]] = {
    "begin": (protocol.Ready, *_FAILURES),
    "turn": (protocol.Turn, *_FAILURES),
    "end": (protocol.Done, *_FAILURES),
    "case": (protocol.Sample, *_FAILURES),
    "bye": (),
}
"""To the orders of guest/turns.h, by their first words. A goodbye has none."""
_SOON_S = 0.25
"""That only an answer is waited for; then for everything that may happen to a guest."""
Listener = Callable[[str], None]
"""Called with the name of each case that begins."""


@dataclass(frozen=True)
class Outcome:
    """The result of a boot: the host's record, what the guest sent, its console, the command."""

    host: BootHost
    transcript: Transcript
    console: bytes
    command: tuple[str, ...]


class Events:
    """One event loop for every guest that is alive: descriptors with what is to be called, and
    deadlines."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}
        self.sessions: list[Session] = []
        """Those with a deadline."""

    def close(self) -> None:
        self._epoll.close()

    def now_s(self) -> float:
        """The clock of deadlines and of slices."""
        return time.monotonic()

    def add(self, descriptor: int, call: Callable[[], object]) -> None:
        """``call`` whenever there is something to read."""
        self._epoll.register(descriptor, select.EPOLLIN)
        self._calls[descriptor] = call

    def remove(self, descriptor: int) -> None:
        """Before the descriptor is closed."""
        if self._calls.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def wait(self, until_s: float = math.inf) -> None:
        """Sleep until something happens, a deadline passes, or ``now_s`` reaches ``until_s``."""
        due_s = min([until_s, *(session.due_s() for session in self.sessions)])
        left_s = -1.0 if due_s == math.inf else max(0.0, due_s - time.monotonic())
        for descriptor, _ in self._epoll.poll(left_s):
            if call := self._calls.get(descriptor):
                call()
        now_s = time.monotonic()
        for session in tuple(self.sessions):
            if session.due_s() <= now_s:
                session.stop("timeout")


class Dialogue:
    """What a guest is given and sent so far, and what follows for how long it may go on."""

    def __init__(
        self,
        job: Job,
        places: Mapping[str, str],
        listener: Listener = lambda _case: None,
        limit_s: float | None = None,
        first_word_s: float = FIRST_WORD_S,
        grace_s: float = GRACE_S,
    ) -> None:
        """For the job that is about to start. places: where the guest finds what command lines
        name. limit_s: of the whole process; None follows from the cases. Pauses do not count.
        UsageError for a job that the guest program could not read."""
        nonce = secrets.token_hex(16)
        self.job = in_place(job, places)
        self.text = render(self.job, nonce).encode()
        """The job as the guest program reads it."""
        self.reader = Reader(nonce, len(job.cases))
        self.records: list[Record] = []
        """Those that nobody has asked for yet."""
        self.console, self.report = bytearray(), bytearray()
        self.at_first: Callable[[], object] = lambda: None
        """Called at the first record."""
        self.first_s: float | None = None
        self.last_s = 0.0
        self._listener, self._grace_s = listener, grace_s
        cases_s = first_word_s + 2 * grace_s + sum(case.timeout_s for case in job.cases)
        self._end_s = time.monotonic() + (limit_s or (math.inf if job.turns else cases_s))
        self._paused_s: float | None = None
        self._answers: tuple[type[Record], ...] = (protocol.Hello,)
        self.allow(first_word_s)

    def allow(self, seconds: float) -> None:
        """The guest must show the next sign of life within ``seconds`` from now."""
        self._next_s = time.monotonic() + seconds

    def ordered(self, order: str, seconds: float) -> None:
        """The answer to an order of guest/turns.h is to come within ``seconds`` from now."""
        self._answers = ANSWERS[order.partition(" ")[0]]
        self.allow(seconds)

    def due_s(self) -> float:
        """When the guest is killed for its silence or its length."""
        return min(self._next_s, self._end_s) if self._paused_s is None else math.inf

    def pause(self) -> None:
        """Deadlines stand still from now on."""
        self._paused_s = time.monotonic()

    def resume(self) -> None:
        """They go on as far off as they were."""
        if self._paused_s is not None:
            pause_s = time.monotonic() - self._paused_s
            self._paused_s = None
            self._next_s += pause_s
            self._end_s += pause_s

    def results(self, data: bytes) -> None:
        for record in self.reader.feed(data):
            self.last_s = time.monotonic()
            if self.first_s is None:
                self.first_s = self.last_s
                self.at_first()
            self.records.append(record)
            if isinstance(record, Begin):
                case = self.job.cases[record.case]
                self._listener(case.case)
                if not self.job.turns:
                    self.allow(case.timeout_s + self._grace_s)
            elif self.job.turns:
                # Whoever gives orders says how long each may take, until its answer and no other.
                if isinstance(record, self._answers):
                    self.allow(math.inf)
                elif isinstance(record, Bye | Fatal):
                    self.allow(self._grace_s)
            elif not isinstance(record, Mark):  # a case goes on
                self.allow(self._grace_s)


def printable_words(cmdline: str) -> list[str]:
    """The words of a kernel's command line; UsageError for what none can hold."""
    words = cmdline.split()
    for word in words:
        if not (word.isascii() and word.isprintable()):
            raise UsageError(f"cmdline: {word!r} is not a printable word")
    return words


class CpuTime:
    """Of all threads of these processes, as they are now; those that come later are not counted. By
    /proc/PID/task/TID/schedstat, which has nanoseconds and takes microseconds to read."""

    def __init__(self, pids: Iterable[int] = ()) -> None:
        self._files: list[int] = []
        for pid in pids:
            for thread in _threads(pid):
                with suppress(OSError):
                    self._files.append(os.open(thread / "schedstat", os.O_RDONLY | os.O_CLOEXEC))

    def ns(self) -> int:
        """Since they began. It goes back by the time of one that ended."""
        total = 0
        for file in tuple(self._files):
            try:
                total += int(os.pread(file, 64, 0).split()[0])
            except (OSError, ValueError, IndexError):
                self._files.remove(file)
                os.close(file)
        return total

    def close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files = []


class NoAnswer(Exception):
    """An emulator does not do what it is asked; it is of no use any more."""


class Monitor:
    """QEMU's monitor, as far as pausing a guest takes it (docs/interop/qmp-spec.rst in QEMU).
    ``stop`` stops the guest's CPUs and timers where SIGSTOP would stop the process that has to
    serve them; what comes back from an emulator that a guest may have taken over is read within
    limits. It owns its connection."""

    LIMIT_S: ClassVar[float] = 5.0
    """For an answer, which takes less than a millisecond."""
    _MOST_BYTES = 1 << 16

    def __init__(self, own: socket.socket) -> None:
        self._own = own
        self._unread = b""
        self._greeted = False

    def hold(self, still: bool) -> None:
        """It stands still, or goes on, when this returns. NoAnswer."""
        until_s = time.monotonic() + self.LIMIT_S
        commands = ["stop" if still else "cont"]
        try:
            if not self._greeted:
                if "QMP" not in self._line(until_s):
                    raise NoAnswer("it did not greet")
                commands.insert(0, "qmp_capabilities")
            for command in commands:
                self._own.settimeout(max(0.001, until_s - time.monotonic()))
                self._own.sendall(json.dumps({"execute": command}).encode() + b"\n")
                while "return" not in (answer := self._line(until_s)):
                    if "event" not in answer:
                        raise NoAnswer(f"{command}: {json.dumps(answer)[:200]}")
                self._greeted = True
        except OSError as problem:
            raise NoAnswer(f"{commands[-1]}: {problem}") from None

    def close(self) -> None:
        self._own.close()

    def _line(self, until_s: float) -> dict[str, object]:
        while b"\n" not in self._unread:
            left_s = until_s - time.monotonic()
            if left_s <= 0 or len(self._unread) > self._MOST_BYTES:
                raise NoAnswer("no whole line")
            self._own.settimeout(left_s)
            if not (data := self._own.recv(4096)):
                raise NoAnswer("it hung up")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        with suppress(ValueError):
            if isinstance(answer := values(line), dict):
                return answer
        raise NoAnswer(f"not an object: {line[:100]!r}")


@dataclass(frozen=True)
class Pipes:
    """The guest's ends of the pipes, which it is started with."""

    console: int
    results: int
    report: int
    orders: int


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    pass_fds: tuple[int, ...]
    """Beside those of the pipes; closed here once the process has them."""
    environment: Mapping[str, str]
    monitor: Monitor | None = None
    """Stops the guest and lets it go on, where signals are not the way. Closed with the session."""


@dataclass(frozen=True)
class Ended:
    """How the process ended. ``stopped`` says why kdyno killed it; empty when it did not."""

    status: int
    stopped: str
    wall_s: float


class Session:
    """A guest from its start to its end: a process pinned to its CPUs, and the four pipes to it.
    Everything about it happens in ``Events.wait``."""

    def __init__(
        self,
        events: Events,
        dialogue: Dialogue,
        start: Callable[[Pipes], Command],
        conclude: Callable[[Ended, tuple[str, ...]], Outcome],
        cpus: frozenset[int],
        closing: ExitStack,
    ) -> None:
        """closing: what is to be undone when the guest is gone, whatever happens."""
        self._events, self._dialogue, self._conclude = events, dialogue, conclude
        self._closing = closing
        self._groups: tuple[int, ...] = ()
        self._paused = False
        self.ended = False
        """It is over, by its own doing or by kdyno's. ``close`` says how."""
        self._stopped = ""
        self._inlets: dict[int, Callable[[bytes], object]] = {}
        self._room_bytes: dict[int, int] = {}
        self._answer = select.poll()
        self._cpu = CpuTime()
        self._unread: list[bytes] = []
        """Of the results, by ``ask``."""
        try:
            self._start(start, cpus)
        except BaseException:
            closing.close()
            raise

    def _start(self, start: Callable[[Pipes], Command], cpus: frozenset[int]) -> None:
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
            self._argv, self._monitor = command.argv, command.monitor
            if self._monitor is not None:
                self._closing.callback(self._monitor.close)
            self._process = _spawn(command, (*theirs, *command.pass_fds), cpus, console_out)
            handed.close()  # or the pipes would not end with the guest
            undo.callback(_wait_for_all, (console_in, self._results, report_in))
            undo.callback(_kill, self._process)
            os.set_blocking(self._orders, False)
            child = os.pidfd_open(self._process.pid)
            undo.callback(os.close, child)
            dialogue = self._dialogue
            for descriptor, take, most_bytes in (
                (console_in, dialogue.console.extend, _MOST_BYTES),
                (self._results, dialogue.results, _MOST_BYTES),
                (report_in, dialogue.report.extend, _REPORT_MOST_BYTES),
            ):
                self._inlets[descriptor], self._room_bytes[descriptor] = take, most_bytes
                os.set_blocking(descriptor, False)
                self._events.add(descriptor, partial(self._read, descriptor))
                undo.callback(self._events.remove, descriptor)
            self._answer.register(self._results, select.POLLIN)
            self._events.add(child, self._over)
            undo.callback(self._events.remove, child)
            self._undo = undo.pop_all()
        self._events.sessions.append(self)

    def send(self, order: str, limit_s: float) -> None:
        """One order of guest/turns.h, to be answered within ``limit_s`` seconds of running. Only to
        guests whose job has ``turns``. A guest that is gone takes no notice."""
        if self.ended:
            return
        self._dialogue.ordered(order, limit_s)
        with suppress(BrokenPipeError, BlockingIOError):
            os.write(self._orders, order.encode() + b"\n")

    def ask(self, order: str, limit_s: float) -> bool:
        """``send``, and wait for an answer, which ``records`` will read. The next guest gets its
        turn the sooner. False where no answer came soon."""
        self.send(order, limit_s)
        if self.ended or not self._answer.poll(min(limit_s, _SOON_S) * 1000):
            return False
        self._unread.append(os.read(self._results, _READ_BYTES))
        return True

    def records(self) -> list[Record]:
        """What it sent since the last call, in order; already checked."""
        self._take_unread()
        records, self._dialogue.records = self._dialogue.records, []
        return records

    def due_s(self) -> float:
        """On the clock of ``now_s``; infinite: it has no deadline."""
        return self._dialogue.due_s()

    def meter(self) -> None:
        """From now on ``cpu_ns`` is about the processes that the guest has now."""
        self._cpu.close()
        self._cpu = CpuTime() if self.ended else CpuTime(_family(self._process.pid))

    def cpu_ns(self) -> int:
        """CPU time of those processes by the host's accounting; always 0: it is not known."""
        return self._cpu.ns()

    def used_s(self) -> float:
        """CPU seconds of all processes that it has and had, to a tick of the host's."""
        ticks = 0
        for pid in () if self.ended else _family(self._process.pid):
            with suppress(OSError, ValueError):
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # its own, and its children's that ended
        return ticks / os.sysconf("SC_CLK_TCK")

    def pause(self) -> None:
        """Stop every process of the guest; its deadline stands still. Once is enough."""
        if not (self._paused or self.ended):
            self._paused = True
            self._dialogue.pause()
            self._hold(True)

    def resume(self) -> None:
        if self._paused:
            self._paused = False
            self._hold(False)
            self._dialogue.resume()

    def _hold(self, still: bool) -> None:
        if self._monitor is None:
            self._groups = self._groups or _kernel_groups(self._process.pid)
            for group in self._groups:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal.SIGSTOP if still else signal.SIGCONT)
        elif not self.ended:
            try:
                self._monitor.hold(still)
            except NoAnswer:
                self.stop("no-answer")

    def _take_unread(self) -> None:
        while self._unread and not self.ended:
            self._take(self._results, self._unread.pop(0))

    def _read(self, descriptor: int, drain: bool = False) -> bool:
        """False when there is no more to read, now (``drain``) or ever."""
        self._take_unread()
        try:
            data = os.read(descriptor, _READ_BYTES)
        except BlockingIOError:
            return not drain
        except OSError:
            data = b""
        return self._take(descriptor, data)

    def _take(self, descriptor: int, data: bytes) -> bool:
        if not data:
            self._events.remove(descriptor)
            return False
        self._room_bytes[descriptor] -= len(data)
        self._inlets[descriptor](data)
        if self._room_bytes[descriptor] < 0:
            self.stop("flood")
        return True

    def _over(self) -> None:
        for descriptor in self._inlets:  # what was still in the pipes
            while not self._stopped and self._read(descriptor, drain=True):
                pass
        self.stop("")

    def stop(self, why: str) -> None:
        """Kill it for this reason. No process of it is left, and nobody waits for it any more."""
        self._stopped = self._stopped or why
        if self.ended:
            return
        self.ended = True
        if self in self._events.sessions:
            self._events.sessions.remove(self)
        self._undo.close()
        self._wall_s = time.monotonic() - self._began_s
        self._cpu.close()

    def close(self) -> Outcome:
        """End it if it is still alive, and leave nothing of it behind."""
        if not self.ended:
            self.stop("closed")
        with self._closing:
            ended = Ended(self._process.returncode, self._stopped, self._wall_s)
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
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    process.wait()


def _wait_for_all(pipes: Iterable[int], limit_s: float = 5.0) -> None:
    """Until nobody holds the guest's ends: the kernel takes down what was killed in its own time.
    The limit is for what got away where there is no sandbox."""
    held, poller = set(pipes), select.poll()
    for descriptor in held:
        poller.register(descriptor, 0)  # its end alone
    until_s = time.monotonic() + limit_s
    while held and (left_s := until_s - time.monotonic()) > 0:
        for descriptor, _ in poller.poll(left_s * 1000):
            poller.unregister(descriptor)
            held.discard(descriptor)


def _kernel_groups(pid: int) -> tuple[int, ...]:
    """The process group that the guest's kernel and its stubs are in: the innermost one. Around it
    are the sandbox and the supervisor, which must go on running: it is they who see to it that
    nothing is left when kdyno is killed."""
    group = 0
    for child in _family(pid)[1:]:
        with suppress(ProcessLookupError):
            if os.getpgid(child) == child:
                group = child
    return (group,) if group else ()


def _family(pid: int) -> list[int]:
    """The process and all below it, level by level."""
    family = [pid]
    for parent in family:
        for thread in _threads(parent):
            with suppress(OSError):
                family += map(int, (thread / "children").read_text().split())
    return family


def _threads(pid: int) -> list[Path]:
    """The folders of a process's threads; none when it has ended. Not by Path.glob, which raises
    FileNotFoundError when the process ends after its first look."""
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []
