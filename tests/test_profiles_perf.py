# SPDX-License-Identifier: MIT
"""What perf printed on a real boot, told apart; stacks for other tools."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdyno.command import Finished
from kdyno.errors import ToolError
from kdyno.labs.profile import perf
from kdyno.labs.profile.perf import Frame, Mapping, Sample
from kdyno.labs.profile.record import Profile, ProfiledBoot, Stack
from kdyno.labs.profile.report import flame_data, folded
from kdyno.labs.profile.symbols import Symbols

RECORDED = (Path(__file__).parent / "data" / "perf-script.txt").read_text()
KERNEL = Symbols(
    (0x60001000, 0x6000C700, 0x60040000, 0x60430000, 0x60431000),
    ("start", "calibrate_delay", "memcpy", "stub_signal", "init"),
    base=0x60000000,
    stub=range(0x60430000, 0x604304B3),
)
PROGRAM = Symbols((0x401000, 0x404000, 0x449000, 0x468000), ("main", "body", "read", "write"))


def read(text: str, frame_pointers: bool = False) -> perf.Attribution:
    reader = perf.Reader(KERNEL, PROGRAM, frame_pointers)
    return perf.attribute(perf.parse(text.splitlines()), reader, 1e-9)


def test_the_recorded_boot() -> None:
    attribution = read(RECORDED)
    samples = [each for each in perf.parse(RECORDED.splitlines()) if isinstance(each, Sample)]
    assert len(samples) == 26
    assert sum(function.seconds for function in attribution.functions) == pytest.approx(
        26 * 1001001e-9
    )
    assert sum(stack.seconds for stack in attribution.stacks) == pytest.approx(26 * 1001001e-9)
    times = {
        (function.where, function.function): round(function.seconds / 1001001e-9)
        for function in attribution.functions
    }
    # By the place in the file that the sandbox showed as /tmp/linux.
    assert times["kernel", "calibrate_delay"] == 3 and times["kernel", "memcpy"] == 3
    assert times["kernel", perf.STUB] == 4
    # Pages of the guest's memory, found in the process's own address space.
    assert times["user", "write"] == 3 and times["user", "body"] == 3
    assert not any("unknown" in name for where, name in times if where == "host")
    assert {stack.frames[0] for stack in attribution.stacks} == {
        perf.KERNEL_PROCESS, perf.GUEST_PROCESS, perf.AROUND,
    }  # fmt: skip


def test_frames_below_the_first_are_believed_only_with_frame_pointers() -> None:
    text = (
        "linux 7    1001001 \n"
        "\tffffffff81000000 futex ([kernel.kallsyms])\n"
        "\t 40010 [unknown] (/tmp/linux)\n"
        "\t c701 [unknown] (/tmp/linux)\n"
        "\t 9999999 [unknown] ([unknown])\n"
    )
    plain, whole = read(text), read(text, frame_pointers=True)
    assert plain.stacks[0].frames == ("UML kernel", "memcpy", "futex")
    assert whole.stacks[0].frames == ("UML kernel", "calibrate_delay", "memcpy", "futex")
    assert plain.functions == whole.functions
    assert (plain.functions[0].where, plain.functions[0].function) == ("host", "futex")
    # An address as older versions print it.
    older = read("linux 7    1000 \n\t 60040010 [unknown] (/tmp/linux)\n")
    assert older.functions[0].function == "memcpy"
    (sample,) = perf.parse(["linux 7 5 ", "\t12 operator() (/dev/shm/#3 (deleted))"])
    assert isinstance(sample, Sample) and sample.frames[0].file.endswith("(deleted)")


def test_a_page_that_moved_is_where_it_was_last() -> None:
    reader = perf.Reader(KERNEL, PROGRAM)
    frame = Frame(0x6E1010, "[unknown]", "/dev/shm/#3 (deleted)")
    sample = Sample("uml-userspace", 5, 1, (frame,))
    assert reader.place(sample, frame).function == "[other programs]"
    for start, name in ((0x404000, "body"), (0x449000, "read")):
        reader.mapped(Mapping(5, start, 0x2000, 0x6E1000, "/dev/shm/#3 (deleted)"))
        assert reader.place(sample, frame) == perf.Place("user", name)


@given(
    st.lists(
        st.sampled_from(
            ["", "linux 7 5 ", "a b/c 7/8 12: ", "\t12 f (x)", "\tzz", "\t12 f (", "PERF_RECORD_"]
        )
        | st.text(max_size=40)
    )
)
def test_any_text_is_read(lines: list[str]) -> None:
    reader = perf.Reader(KERNEL, PROGRAM)
    attribution = perf.attribute(perf.parse(lines), reader, 1e-9)
    assert sum(function.seconds for function in attribution.functions) == pytest.approx(
        sum(stack.seconds for stack in attribution.stacks)
    )
    assert all(stack.frames for stack in attribution.stacks)


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


@pytest.mark.parametrize("permitted", [False, True])
def test_what_perf_can_do_here(monkeypatch: pytest.MonkeyPatch, permitted: bool) -> None:
    def answer(argv: list[str]) -> Finished:
        if not permitted:
            message = b"Error:\nAccess to performance monitoring is limited"
            return Finished(tuple(argv), 255, message)
        outputs = {"stat": b"<not supported>,,cycles,0,100.00,,\n", "evlist": b"cpu-clock:u\n"}
        return Finished(tuple(argv), 0, outputs.get(argv[1], b""))

    perf.ability.cache_clear()
    monkeypatch.setattr(perf, "capture", answer)
    monkeypatch.setattr(perf, "require", lambda name, _why: name)
    if permitted:
        ability = perf.ability()
        assert ability.event == "cpu-clock"
        assert "no hardware counters" in ability.notes[0]
        assert "perf_event_paranoid" in ability.notes[1]
    else:
        way_out = r"perf_event_paranoid=1, run as root, or take --method"
        with pytest.raises(ToolError, match=way_out):
            perf.ability()
    perf.ability.cache_clear()
