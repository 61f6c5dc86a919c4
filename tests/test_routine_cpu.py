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
FLAGS = frozenset({"fpu", "sse2", "avx2", "amx_tile"})
NOTHING = cpu.Cpu("", "", frozenset())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TWO, cpu.Cpu("Some CPU : 3 GHz", "0x2b000603", FLAGS, "GenuineIntel")),
        ("Features\t: fp asimd\n", cpu.Cpu("", "", frozenset({"fp", "asimd"}))),  # ARM's word
        *((text, NOTHING) for text in ("", "\n\n\n", "garbage without a colon\n", "flags:\n")),
    ],
)
def test_the_first_processor_is_read(text: str, expected: cpu.Cpu) -> None:
    assert cpu.parse_cpuinfo(text) == expected


def test_missing_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "this_cpu", lambda: cpu.parse_cpuinfo(TWO))
    assert cpu.missing(("avx512vl", "sse2", "avx512f")) == ("avx512vl", "avx512f")
    assert cpu.missing(()) == ()
    assert cpu.has_amx()


def test_a_machine_without_cpuinfo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "CPUINFO", cpu.CPUINFO.parent / "no-such-file")
    assert cpu.this_cpu.__wrapped__() == NOTHING


def test_flags_of_a_compiler_name_the_features_that_their_code_needs() -> None:
    assert cpu.needed_by("-O3 -msse2 -mavx2 -mavx512bw -mprefer-vector-width=512 -mno-avx") == (
        "sse2", "avx2", "avx512bw",
    )  # fmt: skip
    assert cpu.needed_by("-O2") == ()
