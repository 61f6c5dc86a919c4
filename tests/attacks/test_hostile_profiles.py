# SPDX-License-Identifier: MIT
"""What profilers say of a hostile kernel: names, counts and lines of source of its own choice.

A guest's process may call itself and its files as it likes, the kernel under test its functions
and the files it was made from; whoever is root in a guest has its process in his hands.
"""

from __future__ import annotations

import json
import math
import re
import struct
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from synthetic_run import DEMO, make

from kdyno.errors import ToolError
from kdyno.labs.profile import boots, gmon as gmons, perf, tables
from kdyno.labs.profile.counts import Part, Table, Trace, by_chain, by_function, read_trace
from kdyno.labs.profile.record import (
    FUNCTIONS_MOST,
    FunctionTime,
    Profile,
    ProfiledBoot,
    from_bytes,
    stored_profiles,
    to_json,
)
from kdyno.labs.profile.report import folded, section
from kdyno.labs.profile.symbols import Symbols, parse as parse_symbols
from kdyno.report.evidence import gather
from kdyno.report.show import terminal
from kdyno.store.counts import CaseCounts, Counted, from_json, to_json as counts_to_json
from kdyno.store.run import write_run

EVIL = "\x1b]0;owned\x07\x1b[2Jx<script>alert(1)</script>\"'&;=cmd|' /C calc'!A0\u202egpj"
NAMES = (
    EVIL,
    "a" * 5000,
    "x\n</script><script>alert(1)</script>",
    "=1+1",
    "user;kernel 5",
    "-->",
    "]]>",
    "NaN",
)
LONGEST = 4096
"""Letters of a path."""


def profiled(text: str, kernel: Symbols, seconds: float = 1e-9) -> Profile:
    reader = perf.Reader(kernel, kernel, frame_pointers=True)
    functions, stacks = perf.attribute(perf.parse(text.splitlines()), reader, seconds)
    empty = Profile("mine", "perf", "cpu-clock", "", {"a/b": 5}, (), ())
    return boots._added(empty, 0, 1.0, functions, stacks)


def hostile_script() -> str:
    lines = []
    for name in NAMES:
        lines += [f"{name} 7/8    1001001 ", f"\tffffffff81000000 {name} ([kernel.kallsyms])",
                  f"\t 40010 {name} (/tmp/{name} (deleted))", "\t 1010 [unknown] (/tmp/linux)",
                  f"PERF_RECORD_MMAP2 7/7: [0x1000(0x1000) @ 0 0:1 2 3]: r-xp /{name}"]  # fmt: skip
    return "\n".join(lines)


@pytest.fixture
def kernel() -> Symbols:
    lines = (f"{0x1000 + 16 * at:x} T {name.replace(' ', '_')}" for at, name in enumerate(NAMES))
    return parse_symbols("\n".join(lines).split("\n"))


@pytest.mark.slow
def test_no_name_of_a_profile_reaches_screen_or_page(tmp_path: Path, kernel: Symbols) -> None:
    run = make(tmp_path / "runs", replace(DEMO, blocks=2))
    mine = profiled(hostile_script(), kernel)
    stock = replace(profiled("linux 7 1001001 \n", kernel), variant="stock")
    with write_run(run.path) as writer:
        for each in (stock, mine):
            writer.save_file(f"{each.variant}.json", to_json(each).encode(), "profile")
    profiles = stored_profiles(run)
    assert len(profiles["mine"].boots[0].functions) >= 4
    text = terminal.text(tables.parts(profiles, "stock", 50))
    assert "script" in text  # it is shown, as words
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]", text)
    verdict = run.verdict()
    assert verdict is not None
    html = str(section(gather(run, verdict)))
    assert "<script>alert" not in html and "</script><script>" not in html
    assert "\x1b" not in html and "\u202e" not in html
    data = html.split('id="flame-data">')[1].split("</script>")[0]
    assert {"mine", "stock"} <= json.loads(data).keys()
    for line in folded(profiles).splitlines():
        assert re.fullmatch(r"[^\x00-\x1f\x7f-\x9f\u202e]+ [0-9]+", line)
    text = json.dumps(tables.as_json(profiles, "stock"), allow_nan=False)
    assert text.isascii() and json.loads(text)


@pytest.mark.parametrize(
    "line",
    [
        "linux 7 " + "9" * 5000,
        "linux " + "9" * 5000 + " 5",
        "linux 7/" + "9" * 5000 + " 5",
        "linux 7 -5",
        "linux 7 NaN",
        "linux 7 inf",
        "linux 7 1e400",
    ],
)
def test_a_sample_of_no_weight_is_none(line: str) -> None:
    assert list(perf.parse([line])) == []


def test_a_weight_that_no_boot_has_is_not_believed(kernel: Symbols) -> None:
    with pytest.raises(ToolError, match=r"the profile says 1e\+11 s of CPU for one boot"):
        profiled(f"linux 7 {'9' * 20}\n", kernel)


def test_the_words_of_a_name_are_no_sample() -> None:
    text = "a 1 9999999     7    1001001 \n"
    assert list(perf.parse([text])) == [perf.Sample("a 1 9999999", 7, 1001001, ())]


@pytest.mark.parametrize(
    "line",
    [
        "x" + " " * LONGEST,
        "\t 40010 [unknown] (/x" + " " * LONGEST,
        "\t 40010 " + " (" * (LONGEST // 2),
        "linux " + "7 " * (LONGEST // 2) + "x",
        "PERF_RECORD_MMAP2 7/7: [0x1000(0x1000) @ 0 " + "]:x" * (LONGEST // 4),
        "PERF_RECORD_MMAP2 7/7: [0x1(0x1) @ 0 " * (LONGEST // 38),
    ],
)
def test_a_long_name_costs_no_more_than_its_length(line: str) -> None:
    # A thousand of them in much less than the hours that backtracking would take.
    assert list(perf.parse([line] * 1000)) == []


def test_a_mapping_without_end_is_not_remembered(
    kernel: Symbols, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf, "_PAGES_MOST", 1 << 12)
    reader = perf.Reader(kernel, kernel)
    most = (1 << 64) - 1
    reader.mapped(perf.Mapping(7, most, most, most, "/dev/shm/x"))
    for at in range(100):
        reader.mapped(perf.Mapping(7, 0, (1 << 10) << 12, at << 40, "/dev/shm/x"))
    assert len(reader._pages) <= perf._PAGES_MOST


@pytest.mark.slow
def test_more_functions_than_a_profile_has_become_one() -> None:
    number = FUNCTIONS_MOST + 500
    functions = tuple(FunctionTime("host", f"[{at}]", 1e-3) for at in range(number))
    empty = Profile("mine", "perf", "cpu-clock", "", {}, (), ())
    result = boots._added(empty, 0, 1.0, functions, ())
    (boot,) = from_bytes(to_json(result).encode(), Path("mine.json")).boots
    assert len(boot.functions) == FUNCTIONS_MOST
    assert boot.functions[-1].function == "[501 other functions]"
    assert sum(each.seconds for each in boot.functions) == pytest.approx(number * 1e-3)


class Walked(tuple[FunctionTime, ...]):
    walks = 0

    def __iter__(self) -> Iterator[FunctionTime]:
        Walked.walks += 1
        return super().__iter__()


def test_a_table_of_many_functions_takes_no_time_of_their_square() -> None:
    functions = Walked(FunctionTime("kernel", f"f{at}", 1e-3, at) for at in range(100))
    profile = Profile("mine", "gprof", "", "", {}, (ProfiledBoot(0, 1.0, functions),))
    assert sum(row.calls or 0 for row in tables.rows(profile)) == sum(range(100))
    assert Walked.walks < 10


def test_symbols_are_cut_and_none_is_without_a_name() -> None:
    symbols = parse_symbols(["1000 T .cold", f"2000 T {'a' * 5000}", "3000 t x.cold.3", "4000 T "])
    assert symbols.names == (".cold", "a" * 200, "x")


def gmon(rate_hz: int, count: int, bins: int, calls: int = 0) -> bytes:
    head = struct.pack("<4sI12x", b"gmon", 1)
    histogram = struct.pack("<QQII15sc", 0x1000, 0x2000, bins, rate_hz, b"seconds", b"s")
    arcs = struct.pack("<BQQI", 1, 0x1000, 0x1000, calls) * 3 if calls else b""
    return head + b"\0" + histogram + struct.pack(f"<{bins}H", *[count] * bins) + arcs


def test_gmons_seconds_are_not_believed_without_end(kernel: Symbols) -> None:
    counted = gmons.functions(gmons.parse(gmon(1, 65535, 1 << 12, (1 << 32) - 1)), kernel)
    assert {each.calls for each in counted} == {None, 3 * ((1 << 32) - 1)}
    assert all(math.isfinite(each.seconds) for each in counted)
    empty = Profile("mine", "gprof", "profil", "", {}, (), ())
    with pytest.raises(ToolError, match="of CPU for one boot: it is not believed"):
        boots._added(empty, 0, 1.0, counted, ())


# Counts of QEMU's plugin.


def test_counts_of_hostile_names_are_kept_and_read_again(kernel: Symbols) -> None:
    table = Table(kernel, Symbols((0x400,), ("body",)))
    part = Part({0x1000 + 16 * at: 10**17 for at in range(len(NAMES))}, {1: 5})
    trace = Trace((part,), {0: (0, 0), 1: (0, 1)})
    case = CaseCounts("a", "b", "mine", 1, by_function(part.addresses, table),
                      by_chain(part, trace, table), part.addresses)  # fmt: skip
    counted = Counted("mine", "", "qemu 7.2", (case,))
    again = from_json(counts_to_json(counted), Path("mine.json"))
    assert again.cases[0].total == pytest.approx(len(NAMES) * 1e17)


def test_counts_that_nobody_could_read_again_are_refused() -> None:
    case = CaseCounts("a", "b", "mine", 1, {("kernel", "f"): float(1 << 63)})
    with pytest.raises(ToolError, match=r"mine: the counts make no sense: .*count: "):
        counts_to_json(Counted("mine", "", "", (case,)))


def test_a_tree_of_calls_is_followed_so_far_only() -> None:
    deep = {0: (0, 0), **{at: (at - 1, 1) for at in range(1, 5000)}}
    assert len(Trace((), deep).chain(4999)) == 512


NUMBER = st.integers(0, 6).map("{:x}".format) | st.sampled_from(["f" * 16, "f" * 17, "-1", ""])
LINE = st.one_of(
    st.builds("node {} {} {}".format, NUMBER, NUMBER, NUMBER),
    st.builds("{}{} {}".format, st.sampled_from(["", "@"]), NUMBER, NUMBER),
    st.builds("part {}".format, NUMBER),
    st.text(max_size=20),
)


@pytest.mark.slow
@given(st.lists(LINE, max_size=30))
def test_any_counts_are_read_or_refused(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "counts")
        file.write_text("\n".join(["part 0", *lines, "end", ""]), errors="replace")
        try:
            trace = read_trace(file, 5)
        except ToolError as problem:
            assert "QEMU's counts are not" in str(problem)
            return
    for part in trace.parts:
        for node in part.nodes:
            assert all(0 <= function < 5 for function in trace.chain(node))


@pytest.mark.slow
@given(st.lists(st.builds("{} {} {}".format, NUMBER, st.sampled_from("tTwWix"), st.text()) | LINE))
def test_any_symbols_are_read(lines: list[str]) -> None:
    symbols = parse_symbols(lines)
    assert len(symbols.starts) == len(symbols.names) and sorted(symbols.starts) == list(
        symbols.starts
    )
    assert all(0 < len(name) <= 200 for name in symbols.names)
