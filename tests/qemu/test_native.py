# SPDX-License-Identifier: MIT
"""Native kernels in QEMU: counts that agree to the last digit, and guests that go wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from booting import booted, case, command
from descendants import adopt, descendants
from real_kernels import built_kernels

from kdyno.kernels.image import Image
from kdyno.machines import emulator
from kdyno.machines.emulator import TALLY, library
from kdyno.machines.machine import Outcome
from kdyno.machines.qemu import Tallying
from kdyno.measure.builder import Built
from kdyno.paths import cache_root
from kdyno.store.verdict import Verdict
from kdyno.suites.record import CaseError, Sample

EXPERIMENT = Path(__file__).with_name("known.toml")
# Also `uml`: real kernels, one test at a time.
pytestmark = [pytest.mark.qemu, pytest.mark.uml, pytest.mark.needs("qemu-system-x86_64")]


@pytest.fixture(scope="module")
def built() -> Built:
    return built_kernels(EXPERIMENT)


@pytest.fixture(scope="module")
def stock(built: Built) -> Image:
    return built.images["stock"]


@pytest.fixture(scope="module", autouse=True)
def _guests_of_its_own() -> None:
    adopt()


def counts(outcome: Outcome) -> list[tuple[tuple[int, int], ...]]:
    """(operations, instructions) of each part of each case."""
    assert outcome.host.status == "ok", outcome.host
    found = []
    for number in range(len(outcome.transcript.results)):
        result = outcome.transcript.result(number)
        assert isinstance(result, Sample)
        found.append(result.reps)
    return found


def test_an_empty_job_boots_and_says_what_it_is(stock: Image) -> None:
    outcome = booted(stock)
    assert outcome.host.status == "ok", outcome.host
    hello = outcome.transcript.hello
    assert hello is not None and hello.release.startswith("7.3")
    assert (hello.machine, hello.word_bits, hello.cpus) == ("x86_64", 64, 1)
    assert "-icount" in outcome.command


@pytest.mark.parametrize(
    ("words", "copies"), [("", "plain"), ("setcpuid=fsrm", "fsrm"), ("setcpuid=erms", "erms")]
)
def test_a_kernel_tells_how_it_copies(stock: Image, words: str, copies: str) -> None:
    hello = booted(stock, cmdline=words).transcript.hello
    assert hello is not None and hello.copies == copies


def test_counts_agree_to_the_last_digit_in_and_outside_the_sandbox(stock: Image) -> None:
    job = (case("syscall", operations=20_000), case("pipe", operations=5_000))
    first = counts(booted(stock, *job))
    assert counts(booted(stock, *job, sandboxed=False)) == first
    assert all(len(parts) == 9 for parts in first)


def test_41_instructions_are_found_exactly_and_nowhere_else(built: Built, tmp_path: Path) -> None:
    file = tmp_path / "verdict.json"
    command = [sys.executable, "-m", "kdyno", "run", EXPERIMENT, "--runs", tmp_path, "--json", file]
    done = subprocess.run(
        [*command, "--fail-on", "slower"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 10, done.stdout + done.stderr  # the gate of docs/ci
    verdict = Verdict.load(file)
    more = {it.case: (it.value or 0) - (it.baseline_value or 0) for it in verdict.effects}
    assert {name: round(it, 3) for name, it in more.items()} == {
        "syscall": 0.0, "pipe": 41.0, "fscopy-1024": 0.0, "dhry2reg": 0.0,
    }  # fmt: skip
    assert all(it.exact for it in verdict.effects)
    assert set(verdict.boots.values()) == {3}
    assert "with 41.000 more instructions an operation" in verdict.answer
    (caveat,) = [flag.text for flag in verdict.flags if flag.kind == "machine"]
    assert "not time" in caveat and emulator.find().version in caveat


def kdyno(*words: str | Path) -> str:
    """What it says on stdout."""
    command = [sys.executable, "-m", "kdyno", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_41_are_in_one_function_of_one_chain_and_the_sum_is_theirs(
    built: Built, tmp_path: Path
) -> None:
    """In the run's verdict, its report, and instruction by instruction with lines of source."""
    own = ("--runs", tmp_path)
    kdyno("run", EXPERIMENT, *own, "--case", "pipe", "--case", "fscopy-1024")
    found = json.loads(kdyno("profile", "last", *own, "--method", "count", "--json", "-"))
    stock, mine = (it for it in found["counts"] if it["case"] == "pipe")
    before, after = (
        {tuple(it["functions"]): it["instructions"] for it in counts["chains"]}
        for counts in (stock, mine)
    )
    differing = {name: after[name] - before[name] for name in before if after[name] != before[name]}
    assert differing == {
        ("entry_SYSCALL_64", "do_syscall_64", "ksys_write", "vfs_write", "anon_pipe_write"): 41.0
    }
    for counts in (stock, mine):
        assert sum(it["instructions"] for it in counts["chains"]) == pytest.approx(counts["total"])

    (file,) = tmp_path.glob("*/verdict.json")
    verdict = Verdict.load(file)
    pipe, files = sorted(verdict.effects, key=lambda it: it.case == "fscopy-1024")
    counted = (pipe.value or 0) - (pipe.baseline_value or 0)
    explained = sum(it.value - it.baseline_value for it in pipe.functions)
    assert explained / counted == pytest.approx(1.0, abs=1e-4)
    assert pipe.functions[0].function == "anon_pipe_write"
    assert [it.where for it in files.functions] == ["others"]
    assert "anon_pipe_write" in kdyno("report", "last", *own)

    words = ("--annotate", "anon_pipe_write", "--lines", "fs/pipe.c", "--json", "-")
    (shown,) = json.loads(kdyno("profile", "last", *own, *words))["annotated"]
    added = [row["variant"] for row in shown["rows"] if row["baseline"] is None]
    assert [(it["instruction"], it["executions"]) for it in added] == [("nop", 1.0)] * 41
    assert {it["line"].partition(":")[0] for it in added} == {"fs/pipe.c"}
    assert all(it["source"].startswith("asm volatile(") for it in added)
    both = [row["baseline"] for row in shown["rows"] if row["baseline"] is not None]
    assert sum(it["executions"] for it in both) == pytest.approx(110.0, abs=1e-3)


def test_a_command_of_the_hosts_is_counted_with_program_and_kernel_apart(stock: Image) -> None:
    sort = command("sort", "-n", "/usr/share/common-licenses/GPL-3", operations=5)
    jobs = (case("pipe"), sort)
    tally = Tallying(library(TALLY, cache_root(), emulator.find()), 1 << 63)
    said = booted(stock, *jobs, tally=tally)
    # The plugin changes nothing; beside the host's files a part may have a tick more.
    assert min(counts(said)[0]) == min(counts(booted(stock, *jobs))[0])
    result = said.transcript.result(1)
    assert isinstance(result, Sample)
    user, kernel = (float(result.extra[f"counted-{name}"]) for name in ("user", "kernel"))
    assert user > 1e5 and kernel > 1e5
    # The score is the CPU time of the command's processes; who started them is in here too.
    assert user + kernel == pytest.approx(min(ns / done for done, ns in result.reps), rel=0.05)


def test_a_panic_is_a_failed_boot_with_the_kernels_own_words(stock: Image) -> None:
    outcome = booted(stock, case("pipe"), case("fault-panic"))
    assert (outcome.host.status, outcome.host.reason) == ("failed", "panic"), outcome.host
    assert "Kernel panic" in outcome.host.text
    assert isinstance(outcome.transcript.result(0), Sample)


def test_an_init_that_is_not_there_or_dies_is_told_so(stock: Image) -> None:
    outcome = booted(stock, cmdline="rdinit=/nowhere init=/nowhere")
    assert (outcome.host.status, outcome.host.reason) == ("failed", "init-died"), outcome.host


def test_a_guest_that_stays_silent_is_killed_at_the_limit(stock: Image) -> None:
    outcome = booted(stock, case("fault-hang", timeout_s=3000.0), limit_s=4)
    assert (outcome.host.status, outcome.host.reason) == ("failed", "timeout"), outcome.host


def test_a_case_that_hangs_crashes_or_eats_memory_costs_only_itself(stock: Image) -> None:
    outcome = booted(
        stock,
        case("fault-hang", timeout_s=0.5),
        case("fault-segv"),
        case("fault-oom"),
        case("fault-exit"),
        case("pipe"),
        memory=64 << 20,
    )
    assert outcome.host.status == "ok", outcome.host
    for number in range(4):
        assert isinstance(outcome.transcript.result(number), CaseError)
    assert isinstance(outcome.transcript.result(4), Sample)


def test_a_guest_that_floods_its_console_is_ended(stock: Image) -> None:
    # Its serial port is so slow that the limit in time comes first, or that in bytes.
    outcome = booted(stock, case("fault-flood", timeout_s=3000.0), limit_s=5)
    assert outcome.host.reason in ("flood", "timeout"), outcome.host
    assert len(outcome.console) < 3 << 20


def test_a_kernel_that_is_none_is_told_in_qemus_words(stock: Image, tmp_path: Path) -> None:
    broken = tmp_path / "linux"
    broken.write_bytes(Path("/bin/true").read_bytes())  # an ELF file, but no kernel
    broken.chmod(0o644)
    tmp_path.chmod(0o755)
    outcome = booted(Image("x", tmp_path, "x86_64", 64, "7.3", {}), sandboxed=False)
    assert (outcome.host.status, outcome.host.reason) == ("failed", "emulator"), outcome.host


def test_nothing_is_left_when_kdyno_is_killed(built: Built, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kdyno", "run", EXPERIMENT, "--runs", tmp_path]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None and not descendants(b"-icount"):
            os.sched_yield()
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    while descendants(b"-icount"):
        os.sched_yield()  # the kernel takes down the sandbox of a parent that is gone
