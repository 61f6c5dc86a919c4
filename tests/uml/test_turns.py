# SPDX-License-Identifier: MIT
"""Groups of real guests: what turns give, and what is left when a guest, or kdyno, is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import KDYNO, kdyno, uml_processes
from descendants import descendants, until, until_killed
from real_kernels import EXPERIMENT

from kdyno.machines.machine import Plan
from kdyno.machines.process import Session, _kernel_groups
from kdyno.measure import turns
from kdyno.measure.bench import Bench, bench_of, plan_of
from kdyno.measure.builder import Built
from kdyno.paths import cache_root
from kdyno.store.boot import BootRecord
from kdyno.verbs.subject import load

pytestmark = pytest.mark.uml
NAMES = ("stock", "slow-umask")
SHORT = {("unixbench", case): 0.08 for case in ("syscall", "pipe", "fscopy-4096")}
LOOP = "i=0; while [ $i -lt 300 ]; do cat /proc/version >/dev/null; i=$((i+1)); done"


@pytest.fixture
def bench(built: Built) -> Bench:
    experiment, suites = load(EXPERIMENT)
    return bench_of(experiment, suites, built.images, None, cache_root(), lambda _text: None)


def measured(
    bench: Bench, show: Callable[[str], None] = lambda _case: None
) -> list[tuple[BootRecord, bytes]]:
    plans = [plan_of(bench, name, turns=True, draw=7) for name in NAMES]
    return turns.measure(bench, plans, "1:0", first_index=0, effort=SHORT, show=show)


def test_all_guests_of_a_group_do_the_same_rounds(bench: Bench) -> None:
    boots = [record for record, _ in measured(bench)]
    assert [boot.variant for boot in boots] == list(NAMES)
    for boot in boots:
        assert boot.ok, boot.host
        assert [sample.interleave for sample in boot.samples] == ["turns"] * 3
        assert boot.host.group_s == boots[0].host.group_s
        for sample in boot.samples:
            assert len(sample.cpu_ns) == len(sample.reps) and min(sample.cpu_ns) > 0
    for ours, theirs in zip(boots[0].samples, boots[1].samples, strict=True):
        assert [count for count, _ in ours.reps] == [count for count, _ in theirs.reps]
        assert len(ours.reps) >= 8
    assert uml_processes() == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_guest_that_dies_or_stops_in_a_group_leaves_the_other_its_figures(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    opened: list[Session] = []
    plain = bench.machine.open

    def remember(plan: Plan) -> object:
        opened.append(plain(plan))  # type: ignore[arg-type]
        return opened[-1]

    def strike(case: str) -> None:
        if case == "pipe":
            (one,) = _kernel_groups(opened[1]._process.pid)
            os.killpg(one, number)

    monkeypatch.setattr(bench.machine, "open", remember)
    # A guest that is stopped by somebody else does not answer, and is given up.
    monkeypatch.setattr("kdyno.measure.turns.WORD_S", 2.0)
    bench = replace(bench, jobs=tuple(replace(job, timeout_s=2.0) for job in bench.jobs))
    (whole, _), (lost, _) = measured(bench, strike)
    assert whole.ok and [sample.status for sample in whole.samples] == ["ok"] * 3
    assert not lost.ok and lost.host.reason in ("no-result", "timeout")
    assert uml_processes() == []


def test_a_kdyno_that_is_killed_leaves_no_stopped_guest(built: Built, tmp_path: Path) -> None:
    line = [*KDYNO, "try", "--max-boots", "6", "-k", "stock", "--", "sh", "-c", LOOP]
    environment = {**os.environ, "KDYNO_RUNS": str(tmp_path)}
    none, pipe = subprocess.DEVNULL, subprocess.PIPE
    process = subprocess.Popen(line, env=environment, stdout=none, stderr=pipe, text=True)
    try:
        until(lambda: any(map(stopped, uml_processes())), process)
    finally:
        process.kill()
        process.communicate()
    # The kernel takes down the sandbox of a parent that is gone.
    until(lambda: not uml_processes())


def stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


pytestmark = pytest.mark.uml

SUITE = '[[suite]]\nname = "unixbench"\ncases = ["pipe"]\nseconds = {seconds}\n'
# Of one long turn: guests that take turns at a case of seconds are gone in one.
LONG = '[[suite]]\nname = "run"\ncases = ["wait"]\ncommand = ["sleep", "300"]\n'
MACHINES = {
    "host": 'name = "killed"\n[machine]\nkind = "host"\n',
    "uml": EXPERIMENT.read_text().split("[[suite]]")[0],
}
OUTSIDE = ("--no-sandbox", "--max-boots", "1")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Not below /dev, where a guest would not find its job."""
    with tempfile.TemporaryDirectory(prefix="killed-", dir="/var/tmp") as folder:
        yield Path(folder)


def guests() -> list[int]:
    """Of this test: guest programs, their supervisors, and kernels (``init=…/kdyno-guest``)."""
    return descendants(b"kdyno-guest")


def kill_when(
    signs: Sequence[Callable[[], object]],
    words: Sequence[str | Path],
    tmp_path: Path,
    temporary: Path,
) -> None:
    """kdyno with these words, killed when one sign after the other has been there."""
    environment = {"KDYNO_RUNS": str(tmp_path / "runs"), "TMPDIR": str(temporary)}
    with until_killed([*KDYNO, *words], env={**os.environ, **environment}) as process:
        for sign in signs:
            until(sign, process)


@pytest.mark.parametrize("machine", MACHINES)
def test_without_a_sandbox_the_guest_ends_and_the_next_run_removes_its_folder(
    built: Built, tmp_path: Path, temporary: Path, machine: str
) -> None:
    file = tmp_path / "long.toml"
    file.write_text(MACHINES[machine] + LONG)
    job = f"kdyno-boot-*/in/{'job' if machine == 'host' else 'kdyno.job'}"

    signs = [lambda: list(temporary.glob(job)), lambda: len(guests()) >= 2]
    kill_when(signs, ["run", file, *OUTSIDE], tmp_path, temporary)
    until(lambda: not guests())  # the supervisor sees that its parent is gone
    assert list(temporary.glob("kdyno-boot-*"))  # one or both of a group
    file.write_text(MACHINES["host"] + SUITE.format(seconds=0.05))
    kdyno("run", file, *OUTSIDE, runs=tmp_path / "runs", TMPDIR=str(temporary))
    assert list(temporary.iterdir()) == []


@pytest.mark.needs("perf")
@pytest.mark.parametrize("outside", [(), ("--no-sandbox",)], ids=["inside", "outside"])
def test_a_killed_profile_leaves_no_profiler_and_no_guest(
    built: Built, tmp_path: Path, temporary: Path, outside: tuple[str, ...]
) -> None:
    file = tmp_path / "profiled.toml"
    file.write_text(MACHINES["uml"] + SUITE.format(seconds=1))
    words = ["profile", file, "--variant", "stock", "--boots", "1", "--seconds", "3", *outside]
    kill_when([lambda: descendants(b"perf.data") and guests()], words, tmp_path, temporary)
    until(lambda: not descendants(b"perf.data") and not guests())
