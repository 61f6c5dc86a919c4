# SPDX-License-Identifier: MIT
"""Guests that go wrong in every way: each is a failed boot or case with its reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import real_guests
from conftest import uml_processes
from real_guests import Image, Outcome, case, command, folder_for_all, output_of, sample_of

from kdyno.machines.guest import guest_program
from kdyno.paths import cache_root
from kdyno.suites.job import CaseJob
from kdyno.suites.protocol import CaseError

pytestmark = pytest.mark.uml


def booted(image: Image, *cases: CaseJob, memory: int = 128 << 20, **more: Any) -> Outcome:
    outcome = real_guests.booted(image, *cases, memory_bytes=memory, **more)
    assert uml_processes() == []
    return outcome


def reason_of(outcome: Outcome) -> str:
    """Of a failed boot."""
    assert outcome.host.status == "failed", outcome.host
    return outcome.host.reason


def error_of(outcome: Outcome, number: int) -> str:
    result = outcome.transcript.result(number)
    assert isinstance(result, CaseError)
    return result.reason


def test_an_empty_job_boots_and_says_what_it_is(stock: Image) -> None:
    outcome = booted(stock)
    assert outcome.host.status == "ok", outcome.host
    hello = outcome.transcript.hello
    assert hello is not None
    assert hello.release.startswith("7.3")
    assert (hello.word_bits, hello.cpus) == (64, 1)
    assert 80_000 < hello.mem_kb <= 128 << 10


@pytest.mark.parametrize("sandboxed", [True, False])
@pytest.mark.parametrize("mode", ["seccomp", "ptrace"])
def test_a_case_is_measured_in_both_modes_with_and_without_sandbox(
    stock: Image, mode: str, sandboxed: bool
) -> None:
    outcome = booted(stock, case("pipe"), mode=mode, sandboxed=sandboxed)
    assert outcome.host.status == "ok", outcome.host
    assert len(sample_of(outcome).reps) >= 5
    # The host's accounting of the whole process tree must see what the guest burnt.
    assert outcome.host.user_s is not None and outcome.host.sys_s is not None
    assert outcome.host.user_s + outcome.host.sys_s > 0


def test_a_panic_is_a_failed_boot_with_the_kernels_own_words(stock: Image) -> None:
    outcome = booted(stock, case("pipe"), case("fault-panic"), memory=64 << 20)
    assert reason_of(outcome) in ("panic", "oom"), outcome.host
    assert "Kernel panic" in outcome.host.text + outcome.host.console_tail
    sample_of(outcome)


@pytest.mark.parametrize(
    ("init", "limit_s", "reasons"),
    [
        ("/nowhere/init", 30, ("init-died",)),
        ("/bin/true", 30, ("init-died",)),
        # It floods its console first; either way kdyno ends it and says which.
        ("/usr/bin/yes", 3, ("flood", "hang")),
    ],
)
def test_an_init_that_is_missing_dies_or_loops_is_reported(
    stock: Image, init: str, limit_s: float, reasons: tuple[str, ...]
) -> None:
    outcome = booted(stock, cmdline=f"init={init}", limit_s=limit_s)
    assert reason_of(outcome) in reasons, outcome.host


def test_a_word_that_the_kernel_does_not_know_is_flagged(stock: Image) -> None:
    outcome = booted(stock, cmdline="mitigatons=off nosuch panic=1")
    assert outcome.host.status == "ok", outcome.host
    flags = {flag.text for flag in outcome.host.flags if flag.kind == "no-effect"}
    assert flags == {"cmdline: mitigatons=off", "cmdline: nosuch"}


def test_a_sysctl_that_is_another_than_was_wanted_refuses_the_job(stock: Image) -> None:
    wanted = (("vm.swappiness", "7"), ("kernel.sched_rr_timeslice_ms", "0"))
    outcome = booted(stock, case("pipe"), sysctl=wanted)
    assert outcome.host.reason == "job-refused", outcome.host
    assert "sysctl kernel.sched_rr_timeslice_ms = 0: it is 100" in outcome.host.text


def test_a_guest_that_stays_silent_is_killed_at_the_limit(stock: Image) -> None:
    for limit_s in (2, 15):  # a boot takes longer than two seconds on a busy machine
        outcome = booted(stock, case("idle", seconds=60, timeout_s=300), limit_s=limit_s)
        if reason_of(outcome) != "hang":
            break
    assert reason_of(outcome) == "timeout", outcome.host


def test_a_case_that_hangs_crashes_or_eats_memory_costs_only_itself(stock: Image) -> None:
    outcome = booted(
        stock,
        case("fault-hang", timeout_s=1),
        case("fault-segv"),
        case("fault-oom"),
        case("fault-exit"),
        case("pipe"),
    )
    assert outcome.host.status == "ok", outcome.host
    assert "time limit of 1 s" in error_of(outcome, 0)
    assert "signal 11" in error_of(outcome, 1).lower() or "segm" in error_of(outcome, 1).lower()
    error_of(outcome, 2)
    error_of(outcome, 3)
    sample_of(outcome, 4)


def test_a_guest_that_prints_100_mb_is_ended_and_little_of_it_kept(stock: Image) -> None:
    outcome = booted(stock, CaseJob("test", "flood", "fault-flood", (), None, 100, 20.0))
    assert reason_of(outcome) == "flood", outcome.host
    assert len(outcome.console) < 3 << 20


def test_a_guest_that_fills_its_folder_fills_nothing_of_the_hosts(
    stock: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    used = []

    def begun(_case: str) -> None:
        blocks = (file.lstat().st_blocks for file in tmp_path.rglob("*"))
        used.append(512 * sum(blocks))

    cases = (case("fault-fill", timeout_s=60), case("pipe"))
    outcome = booted(stock, *cases, memory=512 << 20, listener=begun)
    assert outcome.host.status == "ok", outcome.host
    sample_of(outcome, 1)
    assert len(used) == 2 and used[1] < 64 << 20


def test_a_guest_writes_nowhere_on_the_host(stock: Image) -> None:
    folders = ("/usr", "/etc", "/var/tmp", "/home", "/root", "/opt", "/srv", "/run")
    script = (
        f"for d in {' '.join(folders)}; do mount -o remount,rw / 2>/dev/null; "
        "echo x > $d/kdyno-was-here 2>/dev/null && echo $d; done; true"
    )
    sample_of(booted(stock, command("/bin/sh", "-c", script)))
    for folder in folders:
        with suppress(PermissionError):  # nobody may look there, nor write
            assert not Path(folder, "kdyno-was-here").exists()


def test_a_sysctl_is_applied_and_a_wrong_one_refused(stock: Image) -> None:
    show = command("/bin/cat", "/proc/sys/vm/swappiness")
    assert output_of(booted(stock, show, sysctl=(("vm.swappiness", "17"),))).strip() == "17"
    wrong = booted(stock, show, sysctl=(("vm.no_such_thing", "1"),))
    assert reason_of(wrong) == "job-refused" and "no_such_thing" in wrong.host.text


def free_pages(image: Image, **more: Any) -> tuple[int, int]:
    """(pages that were scattered, free ones that lie between two that are taken)."""
    outcome = booted(image, command("cat", "/proc/buddyinfo"), memory=512 << 20, **more)
    hello = outcome.transcript.hello
    assert hello is not None
    alone = sum(int(line.split()[4]) for line in output_of(outcome).splitlines())
    return hello.scattered, alone


def test_pages_lie_apart_where_they_are_scattered(stock: Image) -> None:
    assert free_pages(stock) == (0, pytest.approx(0, abs=300))
    # 32 MiB: an eighth of the free pages have both neighbours taken, and more only one.
    scattered, alone = free_pages(stock, draw=7)
    assert scattered == 8192 and alone > 1500


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_boots_in_the_sandbox(stock: Image, tmp_path: Path) -> None:
    kernel = shutil.copy(stock.kernel, tmp_path / "linux")
    program = shutil.copy(guest_program(cache_root(), 64), tmp_path / "guest")
    folder_for_all(tmp_path)
    cache = tmp_path / "cache"
    cache.mkdir()
    os.chown(cache, 65534, 65534)
    code = (
        "import sys; sys.path.insert(0, sys.argv[3])\n"
        "from pathlib import Path\n"
        "from kdyno.machines.guest import boot\nfrom kdyno.machines.uml import UmlBoot\n"
        "from kdyno.machines.cpus import place\n"
        "from kdyno.suites.job import Job\n"
        "kernel, program = map(Path, sys.argv[1:3])\n"
        "made = boot(UmlBoot(kernel=kernel, program=program, job=Job(), placement=place(1)))\n"
        "print(made.host.status, made.host.reason, made.host.text)\n"
    )
    source = Path(__file__).parents[2] / "src"
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    readable = subprocess.run(
        [*become, sys.executable, "-c", "import pydantic"], capture_output=True
    )
    if readable.returncode != 0:
        pytest.skip("this Python cannot be read by an ordinary user")
    done = subprocess.run(
        [*become, sys.executable, "-c", code, str(kernel), str(program), str(source)],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "KDYNO_CACHE": str(cache)},
    )
    assert done.stdout.split()[:1] == ["ok"], done.stdout + done.stderr
