# SPDX-License-Identifier: MIT
"""What /proc/cpuinfo says, read from texts."""

from __future__ import annotations

import pytest

from kdyno.kernels import cpu

TWO = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Some CPU : 3 GHz
microcode\t: 0x2b000603
flags\t\t: fpu sse2 avx2 amx_tile

processor\t: 1
model name\t: Another
flags\t\t: fpu
"""


def test_reads_the_first_processor() -> None:
    seen = cpu.parse_cpuinfo(TWO)
    assert seen.model == "Some CPU : 3 GHz"
    assert seen.microcode == "0x2b000603"
    assert seen.flags == {"fpu", "sse2", "avx2", "amx_tile"}


@pytest.mark.parametrize("text", ["", "\n\n\n", "garbage without a colon\n", "flags:\n"])
def test_says_nothing_of_what_is_not_there(text: str) -> None:
    assert cpu.parse_cpuinfo(text) == cpu.Cpu("", "", frozenset())


def test_arm_calls_them_features() -> None:
    assert cpu.parse_cpuinfo("Features\t: fp asimd\n").flags == {"fp", "asimd"}


def test_missing_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "this_cpu", lambda: cpu.parse_cpuinfo(TWO))
    assert cpu.missing(("avx512vl", "sse2", "avx512f")) == ("avx512vl", "avx512f")
    assert cpu.missing(()) == ()
    assert cpu.has_amx()


def test_a_machine_without_cpuinfo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "CPUINFO", cpu.CPUINFO.parent / "no-such-file")
    assert cpu.this_cpu.__wrapped__() == cpu.Cpu("", "", frozenset())


def test_flags_of_a_compiler_name_the_features_that_their_code_needs() -> None:
    assert cpu.needed_by("-O3 -msse2 -mavx2 -mavx512bw -mprefer-vector-width=512 -mno-avx") == (
        "sse2", "avx2", "avx512bw",
    )  # fmt: skip
    assert cpu.needed_by("-O2") == ()
