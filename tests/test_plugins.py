# SPDX-License-Identifier: MIT
"""The C parts of QEMU's plugins on traces made by hand: caches, predictions, chains of calls."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kdyno.machines import plugin

FOLDER = Path(plugin.__file__).parent
NATIVE = Path(__file__).with_name("native")
pytestmark = pytest.mark.needs("gcc")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """model_trace and calls_trace, with what finds mistakes in C."""
    folder = tmp_path_factory.mktemp("native")
    for name in ("model", "calls"):
        flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{FOLDER}"]
        flags += ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
        sources = [NATIVE / f"{name}_trace.c", FOLDER / f"{name}.c"]
        subprocess.run(["gcc", *flags, "-o", folder / f"{name}_trace", *sources], check=True)
    return folder


def replayed(program: Path, text: str) -> list[str]:
    done = subprocess.run([program], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def missed(built: Path, trace: str, sizes: str = "256 2 256 2 1024 2 4096 4 64 4") -> list[int]:
    """[l1i, l1d, l2, llc, branches] at the end. 256 2: two sets of two lines of 64 bytes."""
    (line,) = replayed(built / "model_trace", f"{sizes}\n{trace}\n?\n")
    return [int(it) for it in line.split()]


def data(*addresses: int) -> str:
    return "\n".join(f"d {address} 1" for address in addresses)


@pytest.mark.slow
def test_a_line_misses_once_and_is_then_there(built: Path) -> None:
    assert missed(built, data(0, 1, 63, 0)) == [0, 1, 1, 1, 0]


@pytest.mark.slow
def test_what_lies_across_two_lines_touches_both(built: Path) -> None:
    assert missed(built, "d 60 8") == [0, 2, 2, 2, 0]
    assert missed(built, "i 0 129") == [3, 0, 3, 3, 0]


def test_the_line_used_longest_ago_goes_first(built: Path) -> None:
    # 0, 128 and 256 share a set of two ways: 0 was used after 128, so 256 takes 128's place.
    assert missed(built, data(0, 128, 0, 256, 0)) == [0, 3, 3, 3, 0]
    assert missed(built, data(0, 128, 0, 256, 128)) == [0, 4, 3, 3, 0]
    # First in, first out would have kept 128 and missed 0.
    assert missed(built, data(0, 128, 256, 0))[1] == 4


def test_sets_do_not_get_into_each_others_way(built: Path) -> None:
    assert missed(built, data(0, 64, 128, 192, 0, 64, 128, 192)) == [0, 4, 4, 4, 0]


def test_a_loop_larger_than_a_cache_misses_each_time(built: Path) -> None:
    once = [64 * it for it in range(8)]
    # 8 lines: twice what the first level has, half of the second.
    assert missed(built, data(*once, *once)) == [0, 16, 8, 8, 0]
    large = [64 * it for it in range(32)]
    assert missed(built, data(*large, *large)) == [0, 64, 64, 32, 0]
    huge = [64 * it for it in range(128)]
    assert missed(built, data(*huge, *huge)) == [0, 256, 256, 256, 0]


def test_code_and_data_have_a_first_level_each_and_share_the_others(built: Path) -> None:
    assert missed(built, "i 0 1\nd 0 1\ni 0 1\nd 0 1") == [1, 1, 2, 2, 0]
    # Two ways in the second level: two lines of data put the code out of it.
    trace = "i 0 1\n" + data(512, 1024) + "\ni 128 1\ni 256 1\ni 0 1"
    assert missed(built, trace) == [4, 2, 6, 5, 0]


def test_a_loops_branch_misses_until_the_history_knows_it(built: Path) -> None:
    always = "\n".join(["b 100 1"] * 50)
    # Each of the first predictions has a counter of its own until the history is all ones.
    assert missed(built, always)[4] == 5
    turns = "\n".join("b 100 1\nb 100 0" for _ in range(100))
    # By history, a branch that alternates is known as well; by its last outcome it is always wrong.
    assert missed(built, turns)[4] < 10


def test_a_random_branch_misses_about_half_of_the_time(built: Path) -> None:
    import random

    drawn = random.Random(1)
    trace = "\n".join(f"b 100 {drawn.randrange(2)}" for _ in range(4000))
    assert 0.4 < missed(built, trace)[4] / 4000 < 0.6


def test_an_indirect_jump_goes_where_it_went_last(built: Path) -> None:
    assert missed(built, "j 5 1000\nj 5 1000\nj 5 2000\nj 5 2000\nj 5 1000")[4] == 3


def test_returns_go_back_where_calls_came_from(built: Path) -> None:
    assert missed(built, "c 10 0\nc 20 0\nr 20 0\nr 10 0")[4] == 0
    assert missed(built, "c 10 0\nr 11 0\nr 10 0")[4] == 2
    deep = "\n".join(f"c {it} 0" for it in range(1, 41))
    back = "\n".join(f"r {it} 0" for it in range(40, 0, -1))
    assert missed(built, f"{deep}\n{back}")[4] == 8  # 32 are remembered


@pytest.mark.parametrize(
    "sizes",
    [
        "192 1 256 2 1024 2 4096 4 64 4",  # three sets
        "256 0 256 2 1024 2 4096 4 64 4",
        "256 2 256 2 1024 2 4096 4 48 4",
        "256 2 256 2 1024 2 4096 4 64 21",
        "100 1 256 2 1024 2 4096 4 64 4",
    ],
)
def test_sizes_that_cannot_be_are_refused(built: Path, sizes: str) -> None:
    done = subprocess.run([built / "model_trace"], input=sizes, capture_output=True, text=True)
    assert done.returncode == 1 and "power of two" in done.stdout


def chains(built: Path, trace: str) -> dict[tuple[int, ...], int]:
    """Functions, the outermost first → instructions."""
    counts: dict[str, int] = {}
    tree: dict[str, tuple[str, int]] = {}
    for line in replayed(built / "calls_trace", trace):
        words = line.split()
        if words[0] == "node":
            tree[words[1]] = words[2], int(words[3], 16)
        else:
            counts[words[0][1:]] = int(words[1])
    found = {}
    for node, count in counts.items():
        chain: list[int] = []
        while node != "0":
            node, function = tree[node]
            chain.append(function)
        found[tuple(reversed(chain))] = count
    return found


def test_instructions_are_of_the_chain_of_calls(built: Path) -> None:
    # 1 calls 2, which calls 3 twice.
    trace = "f 1 0 10\nc 0x8100\nf 2 0 5\nc 0x80f0\nf 3 0 2\nr 0x80f0\nf 2 0 1\n"
    trace += "c 0x80f0\nf 3 0 2\nr 0x80f0\nf 2 0 1\nr 0x8100\nf 1 0 7\n"
    assert chains(built, trace) == {(1,): 17, (1, 2): 7, (1, 2, 3): 4}


def test_recursion_has_a_level_for_each_call(built: Path) -> None:
    trace = "f 1 0 1\nc 0x100\nf 1 0 2\nc 0xf0\nf 1 0 3\nr 0xf0\nf 1 0 4\n"
    assert chains(built, trace) == {(1,): 1, (1, 1): 6, (1, 1, 1): 3}


def test_a_tail_call_takes_the_place_of_its_caller(built: Path) -> None:
    trace = "f 1 0 1\nc 0x100\nf 2 0 1\nf 3 0 5\nr 0x100\nf 1 0 1\n"
    assert chains(built, trace) == {(1,): 2, (1, 2): 1, (1, 3): 5}


def test_frames_left_without_a_return_are_forgotten(built: Path) -> None:
    # 3 never returns (longjmp): 1 goes on and calls 4.
    trace = "f 1 0 1\nc 0x100\nf 2 0 1\nc 0xf0\nf 3 0 1\nc 0x100\nf 4 0 9\nr 0x100\n"
    found = chains(built, trace)
    assert found[1, 2, 3, 4] == 9  # who called is told by where code was
    trace += "f 3 0 1\nr 0x110\nf 7 0 2\n"
    assert chains(built, trace)[(7,)] == 2  # called before all of it


def test_a_system_call_begins_anew_and_the_program_goes_on(built: Path) -> None:
    trace = "f 1 0 1\nc 0x100\nf 2 0 1\nf 50 1 3\nc 0x9000\nf 51 0 4\nr 0x9000\nf 50 1 1\n"
    trace += "f 2 0 6\nr 0x100\nf 1 0 1\n"
    assert chains(built, trace) == {(1,): 2, (1, 2): 7, (50,): 4, (50, 51): 4}


def test_another_task_has_a_stack_of_its_own(built: Path) -> None:
    # 60 switches from the stack at 0x9000 to that at 0x20000 and back.
    trace = "f 50 1 1\nc 0x9000\nf 60 0 1\nc 0x20000\nf 61 0 1\nr 0x20000\nf 60 0 1\n"
    trace += "r 0x9000\nf 50 1 1\n"
    assert chains(built, trace) == {(50,): 2, (50, 60): 2, (50, 60, 61): 1}
