# SPDX-License-Identifier: MIT
"""The machine for a tuning alone, and a line on the terminal that says how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kdyno.machines.cpus import measuring, place
from kdyno.report.progress import duration
from kdyno.verbs.output import Line, say


@contextmanager
def alone(wait: bool) -> Iterator[tuple[int, Callable[[str, float | None], None]]]:
    """The machine for this tuning: the CPU to time on, and who is told how far it is."""
    line = Line()

    def step(text: str, left_s: float | None) -> None:
        left = f", about {duration(left_s)} left" if left_s is not None else ""
        line.show(f"{text}{left}")

    (core,) = place(1).guest
    try:
        with measuring("this tuning", wait=wait, tell=say):
            yield core, step
    finally:
        line.end()
