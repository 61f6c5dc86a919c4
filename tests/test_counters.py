# SPDX-License-Identifier: MIT
"""Counters of the CPU and the kernel beside the time: opened, read, refused, stored, shown.

No machine of ours has hardware counters: those are answers given to guest/counters.c by
native/counters_recorded.c, and what really counts here are the kernel's own events.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from on_screen import text as on_screen
from synthetic_run import record
from test_guest import GUEST, worked_off

from kdyno.errors import ToolError
from kdyno.experiment import loader
from kdyno.experiment.model import COUNTERS, HARDWARE_COUNTERS
from kdyno.judge.judging import verdict_of
from kdyno.machines import emulator, facts
from kdyno.machines.emulator import Emulator
from kdyno.machines.kinds import KINDS
from kdyno.machines.machine import Method
from kdyno.measure.bench import metric_of
from kdyno.measure.boot import sample_flags, samples_of
from kdyno.measure.execution import Options, execute
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root
from kdyno.store.boot import Sample as Stored
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Case, by_counter, find, load
from kdyno.suites.job import CaseJob, Job
from kdyno.suites.protocol import Sample, Transcript


def test_the_guest_program_knows_the_same_names() -> None:
    table = (GUEST / "counters.c").read_text(encoding="utf-8")
    rows = re.findall(r'\{"([a-z-]+)", PERF_TYPE_(\w+)', table)
    assert [name for name, _ in rows] == list(COUNTERS)
    assert [name for name, kind in rows if kind != "SOFTWARE"] == list(HARDWARE_COUNTERS)
    longest = max(len(f"counted-{name}-kernel") for name, kind in rows if kind != "SOFTWARE")
    assert longest < 32  # WIRE_KEY_MAX


# On a machine whose answers are given.


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("native") / "counters_recorded"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{GUEST}"]
    flags += ["-Dread=recorded_read", "-Dsyscall=recorded_syscall"]
    flags += ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
    sources = [Path(__file__).with_name("native") / "counters_recorded.c", GUEST / "counters.c"]
    subprocess.run(["gcc", *flags, "-o", program, *sources], check=True)
    return program


# User, kernel: at the case's beginning, and at its end; and again for a repetition.
_ALL_THE_TIME = """open 0 open 0
read 100 10 10 read 1000 10 10  read 3100 1010 1010 read 5000 1010 1010
read 3100 1010 1010 read 5000 1010 1010  read 3200 1020 1020 read 5300 1020 1020"""
_HALF_OF_IT = """open 0 open 0
read 0 0 0 read 0 0 0  read 3000 1000 1000 read 2000 1000 500
read 0 0 0 read 0 0 0  read 10 8 8 read 30 8 2"""
_NEVER = "open 0 open 0 read 0 0 0 read 0 0 0 read 0 900 0"
_CYCLES = ("counted-cycles-user 30", "counted-cycles-kernel 40")


@pytest.mark.needs("gcc")
@pytest.mark.parametrize(
    ("answers", "lines"),
    [
        (_ALL_THE_TIME, [*_CYCLES, "repetition 400"]),
        (_HALF_OF_IT, [*_CYCLES, "multiplexed 0.5", "repetition 130"]),
        (_NEVER, ["counter cycles did not count: others have all of the CPU's counters"]),
        ("open 2", ["counter cycles: this CPU, or the virtual machine that it belongs to"]),
        ("open 0 open 13", ["counter cycles: it may not be counted in the kernel: sysctl"]),
        ("open 38", ["counter cycles: this kernel is without CONFIG_PERF_EVENTS"]),
        ("open 24", ["counter cycles: Too many open files"]),
    ],
)
def test_answers_of_a_machine_with_hardware_counters(
    recorded: Path, answers: str, lines: list[str]
) -> None:
    words = [recorded, "cycles", "100"]
    done = subprocess.run(words, input=answers, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    text = done.stdout.splitlines()
    assert len(text) == len(lines)
    assert all(map(str.startswith, text, lines)), text


# The kernel's own events, counted here.


def counted(program: Path, tmp_path: Path, *benches: str, **more: Any) -> Transcript:
    cases = tuple(CaseJob("s", name, name, seconds=0.1) for name in benches)
    transcript = worked_off(program, tmp_path, Job(cases, **more))
    if transcript.fatal and "may not be counted" in transcript.fatal:
        pytest.skip(transcript.fatal)
    return transcript


@pytest.mark.slow
def test_events_of_the_kernel_are_counted(program: Path, tmp_path: Path) -> None:
    names = ("page-faults", "context-switches", "task-clock")
    transcript = counted(program, tmp_path, "spawn", "context1", "syscall", counters=names)
    spawn, context, syscall = (
        result.extra for result in transcript.results if isinstance(result, Sample)
    )
    keys = ["page-faults-user", "page-faults-kernel", "context-switches", "task-clock"]
    assert [*spawn] == [f"counted-{key}" for key in keys]
    # A child is counted, too: it faults, and its parent waits for it. Two processes that hand each
    # other a word switch twice, and a system call does neither.
    assert float(spawn["counted-page-faults-user"]) >= 3
    assert 0.9 < float(spawn["counted-context-switches"]) < 4
    assert 1.9 < float(context["counted-context-switches"]) < 4
    assert float(syscall["counted-page-faults-user"]) < 0.1
    assert float(syscall["counted-context-switches"]) < 0.5
    assert float(spawn["counted-task-clock"]) > float(syscall["counted-task-clock"]) > 10


@pytest.mark.slow
def test_a_counter_is_what_repetitions_report(program: Path, tmp_path: Path) -> None:
    transcript = counted(program, tmp_path, "spawn", "syscall", metric="page-faults")
    spawn, syscall = transcript.results
    assert isinstance(spawn, Sample) and spawn.extra == {}
    assert all(3 * operations <= faults < 10_000 for operations, faults in spawn.reps)
    assert "without one event of the metric" in getattr(syscall, "reason", "")


@pytest.mark.skipif(not facts.why_no_pmu(), reason="this machine has hardware counters")
def test_what_this_cpu_does_not_count_ends_the_job_before_its_first_case(
    program: Path, tmp_path: Path
) -> None:
    transcript = counted(program, tmp_path, "pipe", counters=("cycles",))
    assert transcript.begun == () and str(transcript.fatal).startswith("counter cycles: this CPU")


# What is known before anything begins.


def machine(root: Path, *pmus: str, paranoid: str = "1") -> Path:
    for name in pmus:
        (root / "sys/bus/event_source/devices" / name).mkdir(parents=True)
    (root / "proc/sys/kernel").mkdir(parents=True)
    (root / "proc/sys/kernel/perf_event_paranoid").write_text(f"{paranoid}\n")
    return root


def test_what_a_machine_shows_of_its_counters(tmp_path: Path) -> None:
    good = machine(tmp_path / "a", "cpu")
    assert facts.why_no_pmu(good) == facts.why_paranoid(good) == ""
    assert facts.why_no_pmu(machine(tmp_path / "b", "cpu_core", "cpu_atom")) == ""
    bad = machine(tmp_path / "c", "software", paranoid="3")
    assert "shows no hardware counters" in facts.why_no_pmu(bad)
    assert "perf_event_paranoid is 3" in facts.why_paranoid(bad)
    assert "without CONFIG_PERF_EVENTS" in facts.why_paranoid(tmp_path / "nothing")


def test_a_machine_without_them_is_an_error_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "find", lambda: Emulator("qemu", "7.2.22"))
    monkeypatch.setattr(emulator, "why_no_kvm", lambda: "")
    monkeypatch.setattr(facts, "why_no_pmu", lambda: "none here")
    monkeypatch.setattr(facts, "why_paranoid", lambda: "is 3")
    for kind in ("qemu", "host"):
        with pytest.raises(ToolError, match="cycles: none here"):
            KINDS[kind].check(Method(counters=("cycles", "page-faults")))
    KINDS["qemu"].check(Method(accel="tcg", counters=("page-faults",)))  # the guest's own kernel
    with pytest.raises(ToolError, match="page-faults: is 3"):
        facts.check_counters(("page-faults",), here=True)
    monkeypatch.setattr(facts, "why_no_pmu", lambda: "")
    KINDS["qemu"].check(Method(counters=("cycles",)))


TEXT = """
name = "x"
[machine]
kind = "host"
[[suite]]
name = "unixbench"
cases = ["pipe"]
[measure]
metric = "{}"
"""


@pytest.mark.parametrize("metric", ["time", "instructions", "cycles"])
def test_a_metric_of_the_hosts_is_a_counter(metric: str) -> None:
    experiment = loader.parse(TEXT.format(metric), "x.toml", Path(), vocabulary(load()))
    method = metric_of(experiment)
    assert (method.metric, method.counter) == ("time", "" if metric == "time" else metric)


# In the store and on screen.


PIPE = find(load(), "unixbench").case("pipe")


def kept(case: Case, cycles: float, **more: str) -> Stored:
    extra = {"counted-cycles-user": f"{cycles:.9g}", "counted-cycles-kernel": "900", **more}
    result = Sample(0, ((100, 10**7),), 1, 1, 1, 1, extra)
    (own,) = samples_of([case], Transcript(1, results=(result,)))
    return own


def test_figures_are_kept_and_turns_of_counters_are_flagged() -> None:
    own = kept(PIPE, 300.5, multiplexed="0.25")
    figures = {"counted-cycles-user": 300.5, "counted-cycles-kernel": 900.0, "multiplexed": 0.25}
    assert own.extra == figures
    (flag,) = sample_flags([own])
    assert flag.kind == "multiplexed" and "counted 25% of the time" in flag.text
    assert sample_flags([kept(PIPE, 300.5)]) == ()


def test_a_score_by_a_counter_is_events_of_an_operation() -> None:
    case = by_counter(PIPE, "cycles")
    score = kept(case, 1.0).score
    assert (case.unit, case.better, score) == ("cycles/operation", "lower", 1e5)


def judged(
    folder: Path, names: Sequence[str], figures: Sequence[dict[str, float]], **more: object
) -> Verdict:
    """Of boots of these kernels in turn, which count these figures in turn."""
    case = {"suite": "unixbench", "case": "pipe"}
    boots = []
    for index in range(8 * len(names)):
        own = figures[index % len(figures)]
        score = sum(own.values())
        sample = Stored(**case, score=score, reps=((10, 10 * score),), extra=own)  # type: ignore[arg-type]
        boots.append((index // len(names), names[index % len(names)], [sample]))
    about = {"images": dict.fromkeys(names, "a"), "variants": {name: {} for name in names}}
    about["cases"] = (case | {"unit": "loops/s", "better": "higher"},)
    run = record(folder, boots, baseline=names[0], **(about | more))
    return verdict_of(run, run.manifest(), "max_boots")


def test_an_effect_shows_its_counters_beside_the_time(tmp_path: Path) -> None:
    user = {"counted-cycles-user": 400.0}
    figures = [user | {"counted-cycles-kernel": kernel} for kernel in (2000.0, 2100.0)]
    verdict = judged(tmp_path, ("stock", "mine"), figures)
    (effect,) = verdict.effects
    parts = [(each.figure, each.baseline_value, each.value) for each in effect.apart]
    assert parts == [("cycles-kernel", 2000.0, 2100.0), ("cycles-user", 400.0, 400.0)]
    lines = on_screen(verdict, 120).partition("an operation is made of")[2].splitlines()
    assert lines[1].split() == ["variant", "case", "cycles-kernel", "cycles-user"]
    assert lines[2].split() == ["mine", "pipe", "2100", "(+5.00", "%)", "400", "(0.00", "%)"]


def test_a_run_of_the_hosts_kernel_shows_its_counters(tmp_path: Path) -> None:
    figures = [{"counted-context-switches": switches} for switches in (2.0, 3.0)]
    machine = {"kind": "host", "builds": False}
    verdict = judged(tmp_path, ("running",), figures, machine=machine)
    (value,) = verdict.values
    assert value.counters == {"context-switches": 2.5}
    assert Verdict.from_json(verdict.to_json()) == verdict
    rows = on_screen(verdict, 120).splitlines()
    assert any("context-switches" in line for line in rows)
    assert next(line for line in rows if "unixbench/pipe" in line).split()[-1] == "2.5"


# In a guest with a kernel of its own.

_NATIVE = """
name = "x"
baseline = "stock"
[kernel]
source = "debian:linux-source-7.3"
config = ["bench"]
[variant.stock]
[machine]
kind = "qemu"
accel = "tcg"
memory = "256M"
[[suite]]
name = "unixbench"
cases = ["syscall", "spawn"]
seconds = 0.2
[measure]
calibrate = true
max_boots = 2
counters = ["page-faults", "context-switches"]
"""


@pytest.mark.qemu
@pytest.mark.uml
@pytest.mark.needs("qemu-system-x86_64")
def test_a_guests_kernel_counts_in_its_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another kdyno that measures on this machine is nothing to wait for here.
    monkeypatch.setattr("kdyno.machines.cpus._LOCK", f"\0kdyno-test-{os.getpid()}-counters")
    suites = load()
    experiment = loader.parse(_NATIVE, "x.toml", tmp_path, vocabulary(suites))
    options = Options(cache_root(), tmp_path / "runs", beside=True)
    run, verdict = execute(experiment, suites, options)
    assert run.manifest().interleave == "turns" and verdict.failed == {}
    syscall, spawn = verdict.effects
    names = ["context-switches", "page-faults-kernel", "page-faults-user"]
    assert [part.figure for part in spawn.apart] == names
    own = {part.figure: (part.baseline_value, part.value) for part in spawn.apart}
    # A case in a guest has few rights, and its kernel is counted all the same.
    assert all(0.9 < value < 6 for value in own["context-switches"])
    assert all(3 <= value < 100 for value in own["page-faults-user"])
    assert all(part.value < 0.5 for part in syscall.apart)
