# SPDX-License-Identifier: MIT
"""Native kernels besides x86-64 by GCC: i386 by clang, and 32-bit programs on both."""

from __future__ import annotations

from pathlib import Path

import pytest
from booting import booted, case
from descendants import adopt
from real_kernels import built_kernels

from kdyno.kernels.image import Image
from kdyno.suites.protocol import CaseError, Sample

HERE = Path(__file__).parent
pytestmark = [
    *(pytest.mark.qemu, pytest.mark.uml),
    pytest.mark.needs("qemu-system-x86_64", "clang-19"),
]
JOB = (case("syscall"), case("pipe", operations=2000), case("dhry2reg", operations=20_000))


@pytest.fixture(scope="module", autouse=True)
def _guests_of_its_own() -> None:
    adopt()


@pytest.fixture(scope="module")
def i386() -> Image:
    return built_kernels(HERE / "small.toml").images["i386-clang"]


@pytest.fixture(scope="module")
def x86_64() -> Image:
    return built_kernels(HERE / "known.toml").images["stock"]


def counted(image: Image, word_bits: int = 0) -> list[float]:
    """Instructions of an operation of each case of JOB: what most parts agree in, or the least."""
    outcome = booted(image, *JOB, word_bits=word_bits)
    assert outcome.host.status == "ok", outcome.host
    results = []
    for number in range(len(JOB)):
        sample = outcome.transcript.result(number)
        assert isinstance(sample, Sample), sample
        results.append(min(ns / operations for operations, ns in sample.reps))
    return results


def test_each_kernel_boots_with_each_program(i386: Image, x86_64: Image) -> None:
    for image, word_bits, machine in (
        (i386, 32, "i686"),
        (x86_64, 32, "x86_64"),
        (x86_64, 64, "x86_64"),
    ):
        hello = booted(image, word_bits=word_bits).transcript.hello
        assert hello is not None and hello.release.startswith("7.3")
        assert (hello.machine, hello.word_bits, hello.cpus) == (machine, word_bits, 1)


def test_one_32_bit_program_counts_the_same_on_both_but_for_the_kernels_own(
    i386: Image, x86_64: Image
) -> None:
    small, large = counted(i386, 32), counted(x86_64, 32)
    assert counted(i386, 32) == small
    assert counted(x86_64, 32) == large
    syscall, pipe, control = (after / before for before, after in zip(small, large, strict=True))
    assert syscall != 1.0 and pipe != 1.0
    assert control == pytest.approx(1.0, abs=1e-4)
    assert counted(x86_64, 64)[2] < 0.7 * small[2]  # another program: its 64-bit build


def test_an_i386_kernel_ends_a_case_that_crashes_and_tells_a_panic(i386: Image) -> None:
    outcome = booted(i386, case("fault-segv"), case("pipe"), case("fault-panic"))
    crash, after = outcome.transcript.result(0), outcome.transcript.result(1)
    assert isinstance(crash, CaseError) and isinstance(after, Sample)
    assert (outcome.host.status, outcome.host.reason) == ("failed", "panic"), outcome.host
    assert "Kernel panic" in outcome.host.text


def test_a_kernel_by_clang_says_so(i386: Image) -> None:
    outcome = booted(i386, cmdline="loglevel=7")
    assert outcome.host.status == "ok", outcome.host
    console = outcome.console.decode()
    assert "clang version" in console and "GNU ld" not in console.split("clang version")[0]
