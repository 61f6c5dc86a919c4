# SPDX-License-Identifier: MIT
"""Correctness before speed: sound routines pass, each kind of broken one is named and refused."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from needed import need

from kdyno.errors import UsageError
from kdyno.experiment.loader import parse
from kdyno.kernels import cpu
from kdyno.kernels.routines import checking
from kdyno.kernels.routines.checking import assembled
from kdyno.kernels.routines.routine import (
    FUNCTIONS,
    Routine,
    find_by_stem,
    find_routine,
    flatten,
    list_routines,
)
from kdyno.measure.builder import check as check_experiment
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites.catalogue import load

BROKEN = Path(__file__).parent / "routine" / "broken.S"
KINDS = (
    *("bytes", "canary", "source", "guard", "return", "saved", "direction", "upper", "same"),
    *("hang", "illegal", "died"),
)
ROUTINES = [each for function in FUNCTIONS for each in list_routines(function=function)]

pytestmark = pytest.mark.needs("gcc")


def broken(kind: str, function: str = "memcpy") -> Routine:
    return Routine(f"broken_{kind}", BROKEN, "", (), "", function=function)


def emulated(routine: Routine, folder: Path) -> checking.Checked:
    """The same check, with what this CPU lacks emulated: AVX-512 by avx512.c, AVX2 and all else by
    QEMU, which has no AVX-512. Neither tells which register halves are in use."""
    code = assembled(flatten(routine.path), str(routine.path), folder, routine=True)
    words = ["gcc", "-std=gnu11", "-O2", checking.PROGRAM, BROKEN.with_name("avx512.c"), code]
    words += [f"-Wl,--defsym=routine_under_test={routine.symbol}", "-Wl,--wrap=sigaction"]
    subprocess.run([*words, "-o", folder / "check"], check=True)
    line = [folder / "check", routine.function, "thin"]
    if not all(feature.startswith("avx512") for feature in cpu.missing(routine.requires)):
        need("qemu-x86_64")
        line = ["qemu-x86_64", "-cpu", "max", *line]
    process = subprocess.run(line, capture_output=True, text=True)
    return checking.judge(process.returncode, process.stdout)


@pytest.mark.parametrize(
    "routine",
    [
        # By emulation it takes seconds; with the CPU's own instructions, a part of one.
        pytest.param(each, marks=[pytest.mark.slow] if cpu.missing(each.requires) else [])
        for each in ROUTINES
    ],
    ids=lambda routine: routine.path.stem,
)
def test_every_routine_is_right(routine: Routine, tmp_path: Path) -> None:
    if cpu.missing(routine.requires):
        checked = emulated(routine, tmp_path)
    else:
        checked = checking.check(routine, tmp_path, mode="thin")
    assert (checked.passed, checked.violations) == (True, ())
    assert checked.cases >= 400 and not checked.cached


@pytest.mark.slow
@pytest.mark.parametrize(
    ("routine", "violations"),
    [
        ("avx2", 0),
        ("memset-avx2", 0),
        ("overlap-avx512", 0),
        ("clear_page-avx512-nt", 0),
        (BROKEN, 1),
    ],
    ids=str,
)
def test_a_cpu_without_vectors_checks_by_emulation(
    routine: str | Path, violations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "this_cpu", lambda: cpu.Cpu("", "", frozenset({"sse2"})))
    chosen = find_by_stem(routine) if isinstance(routine, str) else broken("bytes")
    chosen = replace(chosen, requires=("avx2", *chosen.requires))
    checked = emulated(chosen, tmp_path)
    assert len(checked.violations) == violations and checked.cases >= 400


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
    assert kind in kinds if function == "memcpy" else kinds == [kind]


def own_routine(file: Path, old: str = "", new: str = "") -> Routine:
    """The routine of one string instruction as a person's own file, changed."""
    text = find_routine("fsrm").path.read_text("utf-8")
    text = text.replace("(fsrm)", "(mine)").replace("requires: fsrm", "requires: sse2")
    file.write_text(text.replace(old, new) if old else text)
    return find_routine(str(file))


@pytest.mark.slow
def test_the_answer_is_kept_for_the_same_code_only(tmp_path: Path) -> None:
    mine = own_routine(tmp_path / "mine.S")
    first, again = (checking.check(mine, tmp_path / "c", mode="thin") for _ in range(2))
    assert (first.cached, again.cached, again.cases) == (False, True, first.cases)
    (record,) = (tmp_path / "c" / "memcpy" / "checked").glob("*.json")
    record.write_text(json.dumps({"schema": 1, "passed": True}))
    assert not checking.check(mine, tmp_path / "c", mode="thin").cached
    mine = own_routine(tmp_path / "mine.S", "rep movsb", "rep movsb\n\tnop")
    assert not checking.check(mine, tmp_path / "c", mode="thin").cached


@pytest.mark.slow
def test_a_broken_routine_is_never_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdyno.measure.builder.fetch", lambda *_, **__: pytest.fail("went on"))
    own_routine(tmp_path / "mine.S", "rep movsb", "rep movsb\n\tmovb $0, (%rdi)")
    (tmp_path / "src").mkdir()
    experiment = parse(
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


def test_a_cpu_that_lacks_something_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@given(st.integers(-64, 255), st.text(max_size=200))
def test_no_output_makes_a_pass_of_a_failure(status: int, output: str) -> None:
    checked = checking.judge(status, output)
    assert not checked.passed or (status == 0 and " cases," in output)
