# SPDX-License-Identifier: MIT
"""The processes that came from this one, however many parents they have lost since.

A guest outlives the kdyno that is killed; others' guests are alive on the same machine. So this
process adopts what loses its parent, and what is below it is its own.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """From now on orphans below this process become its children (prctl(2)), not init's."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def until(happened: Callable[[], object], process: subprocess.Popen[Any] | None = None) -> None:
    """Waits for it; a process that is given is alive then.

    A look costs milliseconds of a CPU, more where there are many processes: without a pause
    between them a test takes one of the CPUs from the guests that it waits for."""
    end_s = time.monotonic() + 1800
    while not happened():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end_s
        time.sleep(0.1)
    assert process is None or process.poll() is None, process.communicate()


@contextmanager
def until_killed(words: Sequence[str | Path], **more: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that SIGKILL ends behind this, also where what it was to do did not happen."""
    none = subprocess.DEVNULL
    process = subprocess.Popen(list(words), **{"stdout": none, "stderr": none, **more})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def below(top: int, parents: Mapping[int, int]) -> set[int]:
    """Those of ``parents`` (process → parent) that descend from ``top``."""
    results = {top}
    while more := {pid for pid, parent in parents.items() if parent in results} - results:
        results |= more
    return results - {top}


def _parents() -> dict[int, int]:
    """Of every process. Looked at again when a parent ended between two looks: its child has
    another one by now."""
    while True:
        results = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    message = (entry / "stat").read_text()
                except OSError:
                    continue
                # The name, in brackets, may hold anything.
                results[int(entry.name)] = int(message.rpartition(")")[2].split()[1])
        if all(parent in results or parent == 0 for parent in results.values()):
            return results


def descendants(word: bytes) -> list[int]:
    """Own descendants with ``word`` in their command line; zombies have none."""
    results = []
    for pid in sorted(below(os.getpid(), _parents())):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if word in line:
            results.append(pid)
    return results
