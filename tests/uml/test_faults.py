# SPDX-License-Identifier: MIT
"""Guests that go wrong in every way: each is a failed boot or case with its reason."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import uml_processes

from kdyno.kernels.image import Image
from kdyno.machines.cpus import place
from kdyno.machines.program import guest_program
from kdyno.machines.uml import Outcome, UmlBoot, boot
from kdyno.paths import cache_root
from kdyno.suites.job import CaseJob, Job
from kdyno.suites.record import CaseError, Sample

pytestmark = pytest.mark.uml


def case(bench: str, *args: str, seconds: float = 0.05, timeout_s: float = 20.0) -> CaseJob:
    return CaseJob("test", bench, bench, args, seconds, None, timeout_s)


def booted(
    image: Image,
    *cases: CaseJob,
    memory: int = 128 << 20,
    cmdline: str = "",
    limit_s: float | None = None,
    sandboxed: bool = True,
    mode: str = "seccomp",
    sysctl: tuple[tuple[str, str], ...] = (),
    cpus: int = 1,
) -> Outcome:
    outcome = boot(
        UmlBoot(
            kernel=image.kernel,
            program=guest_program(cache_root(), image.word_bits),
            job=Job(cases, sysctl),
            placement=place(cpus),
            memory_bytes=memory,
            cmdline=cmdline,
            mode=mode,
            sandboxed=sandboxed,
            limit_s=limit_s,
        )
    )
    assert uml_processes() == []
    return outcome


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
    result = outcome.transcript.result(0)
    assert isinstance(result, Sample)
    assert len(result.reps) >= 5
    # The host's accounting of the whole process tree must see what the guest burnt.
    assert outcome.host.user_s is not None and outcome.host.sys_s is not None
    assert outcome.host.user_s + outcome.host.sys_s > 0


def test_a_panic_is_a_failed_boot_with_the_kernels_own_words(stock: Image) -> None:
    outcome = booted(stock, case("pipe"), case("fault-panic"), memory=64 << 20)
    assert outcome.host.status == "failed"
    assert outcome.host.reason in ("panic", "oom"), outcome.host
    assert "Kernel panic" in outcome.host.text or "Kernel panic" in outcome.host.console_tail
    assert isinstance(outcome.transcript.result(0), Sample)


def test_a_kernel_that_finds_no_init_is_told_so(stock: Image) -> None:
    outcome = booted(stock, cmdline="init=/nowhere/init", limit_s=30)
    assert outcome.host.status == "failed"
    assert outcome.host.reason == "init-died", outcome.host


def test_an_init_that_dies_at_once_is_told_so(stock: Image) -> None:
    outcome = booted(stock, cmdline="init=/bin/true", limit_s=30)
    assert (outcome.host.status, outcome.host.reason) == ("failed", "init-died"), outcome.host


def test_an_init_that_loops_is_a_hang(stock: Image) -> None:
    outcome = booted(stock, cmdline="init=/usr/bin/yes", limit_s=3)
    # `yes` floods its console first; either way kdyno ends it and says which.
    assert outcome.host.status == "failed"
    assert outcome.host.reason in ("flood", "hang"), outcome.host


def test_a_guest_that_stays_silent_is_killed_at_the_limit(stock: Image) -> None:
    outcome = booted(stock, case("idle", seconds=60, timeout_s=300), limit_s=2)
    assert (outcome.host.status, outcome.host.reason) == ("failed", "timeout"), outcome.host


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
    assert "1" in error_of(outcome, 0)
    assert "signal 11" in error_of(outcome, 1).lower() or "segm" in error_of(outcome, 1).lower()
    error_of(outcome, 2)
    error_of(outcome, 3)
    assert isinstance(outcome.transcript.result(4), Sample)


def test_a_guest_that_prints_100_mb_is_ended_and_little_of_it_kept(stock: Image) -> None:
    outcome = booted(stock, CaseJob("test", "flood", "fault-flood", (), None, 100, 20.0))
    assert (outcome.host.status, outcome.host.reason) == ("failed", "flood"), outcome.host
    assert len(outcome.console) < 3 << 20


def test_a_guest_that_fills_its_folder_fills_nothing_of_the_hosts(stock: Image) -> None:
    before = shutil.disk_usage("/tmp").free
    outcome = booted(stock, case("fault-fill", timeout_s=60), case("pipe"), memory=512 << 20)
    assert outcome.host.status == "ok", outcome.host
    assert isinstance(outcome.transcript.result(1), Sample)
    assert before - shutil.disk_usage("/tmp").free < 64 << 20


def test_a_guest_writes_nowhere_on_the_host(stock: Image, tmp_path: Path) -> None:
    script = (
        "for d in /usr /etc /var/tmp /home /root /opt /srv /run; do "
        "mount -o remount,rw / 2>/dev/null; echo x > $d/kdyno-was-here 2>/dev/null && echo $d; "
        "done; true"
    )
    outcome = booted(stock, case("run", "--", "/bin/sh", "-c", script, timeout_s=60))
    result = outcome.transcript.result(0)
    assert isinstance(result, Sample), outcome.host
    for folder in ("/usr", "/etc", "/var/tmp", "/home", "/root", "/opt", "/srv", "/run"):
        with suppress(PermissionError):  # nobody may look there, nor write
            assert not Path(folder, "kdyno-was-here").exists()


def test_a_sysctl_is_applied_and_a_wrong_one_refused(stock: Image) -> None:
    show = case("run", "--", "/bin/cat", "/proc/sys/vm/swappiness")
    outcome = booted(stock, show, sysctl=(("vm.swappiness", "17"),))
    result = outcome.transcript.result(0)
    assert isinstance(result, Sample), outcome.host
    assert result.extra["stdout"].strip() == "17"
    wrong = booted(stock, show, sysctl=(("vm.no_such_thing", "1"),))
    assert (wrong.host.status, wrong.host.reason) == ("failed", "job-refused"), wrong.host
    assert "no_such_thing" in wrong.host.text


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_boots_in_the_sandbox(stock: Image, tmp_path: Path) -> None:
    kernel = shutil.copy(stock.kernel, tmp_path / "linux")
    program = shutil.copy(guest_program(cache_root(), 64), tmp_path / "guest")
    for folder in [tmp_path, *tmp_path.parents]:
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o555)
    code = (
        "import sys; sys.path.insert(0, sys.argv[3])\n"
        "from pathlib import Path\n"
        "from kdyno.machines.uml import UmlBoot, boot\n"
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
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"},
    )
    assert done.stdout.split()[:1] == ["ok"], done.stdout + done.stderr
