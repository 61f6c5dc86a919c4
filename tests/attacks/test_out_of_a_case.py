# SPDX-License-Identifier: MIT
"""Cases on the running kernel, and a guest whose first process is the attacker's own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from arms import Arm, both
from descendants import adopt, descendants
from real_guests import Image, booted, case
from real_kernels import built_kernels

from kdyno.machines.guest import guest_program
from kdyno.paths import cache_root
from kdyno.sandbox import GUEST, HOST

pytestmark = pytest.mark.needs("sandbox", "gcc")
LIMIT_S = 120
ON_THE_HOST = """
import sys
from pathlib import Path
from kdyno.machines.cpus import place
from kdyno.machines.guest import boot
from kdyno.machines.host import HostJob
from kdyno.suites.job import CaseJob, Job
program, script = sys.argv[1:]
case = CaseJob("attack", "it", "run", ("--figure", "printed", "--", "sh", "-c", script), None, 1)
made = boot(HostJob(program=Path(program), job=Job((case,)), placement=place(1)))
print(made.host.status, made.host.text, *made.transcript.results, sep="\\n")
"""
IN_A_GUEST = """
import sys
from pathlib import Path
from kdyno.machines.cpus import place
from kdyno.machines.guest import boot
from kdyno.machines.uml import UmlBoot
from kdyno.suites.job import Job
folder, kernel, program = map(Path, sys.argv[1:])
made = boot(UmlBoot(
    kernel=kernel, program=program, job=Job(), placement=place(1),
    memory_bytes=128 << 20, limit_s=60,
    shared=((folder, "attack"),), cmdline="init=/tmp/shared/attack/init",
))
sys.stdout.write(made.console.decode("utf-8", "replace"))
"""
INIT = """#!/bin/sh
# SPDX-License-Identifier: MIT
# The first process of a guest, root with every right that the kernel under test has to give.
alias mount=/tmp/shared/attack/mount
mount -t devtmpfs devtmpfs /dev
exec > /dev/console 2>&1
mount -t proc proc /proc
mount -t tmpfs tmpfs /mnt
mkdir /mnt/host
mount -t hostfs hostfs /mnt/host -o / && echo "mounted the host"
mount -o remount,rw / && echo "root is writable, says the guest"
for root in "" /mnt/host; do
    for file in /etc/passwd /usr/bin/env /proc/sys/kernel/core_pattern /proc/sysrq-trigger \\
        /tmp/linux /tmp/kdyno-guest /tmp/shared/attack/init; do
        [ -e $root$file ] && [ $root$file != /proc/sys/kernel/core_pattern ] &&
            [ $root$file != /proc/sysrq-trigger ] && (: >> $root$file) && echo "DID open $root$file"
    done
    for folder in /etc /usr /opt /home /root /var; do
        (: > $root$folder/kdyno-attack) && echo "DID make $root$folder/kdyno-attack"
    done
done
chmod 0666 /mnt/host/dev/null && echo "DID change the null device"
ln /mnt/host/tmp/linux /mnt/host/tmp/link && echo "DID link"
(: > /mnt/host/tmp/mine) && echo "owner $(stat -c %u /mnt/host/tmp/mine)"
[ -e /mnt/host/proc/1 ] && echo "DID see a process of the host's"
echo "tried all"
"""


def run(argv: list[str]) -> str:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def program_in(folder: Path) -> Path:
    """A copy of the guest program: what is attacked is not the one that others run."""
    return Path(shutil.copy(guest_program(cache_root(), 64), folder / "guest"))


@pytest.mark.slow
@both
def test_a_case_on_the_host_cannot_make_it_writable(arm: Arm) -> None:
    with arm.place() as folder:
        mark, program = folder / "mark", program_in(folder)
        before = program.read_bytes()
        script = (
            f"mount -o remount,bind,rw / && echo x > {mark};"
            "mount -o remount,bind,rw /tmp/kdyno-guest && echo x >> /tmp/kdyno-guest;"
            "echo user $(id -u) $(id -G); echo error > /dev/stderr; echo tried all"
        )
        out = run(arm.python("-c", ON_THE_HOST, str(program), script, reads=[folder]))
        assert out.startswith("ok"), out
        assert f"user {HOST.uid} {HOST.uid}" in out and "tried all" in out, out
        assert not mark.exists()
        assert program.read_bytes() == before


@pytest.fixture(scope="module")
def stock() -> Image:
    return built_kernels().images["stock"]


@pytest.mark.uml
@both
def test_a_guest_of_its_own_making_writes_nothing_on_the_host(arm: Arm, stock: Image) -> None:
    with arm.place() as folder:
        kernel = Path(shutil.copy(stock.kernel, folder / "linux"))
        program, shared = program_in(folder), folder / "shared"
        shared.mkdir()
        (shared / "init").write_text(INIT)
        # An ordinary user's sandbox shows root's files as nobody's, and so would mount run.
        shutil.copy("/bin/mount", shared)
        for file in shared.iterdir():
            file.chmod(0o755)
        before = (kernel.read_bytes(), program.read_bytes())
        out = run(arm.python("-c", IN_A_GUEST, str(shared), str(kernel), str(program)))
        assert "tried all" in out, out
        assert "mounted the host" in out
        assert [line for line in out.splitlines() if "DID" in line] == [], out
        assert f"owner {GUEST.uid}" in out, out
        assert (kernel.read_bytes(), program.read_bytes()) == before
        assert sorted(path.name for path in shared.iterdir()) == ["init", "mount"]


@pytest.mark.uml
def test_a_kernel_that_stands_still_is_ended_and_leaves_nothing(stock: Image) -> None:
    adopt()
    stopped: list[int] = []

    def begun(_case: str) -> None:
        stopped.extend(descendants(b"kdyno.job="))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)

    long = case("pipe", seconds=1.0, timeout_s=1.0)
    for limit_s in (5, 25, 125):  # a busy machine has not come to the case in the first
        outcome = booted(stock, long, memory_bytes=128 << 20, limit_s=limit_s, listener=begun)
        if stopped:
            break
    assert stopped and outcome.host.status == "failed"
    assert "killed" in outcome.host.text
    assert descendants(b"kdyno.job=") == []
