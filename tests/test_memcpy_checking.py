# SPDX-License-Identifier: MIT
"""Routines checked: sound ones pass, each kind of broken one is named and refused. The timing
program and who talks to it: garbage, crashes, hangs, and one real short bench."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from needed import need
from test_routine import ROUTINES, described

from kdyno.errors import ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import BEST
from kdyno.kernels import cpu
from kdyno.kernels.routines import checking
from kdyno.kernels.routines.routine import Routine, best, find_by_stem, find_routine, flatten
from kdyno.labs.memcpy import loads, timing
from kdyno.labs.memcpy.timing import Line, Task, figure, parse, time_all
from kdyno.machines.cpus import place
from kdyno.measure.builder import check as check_experiment
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load

BROKEN = Path(__file__).parent / "routine" / "broken.S"
KINDS = (
    *("bytes", "canary", "source", "guard", "return", "saved", "direction", "upper", "same"),
    *("hang", "illegal", "died"),
)

pytestmark = pytest.mark.needs("gcc")


def broken(kind: str, function: str = "memcpy") -> Routine:
    return Routine("", (), "", ("um",), function, name=f"broken_{kind}", path=BROKEN)


def emulated(routine: Routine, folder: Path) -> checking.Checked:
    """The same check, with what this CPU lacks emulated: AVX-512 by avx512.c, AVX2 and all else by
    QEMU, which has no AVX-512. Neither tells which register halves are in use."""
    code = checking.assembled(flatten(routine.path), str(routine.path), folder, routine=True)
    words = ["gcc", "-std=gnu11", "-O2", checking.PROGRAM, BROKEN.with_name("avx512.c"), code]
    words += [f"-Wl,--defsym=routine_under_test={routine.symbol}", "-Wl,--wrap=sigaction"]
    subprocess.run([*words, "-o", folder / "check"], check=True)
    line = [folder / "check", routine.function, "thin"]
    if not all(feature.startswith("avx512") for feature in cpu.missing(routine.requires)):
        need("qemu-x86_64")
        line = ["qemu-x86_64", "-cpu", "max", *line]
    process = subprocess.run(line, capture_output=True, text=True)
    return checking.judge(process.returncode, process.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("routine", ROUTINES, ids=lambda routine: routine.path.stem)
def test_every_routine_is_right(routine: Routine, tmp_path: Path) -> None:
    if cpu.missing(routine.requires):
        checked = emulated(routine, tmp_path)
    else:
        checked = checking.check(routine, tmp_path, mode="thin")
    assert (checked.passed, checked.violations) == (True, ())
    assert checked.cases >= 400


@pytest.mark.slow
@pytest.mark.parametrize(
    "stem", ["avx2", "memset-avx2", "overlap-avx512", "clear_page-avx512-nt", "broken"]
)
def test_a_cpu_without_vectors_checks_by_emulation(
    stem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "this_cpu", lambda: cpu.Cpu("", "", frozenset({"sse2"})))
    chosen = broken("bytes") if stem == "broken" else find_by_stem(stem)
    chosen = replace(chosen, requires=("avx2", *chosen.requires))
    checked = emulated(chosen, tmp_path)
    assert len(checked.violations) == (stem == "broken") and checked.cases >= 400


@pytest.mark.slow
def test_the_full_check_has_every_size_at_every_pair_of_offsets(tmp_path: Path) -> None:
    checked = checking.check(find_routine("overlap-sse"), tmp_path)
    assert checked.passed and checked.cases > 1025 * 64 * 64


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "function"),
    [
        *((kind, "memcpy") for kind in KINDS),
        *(("overlap", "memmove"), ("bytes", "memset"), ("bytes", "clear_page")),
        *(("large", "memcpy"), ("large", "memmove"), ("large", "memset")),
    ],
)
def test_what_is_wrong_is_named(kind: str, function: str, tmp_path: Path) -> None:
    if kind == "upper" and "avx" not in cpu.flags():
        pytest.skip("this CPU has no avx")  # and an emulated one does not tell
    checked = checking.check(broken(kind, function), tmp_path, mode="thin")
    if kind == "upper" and not checked.upper_readable:
        pytest.skip("this CPU does not tell which registers are in use")
    assert not checked.passed
    kinds = [line.partition(":")[0] for line in checked.violations]
    if kind == "large":  # wrong from 256 KiB on, and only there
        assert re.search(r" size (26[2-9]|2[7-9]\d|[3-5]\d\d)\d{3},", checked.violations[0])
        kind = "overlap" if function == "memmove" else "bytes"
    assert kind in kinds if function == "memcpy" else kinds == [kind]


def own_routine(file: Path, old: str = "", new: str = "") -> Routine:
    """The routine of one string instruction as a person's own file, changed."""
    text = find_routine("fsrm").path.read_text("utf-8")
    text = text.replace("(fsrm)", "(mine)").replace("requires: fsrm", "requires: sse2")
    file.write_text(text.replace(old, new) if old else text)
    return find_routine(str(file))


@pytest.mark.slow
def test_the_answer_is_kept_for_the_same_code_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[int] = []
    judge = checking.judge
    monkeypatch.setattr(
        checking, "judge", lambda status, output: executed.append(status) or judge(status, output)
    )
    mine = own_routine(tmp_path / "mine.S")
    first, again = (checking.check(mine, tmp_path / "c", mode="thin") for _ in range(2))
    assert (len(executed), again) == (1, first)
    (record,) = (tmp_path / "c" / "memcpy" / "checked").glob("*.json")
    record.write_text(json.dumps({"schema": 1, "passed": True}))
    assert checking.check(mine, tmp_path / "c", mode="thin") == first and len(executed) == 2
    mine = own_routine(tmp_path / "mine.S", "rep movsb", "rep movsb\n\tnop")
    with monkeypatch.context() as busy:  # the machine's fault, and not the routine's for ever
        busy.setattr(checking, "TIMEOUT_S", 0.001)
        assert not checking.check(mine, tmp_path / "c", mode="thin").passed
    assert checking.check(mine, tmp_path / "c", mode="thin").passed and len(executed) == 4


@pytest.mark.slow
def test_no_broken_routine_is_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdyno.measure.builder.fetch", lambda *_, **__: pytest.fail("went on"))
    own_routine(tmp_path / "mine.S", "rep movsb", "rep movsb\n\tmovb $0, (%rdi)")
    (tmp_path / "src").mkdir()
    experiment = loader.parse(
        'name = "x"\nquestion = "?"\nbaseline = "stock"\n[kernel]\nsource = "path:src"\n'
        '[variant.stock]\nmemcpy = "./mine.S"\n[variant.b]\n[[suite]]\nname = "unixbench"\n',
        "x.toml",
        tmp_path,
        vocabulary(load()),
    )
    with pytest.raises(UsageError, match=r"memcpy routine 'mine' is refused.*canary: size") as no:
        check_experiment(experiment, tmp_path / "cache", lambda _text, _part: None)
    assert "kdyno lab memcpy check" in str(no.value)


def test_a_file_that_is_no_assembly_is_refused(tmp_path: Path) -> None:
    mine = own_routine(tmp_path / "mine.S", "rep movsb", "rep movs everything")
    with pytest.raises(UsageError, match="does not assemble"):
        checking.check(mine, tmp_path)


def test_what_a_cpu_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "this_cpu", lambda: cpu.Cpu("", "", frozenset({"sse2"})))
    with pytest.raises(UsageError, match="needs avx2, which this CPU lacks"):
        checking.check(find_routine("avx2"), tmp_path)


DIED = "died: the program that checks it "


@pytest.mark.parametrize(
    ("status", "output", "violations"),
    [
        (0, "9 cases, 0 kinds of violation\n", ()),
        (1, "bytes: size 3\n9 cases, 1 kinds of violation\n", ("bytes: size 3",)),
        (-11, "", (f"{DIED}ended with signal 11",)),
        (0, "", (f"{DIED}ended with exit status 0",)),
        (1, "9 cases, 1 kinds\n", (f"{DIED}contradicts itself",)),
        (0, "bytes: x\n9 cases, 0\n", ("bytes: x", f"{DIED}contradicts itself")),
    ],
)
def test_the_checkers_word_is_not_taken_for_more_than_it_is(
    status: int, output: str, violations: tuple[str, ...]
) -> None:
    checked = checking.judge(status, output)
    assert (checked.passed, checked.violations) == (violations == (), violations)


@pytest.mark.slow
@given(st.integers(-64, 255), st.text(max_size=200))
def test_no_output_makes_a_pass_of_a_failure(status: int, output: str) -> None:
    checked = checking.judge(status, output)
    assert not checked.passed or (status == 0 and " cases," in output)


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
        ("kill -40 $$", "died of signal 40"),  # of the real-time ones, which have no names
        ("exit 3", "ended with status 3"),
        ("echo done $id NaN 4.0", "spoiled the timing program"),
        ("echo done $id -1 4.0", "spoiled the timing program"),
        ("echo done 9 1 4.0", "spoiled the timing program"),
        ("printf '\\377\\0 \\n'", "spoiled the timing program"),
        ("exec sleep 60", "did not return within"),
    ],
)
def test_who_faults_or_hangs_fails_and_no_other(
    tmp_path: Path, code: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "HANG_S", 2.0 if "sleep" in code else 10.0)
    timed = time_all(script(tmp_path, code), tmp_path / "rack", 0, TASKS)
    assert sorted(timed.times) == ["2", "4"]
    assert list(timed.failed) == ["a"] and reason in timed.failed["a"]


def test_the_programs_own_failure(tmp_path: Path) -> None:
    program = script(tmp_path, "echo no work at all >&2; exit 2")
    with pytest.raises(ToolError, match="no work at all"):
        time_all(program, tmp_path / "rack", 0, TASKS)
    program.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(ToolError, match="timing program failed"):
        time_all(program, tmp_path / "rack", 0, TASKS)


@pytest.mark.slow
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
    text = f'#include "routine.h"\nROUTINE_START({name})\n{code}\nROUTINE_END({name})\n'
    path.write_text(described() + text)
    return path


@pytest.mark.slow
def test_a_real_block_with_one_that_faults(tmp_path: Path) -> None:
    path = routine(tmp_path, "faulty", "movq $0, %rax\nmovq %rax, (%rax)\nRET")
    faulty = checking.routine_contender(find_routine(str(path)), tmp_path)
    field = [faulty, *checking.standing(tmp_path)]
    timed = (loads.fixed("L1", 64, "both"), loads.ranged("L1", 1, 256))
    plan = replace(loads.quick(), loads=timed, seconds=0.0, fewest_blocks=2, repetition_ns=2000)
    (guest,) = place(1).guest
    bench = timing.measure(field, plan, tmp_path, guest)
    assert bench.blocks == 2 and set(bench.ns) == {"rep-movsb", "rep-movsq", "glibc", "nothing"}
    assert "SIGSEGV" in bench.failed["faulty"]
    assert all(value > 0 for rows in bench.ns.values() for row in rows.values() for value in row)
    assert bench.ceilings["L1"].bytes_per_ns > 0 and bench.clock.core_ghz > 0


@pytest.mark.slow
def test_a_rack_places_routines_anew(tmp_path: Path) -> None:
    field = checking.standing(tmp_path)
    racks = [checking.rack(field, seed, tmp_path, tmp_path).read_bytes() for seed in (1, 2, 1)]
    assert racks[0] == racks[2] and racks[0] != racks[1]


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


@pytest.mark.slow
def test_who_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "missing", lambda _requires: ())

    def gathered(*names: str, wrong: str = "") -> tuple[list[str], dict[str, str]]:
        failing = {wrong: "bytes"} if wrong else {}
        monkeypatch.setattr(timing, "failing", lambda *_: failing)
        contenders, left_out = timing.gather(names, tmp_path)
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
    chosen = best("memcpy", "um")[0]
    assert gathered(BEST, chosen)[0].count(chosen) == 1
