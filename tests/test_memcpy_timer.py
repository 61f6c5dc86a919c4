# SPDX-License-Identifier: MIT
"""The timing program and who talks to it: garbage, crashes, hangs, and one real short bench."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdyno.cli.main import command
from kdyno.errors import ToolError, UsageError
from kdyno.experiment.model import BEST
from kdyno.kernels import cpu
from kdyno.kernels.routines import checking
from kdyno.kernels.routines.routine import best, parse_routine
from kdyno.labs.memcpy import loads, timing
from kdyno.labs.memcpy.timing import Line, Task, figure, parse, time_all
from kdyno.machines.cpus import place

needs_compiler = pytest.mark.needs("gcc")
TASKS = (
    Task(("clock",), ()),
    Task(("region 64",), (Line("1", "a", "fixed 1 a"), Line("2", "b", "fixed 2 b"))),
    Task(("region 64",), (Line("3", "a", "fixed 3 a"), Line("4", "b", "fixed 4 b"))),
)


def script(folder: Path, a: str) -> Path:
    """A stand-in for the program: ``b`` takes 2 ns, and ``a`` does what the shell code says."""
    path = folder / "program"
    path.write_text(
        "#!/bin/sh\nwhile read word id name rest; do case $word in\n"
        "clock) echo clock 2.5 4.0;; region) echo region 64;;\n"
        f"*) echo begin $id; if [ $name = a ]; then {a}; fi; echo done $id 2.0 4.0;;\n"
        "esac; done\n"
    )
    path.chmod(0o755)
    return path


def test_all_is_timed(tmp_path: Path) -> None:
    steps: list[int] = []
    found = time_all(script(tmp_path, ":"), tmp_path / "rack", 0, TASKS, lambda: steps.append(1))
    assert sorted(found.times) == ["1", "2", "3", "4"] and len(steps) == 4
    assert found.times["1"].ns == 2.0 and found.answers["clock"] == (2.5, 4.0)
    assert found.failed == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("kill -SEGV $$", "died of SIGSEGV"),
        ("kill -ILL $$", "died of SIGILL"),
        ("exit 3", "ended with status 3"),
        ("echo done $id NaN 4.0", "spoiled the timing program"),
        ("echo done $id -1 4.0", "spoiled the timing program"),
        ("echo done 9 1 4.0", "spoiled the timing program"),
        ("printf '\\377\\0 \\n'", "spoiled the timing program"),
        ("exec sleep 60", "did not return within"),
    ],
)
def test_who_faults_or_hangs_fails_and_the_rest_goes_on(
    tmp_path: Path, does: str, reason: str
) -> None:
    hang_s = 2.0 if "sleep" in does else 10.0
    found = time_all(script(tmp_path, does), tmp_path / "rack", 0, TASKS, hang_s=hang_s)
    assert sorted(found.times) == ["2", "4"]
    assert list(found.failed) == ["a"] and reason in found.failed["a"]


def test_the_programs_own_failure_is_no_contenders_fault(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no work at all"):
        time_all(script(tmp_path, "echo no work at all >&2; exit 2"), tmp_path / "rack", 0, TASKS)
    bad = tmp_path / "bad"
    bad.write_text("#!/bin/sh\nexit 1\n")
    bad.chmod(0o755)
    with pytest.raises(ToolError, match="timing program failed"):
        time_all(bad, tmp_path / "rack", 0, TASKS)


@given(st.text(max_size=80))
@settings(max_examples=200)
def test_the_parser_takes_nothing_else(text: str) -> None:
    try:
        word, rest = parse(text)
    except ValueError:
        return
    assert word.isascii() and word.isalpha() and 1 <= len(rest) <= 3


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "1e999", "x", ""])
def test_no_figure(text: str) -> None:
    with pytest.raises(ValueError):
        figure(text)


def routine(folder: Path, name: str, code: str) -> Path:
    path = folder / f"{name}.S"
    path.write_text(
        "/* SPDX-License-Identifier: GPL-2.0-only */\n"
        "/*\n * help: h\n * requires: sse2\n * source: s\n * arch: um\n */\n"
        f'#include "routine.h"\nROUTINE_START({name})\n{code}\nROUTINE_END({name})\n'
    )
    return path


@pytest.mark.slow
@needs_compiler
def test_a_real_block_with_one_that_faults(tmp_path: Path) -> None:
    path = routine(tmp_path, "faulty", "movq $0, %rax\nmovq %rax, (%rax)\nRET")
    faulty = checking.routine_contender(parse_routine(path, path.read_text()), tmp_path)
    field = [faulty, *checking.standing(tmp_path)]
    plan = replace(
        loads.quick(),
        loads=(loads.fixed("L1", 64, "both"), loads.ranged("L1", 1, 256)),
        seconds=0.0,
        fewest_blocks=2,
        repetition_ns=2000,
    )
    (guest,) = place(1).guest
    found = timing.measure(
        field, loads.Material(plan), cache_root=tmp_path, cpu=guest, seed=1, left_out={}
    )
    assert found.blocks == 2 and set(found.ns) == {"rep-movsb", "rep-movsq", "glibc", "nothing"}
    assert "SIGSEGV" in found.failed["faulty"]
    assert all(value > 0 for rows in found.ns.values() for row in rows.values() for value in row)
    assert found.ceilings["L1"].bytes_per_ns > 0 and found.clock.core_ghz > 0


@needs_compiler
def test_a_rack_places_routines_anew(tmp_path: Path) -> None:
    field = checking.standing(tmp_path)
    racks = [checking.rack(field, seed, tmp_path, tmp_path).read_bytes() for seed in (1, 2, 1)]
    assert racks[0] == racks[2] and racks[0] != racks[1]


@needs_compiler
def test_text_that_is_no_assembly_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mine\.S does not assemble: gcc: "):
        checking.assembled("what is this\n", "mine.S", tmp_path)


@needs_compiler
def test_the_kernels_loop_comes_from_a_tree(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--tree must be a kernel source"):
        checking.kernels_own(tmp_path, tmp_path)
    place_ = tmp_path / "arch/x86/lib/memcpy_64.S"
    place_.parent.mkdir(parents=True)
    place_.write_text("no such loop")
    with pytest.raises(UsageError, match="has no memcpy_orig"):
        checking.kernels_own(tmp_path, tmp_path)
    place_.write_text(
        "#include <linux/linkage.h>\n#include <asm/alternative.h>\n"
        "SYM_TYPED_FUNC_START(__memcpy)\n"
        'ALTERNATIVE "jmp memcpy_orig", "", X86_FEATURE_FSRM\nSYM_FUNC_END(__memcpy)\n'
        "SYM_FUNC_START_LOCAL(memcpy_orig)\nmovq %rdi, %rax\nRET\nSYM_FUNC_END(memcpy_orig)\n"
    )
    assert checking.kernels_own(tmp_path, tmp_path).symbol == "kernel_memcpy_orig"


@needs_compiler
def test_a_routine_that_fails_its_check_is_never_timed(tmp_path: Path) -> None:
    own = str(routine(tmp_path, "wrong", "movq %rdi, %rax\nRET"))
    field = timing.gather(
        [own], None, tmp_path, check=lambda them, _: {it.name: "bytes" for it in them}
    )
    assert "wrong" not in {it.name for it in field.contenders}
    assert field.left_out["wrong"] == "bytes" and "--tree" in field.left_out["orig"]
    with pytest.raises(ToolError, match="no routine is left to time: wrong: bytes"):
        field.require_some()
    with pytest.raises(UsageError, match="no such routine"):
        timing.gather(["no-such"], None, tmp_path, check=lambda *_: {})


@needs_compiler
def test_best_is_timed_by_the_name_of_what_it_is_here(tmp_path: Path) -> None:
    chosen = best("memcpy", "um").routine
    field = timing.gather([BEST, chosen], None, tmp_path, check=lambda *_: {})
    assert [it.name for it in field.contenders].count(chosen) == 1


@needs_compiler
def test_rep_movsb_is_there_once(tmp_path: Path) -> None:
    if cpu.missing(("erms",)):
        pytest.skip("this CPU has no erms")
    names = [
        it.name for it in timing.gather(["fsrm"], None, tmp_path, check=lambda *_: {}).contenders
    ]
    assert "rep-movsb" not in names and "fsrm" in names


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--quick", "--paper"], "exclude each other"),
        (["--calls", "5000"], "--calls goes with --paper"),
        (["-o", "x.pdf"], "must end in .html, .svg, .png"),
        (["--json", "-", "--csv", "-"], "both want stdout"),
        (["--from", "no-such.json"], "cannot be read"),
        (["--distribution", "no-such.json"], "cannot be read"),
    ],
)
def test_bad_options_are_refused_at_once(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        command()(["lab", "memcpy", "bench", *words], standalone_mode=False)


def test_a_distribution_of_nothing_is_refused_with_its_cell(tmp_path: Path) -> None:
    file = tmp_path / "copies.json"
    cell = {"size": 8, "dst": 0, "src": 0, "calls": -1}
    file.write_text(json.dumps({"schema": 1, "kind": "copies", "source": "x", "cells": [cell]}))
    for verb in (["bench", "--distribution"], ["tune"]):
        with pytest.raises(UsageError, match=r"cells\[1\]\.calls: -1 should be greater"):
            command()(["lab", "memcpy", *verb, str(file)], standalone_mode=False)
