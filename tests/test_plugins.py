# SPDX-License-Identifier: MIT
"""The C parts of QEMU's plugins on traces made by hand: chains of calls."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kdyno.machines.emulator import PLUGINS

NATIVE = Path(__file__).with_name("native")
pytestmark = pytest.mark.needs("gcc")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """calls_trace, with sanitizers."""
    program = tmp_path_factory.mktemp("native") / "calls_trace"
    flags = ["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{PLUGINS}"]
    flags += ["-fsanitize=undefined", "-fno-sanitize-recover=all"]
    sources = [NATIVE / "calls_trace.c", PLUGINS / "calls.c"]
    subprocess.run(["gcc", *flags, "-o", program, *sources], check=True)
    return program


def replayed(program: Path, text: str) -> list[str]:
    done = subprocess.run([program], input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def chains(built: Path, trace: str) -> dict[tuple[int, ...], int]:
    """Functions, the outermost first → instructions."""
    counts: dict[str, int] = {}
    tree: dict[str, tuple[str, int]] = {}
    for line in replayed(built, trace):
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
