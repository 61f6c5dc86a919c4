# SPDX-License-Identifier: MIT
"""A program that is root in a booted guest, against the kernel's process and the results.

Each way that from_a_guest.c goes was open once, and one of them ended in a run that said ok with
a forged figure.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import attacker
import pytest
from attacker import assert_honest, assert_rights, results_of
from real_guests import Image, Outcome, booted, case, command, output_of
from real_kernels import EVERYTHING, built_kernels

pytestmark = pytest.mark.uml

HONEST = case("pipe")


@pytest.fixture(scope="module")
def stock() -> Image:
    return built_kernels().images["stock"]


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the guest: the attacker, and where root runs the tests a device node."""
    folder = tmp_path_factory.mktemp("attack")
    attacker.build(folder)
    if os.geteuid() == 0:
        os.mknod(folder / "node", 0o020666, os.makedev(4, 1))
    return folder


def attacked(
    image: Image, folder: Path, *words: str, cmdline: str = "", disk_bytes: int = 0
) -> Outcome:
    """A boot with the attacker as its first case and an honest case behind it."""
    attack = command("/run/kdyno/attack/from-a-guest", *words)
    shared = ((folder, "attack"),)
    return booted(image, attack, HONEST, cmdline=cmdline, shared=shared, disk_bytes=disk_bytes)


def test_no_way_leads_to_the_first_process_a_device_or_a_mount(stock: Image, attack: Path) -> None:
    disk_bytes = 64 << 20 if shutil.which("mkfs.ext4", path="/usr/sbin:/sbin:/usr/bin") else 0
    outcome = attacked(stock, attack, disk_bytes=disk_bytes)
    assert_honest(outcome)
    results = results_of(outcome)
    # The first process gets no signal that it has not asked for: these two do nothing to it.
    assert {way for way, came in results.items() if came == "done"} == {"kill init", "stop init"}
    assert results["a node of the host's"] == ("EACCES" if os.geteuid() == 0 else "ENOENT")
    assert results["make a node"] == "EPERM"
    assert (
        results["mount hostfs"] == results["mount devtmpfs"] == results["unmount /proc"] == "EPERM"
    )
    assert results["mem of init"] == results["mem of the harness"] == "EACCES"
    assert {came for way, came in results.items() if way.startswith("/dev/")} == {"ENOENT"}
    assert results["replace /dev/null"] == "EROFS"


def test_a_case_has_the_rights_of_files_and_processes_and_no_others(
    stock: Image, attack: Path
) -> None:
    assert_rights(results_of(attacked(stock, attack)))


def test_what_the_kernel_starts_by_itself_has_no_rights(stock: Image) -> None:
    sets = "/proc/sys/kernel/usermodehelper"
    files = command("cat", f"{sets}/bset", f"{sets}/inheritable")
    assert output_of(booted(stock, files)).split() == ["0"] * 4


def test_no_record_can_be_forged(stock: Image, attack: Path) -> None:
    outcome = attacked(stock, attack, "forge")
    assert_honest(outcome)
    results = results_of(outcome)
    assert results["secret"] == "not found"
    assert results["channel"] == ("EACCES" if os.geteuid() == 0 else "ENOENT")


def test_not_even_the_first_process_reaches_the_kernels_own_memory(
    stock: Image, attack: Path
) -> None:
    """With every right in the guest, and hostfs: the sandbox has no /proc to be shown."""
    outcome = attacked(stock, attack, cmdline="init=/tmp/shared/attack/from-a-guest")
    lines = outcome.console.decode().splitlines()
    tried = [line for line in lines if "mem: " in line or "fd/0: " in line]
    assert len(tried) == 12, lines
    assert {line.partition(": ")[2] for line in tried} <= {"ENOENT", "ENOTDIR"}
    assert "/proc: mounted" in lines


def test_namespaces_and_cores_give_no_rights_back(attack: Path) -> None:
    """In a user namespace a case is root again, and a core's program starts with all rights."""
    outcome = attacked(built_kernels(EVERYTHING).images["all"], attack)
    assert_honest(outcome)
    results = results_of(outcome)
    done = {way for way, came in results.items() if came == "done"}
    assert done == {"kill init", "stop init", "user namespace"}
    within = {way: came for way, came in results.items() if way.startswith("in a namespace")}
    assert len(within) == 5 and set(within.values()) <= {"EPERM", "EINVAL"}
    assert results["core_pattern"].split() == ["CapEff:", "0" * 16]


def test_a_case_still_does_what_programs_of_root_do(stock: Image) -> None:
    script = (
        "set -e; cd /tmp; touch file; chown 65534:65534 file; chmod 4755 file; ulimit -n 100000; "
        "nice -n -5 true; setpriv --reuid=65534 --regid=65534 --clear-groups id -u; "
        "echo 1 > /proc/sys/vm/drop_caches; stat -c %a:%u file"
    )
    outcome = booted(stock, command("sh", "-c", script))
    assert output_of(outcome).split() == ["65534", "4755:65534"]


def test_no_console_of_the_machine_is_in_reach(stock: Image) -> None:
    """User Mode Linux can be stopped, configured and read through its management console, a socket
    in its folder, which hostfs would show; the filter of sockets leaves none to be made."""
    script = "find / -xdev '(' -type s -o -name 'mconsole*' ')' 2>/dev/null; true"
    assert output_of(booted(stock, command("sh", "-c", script))) == ""
