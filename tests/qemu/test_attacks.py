# SPDX-License-Identifier: MIT
"""A program that is root in a guest in QEMU, against the guest's first process and the results.

The same attacker as under User Mode Linux (tests/attacks/test_from_a_guest.py), where each of its
ways was open once. Here the kernel is no process of the sandbox: devices and records are left.
"""

from __future__ import annotations

import threading
from pathlib import Path

import attacker
import pytest
from attacker import assert_honest, assert_rights, results_of
from booting import booted, case, command
from descendants import adopt
from real_kernels import built_kernels

from kdyno.kernels.image import Image
from kdyno.machines.process import Outcome
from kdyno.suites.protocol import Sample

pytestmark = [pytest.mark.uml, pytest.mark.qemu, pytest.mark.needs("gcc", "qemu-system-x86_64")]


@pytest.fixture(scope="module")
def stock() -> Image:
    return built_kernels(Path(__file__).with_name("known.toml")).images["stock"]


@pytest.fixture(scope="module", autouse=True)
def _guests_of_its_own() -> None:
    adopt()


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack")
    attacker.build(folder)
    return folder


def attacked(image: Image, folder: Path, *words: str) -> Outcome:
    """The attacker as the first case and an honest case behind it."""
    first = command("/run/kdyno/attack/from-a-guest", *words)
    return booted(image, first, case("pipe"), shared=((folder, "attack"),), limit_s=100.0)


def test_no_way_leads_to_the_first_process_a_device_or_a_mount(stock: Image, attack: Path) -> None:
    outcome = attacked(stock, attack)
    assert_honest(outcome)
    results = results_of(outcome)
    # The first process gets no signal that it has not asked for: these two do nothing to it.
    assert {way for way, came in results.items() if came == "done"} == {"kill init", "stop init"}
    assert results["make a node"] == results["mount hostfs"] == results["mount devtmpfs"] == "EPERM"
    assert results["unmount /proc"] == results["user namespace"] == results["trace init"] == "EPERM"
    assert results["mem of init"] == results["mem of the harness"] == "EACCES"
    # What records and disk go by, and what a native kernel has besides. The console stays open:
    # nobody believes what is written there.
    devices = {
        way: came for way, came in results.items() if way.startswith(("/dev/", "/proc/kcore"))
    }
    assert {"/dev/hvc0", "/dev/vport0p1", "/dev/vda", "/dev/mem"} <= set(devices)
    assert set(devices.values()) <= {"ENOENT", "ENODEV"}, devices
    assert results["replace /dev/null"] == "EROFS" and results["make / writable"] == "EPERM"


def test_a_case_has_the_rights_that_it_has_under_user_mode_linux(
    stock: Image, attack: Path
) -> None:
    assert_rights(results_of(attacked(stock, attack)))


def test_no_record_can_be_forged(stock: Image, attack: Path) -> None:
    outcome = attacked(stock, attack, "forge")
    assert_honest(outcome)
    results = results_of(outcome)
    assert results["secret"] == "not found"


def test_a_shared_folder_whose_links_change_shows_nothing_else(
    stock: Image, tmp_path: Path
) -> None:
    """9p looks a name up and opens it in two steps; in between, a file becomes a link outside."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of the host\n")
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "calm").write_text("can be read\n")
    file, fresh = folder / "file", folder / "fresh"
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            for link in (True, False):
                if link:
                    fresh.symlink_to(secret)
                else:
                    fresh.write_text("harmless\n")
                fresh.replace(file)

    thread = threading.Thread(target=swap)
    thread.start()
    script = "n=0; while [ $n -lt 150 ]; do cat /run/kdyno/shared/file; n=$((n + 1)); done"
    try:
        first = command("sh", "-c", f"(cat /run/kdyno/shared/calm; {script}) 2>&1 | sort | uniq -c")
        outcome = booted(stock, first, shared=((folder, "shared"),), limit_s=100.0)
    finally:
        ended.set()
        thread.join()
    result = outcome.transcript.result(0)
    assert isinstance(result, Sample), (result, outcome.host)
    # Half the time there is a link, which the guest follows to a file of its own that is not there.
    assert "can be read" in result.extra["stdout"]
    assert "a secret of the host" not in result.extra["stdout"]
