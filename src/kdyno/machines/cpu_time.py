# SPDX-License-Identifier: MIT
"""CPU time of a guest's processes, by the host's accounting."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def used_s(pids: Iterable[int]) -> float:
    """CPU seconds that these processes and their children had, those that ended too; by ticks."""
    ticks = 0
    for pid in pids:
        with suppress(OSError, ValueError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class CpuTime:
    """Of all threads of these processes, as they are now; those that come later are not counted.

    By /proc/PID/task/TID/schedstat, which has nanoseconds and takes microseconds to read.
    """

    def __init__(self, pids: Iterable[int] = ()) -> None:
        self._files: list[int] = []
        for pid in pids:
            for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                with suppress(OSError):
                    self._files.append(os.open(thread, os.O_RDONLY | os.O_CLOEXEC))

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
