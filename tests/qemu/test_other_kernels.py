# SPDX-License-Identifier: MIT
"""Native kernels besides x86-64 by GCC: i386, 32-bit programs on both, and kernels by clang."""

from __future__ import annotations

from pathlib import Path

import pytest
from booting import booted, case, command
from descendants import adopt
from real_kernels import built_or_skipped

from kdyno.kernels.image import Image
from kdyno.measure.builder import Built
from kdyno.paths import data_root
from kdyno.suites.record import CaseError, Sample

WORD_SIZE = data_root() / "experiments" / "word-size.toml"
COMPILERS = Path(__file__).with_name("compilers.toml")
pytestmark = [pytest.mark.qemu, pytest.mark.uml, pytest.mark.needs("qemu-system-x86_64")]
JOB = (case("syscall"), case("pipe", operations=2000), case("dhry2reg", operations=20_000))


@pytest.fixture(scope="module", autouse=True)
def _guests_of_its_own() -> None:
    adopt()


@pytest.fixture(scope="module")
def sizes() -> Built:
    what = "an i386 and an x86-64 kernel, eight minutes to build"
    return built_or_skipped(WORD_SIZE, "KDYNO_TEST_KERNELS", what)


@pytest.fixture(scope="module")
def compilers() -> Built:
    what = "a kernel by clang, five minutes to build"
    return built_or_skipped(COMPILERS, "KDYNO_TEST_KERNELS", what)


def counted(image: Image, word_bits: int = 0) -> list[float]:
    """Instructions of an operation of each case of JOB: what most parts agree in, or the least."""
    outcome = booted(image, *JOB, word_bits=word_bits)
    assert outcome.host.status == "ok", outcome.host
    found = []
    for number in range(len(JOB)):
        sample = outcome.transcript.result(number)
        assert isinstance(sample, Sample), sample
        found.append(min(ns / operations for operations, ns in sample.reps))
    return found


@pytest.mark.parametrize(
    ("variant", "word_bits", "machine"),
    [("32-on-32", 32, "i686"), ("32-on-64", 32, "x86_64"), ("64-on-64", 64, "x86_64")],
)
def test_each_kernel_boots_with_each_program(
    sizes: Built, variant: str, word_bits: int, machine: str
) -> None:
    hello = booted(sizes.images[variant], word_bits=word_bits).transcript.hello
    assert hello is not None and hello.release.startswith("7.3")
    assert (hello.machine, hello.word_bits, hello.cpus) == (machine, word_bits, 1)


def test_one_32_bit_program_counts_the_same_on_both_but_for_the_kernels_own(sizes: Built) -> None:
    small = counted(sizes.images["32-on-32"], 32)
    large = counted(sizes.images["32-on-64"], 32)
    assert counted(sizes.images["32-on-32"], 32) == small
    assert counted(sizes.images["32-on-64"], 32) == large
    own = counted(sizes.images["64-on-64"], 64)
    syscall, pipe, control = (after / before for before, after in zip(small, large, strict=True))
    # The path through the 64-bit kernel is shorter, see docs/experiments/word-size.md.
    assert 0.7 < syscall < 0.95 and 0.7 < pipe < 0.95
    assert control == pytest.approx(1.0, abs=1e-4)
    assert own[2] < 0.7 * small[2]  # another program: its 64-bit build


def test_an_i386_kernel_ends_a_case_that_crashes_and_tells_a_panic(sizes: Built) -> None:
    image = sizes.images["32-on-32"]
    outcome = booted(image, case("fault-segv"), case("pipe"), case("fault-panic"))
    crash, after = outcome.transcript.result(0), outcome.transcript.result(1)
    assert isinstance(crash, CaseError) and isinstance(after, Sample)
    assert (outcome.host.status, outcome.host.reason) == ("failed", "panic"), outcome.host
    assert "Kernel panic" in outcome.host.text


def test_a_kernel_by_clang_says_so_and_counts_as_exactly(compilers: Built) -> None:
    clang, gcc = compilers.images["clang"], compilers.images["gcc"]
    console = booted(clang, command("true"), cmdline="loglevel=7").console.decode()
    assert "clang version" in console and "GNU ld" not in console.split("clang version")[0]
    first = counted(clang)
    assert counted(clang) == first
    syscall, pipe, control = (
        after / before for before, after in zip(counted(gcc), first, strict=True)
    )
    assert syscall != 1.0 and pipe != 1.0 and 0.9 < syscall < 1.1 and 0.9 < pipe < 1.1
    assert control == pytest.approx(1.0, abs=1e-4)
