# SPDX-License-Identifier: MIT
"""The catalogue, the job file and the scores."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment, SuiteUse
from kdyno.paths import data_root
from kdyno.suites.catalogue import find, load, load_file
from kdyno.suites.job import CaseJob, Job, case_job, cases_of, jobs_of, render
from kdyno.suites.score import SuiteIndex, case_index, score_of, suite_index, unixbench_mean

NONCE = "0f" * 16

GOOD = """
name = "mine"
help = "my own"
[case.one]
help = "h"
unit = "loops/s"
better = "higher"
bench = "pipe"
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


def test_packaged_suites_are_complete() -> None:
    suites = load()
    assert set(suites) >= {"unixbench", "run"}
    benches = {path.stem for path in (data_root() / "guest" / "bench").glob("*.c")}
    for name, suite in suites.items():
        assert suite.path is not None
        assert suite.path.stem == name
        for case in suite.cases:
            assert case.help and case.unit and case.bench in benches, case
            assert case.better in ("higher", "lower")


UNIXBENCH = """
    dhry2reg whetstone-double execl fscopy-64 fscopy-256 fscopy-1024 fscopy-4096 fscopy-65536
    fsread-256 fsread-1024 fsread-4096 fswrite-256 fswrite-1024 fswrite-4096 pipe context1 spawn
    shell1 shell8 syscall
"""
BASELINES = {
    "dhry2reg": 116700.0, "whetstone-double": 55.0, "execl": 43.0, "fscopy-1024": 3960.0,
    "fscopy-256": 1655.0, "fscopy-4096": 5800.0, "pipe": 12440.0, "context1": 4000.0,
    "spawn": 126.0, "shell1": 42.4, "shell8": 6.0, "syscall": 15000.0,
}  # fmt: skip


def test_unixbench_has_its_cases_and_controls() -> None:
    suite = load()["unixbench"]
    assert [case.name for case in suite.cases] == UNIXBENCH.split()
    assert [case.name for case in suite.cases if case.control] == ["dhry2reg", "whetstone-double"]
    assert {case.name: case.baseline for case in suite.cases if case.baseline} == BASELINES


def test_a_user_s_file_joins(tmp_path: Path) -> None:
    suites = load([write(tmp_path, GOOD)])
    assert suites["mine"].case("one").bench == "pipe"
    again = write(tmp_path, GOOD.replace("mine", "run", 1))
    with pytest.raises(UsageError, match="already has suite 'run'"):
        load([again])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('unit = "loops/s"\n', "", ["case.one.unit: is missing"]),
        ('better = "higher"\n', "", ["case.one.better: is missing"]),
        ('"higher"', '"highr"', ['case.one.better: "highr"', 'mean "higher"?']),
        ("bench =", "bensch =", ["case.one.bensch: unknown key", 'mean "bench"?']),
        ('bench = "pipe"', 'bench = "pipe"\nbaselin = 3', [":9: case.one.baselin", '"baseline"?']),
        ('bench = "pipe"', 'bench = "pipe"\nscale = 0', ["case.one.scale: 0 ", "greater than 0"]),
        ('bench = "pipe"', 'bench = "pipe"\nscale = nan', ["case.one.scale: nan"]),
        ('bench = "pipe"', 'bench = "pipe"\nscale = true', ["case.one.scale: true"]),
        ('bench = "pipe"', 'bench = "pipe"\ncontrol = 1', ["case.one.control: 1,"]),
        ('bench = "pipe"', 'bench = "pipe"\nargs = [1]', ["case.one.args[1]: 1,"]),
        ('bench = "pipe"', 'bench = "pipe"\nscore = "time"', ['does not fit better = "higher"']),
        ('help = "my own"', 'help = " "', ['help: " "']),
        ('name = "mine"', 'name = "a b"', ['name: "a b"']),
        ("[case.one]", "[case.'a b']", ["a name has only"]),
        ("[case.one]", "[cases.one]", ["case: is missing", "cases: unknown key"]),
        ('name = "mine"', "name = ", ["not TOML"]),
    ],
)
def test_mistakes_in_a_suite_are_named(
    tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(UsageError) as error:
        load_file(path)
    for word in [str(path), *words]:
        assert word in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.toml: cannot read"):
        load_file(tmp_path / "none.toml")


def test_unknown_names_get_the_nearest() -> None:
    suites = load()
    with pytest.raises(UsageError, match="did you mean 'unixbench'"):
        find(suites, "unixbensh")
    with pytest.raises(UsageError, match="did you mean 'fscopy-1024'"):
        suites["unixbench"].case("fscopy-1042")


def test_case_job() -> None:
    suites = load()
    pipe = suites["unixbench"].case("fscopy-256")
    job = case_job(pipe, seconds=2.0)
    assert (job.bench, job.args) == ("fscopy", ("256", "500"))
    assert (job.seconds, job.operations) == (2.0, None)
    assert job.timeout_s == 68.0
    assert case_job(pipe, operations=9).seconds is None
    run = suites["run"].case("command")
    assert case_job(run, command=("ls", "-l")).args == ("--", "ls", "-l")
    with pytest.raises(UsageError, match="run/command: command is missing"):
        case_job(run)
    with pytest.raises(UsageError, match="takes no command"):
        case_job(pipe, command=("ls",))


def test_render() -> None:
    job = Job(
        (
            CaseJob("u", "pipe", "pipe", (), 0.5, None, 60),
            CaseJob("r", "run", "run", ("--", "", " a  b", "ü"), None, 3, 2.5),
        ),
        (("net.ipv4.tcp_rmem", "4096 8192 16384"),),
    )
    assert render(job, NONCE) == (
        f"kdyno-job 1\nnonce {NONCE}\nsysctl net.ipv4.tcp_rmem 4096 8192 16384\n"
        "case 0 pipe\nseconds 0.500000000\ntimeout 60.000000\n"
        "case 1 run\noperations 3\ntimeout 2.500000\narg --\narg \narg  a  b\narg ü\nend\n"
    )
    assert render(Job(), NONCE) == f"kdyno-job 1\nnonce {NONCE}\nend\n"


GOOD_CASE = CaseJob("s", "c", "pipe")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"args": ("a\nb",)}, "line break"),
        ({"args": ("a\0b",)}, "NUL"),
        ({"args": ("\udcff",)}, "UTF-8"),
        ({"bench": "a b"}, "not a name of a benchmark"),
        ({"bench": "pipe\n"}, "not a name of a benchmark"),
        ({"operations": 5}, "exactly one"),
        ({"seconds": None}, "exactly one"),
        ({"seconds": 0.0}, "seconds is 0.0"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"seconds": None, "operations": 0}, "operations is 0"),
        ({"timeout_s": float("inf")}, "timeout is inf"),
        ({"args": ("x" * 70_000,)}, "shorten"),
        *(((name, value), "sysctl") for name, value in (
            ("a b", "1"), ("../x", "1"), ("", "1"), ("a", "1\n"), ("a", ""), ("a\n", "1"))),
    ],
)  # fmt: skip
def test_render_refuses(change: dict[str, Any] | tuple[str, str], word: str) -> None:
    case = dataclasses.replace(GOOD_CASE, **change) if isinstance(change, dict) else GOOD_CASE
    with pytest.raises(UsageError, match=word):
        render(Job((case,), (change,) if isinstance(change, tuple) else ()), NONCE)


@given(st.lists(st.text(max_size=20), max_size=5))
def test_render_never_lets_an_argument_become_a_line(args: list[str]) -> None:
    try:
        text = render(Job((dataclasses.replace(GOOD_CASE, args=tuple(args)),)), NONCE)
    except UsageError:
        return
    lines = text.split("\n")
    assert [line[4:] for line in lines if line.startswith("arg ")] == args
    assert len(lines) == 7 + len(args)


def test_score_is_the_median() -> None:
    suites = load()
    kib_4 = suites["unixbench"].case("fscopy-4096")
    assert score_of(kib_4, [(10, 10**9), (20, 10**9), (90, 10**9)]) == 80.0
    assert score_of(kib_4, [(10, 10**9), (20, 10**9)]) == 60.0
    run = suites["run"].case("command")
    assert score_of(run, [(2, 3 * 10**9), (1, 10**9), (1, 9 * 10**9)]) == 1.5
    whetstone = suites["unixbench"].case("whetstone-double")
    assert score_of(whetstone, [(40_000, 10**9)]) == pytest.approx(4000.0)
    with pytest.raises(ValueError, match="no repetitions"):
        score_of(run, [])


def test_unixbench_s_own_scoring_drops_the_worst_third() -> None:
    assert unixbench_mean([1.0, 400.0, 100.0]) == pytest.approx(200.0)
    # Of ten passes three are dropped, of two none.
    assert unixbench_mean([1.0, 1.0, 1.0, *[8.0] * 7]) == pytest.approx(8.0)
    assert unixbench_mean([2.0, 8.0]) == pytest.approx(4.0)
    # Where lower is better, the worst are the highest.
    assert unixbench_mean([1.0, 4.0, 90.0], higher_is_better=False) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="no passes"):
        unixbench_mean([])


def test_index() -> None:
    suite = load()["unixbench"]
    baselines = {case.name: case.baseline for case in suite.cases if case.baseline}
    whole = suite_index(suite, baselines)
    assert whole is not None
    assert whole.value == pytest.approx(10.0)
    assert case_index(suite, suite.case("pipe"), 24880.0) == 20.0
    assert case_index(suite, suite.case("fscopy-65536"), 1.0) is None
    lower = dataclasses.replace(suite.case("pipe"), better="lower")
    assert case_index(suite, lower, 24880.0) == 5.0
    doubled = suite_index(suite, {**baselines, "pipe": 24880.0})
    assert doubled is not None
    assert doubled.value == pytest.approx(10.0 * 2 ** (1 / 12))
    del baselines["pipe"], baselines["shell8"]
    assert suite_index(suite, baselines) == SuiteIndex(None, ("pipe", "shell8"))
    assert suite_index(load()["run"], {}) is None


def test_an_experiment_selects_its_cases() -> None:
    uses = (
        SuiteUse("unixbench", ("pipe", "syscall"), seconds=0.2),
        SuiteUse("run", (), operations=3, command=("true",)),
    )
    experiment = Experiment("e", "?", "stock", (), uses)
    cases = cases_of(experiment, load())
    jobs = jobs_of(experiment, load())
    assert [case.name for case in cases] == ["pipe", "syscall", "command"]
    assert [(job.bench, job.seconds, job.operations) for job in jobs] == [
        ("pipe", 0.2, None),
        ("syscall", 0.2, None),
        ("run", None, 3),
    ]
    twice = dataclasses.replace(experiment, suites=uses[:1] * 2)
    with pytest.raises(UsageError, match="unixbench/pipe is asked for twice"):
        cases_of(twice, load())
    wrong = dataclasses.replace(experiment, suites=(SuiteUse("unixbench", ("pip",)),))
    with pytest.raises(UsageError, match="did you mean 'pipe'"):
        cases_of(wrong, load())
