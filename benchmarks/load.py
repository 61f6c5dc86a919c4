# SPDX-License-Identifier: MIT
"""What makes a machine less quiet while something is measured on it."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_every_cpu(work: Callable[[], None]) -> Iterator[None]:
    """A process that is bound to each CPU and does ``work`` again and again."""
    children = [
        multiprocessing.Process(target=_bound, args=(work, cpu), daemon=True)
        for cpu in os.sched_getaffinity(0)
    ]
    for child in children:
        child.start()
    try:
        yield
    finally:
        for child in children:
            child.kill()


def _bound(work: Callable[[], None], cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    random.seed(cpu)
    while True:
        work()


def busy() -> None:
    """It never stops computing."""


def restless() -> None:
    """It computes for 0.2 to 2 s and sleeps as long."""
    seconds = random.uniform(0.2, 2.0)
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        pass
    time.sleep(seconds)
