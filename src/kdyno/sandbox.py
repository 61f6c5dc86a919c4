# SPDX-License-Identifier: MIT
"""The bubblewrap sandbox around every guest and every kernel build.

The host is visible read-only, there is no network, no other process, and nothing can be
written but what is named. bubblewrap works for root and, through user namespaces, for
ordinary users; where it does not work kdyno refuses rather than runs without.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kdyno.errors import ToolError


@dataclass(frozen=True)
class Sandbox:
    """What the sandboxed command may see and write beyond the read-only host.

    read_only, writable: (path on the host, path inside). tmp_bytes: size of the /tmp inside,
    which exists in memory only and goes away with the command. as_pid_1: the command itself
    is process 1 of its namespace and reaps what its descendants leave behind.
    """

    read_only: tuple[tuple[Path, str], ...] = ()
    writable: tuple[tuple[Path, str], ...] = ()
    files: tuple[tuple[int, str], ...] = ()
    """(descriptor, path inside): the descriptor's content becomes a file of the inner /tmp."""
    tmp_bytes: int | None = None
    chdir: str = "/tmp"
    as_pid_1: bool = False
    hidden: tuple[Path, ...] = ()
    """Host folders that look empty inside."""
    memory_bytes: int | None = None
    """Size of /dev/shm inside, which TMPDIR then names: where UML keeps a guest's memory."""

    def argv(self, command: list[str]) -> list[str]:
        """The whole command line, for subprocess (``files`` must be in its pass_fds)."""
        line = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session"]
        line += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        for folder in self.hidden:
            line += ["--tmpfs", str(folder)]
        if self.tmp_bytes is not None:
            line += ["--size", str(self.tmp_bytes)]
        line += ["--tmpfs", "/tmp"]
        for outside, inside in self.read_only:
            line += ["--ro-bind", str(outside), inside]
        for outside, inside in self.writable:
            line += ["--bind", str(outside), inside]
        for descriptor, inside in self.files:
            line += ["--file", str(descriptor), inside]
        temporary = "/tmp"
        if self.memory_bytes is not None:
            line += ["--size", str(self.memory_bytes), "--tmpfs", "/dev/shm"]
            temporary = "/dev/shm"
        line += ["--setenv", "HOME", "/tmp", "--setenv", "TMPDIR", temporary]
        line += ["--chdir", self.chdir]
        if self.as_pid_1:
            line.append("--as-pid-1")
        return [*line, "--", *command]


@functools.cache
def unusable() -> str | None:
    """Why bubblewrap cannot be used on this machine; None when it can (tried, not guessed)."""
    if shutil.which("bwrap") is None:
        return "bubblewrap (the program bwrap) is not installed"
    probe = Sandbox(tmp_bytes=1 << 20).argv(["true"])
    try:
        done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return f"bwrap did not run: {problem}"
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"bwrap failed: {said[-1] if said else f'exit status {done.returncode}'}"


def require() -> None:
    """ToolError with the ways out where bubblewrap is not usable."""
    reason = unusable()
    if reason is not None:
        raise ToolError(
            f"no sandbox: {reason}. A guest runs a kernel under test and is not trusted, so "
            "kdyno does not run it unprotected. Install bubblewrap, allow unprivileged user "
            "namespaces (sysctl kernel.unprivileged_userns_clone=1 or "
            "kernel.apparmor_restrict_unprivileged_userns=0), or pass --no-sandbox if you "
            "trust the kernels and commands in this experiment."
        )
