# SPDX-License-Identifier: MIT
"""A program that is root in a guest in QEMU, against the guest's first process and the results.

The same attacker as under User Mode Linux (tests/attacks/test_from_a_guest.py), where each of its
ways was open once. Here the kernel is no process of the sandbox: devices and records are left.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from booting import booted, case, command
from descendants import adopt
from real_kernels import built_kernels

from kdyno.kernels.image import Image
from kdyno.machines.session import Outcome
from kdyno.suites.record import Sample

pytestmark = [pytest.mark.uml, pytest.mark.qemu, pytest.mark.needs("gcc", "qemu-system-x86_64")]

SOURCE = Path(__file__).parents[1] / "attacks" / "from_a_guest.c"
FORGED = (777_000_000, 1_000_000)


@pytest.fixture(scope="module")
def stock() -> Image:
    return built_kernels(Path(__file__).with_name("known.toml")).images["stock"]


@pytest.fixture(scope="module", autouse=True)
def _guests_of_its_own() -> None:
    adopt()


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("attack")
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-static"]
    subprocess.run(["gcc", *flags, "-o", folder / "from-a-guest", SOURCE], check=True)
    return folder


def attacked(image: Image, folder: Path, *words: str) -> Outcome:
    """The attacker as the first case and an honest case behind it."""
    first = command("/run/kdyno/attack/from-a-guest", *words)
    return booted(image, first, case("pipe"), shared=((folder, "attack"),), limit_s=100.0)


def said(outcome: Outcome) -> dict[str, str]:
    """What the attacker printed: way → what came of it."""
    result = outcome.transcript.result(0)
    assert isinstance(result, Sample), (result, outcome.host)
    lines = [line.partition(":") for line in result.extra["stdout"].splitlines()]
    return {way: came.strip() for way, _, came in lines}


def assert_honest(outcome: Outcome) -> None:
    assert outcome.host.status == "ok", outcome.host
    assert outcome.transcript.complete and outcome.transcript.anomaly_texts == ()
    for number in (0, 1):
        result = outcome.transcript.result(number)
        assert isinstance(result, Sample) and FORGED not in result.reps


def test_no_way_leads_to_the_first_process_a_device_or_a_mount(stock: Image, attack: Path) -> None:
    outcome = attacked(stock, attack)
    assert_honest(outcome)
    found = said(outcome)
    # The first process gets no signal that it has not asked for: these two do nothing to it.
    assert {way for way, came in found.items() if came == "done"} == {"kill init", "stop init"}
    assert found["make a node"] == found["mount hostfs"] == found["mount devtmpfs"] == "EPERM"
    assert found["unmount /proc"] == found["user namespace"] == found["trace init"] == "EPERM"
    assert found["mem of init"] == found["mem of the harness"] == "EACCES"
    # What records and disk go by, and what a native kernel has besides. The console stays open:
    # nobody believes what is written there.
    devices = {way: came for way, came in found.items() if way.startswith(("/dev/", "/proc/kcore"))}
    assert {"/dev/hvc0", "/dev/vport0p1", "/dev/vda", "/dev/mem"} <= set(devices)
    assert set(devices.values()) <= {"ENOENT", "ENODEV"}, devices
    assert found["replace /dev/null"] == "EROFS" and found["make / writable"] == "EPERM"


def test_a_case_has_the_rights_that_it_has_under_user_mode_linux(
    stock: Image, attack: Path
) -> None:
    found = said(attacked(stock, attack))
    kept = f"{sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 10, 14, 23, 24)):016x}"
    assert {found[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {kept}
    assert (found["CapAmb"], found["NoNewPrivs"]) == ("0" * 16, "1")


def test_no_record_can_be_forged(stock: Image, attack: Path) -> None:
    outcome = attacked(stock, attack, "forge")
    assert_honest(outcome)
    found = said(outcome)
    assert found["secret"] == "not found"
