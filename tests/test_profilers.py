# SPDX-License-Identifier: MIT
"""gmon.out against gprof itself and every way of being damaged; what perf printed on a real boot;
stacks for other tools."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from kdyno.command import Finished
from kdyno.errors import ToolError
from kdyno.labs.profile import gmon, perf
from kdyno.labs.profile.perf import Frame, Mapping, Sample
from kdyno.labs.profile.record import FunctionTime, Profile, ProfiledBoot, Stack
from kdyno.labs.profile.report import flame_data, folded
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


@pytest.mark.slow
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
    rows = [(each.function, each.seconds, each.calls) for each in parsed]
    assert rows == [("b", pytest.approx(0.11), 7), ("a", pytest.approx(0.05), None)]
    assert {each.where for each in parsed} == {"kernel"}
    one = histogram(0x1000, 0x1040, [1, 2])
    both = gmon.parse(HEAD + one + one)
    assert both.counts == (2, 4) and both.rate_hz == 100


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "does not begin"),
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


@pytest.mark.slow
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
    arcs = b"".join(arc(*each) for each in real.arcs)
    data = HEAD + histogram(real.low, real.high, counts) + arcs
    (tmp_path / "gmon.out").write_bytes(data)
    rows = {row.function: row for row in gmon.functions(gmon.parse(data), symbols)}
    command = ["gprof", "-b", "-p", program, tmp_path / "gmon.out"]
    table = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    flat = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+([\d.]+)\s+(\d+)\s.*\s(heavy|light)$", table, re.M)
    assert len(flat) == 2
    for seconds, calls, name in flat:
        assert rows[name].seconds == pytest.approx(float(seconds), abs=0.011)
        assert rows[name].seconds > 0.05
        assert rows[name].calls == int(calls) == {"heavy": 3, "light": 6}[name]


RECORDED = (Path(__file__).parent / "data" / "perf-script.txt").read_text()
KERNEL = Symbols(
    (0x60001000, 0x6000C700, 0x60040000, 0x60430000, 0x60431000),
    ("start", "calibrate_delay", "memcpy", "stub_signal", "init"),
    base=0x60000000,
    stub=range(0x60430000, 0x604304B3),
)
GUEST = Symbols((0x401000, 0x404000, 0x449000, 0x468000), ("main", "body", "read", "write"))


def read(
    text: str, frame_pointers: bool = False
) -> tuple[tuple[FunctionTime, ...], tuple[Stack, ...]]:
    reader = perf.Reader(KERNEL, GUEST, frame_pointers)
    return perf.attribute(perf.parse(text.splitlines()), reader, 1e-9)


def test_the_recorded_boot() -> None:
    functions, stacks = read(RECORDED)
    samples = [each for each in perf.parse(RECORDED.splitlines()) if isinstance(each, Sample)]
    assert len(samples) == 26
    assert sum(function.seconds for function in functions) == pytest.approx(26 * 1001001e-9)
    assert sum(stack.seconds for stack in stacks) == pytest.approx(26 * 1001001e-9)
    times = {(each.where, each.function): round(each.seconds / 1001001e-9) for each in functions}
    # By the place in the file that the sandbox showed as /tmp/linux.
    assert times["kernel", "calibrate_delay"] == 3 and times["kernel", "memcpy"] == 3
    assert times["kernel", perf.STUB] == 4
    # Pages of the guest's memory, found in the process's own address space.
    assert times["user", "write"] == 3 and times["user", "body"] == 3
    assert not any("unknown" in name for where, name in times if where == "host")
    processes = {perf.KERNEL_PROCESS, perf.GUEST_PROCESS, perf.AROUND}
    assert {stack.frames[0] for stack in stacks} == processes


def test_frames_below_the_first_are_believed_only_with_frame_pointers() -> None:
    text = (
        "linux 7    1001001 \n"
        "\tffffffff81000000 futex ([kernel.kallsyms])\n"
        "\t 40010 [unknown] (/tmp/linux)\n"
        "\t c701 [unknown] (/tmp/linux)\n"
        "\t 9999999 [unknown] ([unknown])\n"
    )
    (functions, plain), (same, whole) = read(text), read(text, frame_pointers=True)
    assert plain[0].frames == ("UML kernel", "memcpy", "futex")
    assert whole[0].frames == ("UML kernel", "calibrate_delay", "memcpy", "futex")
    assert functions == same
    assert (functions[0].where, functions[0].function) == ("host", "futex")
    # An address as older versions print it.
    older, _ = read("linux 7    1000 \n\t 60040010 [unknown] (/tmp/linux)\n")
    assert older[0].function == "memcpy"
    (sample,) = perf.parse(["linux 7 5 ", "\t12 operator() (/dev/shm/#3 (deleted))"])
    assert isinstance(sample, Sample) and sample.frames[0].file.endswith("(deleted)")


def test_a_page_that_moved_is_where_it_was_last() -> None:
    reader = perf.Reader(KERNEL, GUEST)
    frame = Frame(0x6E1010, "[unknown]", "/dev/shm/#3 (deleted)")
    sample = Sample("uml-userspace", 5, 1, (frame,))
    assert reader.place(sample, frame).function == "[other programs]"
    for start, name in ((0x404000, "body"), (0x449000, "read")):
        reader.mapped(Mapping(5, start, 0x2000, 0x6E1000, "/dev/shm/#3 (deleted)"))
        assert reader.place(sample, frame) == perf.Place("user", name)


@pytest.mark.slow
@given(
    st.lists(
        st.sampled_from(
            ["", "linux 7 5 ", "a b/c 7/8 12: ", "\t12 f (x)", "\tzz", "\t12 f (", "PERF_RECORD_"]
        )
        | st.text(max_size=40)
    )
)
def test_any_text_is_read(lines: list[str]) -> None:
    reader = perf.Reader(KERNEL, GUEST)
    functions, stacks = perf.attribute(perf.parse(lines), reader, 1e-9)
    total_s = sum(stack.seconds for stack in stacks)
    assert sum(function.seconds for function in functions) == pytest.approx(total_s)
    assert all(stack.frames for stack in stacks)


PROFILE = Profile(
    "stock", "perf", "cpu-clock", "", {}, (ProfiledBoot(0, 1.0, ()),),
    (
        Stack("kernel", ("UML kernel", "read;x", "memcpy"), 0.5),
        Stack("host", ("UML kernel", "read;x"), 0.25),
        Stack("user", ("guest process", "main"), 0.0000001),
    ),
)  # fmt: skip


def test_stacks_for_other_tools() -> None:
    assert folded({"stock": PROFILE}) == (
        "stock (perf);UML kernel;read:x 250000\nstock (perf);UML kernel;read:x;memcpy 500000\n"
    )
    both = folded({"stock": PROFILE, "mine": PROFILE}).splitlines()
    assert len(both) == 4 and both[0].startswith("mine (perf);UML kernel;")
    tree = flame_data(PROFILE)
    assert tree[:2] == ["all", "kernel"] and tree[2] == pytest.approx(0.75, abs=1e-6)
    (kernel,) = tree[3]  # the other is too small to be plotted
    assert kernel[0] == "UML kernel" and kernel[3][0][3][0][0] == "memcpy"


def test_what_perf_can_do_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "require", lambda name, _why: name)
    outputs = {"stat": b"<not supported>,,cycles,0,100.00,,\n", "evlist": b"cpu-clock:u\n"}
    monkeypatch.setattr(perf, "capture", lambda argv: Finished(0, outputs.get(argv[1], b"")))
    perf.ability.cache_clear()
    event, notes, sees_host = perf.ability()
    assert event == "cpu-clock" and not sees_host
    assert "no hardware counters" in notes[0] and "perf_event_paranoid" in notes[1]
    refusal = Finished(255, b"Error:\nAccess to performance monitoring is limited")
    monkeypatch.setattr(perf, "capture", lambda _argv: refusal)
    perf.ability.cache_clear()
    with pytest.raises(ToolError, match=r"perf_event_paranoid=1, run as root, or take --method"):
        perf.ability()
    perf.ability.cache_clear()
