# SPDX-License-Identifier: MIT
"""Correctness before speed: sound routines pass, each kind of broken one is named and refused."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdyno.errors import UsageError
from kdyno.experiment.loader import parse
from kdyno.kernels import cpu
from kdyno.kernels.routines import checking
from kdyno.kernels.routines.checking import assembled
from kdyno.kernels.routines.routine import (
    FUNCTIONS,
    Routine,
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
ROUTINES = [it for function in FUNCTIONS for it in list_routines(function=function)]

pytestmark = pytest.mark.needs("gcc")


def called(routine: Routine) -> str:
    return routine.path.stem


def broken(kind: str, function: str = "memcpy") -> Routine:
    return Routine(f"broken_{kind}", BROKEN, "", (), "", function=function)


def emulated(routine: Routine, folder: Path) -> checking.Checked:
    """The same check, with the instructions that this CPU lacks done by avx512.c."""
    made = assembled(flatten(routine.path), str(routine.path), folder, routine=True)
    words = ["gcc", "-std=gnu11", "-O2", checking.PROGRAM, BROKEN.with_name("avx512.c"), made]
    words += [f"-Wl,--defsym=routine_under_test={routine.symbol}", "-Wl,--wrap=sigaction"]
    subprocess.run([*words, "-o", folder / "check"], check=True)
    line = [folder / "check", routine.function, "thin"]
    done = subprocess.run(line, capture_output=True, text=True)
    return checking.judge(routine, "thin", done.returncode, done.stdout, 0.0)


@pytest.mark.parametrize(
    "routine",
    [
        # By emulation it takes seconds; with the CPU's own instructions, a part of one.
        pytest.param(it, marks=[pytest.mark.slow] if cpu.missing(it.requires) else [])
        for it in ROUTINES
    ],
    ids=called,
)
def test_every_routine_is_right(routine: Routine, tmp_path: Path) -> None:
    if lacking := cpu.missing(routine.requires):
        if not all(feature.startswith("avx512") for feature in lacking):
            pytest.skip(f"this CPU has no {', '.join(lacking)}")
        found = emulated(routine, tmp_path)
    else:
        found = checking.check(routine, tmp_path, mode="thin")
    assert (found.passed, found.violations) == (True, ())
    assert found.cases >= 400 and not found.cached


@pytest.mark.slow
def test_the_full_check_has_every_size_at_every_pair_of_offsets(tmp_path: Path) -> None:
    found = checking.check(find_routine("overlap-sse"), tmp_path)
    assert found.passed and found.cases > 1025 * 64 * 64


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_named(kind: str, tmp_path: Path) -> None:
    if kind == "upper" and "avx" not in cpu.flags():
        pytest.skip("this CPU has no avx")
    found = checking.check(broken(kind), tmp_path, mode="thin")
    if kind == "upper" and not found.upper_readable:
        pytest.skip("this CPU does not tell which registers are in use")
    assert not found.passed
    assert kind in [line.partition(":")[0] for line in found.violations]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "function"),
    [("overlap", "memmove"), ("bytes", "memset"), ("bytes", "clear_page")],
)
def test_other_functions_are_checked_for_what_they_do(
    kind: str, function: str, tmp_path: Path
) -> None:
    found = checking.check(broken(kind, function), tmp_path, mode="thin")
    assert [line.partition(":")[0] for line in found.violations] == [kind]


@pytest.mark.slow
def test_the_answer_is_kept_for_the_same_code_only(tmp_path: Path) -> None:
    file = tmp_path / "mine.S"
    text = find_routine("fsrm").path.read_text("utf-8")
    file.write_text(text.replace("(fsrm)", "(mine)").replace("requires: fsrm", "requires: sse2"))
    mine = find_routine(str(file))
    first, again = (checking.check(mine, tmp_path / "c", mode="thin") for _ in range(2))
    assert (first.cached, again.cached, again.cases) == (False, True, first.cases)
    (record,) = (tmp_path / "c" / "memcpy" / "checked").glob("*.json")
    record.write_text(json.dumps({"schema": 1, "passed": True}))
    assert not checking.check(mine, tmp_path / "c", mode="thin").cached
    file.write_text(file.read_text("utf-8").replace("rep movsb", "rep movsb\n\tnop"))
    assert not checking.check(mine, tmp_path / "c", mode="thin").cached


@pytest.mark.slow
def test_a_broken_routine_is_never_built_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdyno.measure.builder.fetch", lambda *_, **__: pytest.fail("went on"))
    text = find_routine("fsrm").path.read_text("utf-8")
    text = text.replace("(fsrm)", "(mine)").replace("requires: fsrm", "requires: sse2")
    (tmp_path / "mine.S").write_text(text.replace("rep movsb", "rep movsb\n\tmovb $0, (%rdi)"))
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
    file = tmp_path / "mine.S"
    text = find_routine("fsrm").path.read_text("utf-8").replace("(fsrm)", "(mine)")
    file.write_text(text.replace("rep movsb", "rep movs everything"))
    with pytest.raises(UsageError, match="does not assemble"):
        checking.check(find_routine(str(file)), tmp_path)


def test_a_cpu_that_lacks_something_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "this_cpu", lambda: cpu.Cpu("", "", frozenset({"sse2"})))
    with pytest.raises(UsageError, match="needs avx2, which this CPU lacks"):
        checking.check(find_routine("avx2"), tmp_path)


@pytest.mark.parametrize(
    ("status", "output", "said"),
    [
        (0, "9 cases, 0 kinds of violation\n", ()),
        (1, "bytes: size 3\n9 cases, 1 kinds of violation\n", ("bytes: size 3",)),
        (-11, "", ("died: the program that checks it ended with signal 11",)),
        (0, "", ("died: the program that checks it ended with exit status 0",)),
        (1, "9 cases, 1 kinds\n", ("died: the program that checks it contradicts itself",)),
        (
            0,
            "bytes: x\n9 cases, 0\n",
            (
                "bytes: x",
                "died: the program that checks it ",
            ),
        ),
    ],
)
def test_the_checkers_word_is_not_taken_for_more_than_it_is(
    status: int, output: str, said: tuple[str, ...]
) -> None:
    found = checking.judge(find_routine("fsrm"), "thin", status, output, 0.1)
    assert found.passed == (said == ())
    assert len(found.violations) == len(said)
    assert all(have.startswith(want) for have, want in zip(found.violations, said, strict=True))


@given(st.integers(-64, 255), st.text(max_size=200))
def test_no_output_makes_a_pass_of_a_failure(status: int, output: str) -> None:
    found = checking.judge(find_routine("fsrm"), "thin", status, output, 0.1)
    assert not found.passed or (status == 0 and " cases," in output)
