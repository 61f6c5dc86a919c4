# SPDX-License-Identifier: MIT
"""Jobs by submitit: on Slurm's nodes, or as processes of this machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kdyno.errors import ToolError, UsageError
from kdyno.fleet.settings import Settings

_WORDS = 2000
"""Of what a job that failed said last, characters."""
_LINES = 10
_LOOKS = 4
_PATIENCE_S = 30.0
_OVER = {
    *("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "OUT_OF_MEMORY"),
    *("BOOT_FAIL", "DEADLINE", "REVOKED"),
}
"""States of a job that will not go on. One that Slurm puts back into the queue is PENDING."""


class Job:
    """A command somewhere. ``of``: submitit's job; ``slurm``: whether squeue knows of it."""

    def __init__(self, of: Any, slurm: bool) -> None:
        self._of, self._slurm = of, slurm
        self._missed = 0

    @property
    def name(self) -> str:
        return str(self._of.job_id)

    @property
    def done(self) -> bool:
        """It left its result, or it is over and has left none for some looks: what a node wrote
        last may take a moment to be seen here."""
        # Not submitit's own question: it asks sacct, and many clusters keep no accounts.
        if self._of.paths.result_pickle.exists():
            return True
        alive = self._queued() if self._slurm else not self._of.done()
        self._missed = 0 if alive else self._missed + 1
        return self._missed >= _LOOKS

    def failure(self) -> str:
        """Of a job that is done: the node's own words; empty when all went well."""
        paths = self._of.paths
        said = "it ended without a result"
        if paths.result_pickle.exists():
            outcome, said = self._of._get_outcome_and_result()
            if outcome == "success":
                return ""
        lines = said.strip().splitlines()[-1:] + _own(_last(paths.stderr))[-_LINES:]
        return f"job {self.name}: " + "\n  ".join(lines)

    def cancel(self) -> None:
        self._of.cancel(check=False)

    def _queued(self) -> bool:
        asked = ("squeue", "--noheader", "--states=all", f"--jobs={self.name}", "--format=%T")
        try:
            done = subprocess.run(asked, capture_output=True, text=True, timeout=_PATIENCE_S)
        except (OSError, subprocess.TimeoutExpired):
            return True  # who cannot be asked has not said that it is over
        if done.returncode != 0:
            return "Invalid job id" not in done.stderr
        return not set(done.stdout.split()) <= _OVER


def _own(text: str) -> list[str]:
    """Without what submitit says around it."""
    said = text.partition("submitit ERROR")[0].splitlines()
    return [line for line in said if line.strip() and not line.startswith("submitit ")]


def _last(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")[-_WORDS:]
    except OSError:
        return ""


class Engine:
    """``folder``: where jobs leave their logs; the nodes see it too."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        try:
            import submitit
        except ImportError as problem:
            raise UsageError(
                "--on needs the Python package submitit: pip install kdyno[fleet]"
            ) from problem
        self.settings = settings
        given: dict[str, Any] = {"timeout_min": settings.minutes, "name": "kdyno"}
        if settings.engine == "slurm":
            slurm: dict[str, Any] = {"exclusive": True, "use_srun": False}
            slurm |= {"partition": settings.partition, "constraint": settings.constraint}
            given |= {f"slurm_{name}": it for name, it in slurm.items() if it is not None}
            if settings.sbatch:
                given["slurm_additional_parameters"] = dict(settings.sbatch)
        try:
            self._executor = submitit.AutoExecutor(folder=folder, cluster=settings.engine)
            self._executor.update_parameters(**given)
        except RuntimeError as problem:
            raise ToolError(f"--on {settings.engine}: {problem}") from problem

    def submit(self, commands: Sequence[Sequence[str]]) -> list[Job]:
        """One job each: an array where Slurm has arrays."""
        try:
            found = self._executor.map_array(work, [list(it) for it in commands])
        except Exception as problem:  # submitit wraps sbatch's words in errors of its own
            raise ToolError(f"no job could be submitted: {str(problem)[-_WORDS:]}") from problem
        return [Job(it, self.settings.engine == "slurm") for it in found]


def work(command: Sequence[str]) -> None:
    """On the node. RuntimeError, with its words on stderr, for a command that fails."""
    done = subprocess.run(command, env=os.environ, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}")
