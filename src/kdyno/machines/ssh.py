# SPDX-License-Identifier: MIT
"""Another machine, by OpenSSH's client with the person's own configuration: one connection that all
commands share, a limit of time and size on each, everything that it prints taken for a stranger's.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kdyno import whole
from kdyno.command import capture, dying_with_us, kill_session, require, started
from kdyno.errors import ToolError

SHORT_S = 60.0
"""For a command that reads or writes a few small files."""
NOT_REACHED = 255
"""The status of ssh itself, which no command of ours has."""
_COPY_S = 1800.0
_MOST_BYTES = 1 << 20
_COMPLAINT_BYTES = 4096
PUT = """
set -e; rm -rf "$2.part" "$2"; mkdir -p "$2.part"
tar -C "$2.part" -xf - --no-same-owner; mv "$2.part/$1" "$2"; rmdir "$2.part"
"""
"""Unpacks one file or folder, named $1, as $2."""
_OPTIONS = (
    # Nobody is there to be asked, and nothing of this machine is lent to the other.
    *("BatchMode=yes", "ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes"),
    # Two minutes without an answer: a network may be away for one.
    *("ConnectTimeout=10", "ServerAliveInterval=15", "ServerAliveCountMax=8", "LogLevel=ERROR"),
)


@dataclass(frozen=True)
class Answer:
    """What a command on the box printed: at most a megabyte, and the end of its complaint."""

    status: int
    text: str
    complaint: str

    @property
    def reached(self) -> bool:
        """A command ran there at all."""
        return self.status != NOT_REACHED

    @property
    def last(self) -> str:
        """The last line of what went wrong, for messages."""
        lines = filter(str.strip, reversed((self.complaint or self.text).splitlines()))
        return "".join(filter(str.isprintable, next(lines, "")))[:300]


@dataclass
class Remote:
    """A context manager. ``host``: as the person's ssh knows it."""

    host: str
    sudo: bool = False
    """Its user is not root, and ``sudo -n`` is put before every command."""
    _folder: Path = field(default_factory=Path)
    _undo: ExitStack = field(default_factory=ExitStack)

    @property
    def environment(self) -> Mapping[str, str]:
        """What the client needs of this one's: its agent, its folders."""
        kept = ("PATH", "HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK", "XDG_RUNTIME_DIR")
        return {name: os.environ[name] for name in kept if name in os.environ}

    def __enter__(self) -> Self:
        # A short path: a socket's has 107 characters at most.
        self._folder = self._undo.enter_context(whole.scratch("ssh"))
        self._undo.callback(self.hang_up)
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def argv(self, script: str, *args: str, master: bool = True) -> list[str]:
        """The command line that runs a script of /bin/sh as root there; its arguments are $1, $2 …
        Each word is quoted: none of them is anything but a word to the shell at the other end.
        master: it may become the connection that all share, which outlives it."""
        own = ("ControlMaster=auto", "ControlPersist=600") if master else ("ControlMaster=no",)
        options = (*_OPTIONS, f"ControlPath={self._folder}/%C", *own)
        line = shlex.join([*(["sudo", "-n"] if self.sudo else []), "sh", "-c", script, "sh", *args])
        words = [word for option in options for word in ("-o", option)]
        return [require("ssh", "to reach a box"), "-T", *words, "--", self.host, line]

    def ask(
        self, script: str, *args: str, stdin: int = subprocess.DEVNULL, limit_s: float = SHORT_S
    ) -> Answer:
        """Run it to its end, or to ``limit_s`` or a megabyte, which count as not reached."""
        with started(dying_with_us(self.argv(script, *args)), stdin=stdin) as running:
            late = threading.Timer(limit_s, kill_session, (running.process,))
            late.start()
            try:
                output = running.stdout.read(_MOST_BYTES + 1)
                if flood := len(output) > _MOST_BYTES:
                    kill_session(running.process)
                status = running.process.wait()
            finally:
                late.cancel()
            log = running.log.fileno()
            at = max(0, os.fstat(log).st_size - _COMPLAINT_BYTES)
            complaint = os.pread(log, _COMPLAINT_BYTES, at)
        return Answer(
            NOT_REACHED if flood or status < 0 else status,
            output[:_MOST_BYTES].decode("utf-8", "replace"),
            complaint.decode("utf-8", "replace"),
        )

    def must(self, what: str, script: str, *args: str, limit_s: float = SHORT_S) -> str:
        """What it printed; ToolError where it failed. what: for the message."""
        answer = self.ask(script, *args, limit_s=limit_s)
        if answer.status != 0:
            raise ToolError(f"{self.host}: {what}: {answer.last or f'status {answer.status}'}")
        return answer.text

    def put(self, path: Path, place: str) -> None:
        """Copy a file or a folder to ``place`` there, whole or not at all; ToolError."""
        tar = ["tar", "-cf", "-", "--owner=0", "--group=0", "--mode=go=rX,u+rwX"]
        with started([*tar, "-C", str(path.parent), "--", path.name]) as packing:
            stdin = packing.stdout.fileno()
            answer = self.ask(PUT, path.name, place, stdin=stdin, limit_s=_COPY_S)
            packing.stdout.close()
            packed = packing.process.wait()
            complaint = packing.complaint()[-300:].strip()
        if answer.status != 0 or packed != 0:
            raise self._not_copied(path.name, answer.last or complaint)

    def unpack(self, tar: Path, name: str, place: str) -> None:
        """The same of a folder called ``name`` that a tar consists of."""
        with tar.open("rb") as file:
            answer = self.ask(PUT, name, place, stdin=file.fileno(), limit_s=_COPY_S)
        if answer.status != 0:
            raise self._not_copied(tar.name, answer.last)

    def _not_copied(self, name: str, why: str) -> ToolError:
        return ToolError(f"{self.host}: {name} was not copied: {why or 'the copy ended early'}")

    def hang_up(self) -> None:
        """End the shared connection, as what has gone down does not."""
        options = ["-o", f"ControlPath={self._folder}/%C", "-O", "exit", "--", self.host]
        with suppress(ToolError):
            capture([require("ssh", "to reach a box"), *options], limit_s=10)
