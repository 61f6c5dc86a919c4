# SPDX-License-Identifier: MIT
"""Jobs on Slurm's nodes, or as processes of this machine; and fleet.toml, which chooses them.

A job is one or more commands, as JSON on its own command line: nothing that it does is read from a
folder that others may see. Its outcome lies in a file that it writes itself, whole or absent."""

from __future__ import annotations

import ctypes
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
import tomllib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.reading.checked import FromFile, check, values
from kdyno.store.folder import Folder

FILE = "fleet.toml"
_TAIL_CHARACTERS, _TAIL_LINES = 2000, 10
"""Of the log of a job that failed."""
_LIMIT_BYTES = 1 << 20
_ASK_EVERY_S = 2.0
"""Slurm's controller has others to answer, too."""
_SOON_S = 2.0
LATE_S = 60.0
"""How long something that a node wrote may stay invisible here: a file system of several machines
may show an old state of a folder for that long."""
_PATIENCE_S = 30.0
_END_S = 5.0
_PR_SET_PDEATHSIG = 1
_OWN_OPTIONS = {"array", "job-name", "parsable"}
"""Of sbatch: by these kdyno finds its jobs."""
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


class Settings(FromFile):
    """The table ``[fleet]`` of the file; what is not given is the engine's own."""

    engine: Literal["slurm", "local"] = "slurm"
    partition: str | None = None
    constraint: str | None = None
    nodes: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Jobs at once."""
    groups: Annotated[int, Field(ge=1, le=1000)] = 32
    """That a job measures at most before it gives its node back."""
    minutes: Annotated[int, Field(ge=1, le=100_000)] = 60
    """A job may take."""
    beside: bool = False
    """Jobs may share a machine; each measures on CPUs that no other has."""
    sbatch: dict[str, str | int | bool] = Field(default_factory=dict)
    """Further options of sbatch, by their long names."""

    @field_validator("sbatch")
    @classmethod
    def _kdynos_own(cls, options: dict[str, Any]) -> dict[str, Any]:
        if own := sorted(_OWN_OPTIONS & options.keys()):
            raise ValueError(f"{', '.join(own)}: kdyno finds its jobs by that: leave it out")
        return options

    @property
    def slurm(self) -> bool:
        return self.engine == "slurm"

    def slots(self) -> list[list[int]]:
        """CPUs of each of the jobs that share this machine: neighbours, of equal number. Empty
        where jobs do not share it."""
        if self.slurm or not self.beside:
            return []
        cpus = sorted(os.sched_getaffinity(0))
        each = len(cpus) // self.nodes
        if each < 1:
            raise UsageError(
                f"[fleet] nodes = {self.nodes} with beside = true: kdyno may use {len(cpus)} CPUs"
            )
        return [cpus[at * each : (at + 1) * each] for at in range(self.nodes)]


class _File(FromFile):
    fleet: Settings = Settings()


def settings(on: str, file: Path) -> Settings:
    """What ``--on`` says, ENGINE or ENGINE:PARTITION, over the settings of the file.

    UsageError for an engine that does not exist, and for a file with mistakes."""
    engine, _, partition = on.partition(":")
    if engine not in ("slurm", "local") or (partition and engine != "slurm"):
        raise UsageError(f"--on {on!r}: there are slurm, slurm:PARTITION and local")
    try:
        text = file.read_text(encoding="utf-8")
        chosen = check(_File, tomllib.loads(text), str(file), text, way="see docs/team.md").fleet
    except FileNotFoundError:
        chosen = Settings()
    except tomllib.TOMLDecodeError as problem:
        raise UsageError(f"{file}: is not TOML: {problem}") from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"{file}: cannot be read: {problem}") from problem
    return chosen.model_copy(update={"engine": engine, "partition": partition or chosen.partition})


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
        return str(self._answer().get("node", ""))

    @property
    def well(self) -> bool:
        """It said itself that all went well."""
        return self._answer().get("status") == 0

    def failure(self) -> str:
        """Of a job that is done: the node's own words; empty when all went well."""
        answer = self._answer()
        if answer.get("status") == 0:
            return ""
        state = f" ({self.state.lower()})" if self.state in _OVER.difference(_WELL) else ""
        why = str(answer.get("why") or f"it ended without a result{state}")
        where = f" on {self.node}" if self.node else ""
        # Nothing is read through a link, and opening a pipe must not wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        text = ""
        with suppress(OSError, ValueError), os.fdopen(os.open(self.log, flags), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_CHARACTERS))
            text = file.read(_TAIL_CHARACTERS).decode("utf-8", "replace")
        lines = [line for line in text.splitlines() if line.strip()]
        return f"job {self.name}{where}: " + "\n  ".join([why, *lines[-_TAIL_LINES:]])

    def _answer(self) -> dict[str, Any]:
        try:
            with Folder.open(self.outcome.parent) as folder:
                answer = values(folder.read(self.outcome.name, _LIMIT_BYTES))
        except (KdynoError, ValueError):
            return {}
        return answer if isinstance(answer, dict) else {}


class Engine:
    """``folder``: where jobs leave their logs; the nodes see it too. ``label``: by which Slurm
    distinguishes the jobs of this run from others."""

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
        local = not self.settings.slurm
        files = [self._folder / f"{secrets.token_hex(6)}.json" for _ in work]
        own = list(cpus) or [()] * len(work)
        texts = []
        for commands, file, numbers in zip(work, files, own, strict=True):
            job = {
                "commands": [list(map(str, command)) for command in commands],
                "folder": str(Path.cwd()),
                "outcome": file.name,
                "cpus": list(numbers),
                "limit_s": 60 * self.settings.minutes if local else 0,
                "parent": os.getpid() if local else 0,
            }
            texts.append(json.dumps(job))
        logs = [file.with_suffix(".log").name for file in files]
        try:
            names = self._processes(texts, logs) if local else self._batch(texts, logs, sbatch)
        except (OSError, subprocess.SubprocessError) as problem:
            raise ToolError(f"no job could be submitted: {problem}") from problem
        return [Job(name, file) for name, file in zip(names, files, strict=True)]

    def _processes(self, texts: list[str], logs: list[str]) -> list[str]:
        names = []
        for text, log in zip(texts, logs, strict=True):
            with (self._folder / log).open("xb") as output:
                process = subprocess.Popen(
                    (*PYTHON, "kdyno.fleet.engine", text),
                    cwd=self._folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            names.append(str(process.pid))
            self._own[names[-1]] = process
        return names

    def _batch(self, texts: list[str], logs: list[str], sbatch: dict[str, Any] | None) -> list[str]:
        chosen = self.settings
        options: dict[str, Any] = {
            "parsable": True,
            "job-name": self.label,
            "time": chosen.minutes,
            # Slurm follows links where it writes; the script looks first whose the folder is.
            "output": "/dev/null",
            "nodes": 1,
            "exclusive": not chosen.beside,
            "partition": chosen.partition,
            "constraint": chosen.constraint,
            # A job that lost its node is not begun again by Slurm: the next wave measures more.
            "no-requeue": True,
        }
        if many := len(texts) > 1:
            options["array"] = f"0-{len(texts) - 1}%{chosen.nodes}"
        words = [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in {**options, **chosen.sbatch, **(sbatch or {})}.items()
            if value is not None and value is not False
        ]
        lines = [
            f"exec {shlex.join((*PYTHON, 'kdyno.fleet.engine', text))} >{log} 2>&1"
            for text, log in zip(texts, logs, strict=True)
        ]
        cases = "\n".join(f"{at}) {line};;" for at, line in enumerate(lines))
        body = f"case $SLURM_ARRAY_TASK_ID in\n{cases}\nesac" if many else lines[0]
        script = f"#!/bin/sh\ncd {shlex.quote(str(self._folder))} && test -O . || exit 1\n{body}\n"
        result = subprocess.run(
            ["sbatch", *words],
            input=os.fsencode(script),
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        number = re.match(rb"[0-9]+", result.stdout)
        if result.returncode != 0 or number is None:
            why = result.stderr.decode("utf-8", "replace").strip()
            raise ToolError(f"no job could be submitted: {why[-_TAIL_CHARACTERS:]}")
        name = number[0].decode()
        return [f"{name}_{at}" for at in range(len(texts))] if many else [name]

    def look(self, jobs: Iterable[Job]) -> None:
        """What the engine says of them now, in one question; Slurm is not asked all the time."""
        unfinished = [job for job in jobs if not job.done]
        now_s = self._clock()
        if unfinished and self.settings.slurm:
            if now_s - self._asked_s < _ASK_EVERY_S:
                return
            self._asked_s = now_s
            if (states := self._states()) is None:
                return  # an engine that cannot be asked has not said that a job is over
            for job in unfinished:
                job.state = states.get(job.name, job.state if job.state in _OVER else "GONE")
        for job in unfinished:
            if not self.settings.slurm:
                job.state = "RUNNING" if self._own[job.name].poll() is None else "COMPLETED"
            if job.state not in _OVER:
                job.over_s = None
                continue
            job.over_s = now_s if job.over_s is None else job.over_s
            elsewhere = self.settings.slurm and job.state in _WELL
            job.lost = now_s - job.over_s >= (LATE_S if elsewhere else _SOON_S)

    def cancel(self, jobs: Iterable[Job]) -> None:
        """These and no others; those that are over stay as they are."""
        names = [job.name for job in jobs if not job.done]
        if self.settings.slurm:
            for at in range(0, len(names), 500):
                self._scancel(*names[at : at + 500])
        else:
            for name in names:
                self._own[name].terminate()

    def cancel_label(self) -> None:
        """All jobs of this label: also those of a controller that was killed (as processes they
        ended with it), and those that a failed submission left."""
        if self.settings.slurm:
            self._scancel(f"--name={self.label}")
        else:
            for process in self._own.values():
                process.terminate()

    def _scancel(self, *words: str) -> None:
        with suppress(OSError, subprocess.TimeoutExpired):
            command = ["scancel", *words]
            subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)

    def _states(self) -> dict[str, str] | None:
        # By squeue: sacct would need accounts, which many clusters do not keep.
        command = ["squeue", "--me", "-r", "-h", "--states=all", f"--name={self.label}"]
        command.append("--format=%i %T")
        with suppress(OSError, subprocess.SubprocessError):
            lines = subprocess.run(
                command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
            ).stdout.splitlines()
            return dict(line.split(None, 1) for line in lines if " " in line.strip())
        return None


def run(text: str) -> None:
    """On the node, in the jobs' folder: one command after the other, until one fails."""

    # Of a job that is cancelled, or at the end of its minutes.
    def end(number: int, _frame: object) -> None:
        sys.exit(f"ended by {signal.Signals(number).name}")

    job = values(text)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, end)
    signal.alarm(job["limit_s"])
    if job["parent"]:  # on this machine a job ends with its controller, however that ends
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != job["parent"]:
            sys.exit("its controller has ended")
    if job["cpus"]:
        os.sched_setaffinity(0, job["cpus"])
    status, why = 0, ""
    with Folder.open(Path()) as own:
        for command in job["commands"]:
            status = _status_of(command, job["folder"])
            if status != 0:
                why = f"{' '.join(command)}: exit status {status}"
                break
        node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
        own.write(job["outcome"], json.dumps({"node": node, "status": status, "why": why}).encode())


def _status_of(command: Sequence[str], folder: str) -> int:
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


if __name__ == "__main__":
    run(sys.argv[1])
