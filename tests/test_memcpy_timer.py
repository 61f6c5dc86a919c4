# SPDX-License-Identifier: MIT
"""The timing program and who talks to it: garbage, crashes, hangs, and one real short bench."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    timed = time_all(script(tmp_path, ":"), tmp_path / "rack", 0, TASKS, lambda: steps.append(1))
    assert sorted(timed.times) == ["1", "2", "3", "4"] and len(steps) == 4
    assert timed.times["1"] == 2.0 and timed.answers["clock"] == (2.5, 4.0)
    assert timed.failed == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason"),
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
    tmp_path: Path, code: str, reason: str
) -> None:
    hang_s = 2.0 if "sleep" in code else 10.0
    timed = time_all(script(tmp_path, code), tmp_path / "rack", 0, TASKS, hang_s=hang_s)
    assert sorted(timed.times) == ["2", "4"]
    assert list(timed.failed) == ["a"] and reason in timed.failed["a"]


@pytest.mark.parametrize(
    ("code", "message"),
    [("echo no work at all >&2; exit 2", "no work at all"), (None, "timing program failed")],
)
def test_the_programs_own_failure_is_no_contenders_fault(
    tmp_path: Path, code: str | None, message: str
) -> None:
    program = script(tmp_path, code or ":")
    if code is None:
        program.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ToolError, match=message):
        time_all(program, tmp_path / "rack", 0, TASKS)


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
    bench = timing.measure(field, plan, tmp_path, guest)
    assert bench.blocks == 2 and set(bench.ns) == {"rep-movsb", "rep-movsq", "glibc", "nothing"}
    assert "SIGSEGV" in bench.failed["faulty"]
    assert all(value > 0 for rows in bench.ns.values() for row in rows.values() for value in row)
    assert bench.ceilings["L1"].bytes_per_ns > 0 and bench.clock.core_ghz > 0


@needs_compiler
def test_a_rack_places_routines_anew(tmp_path: Path) -> None:
    field = checking.standing(tmp_path)
    racks = [checking.rack(field, seed, tmp_path, tmp_path).read_bytes() for seed in (1, 2, 1)]
    assert racks[0] == racks[2] and racks[0] != racks[1]


@needs_compiler
def test_the_kernels_loop_comes_from_a_tree(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must be a kernel source"):
        checking.kernels_own(tmp_path, tmp_path)
    source = tmp_path / "arch/x86/lib/memcpy_64.S"
    source.parent.mkdir(parents=True)
    source.write_text("no such loop")
    with pytest.raises(UsageError, match="has no memcpy_orig"):
        checking.kernels_own(tmp_path, tmp_path)
    source.write_text(
        "#include <linux/linkage.h>\n#include <asm/alternative.h>\n"
        "SYM_TYPED_FUNC_START(__memcpy)\n"
        'ALTERNATIVE "jmp memcpy_orig", "", X86_FEATURE_FSRM\nSYM_FUNC_END(__memcpy)\n'
        "SYM_FUNC_START_LOCAL(memcpy_orig)\nmovq %rdi, %rax\nRET\nSYM_FUNC_END(memcpy_orig)\n"
    )
    assert checking.kernels_own(tmp_path, tmp_path).symbol == "kernel_memcpy_orig"


@needs_compiler
def test_who_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "missing", lambda _requires: ())

    def gathered(*names: str, wrong: str = "") -> tuple[list[str], dict[str, str]]:
        failing = {wrong: "bytes"} if wrong else {}
        contenders, left_out = timing.gather(names, tmp_path, check=lambda *_: failing)
        return [each.name for each in contenders], left_out

    # A routine that fails its check is never timed.
    file = str(routine(tmp_path, "wrong", "movq %rdi, %rax\nRET"))
    with pytest.raises(ToolError, match="no routine is left to time: wrong: bytes"):
        gathered(file, wrong="wrong")
    names, left_out = gathered(file, "fsrm", wrong="wrong")
    assert "wrong" not in names and left_out["wrong"] == "bytes"
    assert "kernel source" in left_out["orig"]
    # rep movsb is there once, and best goes by the name of what it is here.
    assert "rep-movsb" not in names and "fsrm" in names
    with pytest.raises(UsageError, match="no such routine"):
        gathered("no-such")
    chosen = best("memcpy", "um").routine
    assert gathered(BEST, chosen)[0].count(chosen) == 1
