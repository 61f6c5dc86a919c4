# SPDX-License-Identifier: MIT
"""kdyno doctor: what this machine lacks, how precise it is under KVM (``kvm.py``), or whether runs
can be measured on a cluster's nodes.

Each node is asked by a job on it, ``python -m kdyno.cli.doctor FOLDER FILE``: that looks at its
node and writes FILE.
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
from typing import Any

from kdyno import __version__, deferred, whole
from kdyno.cli.jobs import settings_file
from kdyno.cli.needs import NEEDS, examine, install_line, suites_line, this_family
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import Box
from kdyno.fleet.engine import PYTHON, Engine, Job, Settings, settings
from kdyno.fleet.waves import FOLDER
from kdyno.machines import facts
from kdyno.paths import cache_root, runs_root
from kdyno.reading.checked import FromTool, check, values
from kdyno.store.folder import Folder
from kdyno.verbs.options import Json, option
from kdyno.verbs.output import check_writable, say, show, write_json

_kvm = deferred("kdyno.cli.kvm:doctor_kvm")
_BOX = "kdyno.machines.box"  # when one is named
_connect: Callable[..., dict[str, str]] = deferred(f"{_BOX}:connect")
_lacks: Callable[..., list[str]] = deferred(f"{_BOX}:lacks")
_disturbing: Callable[..., list[str]] = deferred(f"{_BOX}:disturbing")
_remote: Callable[[str], Any] = deferred("kdyno.machines.ssh:Remote")


def doctor(
    on: str | None = option(
        "--on slurm[:PARTITION]|local",
        "Check the machines that jobs run on, instead of this one.",
        None,
    ),
    kvm: bool = option(
        "--kvm", "Time a kernel against itself under KVM for a minute, for its precision.", False
    ),
    box: str | None = option(
        "--box NAME", "Check a machine of your own, by its ssh name, for booting kernels.", None
    ),
    json: Json = None,
) -> int:
    """Show what this machine, or nodes of a cluster, lack.

    Examples:
      kdyno doctor
      kdyno doctor --json -
      kdyno doctor --kvm
      kdyno doctor --on slurm:lab
      kdyno doctor --box rack1
    """
    check_writable(json)
    if kvm and on is not None:
        raise UsageError("--kvm is about this machine: leave out --on")
    if kvm:
        status: int = _kvm(json)
        return status
    if on is not None:
        return _nodes(on, json)
    if box is not None:
        return _box(box, json)
    findings = examine()
    line = install_line(findings, this_family())
    bad = [finding for finding in findings if finding.need.required and not finding.ok]
    if json is not None:
        rows = [
            {
                "name": finding.need.name,
                "required": finding.need.required,
                "ok": finding.ok,
                "problem": finding.problem,
                "purpose": finding.need.purpose,
            }
            for finding in findings
        ]
        write_json({"ok": not bad, "install": line, "needs": rows}, json)
    if json != "-":
        for finding in findings:
            need, purpose = finding.need, finding.need.purpose
            word = "ok" if finding.ok else ("MISSING" if need.required else "missing")
            why = "" if finding.ok else f": {finding.problem}"
            if not need.required:
                plain = purpose.startswith(("for ", "to "))
                purpose = f"optional, {purpose if plain else f'for {purpose}'}"
            show(f"{word:8} {need.name:18} {purpose}{why}")
        if line is not None:
            if not bad:
                show("\nNothing is missing that kdyno cannot do without.")
            show(f"\nTo install what is missing: {line}")
            if (suites := suites_line(findings, this_family())) is not None:
                show(f"For the suites alone: {suites}")
        elif all(finding.ok for finding in findings):
            show("\nNothing is missing.")
        else:
            show("\nInstall what is missing by your distribution's own tool.")
    return 1 if bad else 0


def _nodes(on: str, json: str | None) -> int:
    Folder.private(runs_root() / FOLDER).close()
    with whole.scratch("doctor", runs_root() / FOLDER) as folder:
        findings = examine_nodes(settings(on, settings_file()), cache_root(), folder, say)
    bad = any(finding.problems for finding in findings)
    notes = (
        *dict.fromkeys(note for finding in findings for note in finding.notes),
        *differences(findings),
    )
    if json is not None:
        rows = [
            {
                "node": finding.name,
                "ok": not finding.problems,
                "problems": finding.problems,
                "cpu_model": finding.node.cpu_model if finding.node else None,
                "cpus": finding.node.cpus if finding.node else None,
            }
            for finding in findings
        ]
        write_json({"ok": not bad, "nodes": rows, "notes": notes}, json)
    if json != "-":
        for finding in findings:
            what = f"{finding.node.cpu_model}, {finding.node.cpus} CPUs" if finding.node else ""
            show(f"{'BAD' if finding.problems else 'ok':4} {finding.name:12} {what}".rstrip())
            for problem in finding.problems:
                show(f"     {problem}")
        for note in notes:
            show(f"\n{note}")
    return 1 if bad else 0


def _box(name: str, json: str | None) -> int:
    with _remote(name) as remote:
        facts_there = _connect(remote)
    problems, notes = _lacks(facts_there, Box()), _disturbing(facts_there)
    if json is not None:
        rows = {"ok": not problems, "box": name, "problems": problems, "notes": notes}
        write_json({**rows, "facts": facts_there}, json)
    if json != "-":
        what = facts_there.get("cpu_model") or "unknown CPU"
        show(f"{'BAD' if problems else 'ok':4} {name:12} {what}")
        for problem in problems:
            show(f"     {problem}")
        for note in notes:
            show(f"     note: {note}")
    return 1 if problems else 0


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
    digest = sha256()
    top = Path(__file__).resolve().parents[1]
    for file in sorted(top.rglob("*.py")):
        digest.update(f"{file.relative_to(top)}\n".encode() + file.read_bytes())
    return f"{__version__} {digest.hexdigest()[:8]}"


def look(folder: Path) -> Node:
    """This node. ``folder``: of the controller, in the cache."""
    host = facts.machine()
    try:
        token = (folder / TOKEN).read_text(encoding="utf-8")
    except OSError:
        token = None
    return Node(
        node=os.environ.get("SLURMD_NODENAME") or os.uname().nodename,
        cpu_model=str(host.get("cpu_model") or "unknown CPU"),
        cpus=len(os.sched_getaffinity(0)),
        kdyno=kdyno_here(),
        cache=str(cache_root()),
        token=token,
        locks=token is not None and _is_held(folder / LOCK),
        writes=token is not None and os.access(folder, os.W_OK),
        missing=[
            f"{need.name}: {why}" for need in NEEDS if need.required and (why := need.missing())
        ],
        beside=_other_jobs(),
    )


def _is_held(file: Path) -> bool:
    try:
        with file.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _other_jobs() -> int:
    node, own = os.environ.get("SLURMD_NODENAME"), os.environ.get("SLURM_JOB_ID")
    if not node:
        return 0
    try:
        listed = _slurm("squeue", "-h", "-t", "RUNNING", "-w", node, "-o", "%A").stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return len(set(listed.split()) - {own})


def _slurm(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)


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
class NodeFinding:
    """``node``: None where it has not answered."""

    name: str
    node: Node | None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What is worth knowing and prevents nothing."""


def nodes_of(chosen: Settings) -> list[tuple[str, str]]:
    """(node, its state) of the partition. ToolError where Slurm does not answer."""
    partition = ("-p", chosen.partition) if chosen.partition else ()
    try:
        done = _slurm("sinfo", "-h", "-N", "-o", "%N %T", *partition)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise ToolError(f"--on slurm: Slurm cannot be reached: {problem}") from problem
    if done.returncode != 0 or not done.stdout.strip():
        why = done.stderr.strip() or f"there is no node in {chosen.partition or 'it'}"
        raise ToolError(f"--on slurm: {why}")
    states = dict(line.split(None, 1) for line in done.stdout.splitlines() if " " in line)
    return sorted(states.items())


def examine_nodes(
    chosen: Settings,
    cache: Path,
    folder: Path,
    notify: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> list[NodeFinding]:
    """Every node of the partition, or this machine. ``folder``: for jobs, seen by all nodes."""
    chosen = chosen.model_copy(update={"minutes": min(chosen.minutes, _MINUTES)})
    engine = Engine(chosen, folder / "jobs", "kdyno-doctor")
    states = nodes_of(chosen) if chosen.engine == "slurm" else [("this machine", "idle")]
    files = {node: folder / f"{node.replace('/', '_')}.json" for node, _state in states}
    findings: dict[str, NodeFinding] = {}
    jobs: dict[str, Job] = {}
    with _marked(cache) as mark:
        try:
            for node, state in states:
                if any(word in state.lower() for word in _DOWN):
                    findings[node] = NodeFinding(node, None, (f"Slurm says it is {state}",))
                    continue
                command = [*PYTHON, "kdyno.cli.doctor", str(mark), str(files[node])]
                place = {"nodelist": node} if chosen.engine == "slurm" else {}
                try:
                    (jobs[node],) = engine.submit([[command]], place)
                except ToolError as problem:  # another constraint, no rights
                    findings[node] = NodeFinding(node, None, (str(problem),))
            notify(f"asking {len(jobs)} of {len(states)} nodes")
            done, left_s = 0, _WAIT_S
            while left_s > 0:
                engine.look(list(jobs.values()))
                # What a node has answered may take a while to be seen here.
                now = sum(
                    job.done and (not job.well or files[node].exists())
                    for node, job in jobs.items()
                )
                if now == len(jobs):
                    break
                left_s = _WAIT_S if now > done else left_s - _LOOK_S
                done = now
                sleep(_LOOK_S)
        finally:
            engine.cancel(list(jobs.values()))
        token = (mark / TOKEN).read_text(encoding="utf-8")
        for node, job in jobs.items():
            findings[node] = _judged(node, job, files[node], token, chosen, cache)
    return [findings[node] for node, _state in states]


def _judged(
    name: str, job: Job, file: Path, token: str, chosen: Settings, cache: Path
) -> NodeFinding:
    try:
        node = check(Node, values(file.read_text(encoding="utf-8")), str(file))
    except (OSError, ValueError):
        why = "busy: it has not taken the job in time"
        if job.done:
            why = job.failure() or "what it answered is not seen here"
        return NodeFinding(name, None, (why,))
    problems, notes = list(node.missing), []
    if node.cache != str(cache):
        problems.append(f"the cache {cache} is another folder there: {node.cache}")
    elif node.token is None:
        problems.append(f"the cache {cache} is not seen there; KDYNO_CACHE names a shared folder")
    elif node.token != token:
        problems.append(f"the cache {cache} is another one there")
    elif not node.writes:
        problems.append(f"the cache {cache} cannot be written there")
    elif not node.locks and chosen.engine == "slurm":
        notes.append(NO_LOCKS)
    if node.kdyno != (own := kdyno_here()):
        problems.append(f"another kdyno: {node.kdyno}, and {own} here")
    if node.beside and not chosen.beside:
        problems.append(
            f"{node.beside} other jobs run there meanwhile: it is not given exclusively"
        )
    return NodeFinding(name, node, tuple(problems), tuple(notes))


@contextmanager
def _marked(cache: Path) -> Iterator[Path]:
    """A folder in the cache that says what only this process knows, with a lock that it holds."""
    with whole.scratch("doctor", cache / "work") as mark:
        (mark / TOKEN).write_text(secrets.token_hex(16), encoding="utf-8")
        with (mark / LOCK).open("w+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield mark


def differences(findings: Sequence[NodeFinding]) -> tuple[str, ...]:
    """What differs between nodes that are all well by themselves."""
    models = sorted({finding.node.cpu_model for finding in findings if finding.node is not None})
    if len(models) < 2:
        return ()
    return (
        f"several CPU models: {', '.join(models)}; the verdict says what the effect is on each",
    )


VERBS = {"doctor": doctor}

if __name__ == "__main__":
    whole.write(Path(sys.argv[2]), look(Path(sys.argv[1])).model_dump_json().encode())
