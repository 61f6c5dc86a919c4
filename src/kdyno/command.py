# SPDX-License-Identifier: MIT
"""External commands: run, waited for, and written down so that a person can run them by hand."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from kdyno.errors import ToolError

MOST_LOG_BYTES = 256 << 20
"""Of what ``stream`` lets a command print. A kernel of 40,000 objects prints a line for each."""
TOO_LONG = "kdyno: ended, because more than"
"""The last line of such a log begins so."""


@dataclass(frozen=True)
class Finished:
    status: int
    stdout: bytes
    """With stderr in it, in order, unless the two were held apart."""
    stderr: bytes = b""
    late: bool = False
    """It was killed at its limit."""

    @property
    def output(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def complaint(self) -> str:
        return self.stderr.decode("utf-8", "replace")


def for_tools() -> dict[str, str]:
    """What a build of kdyno's own programs sees of the caller's environment: nothing that makes
    another program of the same source, such as the flags of a make that kdyno was started by."""
    kept = ("PATH", "HOME", "TMPDIR", "PKG_CONFIG_PATH")
    return {**{name: os.environ[name] for name in kept if name in os.environ}, "LC_ALL": "C"}


def require(program: str, why: str) -> str:
    """Absolute path of ``program``; ToolError with what to install when it is missing."""
    if (path := shutil.which(program)) is None:
        raise ToolError(
            f"{program} is not installed; kdyno needs it {why}. "
            "`kdyno doctor` lists what is missing and how to install it."
        )
    return path


def dying_with_us(argv: Sequence[str]) -> list[str]:
    """``argv`` such that the kernel kills it when kdyno dies, even of SIGKILL."""
    if "bwrap" in argv[:5]:  # behind the shell that opens its filter
        # It sees to that itself, once its child waits for it no more: who kills it before leaves
        # the child waiting for ever.
        return list(argv)
    setpriv = shutil.which("setpriv")
    return [*([setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []), *argv]


@dataclass(frozen=True)
class Running:
    """A command that runs; ``stdin`` and ``stdout`` are there where they are pipes."""

    process: subprocess.Popen[bytes]
    log: IO[bytes]
    stdin: IO[bytes]
    stdout: IO[bytes]

    def complaint(self) -> str:
        """What it wrote to stderr so far."""
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")


@contextmanager
def started(
    argv: Sequence[str],
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int | None = subprocess.PIPE,
    together: bool = False,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    umask: int = -1,
) -> Iterator[Running]:
    """``argv`` as it runs; waited for at the end, and killed with its children by an exception.
    stdin, stdout: as subprocess has them; without a ``stdout`` it goes where stderr is kept.
    together: stderr goes where stdout does. ToolError where there is no such program."""
    with tempfile.TemporaryFile() as log:
        with _absent(argv):
            process = subprocess.Popen(
                list(argv),
                stdin=stdin,
                stdout=log if stdout is None else stdout,
                stderr=subprocess.STDOUT if together else log,
                cwd=cwd,
                env=env,
                umask=umask,
                start_new_session=True,
            )
        with process:
            try:
                yield Running(process, log, process.stdin, process.stdout)  # type: ignore[arg-type]
            except BaseException:
                if process.returncode is None:
                    kill_session(process)
                if process.stdin is not None:
                    with suppress(BrokenPipeError):
                        process.stdin.close()
                raise


def stream(
    argv: Sequence[str],
    *,
    log: Path,
    line: Callable[[str], None] = lambda _line: None,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run ``argv``, append every output line to ``log``, call ``line`` on each; exit status. It is
    killed where the log grows by more than MOST_LOG_BYTES, and the log's last line says so."""
    with log.open("ab") as sink:
        left_bytes = MOST_LOG_BYTES
        sink.write(f"$ {shlex.join(argv)}\n".encode())
        sink.flush()
        with started(dying_with_us(argv), together=True, env=env) as running:
            # A line that never ends comes in parts.
            for raw in iter(partial(running.stdout.readline, 1 << 16), b""):
                sink.write(raw)
                line(raw.decode("utf-8", "replace").rstrip("\n"))
                left_bytes -= len(raw)
                if left_bytes < 0:
                    kill_session(running.process)
                    last = f"{TOO_LONG} {MOST_LOG_BYTES >> 20} MiB were printed"
                    sink.write(f"\n{last}\n".encode())
                    line(last)
                    return -signal.SIGKILL  # whatever it had ended with by then
        return running.process.returncode


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the process group that ``start_new_session`` made, then reap."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        process.kill()
    process.wait()


def capture(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    apart: bool = False,
    limit_s: float | None = None,
) -> Finished:
    """Run a command to its end and keep what it printed; ToolError where there is none. apart:
    stdout and stderr are told from each other."""
    try:
        with _absent(argv):
            result = subprocess.run(
                list(argv),
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if apart else subprocess.STDOUT,
                cwd=cwd,
                env=env,
                timeout=limit_s,
                check=False,
            )
    except subprocess.TimeoutExpired as late:
        # Bytes, whatever its declaration says: no text was asked for.
        out, err = (bytes(part or b"") for part in (late.stdout, late.stderr))
        return Finished(-signal.SIGKILL, out, err, late=True)
    return Finished(result.returncode, result.stdout, result.stderr or b"")


@contextmanager
def _absent(argv: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        text = f"cannot run {shlex.join(argv)}: {problem.strerror}"
        if isinstance(problem, FileNotFoundError):
            text += ". `kdyno doctor` shows how to install it"
        raise ToolError(text) from problem
