# SPDX-License-Identifier: MIT
"""Native kernels with what is this machine's: its programs by 9p, a disk by virtio-blk."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from booting import booted, case, command
from descendants import adopt
from real_kernels import built_kernels

from kdyno.kernels.image import Image
from kdyno.machines import emulator
from kdyno.machines.program import guest_program
from kdyno.paths import cache_root
from kdyno.suites.record import Sample

EXPERIMENT = Path(__file__).with_name("known.toml")
pytestmark = [pytest.mark.qemu, pytest.mark.uml, pytest.mark.needs("qemu-system-x86_64")]


@pytest.fixture(scope="module")
def stock() -> Image:
    return built_kernels(EXPERIMENT).images["stock"]


@pytest.fixture(scope="module", autouse=True)
def _guests_of_its_own() -> None:
    adopt()


def said(found: object) -> str:
    assert isinstance(found, Sample), found
    return found.extra["stdout"]


def test_a_guest_runs_this_machines_programs_and_sees_no_more_than_they_need(stock: Image) -> None:
    look = "sort /etc/passwd | head -n 1; ls /tmp /ro* /run/kdyno; find / -xdev -name kdyno.job"
    outcome = booted(
        stock,
        command("sh", "-c", look),
        command("sh", "-c", "touch /usr/x 2>&1 || :; mknod /tmp/disk b 254 0 2>&1 || :"),
    )
    assert outcome.host.status == "ok", outcome.host
    first = sorted(Path("/etc/passwd").read_text().splitlines(), key=str.encode)[0]
    listed = f"{first}\n/root:\n\n/run/kdyno:\nhost\n\n/tmp:\n"
    assert said(outcome.transcript.result(0)) == listed
    refused = said(outcome.transcript.result(1))
    assert "Read-only file system" in refused and "not permitted" in refused


def test_what_a_program_costs_is_its_own_cpu_time_and_not_the_hosts(stock: Image) -> None:
    outcome = booted(stock, command("sleep", "0.2"), case("shell", "1", operations=5))
    slept, script = outcome.transcript.result(0), outcome.transcript.result(1)
    assert isinstance(slept, Sample) and isinstance(script, Sample)
    assert sum(count for _, count in slept.reps) < 20_000_000  # and not 200 million
    each = [count / operations for operations, count in script.reps]
    assert len(each) == 5 and max(each) < 1.1 * min(each)


def test_a_case_on_a_disk_has_one_that_nobody_else_can_find(stock: Image) -> None:
    folder, seen = cache_root() / "disks", []

    def files() -> set[Path]:
        return set(folder.glob("kdyno-boot-*/in/disk"))

    before = files()
    write = "dd if=/dev/zero of=/run/disk/file bs=4k count=100 conv=fsync 2>&1; df -T /run/disk"
    outcome = booted(
        stock,
        command("sh", "-c", write),
        disk_bytes=64 << 20,
        listener=lambda _case: seen.append(files() - before),
    )
    assert outcome.host.status == "ok", outcome.host
    assert "409600 bytes" in said(outcome.transcript.result(0))
    assert "ext4" in said(outcome.transcript.result(0))
    assert seen == [set()]  # gone as soon as the guest has greeted


def test_suites_of_programs_and_of_a_disk_are_counted_where_somebody_insists(
    tmp_path: Path,
) -> None:
    text = EXPERIMENT.read_text(encoding="utf-8")
    head, tail = text.index("[[suite]]"), text.index("[measure]")
    suites = """[[suite]]
name = "hackbench"
cases = ["pipes"]

[[suite]]
name = "fio"
cases = ["write-4k"]

"""
    file = tmp_path / "programs.toml"
    text = text[:head] + suites + text[tail:] + "insist = true\nmax_boots = 2\n"
    file.write_text(text.replace('"128M"', '"256M"'))
    found = tmp_path / "verdict.json"
    line = [sys.executable, "-m", "kdyno", "run", file, "--quick", "--runs", tmp_path / "runs"]
    done = subprocess.run(
        [*line, "--json", found], capture_output=True, text=True, timeout=600, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(found.read_text())
    effects = {it["case"]: it for it in verdict["effects"]}
    assert {it["unit"] for it in effects.values()} == {"instructions/operation"}
    assert all(1e6 < it["value"] < 1e10 for it in effects.values())
    first, second = [it["text"] for it in verdict["flags"] if it["kind"] == "not-decided"]
    assert "hackbench/pipes: how often" in first and "fio/write-4k: it waits" in second


def test_an_emulated_clock_goes_by_the_time_stamp_counter(stock: Image) -> None:
    """How far its seconds are from the host's is for `benchmarks.counting clock`."""
    khz = emulator.ticks_khz(guest_program(cache_root(), 64))
    if khz == 0:
        pytest.skip("this CPU's time-stamp counter does not always go alike")
    source = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
    outcome = booted(stock, command("cat", source), way="tcg", ticks_khz=khz)
    assert outcome.host.status == "ok", outcome.host
    assert said(outcome.transcript.result(0)) in ("tsc-early\n", "tsc\n")
    assert outcome.host.host_clock_s is not None and outcome.host.guest_clock_s is not None
