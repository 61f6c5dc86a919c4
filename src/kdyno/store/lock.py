# SPDX-License-Identifier: MIT
"""One writer at a time: flock on a file of the run folder.

The lock dies with its process, so nothing has to be cleaned up after kill -9; the number inside
the file only serves the message.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from kdyno.errors import ToolError
from kdyno.store.folder import Folder

LOCK = ".lock"


class Lock:
    """Held from construction until ``release``, or until the process ends."""

    def __init__(self, folder: Folder) -> None:
        self._descriptor = folder.open_lock(LOCK, make=True)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _holder(self._descriptor)
            os.close(self._descriptor)
            raise ToolError(
                f"{folder.path}: is being written by {holder}. "
                "Wait until that ends, or stop it, and try again"
            ) from error
        with suppress(OSError):  # A full disk is reported where it matters.
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, b"%d\n" % os.getpid(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def is_held(folder: Folder) -> bool:
    """Somebody is writing this run right now."""
    if not folder.has(LOCK):
        return False
    try:
        descriptor = folder.open_lock(LOCK, make=False)
    except ToolError:
        return False  # Not ours to read, so nothing can be said; the writer's own lock will tell.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _holder(descriptor: int) -> str:
    with suppress(OSError):
        text = os.pread(descriptor, 20, 0).strip()
        if text.isdigit():
            return f"process {int(text)}"
    return "another process"
