# SPDX-License-Identifier: MIT
"""Which CPUs a guest gets, and the promise that nobody else of ours uses them meanwhile."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kdyno.errors import ToolError, UsageError
from kdyno.paths import cache_root

# An abstract socket: seen by every user of the machine, gone with the process that holds it. It
# ends at a container's network, so a file of the cache, which two containers may share, is locked
# as well; only its owner can open that. Any user can hold the socket: who does is named.
_LOCK = "\0kdyno-measures-on-this-machine"
DESPITE = "KDYNO_DESPITE_OTHERS"
"""Set to 1: what other users hold does not count."""


@dataclass(frozen=True)
class Placement:
    """CPUs of the guest, and those that are left to kdyno itself."""

    guest: frozenset[int]
    own: frozenset[int]


def place(count: int) -> Placement:
    """Give a guest ``count`` CPUs: the highest-numbered, because CPU 0 takes most interrupts.
    UsageError when the machine (or the affinity mask kdyno was started with) has fewer."""
    cpus = sorted(os.sched_getaffinity(0))
    if count < 1 or count > len(cpus):
        raise UsageError(
            f"[machine] cpus = {count}: kdyno may use {len(cpus)} CPU(s) here; "
            f"give 1 to {len(cpus)}"
        )
    guest = frozenset(cpus[-count:])
    # On a machine with no CPU to spare kdyno shares one; it sleeps while a guest runs.
    own = frozenset(cpus) - guest
    return Placement(guest, own or frozenset(cpus[:1]))


def first(placement: Placement, count: int = 1) -> Placement:
    """The same with ``count`` CPUs for the guest, the highest; one for a kernel without SMP: a UML
    kernel and its user process would hand over between two at every system call."""
    return Placement(frozenset(sorted(placement.guest)[-count:]), placement.own)


def apart(placement: Placement, number: int) -> Placement:
    """For guests that time nothing, one CPU each: of all that there are, the highest first."""
    cpus = sorted(placement.guest | placement.own, reverse=True)
    return Placement(frozenset({cpus[number % len(cpus)]}), placement.own)


@contextmanager
def measuring(
    what: str,
    *,
    wait: bool,
    tell: Callable[[str], None] = lambda _text: None,
    cpus: frozenset[int] | None = None,
) -> Iterator[None]:
    """Hold the machine's measuring lock; only one kdyno measures on a machine at a time. wait: wait
    for the other to finish, saying so once; otherwise ToolError names it. Two measurements at once
    share caches, memory and power even on different CPUs, so ``cpus`` is for who wants that
    nevertheless: these are held, and others may measure on the rest meanwhile."""
    names = [_LOCK] if cpus is None else [f"{_LOCK}-{cpu}" for cpu in sorted(cpus)]
    held: list[int] = []  # descriptors of sockets and files
    waited = False
    try:
        while (other := _taken(names, held)) is not None:
            if not waited:
                text = f"{_holder(other)} is measuring on this machine, and two measurements "
                text += "disturb each other"
                if _foreign(other):
                    text += f" ({DESPITE}=1 goes on beside other users)"
                if not wait:
                    more = f"Wait until it ends, or leave out --no-wait to have {what} wait."
                    raise ToolError(f"{text}. {more}")
                tell(f"{text}; waiting for it to end")
                waited = True
            time.sleep(1)
        yield
    finally:
        _release(held)


def _taken(names: list[str], held: list[int]) -> str | None:
    """None when all names are ``held`` now; else one that another has, which stands in the way. Who
    wants the machine keeps its name while others measure on some CPUs, so that no more of them
    begin. Each takes its own names first and then looks for the other's: never do both go on."""
    for name in () if held else names:
        if not (_bound(name, held) and _locked(name, held)):
            _release(held)
            return name
    if names == [_LOCK]:
        files = (path.name for path in _file(_LOCK).parent.glob("*"))
        cpu = re.compile(re.escape(_LOCK[1:]) + "-[0-9]+")
        there = filter(cpu.fullmatch, (*(name[1:] for name in _sockets()), *files))
        return next((f"\0{name}" for name in there if _is_held(f"\0{name}")), None)
    if _is_held(_LOCK):
        _release(held)
        return _LOCK
    return None


def _bound(name: str, held: list[int]) -> bool:
    """Whether the socket is ours now, or may be left to others."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(name)
        lock.listen(socket.SOMAXCONN)
    except OSError:
        lock.close()
        return _despite(name)
    held.append(lock.detach())
    return True


def _locked(name: str, held: list[int]) -> bool:
    """Whether the file is ours now; also where no file can be, which the socket makes up for."""
    file = _file(name)
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, flags, 0o600)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        os.close(descriptor)
        return problem.errno not in (errno.EAGAIN, errno.EACCES)
    held.append(descriptor)
    return True


def _is_held(name: str) -> bool:
    """By another process; nothing is taken."""
    if f"@{name[1:]}" in _sockets() and not _despite(name):
        return True
    own: list[int] = []
    held = _file(name).exists() and not _locked(name, own)
    _release(own)
    return held


def _file(name: str) -> Path:
    """Of this machine, since several may share a cache, and of this time that it is on."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return cache_root() / "measuring" / boot / name[1:]


def _release(held: list[int]) -> None:
    while held:
        os.close(held.pop())


def _sockets() -> list[str]:
    """Names of all there are, listening or not."""
    with Path("/proc/net/unix").open(encoding="utf-8", errors="replace") as sockets:
        return [line.rstrip("\n").rpartition(" ")[2] for line in sockets]


def _peer(name: str) -> tuple[int, int] | None:
    """Process and user that hold the socket, as the kernel says; None where it is not told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(name)
            raw = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return None
    process, user, _group = struct.unpack("3i", raw)
    return process, user


def _foreign(name: str) -> bool:
    """Another user holds the socket, or one who does not say."""
    if f"@{name[1:]}" not in _sockets():
        return False
    peer = _peer(name)
    return peer is None or peer[1] != os.geteuid()


def _despite(name: str) -> bool:
    return os.environ.get(DESPITE) == "1" and _foreign(name)


def _holder(name: str) -> str:
    """Who holds the lock, for messages."""
    if f"@{name[1:]}" not in _sockets():
        return f"another kdyno, which locks {_file(name)},"
    if (peer := _peer(name)) is None:
        return "a program that does not say whose it is"
    # A process of a container that this one does not see has no number here.
    process, user = peer
    where = f"process {process}" if process else "in a container"
    return f"another kdyno ({where}{'' if user == os.geteuid() else f', user {user}'})"
