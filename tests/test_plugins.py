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


def chains(built: Path, trace: str) -> dict[tuple[int, ...], int]:
    """Functions, the outermost first → instructions."""
    counts: dict[str, int] = {}
    tree: dict[str, tuple[str, int]] = {}
    done = subprocess.run([built], input=trace, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    for line in done.stdout.splitlines():
        words = line.split()
        if words[0] == "node":
            tree[words[1]] = words[2], int(words[3], 16)
        else:
            counts[words[0][1:]] = int(words[1])
    results = {}
    for node, count in counts.items():
        chain: list[int] = []
        while node != "0":
            node, function = tree[node]
            chain.append(function)
        results[tuple(reversed(chain))] = count
    return results


# f FUNCTION KERNEL INSTRUCTIONS; c and r with the stack's address: a call, a return.
TRACES = {
    "1 calls 2, which calls 3 twice": (
        "f 1 0 10|c 0x8100|f 2 0 5|c 0x80f0|f 3 0 2|r 0x80f0|f 2 0 1|"
        "c 0x80f0|f 3 0 2|r 0x80f0|f 2 0 1|r 0x8100|f 1 0 7",
        {(1,): 17, (1, 2): 7, (1, 2, 3): 4},
    ),
    "recursion has a level for each call": (
        "f 1 0 1|c 0x100|f 1 0 2|c 0xf0|f 1 0 3|r 0xf0|f 1 0 4",
        {(1,): 1, (1, 1): 6, (1, 1, 1): 3},
    ),
    "a tail call takes the place of its caller": (
        "f 1 0 1|c 0x100|f 2 0 1|f 3 0 5|r 0x100|f 1 0 1",
        {(1,): 2, (1, 2): 1, (1, 3): 5},
    ),
    # 3 never returns (longjmp), 1 goes on and calls 4: who called is known by where code was.
    "frames left without a return are forgotten": (
        "f 1 0 1|c 0x100|f 2 0 1|c 0xf0|f 3 0 1|c 0x100|f 4 0 9|r 0x100",
        {(1,): 1, (1, 2): 1, (1, 2, 3): 1, (1, 2, 3, 4): 9},
    ),
    "a system call begins anew and the program goes on": (
        "f 1 0 1|c 0x100|f 2 0 1|f 50 1 3|c 0x9000|f 51 0 4|r 0x9000|f 50 1 1|"
        "f 2 0 6|r 0x100|f 1 0 1",
        {(1,): 2, (1, 2): 7, (50,): 4, (50, 51): 4},
    ),
    # 60 switches from the stack at 0x9000 to that at 0x20000 and back.
    "another task has a stack of its own": (
        "f 50 1 1|c 0x9000|f 60 0 1|c 0x20000|f 61 0 1|r 0x20000|f 60 0 1|r 0x9000|f 50 1 1",
        {(50,): 2, (50, 60): 2, (50, 60, 61): 1},
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_instructions_are_of_the_chain_of_calls(built: Path, name: str) -> None:
    trace, expected = TRACES[name]
    assert chains(built, trace.replace("|", "\n") + "\n") == expected


def test_a_return_beyond_all_calls_begins_anew(built: Path) -> None:
    trace = TRACES["frames left without a return are forgotten"][0] + "|f 3 0 1|r 0x110|f 7 0 2|"
    assert chains(built, trace.replace("|", "\n"))[(7,)] == 2  # called before all of it
