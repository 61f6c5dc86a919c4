# SPDX-License-Identifier: MIT
"""gmon.out against gprof itself, and against every way of being damaged."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdyno.errors import ToolError
from kdyno.labs.profile import gmon
from kdyno.labs.profile.symbols import Symbols, parse, symbols_of

NM = """\
0000000060000334 r __binary_start
0000000060001000 T __pi_memcpy
0000000060001000 T memcpy
000000006000100b t memcpy_orig
0000000060001100 t .Lmark
0000000060001100 t vfs_read
0000000060001200 D some_data
0000000060001200 W weak_function
0000000060001200 T strong_function
0000000060002000 t __syscall_stub_start
0000000060002000 t stub_signal
0000000060002100 t __syscall_stub_end
garbage
"""

PROGRAM = """
#include <stdint.h>
volatile uint64_t sink;
__attribute__((noinline)) void heavy(void) { for (int i = 0; i < 4000; i++) sink += i; }
__attribute__((noinline)) void light(void) { for (int i = 0; i < 1500; i++) sink ^= i; }
int main(void) { for (int i = 0; i < 3; i++) { heavy(); light(); light(); } return 0; }
"""


def histogram(low: int, high: int, counts: list[int], rate_hz: int = 100) -> bytes:
    head = struct.pack("<BQQII15sc", 0, low, high, len(counts), rate_hz, b"seconds", b"s")
    return head + struct.pack(f"<{len(counts)}H", *counts)


def arc(caller: int, called: int, count: int) -> bytes:
    return struct.pack("<BQQI", 1, caller, called, count)


HEAD = struct.pack("<4sI12x", b"gmon", 1)


def test_symbols_are_functions_by_address(tmp_path: Path) -> None:
    parsed = parse(NM.splitlines())
    assert parsed.name(0x60001000) == parsed.name(0x6000100B) == parsed.name(0x600010FF) == "memcpy"
    assert parsed.name(0x60001100) == "vfs_read"
    assert parsed.name(0x60001234) == "strong_function"
    assert parsed.name(0x60000FFF) is None and parsed.name(0x70000000) is None
    assert parsed.base == 0x60000000
    assert 0x600020FF in parsed.stub and 0x60002100 not in parsed.stub
    file = tmp_path / "text"
    file.write_text("no program")
    with pytest.raises(ToolError, match="finds no functions"):
        symbols_of(file)


def test_a_bin_is_divided_by_length_and_histograms_are_added() -> None:
    symbols = Symbols((0x1000, 0x1010, 0x1040), ("a", "b", "c"))
    shares = dict(symbols.within(0x1000, 0x1020))
    assert shares == {"a": 0.5, "b": 0.5}
    data = HEAD + histogram(0x1000, 0x1040, [10, 6]) + arc(0x1000, 0x1012, 7)
    parsed = gmon.functions(gmon.parse(data), symbols)
    assert [(each.function, each.seconds, each.calls) for each in parsed] == [
        ("b", pytest.approx(0.11), 7),
        ("a", pytest.approx(0.05), None),
    ]
    assert {each.where for each in parsed} == {"kernel"}
    one = histogram(0x1000, 0x1040, [1, 2])
    both = gmon.parse(HEAD + one + one)
    assert both.counts == (2, 4) and both.seconds == 0.06


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b"gmon", "does not begin"),
        (b"\x7fELF" + b"\0" * 40, "does not begin"),
        (struct.pack("<4sI12x", b"gmon", 9), "version 9"),
        (HEAD, "no histogram"),
        (HEAD + histogram(0, 64, [1, 2])[:-1], "cut short"),
        (HEAD + histogram(0, 64, [1, 2])[:20], "cut short"),
        (HEAD + histogram(64, 0, [1, 2]), "makes no sense"),
        (HEAD + histogram(0, 64, [1], rate_hz=0), "makes no sense"),
        (HEAD + histogram(0, 64, [1]) + b"\x01\x02", "cut short"),
        (HEAD + histogram(0, 64, [1]) + b"\x07", "unknown kind 7"),
        (HEAD + histogram(0, 64, [1]) + histogram(0, 128, [1]), "do not fit"),
    ],
)
def test_damage_is_told(data: bytes, word: str) -> None:
    with pytest.raises(ToolError, match=word):
        gmon.parse(data)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused(data: bytes, headed: bool) -> None:
    try:
        parsed = gmon.parse(HEAD + data if headed else data)
    except ToolError:
        return
    assert sum(parsed.counts) >= 0 and parsed.rate_hz > 0


@pytest.mark.needs("gprof")
def test_it_agrees_with_gprof(tmp_path: Path) -> None:
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text(PROGRAM)
    subprocess.run(["gcc", "-O1", "-pg", "-no-pie", "-o", program, source], check=True)
    subprocess.run([program], cwd=tmp_path, check=True)
    # Where the samples fall is the machine's affair (a busy one has been seen to take none at
    # all), so the histogram is ours: its range and its calls are the C library's.
    real, symbols = gmon.parse((tmp_path / "gmon.out").read_bytes()), symbols_of(program)
    span = (real.high - real.low) / len(real.counts)
    names = [symbols.name(real.low + round(index * span)) for index in range(len(real.counts))]
    counts = [{"heavy": 7, "light": 2}.get(name or "", 0) for name in names]
    data = (
        HEAD + histogram(real.low, real.high, counts) + b"".join(arc(*each) for each in real.arcs)
    )
    (tmp_path / "gmon.out").write_bytes(data)
    rows = {row.function: row for row in gmon.functions(gmon.parse(data), symbols)}
    table = subprocess.run(
        ["gprof", "-b", "-p", program, tmp_path / "gmon.out"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    flat = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+([\d.]+)\s+(\d+)\s.*\s(heavy|light)$", table, re.M)
    assert len(flat) == 2
    for seconds, calls, name in flat:
        assert rows[name].seconds == pytest.approx(float(seconds), abs=0.011)
        assert rows[name].seconds > 0.05
        assert rows[name].calls == int(calls) == {"heavy": 3, "light": 6}[name]
