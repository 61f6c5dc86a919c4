# SPDX-License-Identifier: MIT
"""External commands: run, waited for, and written down so that a person can run them by hand."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kdyno.errors import ToolError


@dataclass(frozen=True)
class Finished:
    """A command that ended. ``output`` is stdout and stderr together, in order."""

    argv: tuple[str, ...]
    status: int
    output: str


def shown(argv: Sequence[str]) -> str:
    """The command as one line for a shell."""
    return shlex.join(argv)


def require(program: str, why: str) -> str:
    """Absolute path of ``program``; ToolError with what to install when it is missing."""
    found = shutil.which(program)
    if found is None:
        raise ToolError(
            f"{program} is not installed; kdyno needs it {why}. "
            "`kdyno doctor` lists what is missing and how to install it."
        )
    return found


def stream(
    argv: Sequence[str],
    *,
    log: Path,
    line: Callable[[str], None] = lambda _line: None,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
) -> int:
    """Run ``argv``, append every output line to ``log``, call ``line`` on each; exit status.

    The command and its children are killed when this function is left by an exception.
    """
    with log.open("ab") as sink:
        sink.write(f"$ {shown(argv)}\n".encode())
        sink.flush()
        with subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(env) if env is not None else None,
            pass_fds=tuple(pass_fds),
            start_new_session=True,
        ) as process:
            try:
                assert process.stdout is not None
                for raw in process.stdout:
                    sink.write(raw)
                    line(raw.decode("utf-8", "replace").rstrip("\n"))
                return process.wait()
            except BaseException:
                kill_session(process)
                raise


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the process group that ``start_new_session`` made, then reap."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()


def capture(argv: Sequence[str], *, cwd: Path | None = None) -> Finished:
    """Run a short command to its end and keep what it printed."""
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            check=False,
        )
    except OSError as problem:
        raise ToolError(f"cannot run {shown(argv)}: {problem.strerror}") from problem
    return Finished(tuple(argv), done.returncode, done.stdout.decode("utf-8", "replace"))
