# SPDX-License-Identifier: MIT
"""One event loop for every guest that is alive.

kdyno sleeps in epoll while guests run; it wakes for what a guest says and for deadlines, and for
nothing else. With guests that take turns it runs thousands of times a second, beside a guest that
is being timed, so it does as little as it can.
"""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable
from typing import Protocol


class Watched(Protocol):
    """What has a deadline."""

    def due_s(self) -> float:
        """On the clock of ``now_s``; infinite: it has none."""

    def overdue(self) -> None:
        """The deadline has passed."""


class Events:
    """Descriptors with what is to be called, and deadlines. A context manager."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._calls: dict[int, Callable[[], object]] = {}
        self._watched: list[Watched] = []

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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

    def watch(self, one: Watched) -> None:
        self._watched.append(one)

    def forget(self, one: Watched) -> None:
        if one in self._watched:
            self._watched.remove(one)

    def wait(self, until_s: float = math.inf) -> None:
        """Sleep until something happens, a deadline passes, or ``now_s`` reaches ``until_s``."""
        due_s = min([until_s, *(one.due_s() for one in self._watched)])
        left_s = -1.0 if due_s == math.inf else max(0.0, due_s - time.monotonic())
        for descriptor, _ in self._epoll.poll(left_s):
            call = self._calls.get(descriptor)
            if call is not None:
                call()
        now_s = time.monotonic()
        for one in tuple(self._watched):
            if one.due_s() <= now_s:
                one.overdue()
