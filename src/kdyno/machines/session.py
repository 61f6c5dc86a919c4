# SPDX-License-Identifier: MIT
"""A guest that is alive: it is sent orders, gives records, can be paused, is closed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

from kdyno.store.boot import BootHost
from kdyno.suites.protocol import Transcript
from kdyno.suites.record import Record


@dataclass(frozen=True)
class Outcome:
    """What came of a boot: the host's record, what the guest said, its console, the command."""

    host: BootHost
    transcript: Transcript
    console: bytes
    command: tuple[str, ...]


class Session(Protocol):
    """A guest from its start to its end. Everything about it happens in ``Clock.wait``."""

    @property
    def ended(self) -> bool:
        """It is over, by its own doing or by kdyno's. ``close`` says how."""

    def send(self, order: str, limit_s: float = math.inf) -> None:
        """One order of guest/turns.h, to be answered within ``limit_s`` seconds of running.

        Only to guests whose job has ``turns``. A guest that is gone takes no notice.
        """

    def ask(self, order: str, limit_s: float = math.inf) -> bool:
        """``send``, and wait for a word, without looking at what it is: ``records`` does.

        The next guest gets its turn the sooner. False where no word came soon.
        """

    def records(self) -> list[Record]:
        """What it said since the last call, in order; already checked."""

    def meter(self) -> None:
        """From now on ``cpu_ns`` is about the processes that the guest has now."""

    def cpu_ns(self) -> int:
        """CPU time that they had so far by the host's accounting; always 0: it is not known."""

    def used_s(self) -> float:
        """CPU seconds of all processes that it has and had, to a tick of the host's."""

    def pause(self) -> None:
        """Stop every process of the guest; its deadline stands still. Once is enough."""

    def resume(self) -> None:
        """Let it go on."""

    def close(self) -> Outcome:
        """End it if it is still alive, leave nothing of it behind, say what came of it."""


class Clock(Protocol):
    """Time as a machine's sessions see it: the host's, or one that a test made up."""

    def now_s(self) -> float: ...

    def wait(self, until_s: float = math.inf) -> None:
        """Until a session says something or ends, or it is ``until_s``."""


class Alive:
    """Guests that are alive at the same time; however the block ends, none of them is left."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sessions: list[Session] = []
        self.outcomes: list[Outcome] = []
        """What came of each, in the order of ``add``; filled as the block ends."""

    def add(self, session: Session) -> Session:
        self._sessions.append(session)
        return session

    def until_ended(self) -> None:
        """Wait until every one of them is over, by its own doing or by kdyno's."""
        while not all(session.ended for session in self._sessions):
            self._clock.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_problem: object) -> None:
        self.outcomes = [session.close() for session in self._sessions]


def run_to_end(session: Session, clock: Clock) -> Outcome:
    """For a guest that works its whole job off by itself."""
    with Alive(clock) as alive:
        alive.add(session)
        alive.until_ended()
    (outcome,) = alive.outcomes
    return outcome


Listener = Callable[[str], None]
"""Told each case that begins, by its name."""
