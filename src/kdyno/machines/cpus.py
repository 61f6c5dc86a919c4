# SPDX-License-Identifier: MIT
"""Which CPUs a guest gets, and the promise that nobody else of ours uses them meanwhile."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kdyno.errors import ToolError, UsageError

# An abstract socket: seen by every user of the machine, gone with the process that holds it.
_LOCK = "\0kdyno-measures-on-this-machine"


@dataclass(frozen=True)
class Placement:
    """CPUs of the guest, and those that are left to kdyno itself."""

    guest: frozenset[int]
    own: frozenset[int]


def place(count: int, available: frozenset[int] | None = None) -> Placement:
    """Give a guest ``count`` CPUs: the highest-numbered, because CPU 0 takes most interrupts.

    UsageError when the machine (or the affinity mask kdyno was started with) has fewer.
    """
    mine = sorted(available if available is not None else os.sched_getaffinity(0))
    if count < 1 or count > len(mine):
        raise UsageError(
            f"[machine] cpus = {count}: kdyno may use {len(mine)} CPU(s) here; "
            f"give 1 to {len(mine)}"
        )
    guest = frozenset(mine[-count:])
    # On a machine with no CPU to spare kdyno shares one; it sleeps while a guest runs.
    own = frozenset(mine) - guest
    return Placement(guest, own or frozenset(mine[:1]))


def first(placement: Placement, count: int = 1) -> Placement:
    """The same with ``count`` CPUs for the guest, the highest; one for a kernel without SMP.

    On several CPUs the UML kernel and its user process would hand over from one to the other at
    every system call, which is several times slower.
    """
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
    """Hold the machine's measuring lock; only one kdyno measures on a machine at a time.

    wait: wait for the other to finish, saying so once; otherwise ToolError names it. Two
    measurements at once share caches, memory and power even on different CPUs, so ``cpus`` is for
    who wants that nevertheless: these are held, and others may measure on the rest meanwhile.
    """
    names = [_LOCK] if cpus is None else [f"{_LOCK}-{cpu}" for cpu in sorted(cpus)]
    held: list[socket.socket] = []
    told = False
    try:
        while (other := _taken(names, held)) is not None:
            text = (
                f"{_holder(other)} is measuring on this machine, and two measurements disturb "
                "each other"
            )
            if not wait:
                raise ToolError(
                    f"{text}. Wait until it ends, or leave out --no-wait to have {what} wait."
                )
            if not told:
                tell(f"{text}; waiting for it to end")
                told = True
            time.sleep(1)
        yield
    finally:
        _release(held)


def _taken(names: list[str], held: list[socket.socket]) -> str | None:
    """None when all names are ``held`` now; else one that another has, which stands in the way.

    Who wants the machine keeps its name while others measure on some CPUs, so that no more of them
    begin. Each takes its own names first and then looks for the other's: never do both go on.
    """
    for name in names[len(held) :]:
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lock.bind(name)
            lock.listen(1)
        except OSError:
            lock.close()
            _release(held)
            return name
        held.append(lock)
    if names == [_LOCK]:
        return next(_on_some_cpus(), None)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(_LOCK)
        except ConnectionRefusedError:
            return None
        except OSError:
            pass  # there, and too busy to answer
    _release(held)
    return _LOCK


def _release(held: list[socket.socket]) -> None:
    while held:
        held.pop().close()


def _on_some_cpus() -> Iterator[str]:
    """Locks of single CPUs that are held."""
    with Path("/proc/net/unix").open(encoding="utf-8", errors="replace") as sockets:
        for line in sockets:
            name = line.rstrip("\n").rpartition(" ")[2]
            if name.startswith(f"@{_LOCK[1:]}-"):
                yield f"\0{name[1:]}"


def _holder(name: str) -> str:
    """The process that holds the lock, for messages."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        try:
            probe.connect(name)
            raw = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            (process, _user, _group) = struct.unpack("3i", raw)
            # A process of a container that this one does not see has no number here.
            return f"another kdyno ({f'process {process}' if process else 'in a container'})"
        except OSError:
            return "another kdyno"
