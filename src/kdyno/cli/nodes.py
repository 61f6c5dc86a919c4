# SPDX-License-Identifier: MIT
"""The nodes of a cluster: whether runs can be measured on them, asked by a job on each.

The job is ``python -m kdyno.cli.nodes FOLDER FILE``: it looks at its node and writes FILE.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from kdyno import __version__, whole
from kdyno.cli.needs import NEEDS
from kdyno.errors import ToolError
from kdyno.fleet.engine import PYTHON, Engine, Job, Settings
from kdyno.machines import facts
from kdyno.paths import cache_root
from kdyno.reading.checked import FromTool, check, values

TOKEN, LOCK = "token", "lock"
"""Files of the folder in the cache that the controller has made: what it says, what it holds."""


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


_MINUTES = 5
_WAIT_S = 90.0
"""For the next node to answer, before those that have not are told to be busy."""
_LOOK_S = 0.5
_PATIENCE_S = 30.0
_DOWN = ("down", "drain", "fail", "maint", "unknown", "powering", "powered")
NO_LOCKS = (
    "locks of the cache do not hold between nodes: two runs that begin at once may build an image "
    "twice; none is ever half"
)


@dataclass(frozen=True)
class Finding:
    """``said``: None where the node has not answered."""

    node: str
    said: Node | None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What is worth knowing and prevents nothing."""


def nodes_of(settings: Settings) -> list[tuple[str, str]]:
    """(node, its state) of the partition. ToolError where Slurm does not answer."""
    command = ["sinfo", "-h", "-N", "-o", "%N %T"]
    command += ["-p", settings.partition] if settings.partition else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise ToolError(f"--on slurm: Slurm cannot be reached: {problem}") from problem
    if done.returncode != 0 or not done.stdout.strip():
        why = done.stderr.strip() or f"there is no node in {settings.partition or 'it'}"
        raise ToolError(f"--on slurm: {why}")
    found = dict(line.split(None, 1) for line in done.stdout.splitlines() if " " in line)
    return sorted(found.items())


def examine(
    settings: Settings,
    cache: Path,
    folder: Path,
    told: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> list[Finding]:
    """Every node of the partition, or this machine. ``folder``: for jobs, seen by all nodes."""
    settings = settings.model_copy(update={"minutes": min(settings.minutes, _MINUTES)})
    engine = Engine(settings, folder / "jobs", "kdyno-doctor")
    states = nodes_of(settings) if settings.engine == "slurm" else [("this machine", "idle")]
    found, jobs = {}, {}
    with _marked(cache) as mark:
        try:
            for node, state in states:
                if any(word in state.lower() for word in _DOWN):
                    found[node] = Finding(node, None, (f"Slurm says it is {state}",))
                    continue
                command = [*PYTHON, "kdyno.cli.nodes", mark, _file(folder, node)]
                chosen = {"nodelist": node} if settings.engine == "slurm" else {}
                try:
                    (jobs[node],) = engine.submit([[list(map(str, command))]], chosen)
                except ToolError as problem:  # another constraint, no rights
                    found[node] = Finding(node, None, (str(problem),))
            told(f"asking {len(jobs)} of {len(states)} nodes")
            _wait(engine, jobs, folder, sleep)
        finally:
            engine.cancel(list(jobs.values()))
        token = (mark / TOKEN).read_text(encoding="utf-8")
        for node, job in jobs.items():
            found[node] = _judged(node, job, _said(_file(folder, node)), token, settings, cache)
    return [found[node] for node, _state in states]


def _wait(
    engine: Engine, jobs: dict[str, Job], folder: Path, sleep: Callable[[float], None]
) -> None:
    done, left_s = 0, _WAIT_S
    while left_s > 0:
        engine.look(list(jobs.values()))
        # What a node has answered may take a while to be seen here.
        now = sum(
            job.done and (not job.well or _file(folder, node).exists())
            for node, job in jobs.items()
        )
        if now == len(jobs):
            return
        left_s = _WAIT_S if now > done else left_s - _LOOK_S
        done = now
        sleep(_LOOK_S)


def _judged(
    node: str, job: Job, said: Node | None, token: str, settings: Settings, cache: Path
) -> Finding:
    if said is None:
        why = "busy: it has not taken the job in time"
        if job.done:
            why = job.failure() or "what it answered is not seen here"
        return Finding(node, None, (why,))
    problems, notes = list(said.missing), []
    if said.cache != str(cache):
        problems.append(f"the cache {cache} is another folder there: {said.cache}")
    elif said.token is None:
        problems.append(f"the cache {cache} is not seen there; KDYNO_CACHE names a shared folder")
    elif said.token != token:
        problems.append(f"the cache {cache} is another one there")
    elif not said.writes:
        problems.append(f"the cache {cache} cannot be written there")
    elif not said.locks and settings.engine == "slurm":
        notes.append(NO_LOCKS)
    if said.kdyno != (own := kdyno_here()):
        problems.append(f"another kdyno: {said.kdyno}, and {own} here")
    if said.beside and not settings.beside:
        problems.append(
            f"{said.beside} other jobs run there meanwhile: it is not given exclusively"
        )
    return Finding(node, said, tuple(problems), tuple(notes))


@contextmanager
def _marked(cache: Path) -> Iterator[Path]:
    """A folder in the cache that says what only this process knows, with a lock that it holds."""
    with whole.scratch("doctor", cache / "work") as mark:
        (mark / TOKEN).write_text(secrets.token_hex(16), encoding="utf-8")
        with (mark / LOCK).open("w+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield mark


def _file(folder: Path, node: str) -> Path:
    return folder / f"{node.replace('/', '_')}.json"


def _said(file: Path) -> Node | None:
    try:
        data = values(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return check(Node, data, str(file))


def differences(nodes: Sequence[Finding]) -> tuple[str, ...]:
    """What differs between nodes that are all well by themselves."""
    models = sorted({it.said.cpu_model for it in nodes if it.said is not None})
    if len(models) < 2:
        return ()
    return (
        f"several CPU models: {', '.join(models)}; the verdict says what the effect is on each",
    )


if __name__ == "__main__":
    whole.write(Path(sys.argv[2]), look(Path(sys.argv[1])).model_dump_json().encode())
