# SPDX-License-Identifier: MIT
"""kdyno doctor: what this machine lacks, or a box; how precise this machine is under KVM; whether
runs can be measured on a cluster's nodes.

A job on each node, ``python -m kdyno.cli.doctor FOLDER FILE``, looks at it and writes FILE."""

from __future__ import annotations

import fcntl
import math
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from kdyno import __version__, whole
from kdyno.cli.needs import examine, install_line, suites_line, this_family
from kdyno.errors import ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Box
from kdyno.fleet.engine import FILE, PYTHON, Engine, Job, Settings, settings
from kdyno.fleet.waves import FOLDER
from kdyno.machines import emulator, examination, facts
from kdyno.machines.ssh import Remote
from kdyno.measure.commands import DEFAULT_SOURCE
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root, config_root, runs_root
from kdyno.reading.checked import FromTool, check, values
from kdyno.report import figures, plain
from kdyno.store.folder import Folder
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import load
from kdyno.verbs.options import Json, option
from kdyno.verbs.output import answer, check_writable, say
from kdyno.verbs.watching import executed, say_where


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
    no_watchdog: bool = option(
        "--no-watchdog", "Accept a box without one, as [box] watchdog = false does.", False
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
    if kvm + (on is not None) + (box is not None) > 1:
        raise UsageError("--kvm is about this machine, --on and --box about others: take one")
    if no_watchdog and box is None:
        raise UsageError("--no-watchdog goes with --box NAME")
    if kvm:
        return _kvm(json)
    if on is not None:
        return _nodes(on, json)
    if box is not None:
        return _box(box, Box(watchdog=not no_watchdog), json)
    findings, family = examine(), this_family()
    install = install_line(findings, family)
    rows, lines = [], []
    for need, problem in findings:
        row = {"name": need.name, "required": need.required, "ok": problem is None}
        rows.append({**row, "problem": problem, "purpose": need.purpose})
        word = "ok" if problem is None else "MISSING" if need.required else "missing"
        purpose = need.purpose
        if not need.required:
            purpose = purpose if purpose.startswith(("for ", "to ")) else f"for {purpose}"
            purpose = f"optional, {purpose}"
        lines.append(f"{word:8} {need.name:18} {purpose}{f': {problem}' if problem else ''}")
    lost = [need for need, problem in findings if problem]
    ok = not any(need.required for need in lost)
    if install is None and any(need.packages for need in lost):  # others come with no package
        lines.append("\nInstall what is missing by your distribution's own tool.")
    elif ok:
        lines.append(f"\nNothing is missing{' that kdyno cannot do without' if lost else ''}.")
    if install is not None:
        lines.append(f"\nTo install what is missing: {install}")
        if (suites := suites_line(findings, family)) is not None:
            lines.append(f"For the suites alone: {suites}")
    return _answer(json, {"ok": ok, "install": install, "needs": rows}, lines)


def _answer(json: str | None, data: Mapping[str, Any], lines: Iterable[str]) -> int:
    """The exit status by ``ok``."""
    answer(data, lines, json)
    return 0 if data["ok"] else 1


def _box(name: str, settings: Box, json: str | None) -> int:
    examination.refuse_busy(cache_root(), name)
    with Remote(name) as remote:
        there = examination.surroundings(remote)
    problems, notes = examination.lacks(there, settings), examination.disturbing(there)
    cpus = figures.count(len(examination.cpus_of(there.get("cpus", ""))), "CPU")
    what = f"{there.get('cpu_model') or 'unknown CPU'}, {cpus}, kernel {there.get('release')}"
    free_gb = examination.number_of(there.get("free_kb", "")) * 1024 / 1e9
    what += f", {free_gb:.1f} GB free in /var/lib"
    lines = [f"{'BAD' if problems else 'ok':4} {name:12} {what}"]
    lines += [f"     {problem}" for problem in problems]
    lines += [f"     note: {note}" for note in notes]
    data = {"ok": not problems, "box": name, "problems": problems, "notes": notes, "facts": there}
    return _answer(json, data, lines)


@dataclass(frozen=True)
class Precision:
    case: str
    groups: int
    half_width: float | None
    """Of the interval of no difference; None: too few groups."""
    differs: bool
    """The interval excludes that a kernel is as fast as itself."""

    def __str__(self) -> str:
        groups = figures.count(self.groups, "group")
        if self.half_width is None:
            return f"{self.case:12} no interval: {groups}, and six are needed"
        text = f"{self.case:12} ±{figures.share(self.half_width)}, {groups}"
        return text + ("; and DIFFERS from itself: do not trust this machine" * self.differs)


def _kvm(json: str | None) -> int:
    """1 where KVM cannot be used, or a kernel differs from itself."""
    if why := emulator.missing() or emulator.why_no_kvm():
        raise ToolError(
            f"no kernel can be timed under KVM here: {why}. kdyno counts instructions without it "
            '(--metric instructions), and times [machine] kind = "uml" and "host"'
        )
    run, verdict = against_itself("kvm", Options(cache_root(), runs_root()))
    rows = precisions(verdict)
    good = bool(rows) and not any(row.differs or row.half_width is None for row in rows)
    data = {"ok": good, "run": str(run.path), "cases": [vars(row) for row in rows]}
    less = "\nA difference smaller than this is not seen in a minute; four minutes halve it."
    status = _answer(json, data, [*map(str, rows), less])
    for flag in verdict.flags:
        say(f"{plain.short(flag.kind)}: {plain.sentence(flag.text)}")
    say_where(run)
    return status


def against_itself(accel: str, options: Options) -> tuple[Run, Verdict]:
    """A kernel and its copy take turns for a minute (kvm.toml): a run as any other, which stays, to
    be reported. The kernel is built first, where it is not in the cache."""
    suites = load()
    template = Path(__file__).with_name("kvm.toml").read_text(encoding="utf-8")
    text = template.format(source=DEFAULT_SOURCE, accel=accel)
    experiment = loader.parse(text, "doctor --kvm", cache_root(), vocabulary(suites))
    return executed(loader.apply(options.overrides, experiment), suites, options)


def precisions(verdict: Verdict) -> list[Precision]:
    """A row for each case, of the kernel's copy against the kernel."""
    rows = []
    for effect in verdict.effects:
        if effect.variant == verdict.copy_of_baseline:
            half_width, differs = None, False
            if effect.ci_raw is not None:
                low, high = effect.ci_raw
                half_width, differs = math.sqrt(high / low) - 1, not low <= 1 <= high
            rows.append(Precision(effect.case, effect.blocks, half_width, differs))
    return rows


# Nodes of a cluster. The controller makes a folder in the cache with two files: a token, and a lock
# that it holds.

TOKEN, LOCK = "token", "lock"
_MINUTES = 5
_WAIT_S = 90.0
"""For the next node to answer, before those that have not are reported as busy."""
_LOOK_S = 0.5
_PATIENCE_S = 30.0
_HERE = "this machine"
_DOWN = ("down", "drain", "fail", "maint", "unknown", "powering", "powered")
NO_LOCKS = (
    "locks of the cache do not hold between nodes: two runs that begin at once may build an image "
    "twice; none is ever half"
)


class Node(FromTool):
    node: str
    cpu_model: str
    cpus: int
    kdyno: str
    cache: str
    token: str | None
    """None: the controller's folder is not there."""
    locks: bool = False
    writes: bool = False
    missing: list[str]
    """What kdyno needs and this node lacks."""
    beside: int
    """Other jobs that run here."""


def look(folder: Path) -> Node:
    """This node. ``folder``: of the controller, in the cache."""
    token, locks = None, False
    try:
        token = (folder / TOKEN).read_text(encoding="utf-8")
        with (folder / LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        locks = token is not None
    name, own, beside = os.environ.get("SLURMD_NODENAME"), os.environ.get("SLURM_JOB_ID"), 0
    if name:
        with suppress(OSError, subprocess.TimeoutExpired):
            listed = _slurm("squeue", "-h", "-t", "RUNNING", "-w", name, "-o", "%A")
            beside = len(set(listed.stdout.split()) - {own})
    return Node(
        node=name or os.uname().nodename,
        cpu_model=str(facts.machine().get("cpu_model") or "unknown CPU"),
        cpus=len(os.sched_getaffinity(0)),
        kdyno=kdyno_here(),
        cache=str(cache_root()),
        token=token,
        locks=locks,
        writes=token is not None and os.access(folder, os.W_OK),
        missing=[f"{need.name}: {why}" for need, why in examine() if need.required and why],
        beside=beside,
    )


def kdyno_here() -> str:
    """This kdyno: its version and a digest of its source."""
    digest = sha256()
    top = Path(__file__).resolve().parents[1]
    for file in sorted(top.rglob("*.py")):
        digest.update(f"{file.relative_to(top)}\n".encode() + file.read_bytes())
    return f"{__version__} {digest.hexdigest()[:8]}"


def _slurm(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)


def _nodes(on: str, json: str | None) -> int:
    Folder.private(runs_root() / FOLDER).close()
    with whole.scratch("doctor", runs_root() / FOLDER) as folder:
        findings = examine_nodes(settings(on, config_root() / FILE), cache_root(), folder)
    rows, lines, notes = [], [], []
    for name, node, problems in findings:
        model, cpus = (node.cpu_model, node.cpus) if node else (None, None)
        row = {"node": name, "ok": not problems, "problems": problems}
        rows.append({**row, "cpu_model": model, "cpus": cpus})
        what = f"{model}, {cpus} CPUs" if node else ""
        lines.append(f"{'BAD' if problems else 'ok':4} {name:12} {what}".rstrip())
        lines += [f"     {problem}" for problem in problems]
        if node and node.token and not problems and not node.locks and name != _HERE:
            notes = [NO_LOCKS]
    models = sorted({node.cpu_model for _name, node, _problems in findings if node is not None})
    if len(models) > 1:
        several = f"several CPU models: {', '.join(models)}"
        notes.append(f"{several}; the verdict says what the effect is on each")
    lines += [f"\n{note}" for note in notes]
    ok = not any(problems for _name, _node, problems in findings)
    return _answer(json, {"ok": ok, "nodes": rows, "notes": notes}, lines)


def nodes_of(chosen: Settings) -> list[tuple[str, str]]:
    """(node, its state) of the partition. ToolError where Slurm does not answer."""
    if chosen.engine != "slurm":
        return [(_HERE, "idle")]
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
    chosen: Settings, cache: Path, folder: Path
) -> list[tuple[str, Node | None, list[str]]]:
    """(name, what it sees if it has answered, problems) of every node of the partition, or of this
    machine. ``folder``: for jobs, seen by all nodes."""
    chosen = chosen.model_copy(update={"minutes": min(chosen.minutes, _MINUTES)})
    engine = Engine(chosen, folder / "jobs", "kdyno-doctor")
    nodes = nodes_of(chosen)
    files = {name: folder / f"{name.replace('/', '_')}.json" for name, _state in nodes}
    problems: dict[str, str] = {}
    jobs: dict[str, Job] = {}
    with _marked(cache) as mark:
        try:
            for name, state in nodes:
                if any(word in state.lower() for word in _DOWN):
                    problems[name] = f"Slurm says it is {state}"
                    continue
                command = [*PYTHON, "kdyno.cli.doctor", str(mark), str(files[name])]
                place = {"nodelist": name} if chosen.engine == "slurm" else {}
                try:
                    (jobs[name],) = engine.submit([[command]], place)
                except ToolError as problem:  # another constraint, no rights
                    problems[name] = str(problem)
            say(f"asking {len(jobs)} of {len(nodes)} nodes")
            done, left_s = 0, _WAIT_S
            while left_s > 0:
                engine.look(list(jobs.values()))
                # What a node has answered may take a while to be seen here.
                now = sum(
                    job.done and (not job.well or files[name].exists())
                    for name, job in jobs.items()
                )
                if now == len(jobs):
                    break
                left_s = _WAIT_S if now > done else left_s - _LOOK_S
                done = now
                time.sleep(_LOOK_S)
        finally:
            engine.cancel(list(jobs.values()))
        token = (mark / TOKEN).read_text(encoding="utf-8")
        findings: list[tuple[str, Node | None, list[str]]] = []
        for name, _state in nodes:
            try:
                node = check(Node, values(files[name].read_text("utf-8")), str(files[name]))
            except (OSError, ValueError):
                why = problems.get(name, "busy: it has not taken the job in time")
                if name in jobs and jobs[name].done:
                    why = jobs[name].failure() or "what it answered is not seen here"
                findings.append((name, None, [why]))
            else:
                findings.append((name, node, _problems(node, token, chosen, cache)))
    return findings


def _problems(node: Node, token: str, chosen: Settings, cache: Path) -> list[str]:
    problems = list(node.missing)
    if node.cache != str(cache):
        problems.append(f"the cache {cache} is another folder there: {node.cache}")
    elif node.token is None:
        problems.append(f"the cache {cache} is not seen there; KDYNO_CACHE names a shared folder")
    elif node.token != token:
        problems.append(f"the cache {cache} is another one there")
    elif not node.writes:
        problems.append(f"the cache {cache} cannot be written there")
    if node.kdyno != (own := kdyno_here()):
        problems.append(f"another kdyno: {node.kdyno}, and {own} here")
    if node.beside and not chosen.beside:
        problems.append(
            f"{node.beside} other jobs run there meanwhile: it is not given exclusively"
        )
    return problems


@contextmanager
def _marked(cache: Path) -> Iterator[Path]:
    """A folder in the cache that says what only this process knows, with a lock that it holds."""
    with whole.scratch("doctor", cache / "work") as mark:
        (mark / TOKEN).write_text(secrets.token_hex(16), encoding="utf-8")
        with (mark / LOCK).open("w+b") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield mark


VERBS = {"doctor": doctor}

if __name__ == "__main__":
    whole.write(Path(sys.argv[2]), look(Path(sys.argv[1])).model_dump_json().encode())
