# SPDX-License-Identifier: MIT
"""Real experiments on a box in QEMU: two kernels, every fault that was thought of, and the box
afterwards.

A boot costs most of a minute here, so one run has several faults. An agent on the box, which is
no part of kdyno, has a line of them for each boot of a kernel under test; what a machine cannot
do to itself (a network that is cut, a hang with interrupts off) it asks the test for on its
console.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import bed
import pytest
from bed import Bed
from pytest import MonkeyPatch

from kdyno.measure.loop import block_order
from kdyno.paths import cache_root
from kdyno.store.boot import BootRecord
from kdyno.store.run import list_runs

pytestmark = pytest.mark.box
SEED = 1
TEXT = """name = "faults"
question = "?"
baseline = "own"
[machine]
kind = "box"
{host}
[box]
boot_timeout = {boot_timeout}
[variant.own]
image = "deb:{folder}/own.deb"
[variant.newer]
{newer}
{variants}
{suites}
[[suite]]
name = "run"
cases = ["wait"]
command = ["perl", "-e", "sleep 6"]
[measure]
seed = {seed}
max_boots = 2
counters = {counters}
"""


def experiment(box: Bed, **other: object) -> str:
    values = {
        "host": 'host = "box"',
        "boot_timeout": 300,
        "newer": f'image = "deb:{box.disk.folder}/newer.deb"',
        "variants": "",
        "suites": "",
        "seed": SEED,
        "counters": [],
    }
    return TEXT.format(folder=box.disk.folder, **(values | other))


AGENT = r"""#!/bin/sh
read -r faults </root/faults || exit 0
sed -i 1d /root/faults
sync
[ "$faults" != nothing ] || exit 0
until grep -qsx perl /proc/[0-9]*/comm; do sleep 1; done
echo 1 >/proc/sys/kernel/sysrq
for fault in $faults; do
    case $fault in
    panic) echo c >/proc/sysrq-trigger ;;
    reboot) systemctl reboot ;;
    init) kill -SEGV 1 ;;
    refuse) echo 1 >/proc/sys/kernel/kexec_load_disabled ;;
    full) dd if=/dev/zero of=/root/full bs=1M 2>/dev/null ;;
    *) echo "bed: $fault" >/dev/ttyS0 ;;
    esac
done
"""
UNIT = """[Unit]
ConditionKernelCommandLine=kdyno.boot
[Service]
ExecStart=/bin/sh /root/agent
"""
CUT_S = 60.0
_AS_IT_WAS = "uname -r; ls /lib/modules /boot /etc/systemd/system; md5sum /boot/*"
_OURS = (
    "ls -d /var/lib/kdyno /etc/systemd/system/kdyno* /etc/systemd/system/*/kdyno*; "
    "ls -d /etc/systemd/system.conf.d; "
    "find /lib/modules -type l -lname '/var/lib/kdyno/*'; "
    "systemctl list-units --plain --no-legend 'kdyno*'; grep -sl kdyno /proc/[0-9]*/comm; "
    "cat /sys/kernel/kexec_loaded"
)


@pytest.fixture
def agent(box: Bed) -> Iterator[Bed]:
    """The box with its agent, which is no part of what the test compares."""
    enable = "/etc/systemd/system/multi-user.target.wants/bed-agent.service"
    box.put("/root/agent", AGENT)
    box.put("/etc/systemd/system/bed-agent.service", UNIT)
    assert box.ask(f"ln -sf ../bed-agent.service {enable} && sync && echo ok") == "ok"
    yield box
    box.ask("rm -f /root/full /root/faults")


@contextmanager
def watching(box: Bed, kill: list[subprocess.Popen[str]]) -> Iterator[list[str]]:
    """Does what the agent asks for on the console; what it was."""
    over, faults = threading.Event(), list[str]()
    begin = len(box.console)

    def watch() -> None:
        while not over.wait(0.5):
            words = [
                line.split()[1]
                for line in box.console[begin:].splitlines()
                if line.startswith("bed: ")
            ]
            for fault in words[len(faults) :]:
                faults.append(fault)
                if fault == "cut":
                    box.monitor("set_link net off")
                    over.wait(CUT_S)
                    box.monitor("set_link net on")
                elif fault == "hang":
                    box.hang()
                elif fault == "kill":
                    kill[0].kill()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield faults
    finally:
        over.set()
        thread.join()


def run(
    box: Bed,
    folder: Path,
    faults: Mapping[tuple[int, str], str],
    *others: str,
    more: Sequence[str] = (),
    status: int = 0,
    **text: object,
) -> tuple[list[BootRecord], list[str], str]:
    """(boots, what the test did to the box, all that kdyno printed) of one experiment.

    faults: by block and variant, of the boots that come as far as the agent; others: variants
    beside the two; status: of the last kdyno. A run whose kdyno is killed is resumed, and its box
    is left as it was.
    """
    before = box.ask(_AS_IT_WAS)
    names = ("own", "newer", *others)
    order = [(block, name) for block in range(2) for name in block_order(SEED, block, names)]
    lines = [faults[boot] for boot in order if boot in faults]
    box.put("/root/faults", "".join(f"{line}\n" for line in lines))
    file, runs = folder / "faults.toml", folder / "runs"
    file.write_text(experiment(box, **text))
    kdyno, printed = [sys.executable, "-m", "kdyno", "run", "--runs", str(runs)], ""
    argv = [*kdyno, str(file), *more]
    current: list[subprocess.Popen[str]] = []
    with watching(box, current) as done:
        while True:
            process = subprocess.Popen(
                argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            current[:] = [process]
            printed += process.communicate()[0]
            if process.returncode != -signal.SIGKILL:
                break
            argv = [*kdyno, "--resume", str(list_runs(runs)[0].path)]
    assert process.returncode == status, printed
    (one,) = list_runs(runs)
    boots = [boot for boot in one.boots() if isinstance(boot, BootRecord)]
    assert [boot.index for boot in boots] == list(range(len(boots)))
    assert len({(boot.block, boot.variant) for boot in boots}) == len(boots), "a boot counted twice"
    assert one.manifest().state == "finished"
    assert before and box.ask(_AS_IT_WAS) == before
    assert box.ask(_OURS) == "0", "something of kdyno's is left there"
    return boots, done, printed


def ends(boots: list[BootRecord]) -> dict[tuple[int, str], str]:
    return {(boot.block, boot.variant): boot.host.reason or boot.host.status for boot in boots}


def test_what_a_box_is_and_lacks_is_said_before_anything_begins(box: Bed, tmp_path: Path) -> None:
    before = box.ask(_AS_IT_WAS)

    def kdyno(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kdyno", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    examined = kdyno("doctor", "--box", "box", "--json", f"{tmp_path}/box.json")
    assert examined.returncode == 0, examined.stderr
    assert f"2 CPUs, kernel {before.split()[0]}, " in examined.stdout
    answer = json.loads((tmp_path / "box.json").read_text())
    assert answer["problems"] == [] and answer["facts"]["release"] == before.split()[0]
    assert before.split()[0] in answer["facts"]["package"]
    notes = " ".join(answer["notes"])
    # QEMU is its boot loader, and its CPU is an emulated one.
    assert "what its boot loader starts by default cannot be read" in notes
    assert "shows no hardware counters" in notes and "of no package" not in notes
    file = tmp_path / "faults.toml"
    file.write_text(experiment(box, counters=["cycles"]))
    refused = kdyno("run", "--runs", str(tmp_path / "runs"), str(file))
    assert refused.returncode == 1 and not (tmp_path / "runs").exists()
    assert "metric: cycles: its CPU, or the virtual machine" in " ".join(refused.stderr.split())
    assert (box.ask(_AS_IT_WAS), box.ask(_OURS)) == (before, "0")


def test_kernels_that_panic_hang_or_cannot_be_reached(agent: Bed, tmp_path: Path) -> None:
    image = f'image = "deb:{agent.disk.folder}/own.deb"\ncmdline = '
    variants = f"""[variant.mute]
{image}"module_blacklist=virtio_net"
[variant.dead]
{image}"init=/bin/false"
"""
    faults = {(0, "own"): "panic", (0, "newer"): "hang", (0, "mute"): "nothing"}
    # All of the box's own kernel: none has an initramfs to be made by an emulated CPU.
    text = {"newer": f'{image}"quiet"', "variants": variants, "boot_timeout": 100}
    more = ("--max-minutes", "0.05")
    boots, done, _ = run(agent, tmp_path, faults, "mute", "dead", more=more, status=1, **text)
    assert ends(boots) == {
        (0, "own"): "panic",
        (0, "newer"): "hang",
        (0, "mute"): "no-network",
        (0, "dead"): "init-died",
    }
    assert done == ["hang"]


def test_a_box_that_is_rebooted_filled_and_cut_off_and_a_kdyno_that_is_killed(
    agent: Bed, tmp_path: Path
) -> None:
    (first, second), (third, fourth) = (block_order(SEED, at, ("own", "newer")) for at in (0, 1))
    faults = {
        (0, first): "reboot",
        (0, second): "kill\ninit",  # of the boot that is cut off, and of the one after the resume
        (1, third): "refuse cut",
        (1, fourth): "full",
    }
    suites = '[[suite]]\nname = "xbench"\ncases = ["disk.sequential.write_4k"]'
    boots, done, _ = run(agent, tmp_path, faults, suites=suites)
    assert done == ["kill", "cut"]
    assert ends(boots) == {
        (0, first): "reset",
        (0, second): "ok",
        (1, third): "ok",
        (1, fourth): "ok",
    }
    assert all(sample.score for boot in boots[1:] for sample in boot.samples)


def test_two_boxes_take_blocks_in_turns(
    box: Bed, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: MonkeyPatch
) -> None:
    place = tmp_path_factory.mktemp("bed")
    with bed.running(cache_root(), place, name="second", beside=box) as second:
        monkeypatch.setenv("PATH", str(second.ssh_folder), prepend=":")
        hosts, counters = 'hosts = ["box", "second"]', '["page-faults"]'
        newer = f'image = "deb:{box.disk.folder}/own.deb"\ncmdline = "quiet mitigation=off"'
        boots, _, _ = run(box, tmp_path, {}, host=hosts, counters=counters, newer=newer)
        assert set(ends(boots).values()) == {"ok"}
        words = {boot.variant: [flag.text for flag in boot.host.flags] for boot in boots}
        assert words == {"own": [], "newer": ["cmdline: mitigation=off"]}
        for sample in (sample for boot in boots for sample in boot.samples):
            assert sample.extra["counted-page-faults-user"], "perl has none of its pages"
        (one,) = list_runs(tmp_path / "runs")
        names = [boot.job.machine.split()[-1] for boot in boots]
        assert names == ["box", "box", "second", "second"]
        assert {name.split()[-1] for name in one.manifest().machines} == {"box", "second"}
        assert second.ask(_OURS) == "0"
