# SPDX-License-Identifier: MIT
"""What one node of a cluster is, by a job on it: ``python -m kdyno.doctor.node FOLDER FILE``."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from kdyno import __version__, whole
from kdyno.doctor.doctor import NEEDS
from kdyno.machines import facts
from kdyno.paths import cache_root
from kdyno.reading.checked import FromTool

TOKEN, LOCK = "token", "lock"
"""Files of the folder in the cache that the controller has made: what it says, what it holds."""
_PATIENCE_S = 20.0


class Node(FromTool):
    """``token``: as it is seen here; None: the folder is not. ``locks``: whether the controller's
    lock is seen."""

    node: str
    cpu_model: str
    cpus: int
    kdyno: str
    cache: str
    token: str | None
    locks: bool = False
    writes: bool = False
    missing: list[str]
    """What kdyno needs and this node lacks."""
    beside: int
    """Other jobs that run here."""


def kdyno_here() -> str:
    """This kdyno: its version and a digest of its source."""
    found = sha256()
    top = Path(__file__).resolve().parents[1]
    for file in sorted(top.rglob("*.py")):
        found.update(f"{file.relative_to(top)}\n".encode() + file.read_bytes())
    return f"{__version__} {found.hexdigest()[:8]}"


def look(folder: Path) -> Node:
    """This node. ``folder``: of the controller, in the cache."""
    host = facts.machine()
    seen = _text(folder / TOKEN)
    return Node(
        node=os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
        cpu_model=str(host.get("cpu_model") or "unknown CPU"),
        cpus=len(os.sched_getaffinity(0)),
        kdyno=kdyno_here(),
        cache=str(cache_root()),
        token=seen,
        locks=seen is not None and _is_held(folder / LOCK),
        writes=seen is not None and os.access(folder, os.W_OK),
        missing=[f"{it.name}: {why}" for it in NEEDS if it.required and (why := it.missing())],
        beside=_others(),
    )


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return None


def _is_held(file: Path) -> bool:
    try:
        with file.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _others() -> int:
    node, own = os.environ.get("SLURMD_NODENAME"), os.environ.get("SLURM_JOB_ID")
    if not node:
        return 0
    try:
        said = subprocess.run(
            ("squeue", "-h", "-t", "RUNNING", "-w", node, "-o", "%A"),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return len(set(said.stdout.split()) - {own})


if __name__ == "__main__":
    whole.write(Path(sys.argv[2]), look(Path(sys.argv[1])).model_dump_json().encode())
