# SPDX-License-Identifier: MIT
"""Jobs on Slurm's nodes, or as processes of this machine.

A job is one or more commands, as JSON on its own command line: nothing that it does is read from a
folder that others may see. What became of it lies in a file that it writes itself, whole or absent.
"""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdyno.errors import KdynoError, ToolError
from kdyno.fleet.settings import Settings
from kdyno.reading.checked import values
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
PYTHON = (sys.executable, "-P", "-m")
"""-P: no module is taken from the folder that a person happens to be in."""


@dataclass
class Job:
    """Commands somewhere. ``name``: the engine's; ``outcome``: the file that its node writes."""

    name: str
    outcome: Path
    state: str = ""
    """The engine's word."""
    over_s: float | None = None
    """When the engine was first heard to say that it is over."""
    lost: bool = False
    """That was long ago, and there is no outcome."""

    @property
    def log(self) -> Path:
        return self.outcome.with_suffix(".log")

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
        own = [line for line in _last(self.log).splitlines() if line.strip()]
        return f"job {self.name}{where}: " + "\n  ".join([why, *own[-_LINES:]])

    def _said(self) -> dict[str, Any]:
        try:
            with Folder.open(self.outcome.parent) as folder:
                found = values(folder.read(self.outcome.name, _LIMIT_BYTES))
        except (KdynoError, ValueError):
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
        self._own: dict[str, subprocess.Popen[bytes]] = {}
        """Processes by number, where jobs are processes of this one."""

    def submit(
        self, work: Sequence[Commands], sbatch: dict[str, Any] | None = None, cpus: Any = ()
    ) -> list[Job]:
        """One job each: an array where Slurm has arrays. ``cpus``: of each, where it is not to
        have all. ToolError with the engine's words."""
        Folder.private(self._folder).close()
        files = [self._folder / f"{secrets.token_hex(6)}.json" for _ in work]
        own = list(cpus) or [()] * len(work)
        limit_s = 60 * self.settings.minutes
        given = [
            json.dumps(
                {
                    "commands": [list(map(str, it)) for it in commands],
                    "folder": str(Path.cwd()),
                    "outcome": file.name,
                    "cpus": list(mine),
                    "limit_s": limit_s if self.settings.engine == "local" else 0,
                }
            )
            for commands, file, mine in zip(work, files, own, strict=True)
        ]
        try:
            begin = self._processes if self.settings.engine == "local" else self._batch
            names = begin(given, [file.with_suffix(".log").name for file in files], sbatch or {})
        except (OSError, subprocess.SubprocessError) as problem:
            raise ToolError(f"no job could be submitted: {problem}") from problem
        return [Job(name, file) for name, file in zip(names, files, strict=True)]

    def _processes(self, given: list[str], logs: list[str], _sbatch: dict[str, Any]) -> list[str]:
        names = []
        for text, log in zip(given, logs, strict=True):
            with (self._folder / log).open("xb") as said:
                process = subprocess.Popen(
                    (*PYTHON, "kdyno.fleet.engine", text),
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=said,
                    start_new_session=True,
                )
            names.append(str(process.pid))
            self._own[names[-1]] = process
        return names

    def _batch(self, given: list[str], logs: list[str], sbatch: dict[str, Any]) -> list[str]:
        it = self.settings
        options: dict[str, Any] = {"parsable": True, "job-name": self.label, "time": it.minutes}
        # Slurm follows links where it writes; the script looks first whose the folder is.
        options |= {"output": "/dev/null", "nodes": 1, "exclusive": not it.beside}
        options |= {"partition": it.partition, "constraint": it.constraint}
        # A job that lost its node is not begun again by Slurm: what is missing is given out.
        options["no-requeue"] = True
        if many := len(given) > 1:
            options["array"] = f"0-{len(given) - 1}%{it.nodes}"
        options |= {**it.sbatch, **sbatch}
        words = [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in options.items()
            if value is not None and value is not False
        ]
        lines = [
            f"exec {shlex.join((*PYTHON, 'kdyno.fleet.engine', text))} >{log} 2>&1"
            for text, log in zip(given, logs, strict=True)
        ]
        cases = "\n".join(f"{at}) {line};;" for at, line in enumerate(lines))
        own = f"case $SLURM_ARRAY_TASK_ID in\n{cases}\nesac" if many else lines[0]
        script = f"#!/bin/sh\ncd {shlex.quote(str(self._folder))} && test -O . || exit 1\n{own}\n"
        done = subprocess.run(
            ["sbatch", *words],
            input=os.fsencode(script),
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        found = re.match(rb"[0-9]+", done.stdout)
        if done.returncode != 0 or found is None:
            why = done.stderr.decode("utf-8", "replace").strip()
            raise ToolError(f"no job could be submitted: {why[-_WORDS:]}")
        name = found[0].decode()
        return [f"{name}_{at}" for at in range(len(given))] if many else [name]

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
                job.state = "RUNNING" if self._alive(job) else "COMPLETED"
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
        open_ = [job for job in jobs if not job.done]
        if self.settings.engine == "local":
            for job in open_:
                if self._alive(job):
                    with suppress(OSError):
                        os.kill(int(job.name), signal.SIGTERM)
            return
        names = [job.name for job in open_]
        for at in range(0, len(names), _AT_ONCE):
            with suppress(OSError, subprocess.TimeoutExpired):
                command = ["scancel", *names[at : at + _AT_ONCE]]
                subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)

    def _alive(self, job: Job) -> bool:
        """Whether its process is there. The number alone does not say it: another may have it."""
        if (own := self._own.get(job.name)) is not None:
            return own.poll() is None
        try:
            said = Path(f"/proc/{int(job.name)}/cmdline").read_bytes()
        except (OSError, ValueError):
            return False
        return job.outcome.name.encode() in said

    def _states(self) -> dict[str, str] | None:
        # By squeue: sacct would need accounts, which many clusters do not keep.
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


def run(given: str) -> None:
    """On the node, in the jobs' folder: one command after the other, until one fails."""

    # Of a job that is cancelled, or at the end of its minutes.
    def end(number: int, _frame: object) -> None:
        sys.exit(f"ended by {signal.Signals(number).name}")

    job = values(given)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.alarm(job["limit_s"])
    if job["cpus"]:
        os.sched_setaffinity(0, job["cpus"])
    status, why = 0, ""
    with Folder.open(Path()) as own:
        for command in job["commands"]:
            status = _ran(command, job["folder"])
            if status != 0:
                why = f"{' '.join(command)}: exit status {status}"
                break
        node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
        said = {"node": node, "status": status, "why": why}
        own.write(job["outcome"], json.dumps(said).encode())


def _ran(command: Sequence[str], folder: str) -> int:
    try:
        # As Slurm does it: a node need not see the folder that the person was in.
        process = subprocess.Popen(command, cwd=folder if Path(folder).is_dir() else None)
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


def _last(path: Path) -> str:
    """The end of a log; "" where there is none that can be read."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError, ValueError), os.fdopen(os.open(path, flags), "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _WORDS))
        return file.read(_WORDS).decode("utf-8", "replace")
    return ""


if __name__ == "__main__":
    run(sys.argv[1])
