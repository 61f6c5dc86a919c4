# SPDX-License-Identifier: MIT
"""CPU time of processes by the host's accounting."""

from __future__ import annotations

import os
import subprocess
import sys

from kdyno.machines.process import CpuTime

WORKS = "import sys\nfor _ in sys.stdin:\n sum(range(300000)); print(flush=True)\n"


def test_it_counts_what_the_process_does_and_not_what_it_waits() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        meter = CpuTime([child.pid])
        begun_ns = meter.ns()
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        worked_ns = meter.ns() - begun_ns
        assert begun_ns > 0 and worked_ns > 0
        still_ns = meter.ns()
        sum(range(600_000))  # by us, who are not counted
        assert meter.ns() - still_ns < worked_ns
        child.stdin.close()
        child.wait()
        assert meter.ns() == 0
        meter.close()


def test_nobody_and_who_is_gone_have_none() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    meter = CpuTime([child.pid])
    assert meter.ns() == CpuTime().ns() == 0
    own = CpuTime([os.getpid()])
    assert own.ns() > 0
    own.close()
    assert own.ns() == 0
