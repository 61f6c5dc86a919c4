# SPDX-License-Identifier: MIT
"""Jobs by submitit: on Slurm's nodes, or as processes of this machine.

A job is one or more commands. What became of it lies in a file that it writes itself, whole or
absent; submitit's own results are pickles, and need the object that submitted them to be read.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdyno import whole
from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.fleet.settings import Settings
from kdyno.store.folder import Folder

_WORDS = 2000
"""Of what a job that failed said last, characters."""
_LINES = 10
_LIMIT_BYTES = 1 << 20
_ASK_EVERY_S = 2.0
"""Slurm's controller has others to answer, too."""
_SOON_S = 2.0
LATE_S = 60.0
"""For which what a node has written may still come to be seen here: a file system of several
machines may show a folder as it was that long ago."""
_PATIENCE_S = 30.0
_END_S = 5.0
_AT_ONCE = 500
"""Jobs that one command line names."""
_OVER = {
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"),
    *("BOOT_FAIL", "DEADLINE", "REVOKED", "GONE"),
}
"""States of a job that will not go on; GONE: Slurm does not know it any more."""
_WELL = ("COMPLETED", "GONE")
"""Those after which there should be an outcome."""
Commands = Sequence[Sequence[str]]


@dataclass
class Job:
    """Commands somewhere. ``name``: the engine's; the files are where its node writes."""

    name: str
    outcome: Path
    log: Path
    state: str = ""
    """The engine's word."""
    over_s: float | None = None
    """When the engine was first heard to say that it is over."""
    lost: bool = False
    """That was long ago, and there is no outcome."""

    @property
    def over(self) -> bool:
        """It does nothing any more, by its own word or the engine's."""
        return self.outcome.exists() or self.state in _OVER

    @property
    def done(self) -> bool:
        """Over, and what it left can be seen here."""
        return self.outcome.exists() or self.lost

    @property
    def node(self) -> str:
        """Where it ran; empty while that is not known."""
        return str(self._said().get("node", ""))

    @property
    def well(self) -> bool:
        """It said itself that all went well."""
        return self._said().get("status") == 0

    def failure(self) -> str:
        """Of a job that is done: the node's own words; empty when all went well."""
        if self.well:
            return ""
        said = self._said()
        state = f" ({self.state.lower()})" if self.state in _OVER - {*_WELL} else ""
        why = str(said.get("why") or f"it ended without a result{state}")
        where = f" on {self.node}" if self.node else ""
        return f"job {self.name}{where}: " + "\n  ".join([why, *_own(_last(self.log))[-_LINES:]])

    def _said(self) -> dict[str, Any]:
        try:
            with Folder.open(self.outcome.parent) as folder:
                found = json.loads(folder.read(self.outcome.name, _LIMIT_BYTES))
        except (KdynoError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}


class Engine:
    """``folder``: where jobs leave their logs; the nodes see it too. ``label``: by which the engine
    tells the jobs of this run from others."""

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        label: str = "kdyno",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings, self.label = settings, label
        self._clock, self._asked_s = clock, -math.inf
        # Of its own: numbers of jobs begin anew when a cluster is set up again.
        self._folder = folder / secrets.token_hex(4)
        self._executor: Any = None

    def submit(
        self, work: Sequence[Commands], sbatch: dict[str, Any] | None = None, cpus: Any = ()
    ) -> list[Job]:
        """One job each: an array where Slurm has arrays. ``cpus``: of each, where it is not to
        have all. ToolError with the engine's words."""
        executor = self._prepared(sbatch or {})
        files = [self._folder / f"{secrets.token_hex(6)}.json" for _ in work]
        own = list(cpus) or [None] * len(work)
        given = [[list(map(str, it)) for it in commands] for commands in work]
        try:
            made = executor.map_array(run, given, list(map(str, files)), own)
        except Exception as problem:  # submitit wraps sbatch's words in errors of its own
            raise ToolError(f"no job could be submitted: {str(problem)[-_WORDS:]}") from problem
        return [
            Job(str(it.job_id), file, it.paths.stderr) for it, file in zip(made, files, strict=True)
        ]

    def look(self, jobs: Iterable[Job]) -> None:
        """What the engine says of them now, in one question; Slurm is not asked all the time."""
        open_ = [job for job in jobs if not job.done]
        now_s = self._clock()
        if not open_:
            return
        if self.settings.engine == "slurm":
            if now_s - self._asked_s < _ASK_EVERY_S:
                return
            self._asked_s = now_s
        states = self._states() if self.settings.engine == "slurm" else None
        for job in open_:
            if self.settings.engine == "local":
                job.state = "RUNNING" if _alive(job.name) else "COMPLETED"
            elif states is None:
                continue  # who cannot be asked has not said that it is over
            else:
                job.state = states.get(job.name, job.state if job.state in _OVER else "GONE")
            self._settle(job, now_s)

    def _settle(self, job: Job, now_s: float) -> None:
        """Whether it is lost."""
        if job.state not in _OVER:
            job.over_s = None
            return
        if job.over_s is None:
            job.over_s = now_s
        elsewhere = self.settings.engine == "slurm" and job.state in _WELL
        job.lost = now_s - job.over_s >= (LATE_S if elsewhere else _SOON_S)

    def cancel(self, jobs: Iterable[Job]) -> None:
        """These and no others; those that are over stay as they are."""
        names = [job.name for job in jobs if not job.done]
        if self.settings.engine == "local":
            for name in names:
                if _alive(name):
                    with suppress(OSError):
                        os.kill(int(name), signal.SIGTERM)
            return
        for at in range(0, len(names), _AT_ONCE):
            with suppress(OSError, subprocess.TimeoutExpired):
                command = ["scancel", *names[at : at + _AT_ONCE]]
                subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)

    def _states(self) -> dict[str, str] | None:
        # Not submitit's own question: it asks sacct, and many clusters keep no accounts.
        asked = ("squeue", "--me", "-r", "-h", "--states=all", f"--name={self.label}")
        try:
            done = subprocess.run(
                (*asked, "--format=%i %T"), capture_output=True, text=True, timeout=_PATIENCE_S
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode != 0:
            return None
        return dict(line.split(None, 1) for line in done.stdout.splitlines() if " " in line.strip())

    def _prepared(self, sbatch: dict[str, Any]) -> Any:
        if self._executor is None:
            try:
                import submitit
            except ImportError as problem:
                raise UsageError(
                    "--on needs the Python package submitit: pip install kdyno[fleet]"
                ) from problem
            try:
                self._executor = submitit.AutoExecutor(self._folder, cluster=self.settings.engine)
            except RuntimeError as problem:
                raise ToolError(f"--on {self.settings.engine}: {problem}") from problem
        it = self.settings
        given: dict[str, Any] = {"timeout_min": it.minutes, "name": self.label}
        if it.engine == "slurm":
            # A job that lost its node is not begun again by Slurm: what is missing is given out.
            slurm: dict[str, Any] = {"exclusive": not it.beside or None, "use_srun": False}
            slurm |= {"partition": it.partition, "constraint": it.constraint}
            slurm |= {"array_parallelism": it.nodes}
            given |= {f"slurm_{name}": own for name, own in slurm.items() if own is not None}
            more = {"no-requeue": True, **it.sbatch, **sbatch}
            more = {name: own for name, own in more.items() if own is not False}
            given["slurm_additional_parameters"] = more
        self._executor.update_parameters(**given)
        return self._executor


def run(commands: Commands, outcome: str, cpus: Sequence[int] | None) -> None:
    """On the node: one command after the other, until one fails."""
    # submitit ignores it. Of a job that is cancelled, or at the end of its minutes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"cancelled by signal {signal.SIGTERM}"))
    if cpus:
        os.sched_setaffinity(0, cpus)
    status, why = 0, ""
    for command in commands:
        status = _ran(command)
        if status != 0:
            why = f"{' '.join(command)}: exit status {status}"
            break
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    said = {"node": node, "status": status, "why": why}
    whole.write(Path(outcome), json.dumps(said).encode())


def _ran(command: Sequence[str]) -> int:
    try:
        process = subprocess.Popen(command)
    except OSError as problem:
        os.write(2, f"{command[0]}: {problem.strerror}\n".encode())  # into the job's own log
        return 127
    try:
        return process.wait()
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
        process.kill()
        raise


def _alive(name: str) -> bool:
    """Whether this process is one of submitit's, which the number alone does not say."""
    try:
        with suppress(ChildProcessError):
            os.waitpid(int(name), os.WNOHANG)
        return b"submitit" in Path(f"/proc/{int(name)}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False


def _own(text: str) -> list[str]:
    """Without what submitit says around it."""
    said = text.partition("submitit ERROR")[0].splitlines()
    return [line for line in said if line.strip() and not line.startswith("submitit ")]


def _last(path: Path) -> str:
    """The end of a log; "" where there is none that can be read."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError, ValueError), os.fdopen(os.open(path, flags), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _WORDS))
        return file.read(_WORDS).decode("utf-8", "replace")
    return ""
