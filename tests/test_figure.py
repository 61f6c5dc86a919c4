# SPDX-License-Identifier: MIT
"""The figure in what a program prints, and suites of existing programs in TOML alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdyno.errors import ToolError, UsageError
from kdyno.measure.bench import equip
from kdyno.measure.boot import OUTPUT_KEPT, load_flags, samples_of
from kdyno.suites import record
from kdyno.suites.catalogue import Case, load, load_file
from kdyno.suites.figure import MOST, NoFigure, read
from kdyno.suites.job import Job, case_job, in_place
from kdyno.suites.protocol import Transcript

HACKBENCH = """
name = "mine"
help = "an existing program"
[case.one]
help     = "messages"
unit     = "s"
better   = "lower"
command  = ["hackbench", "-g", "{groups}"]
figure   = 'Time: (\\S+)'
also     = { mean_ms = 'mean ([0-9.]+)' }
settings = { groups = 4 }
quick    = { groups = 1, warmups = 0 }
install  = "rt-tests"
"""


def suite_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return path


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return load([suite_file(tmp_path, HACKBENCH)])["mine"].case("one")


def test_one_file_makes_a_suite_of_a_program(case: Case) -> None:
    job = case_job(case, seconds=2.0)
    assert job.bench == "run"
    assert job.args == ("--warmups", "1", "--figure", "printed", "--", "hackbench", "-g", "4")
    assert (job.seconds, job.operations, job.timeout_s) == (None, 1, 68.0)
    quick = case_job(case, seconds=0.2, quick=True)
    assert quick.args == ("--warmups", "0", "--figure", "printed", "--", "hackbench", "-g", "1")


def test_the_figure_is_read(case: Case) -> None:
    reading = read(case, "Running\nTime: 1.25\nmean 3.5 ms\n")
    assert reading.value == 1.25
    assert reading.also == {"mean_ms": 3.5}
    assert read(replace(case, scale=1000.0), "Time: 1.25e-3").value == 1.25
    assert read(case, "Time: 2").also == {}


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("", ["no figure", "hackbench", "it printed nothing"]),
        ("nothing of the kind", ["no figure", "it printed 'nothing of the kind'"]),
        ("Time: 1\nTime: 2", ["2 figures (1, 2)"]),
        ("Time: nan", ["the figure is nan"]),
        ("Time: -NaN", ["the figure is -NaN"]),
        ("Time: inf", ["the figure is inf"]),
        ("Time: -1.5", ["the figure is negative: -1.5"]),
        ("Time: 0.000", ["the figure is zero: 0.000"]),
        ("Time: fast", ["the figure is not a number but 'fast'"]),
        ("Time: 1,5", ["not a number but '1,5'"]),
        ("Time: 0x10", ["not a number"]),
        ("Time: 1e999", ["beyond every number"]),
        ("Time: 1_000", ["not a number"]),
        ("Time: \u0661", ["not a number"]),
        ("x" * 5000 + "\nTime: nan", ["the figure is nan", "it printed '…"]),
    ],
)
def test_what_is_no_figure_is_told_with_the_text(case: Case, output: str, words: list[str]) -> None:
    with pytest.raises(NoFigure) as error:
        read(case, output)
    for word in words:
        assert word in str(error.value)
    assert len(str(error.value)) < 600


@given(st.text())
def test_no_output_breaks_the_reading(text: str) -> None:
    case = Case("s", "c", "h", "s", "lower", "run", figure=r"(\S+)", command=("p",))
    with suppress(NoFigure):
        assert 1 / MOST <= read(case, text).value <= MOST


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('unit     = "s"\n', "", ["case.one.unit: is missing"]),
        ('better   = "lower"\n', "", ["case.one.better: is missing"]),
        (r"'Time: (\S+)'", "'Time: [0-9]+'", ["case.one.figure", "0 groups"]),
        (r"'Time: (\S+)'", "'(a)(b)'", ["case.one.figure", "2 groups"]),
        (r"'Time: (\S+)'", "'('", ["case.one.figure", "not a regular expression"]),
        ("'mean ([0-9.]+)'", "3", ["case.one.also.mean_ms: 3,"]),
        ('"{groups}"', '"{grups}"', ["{grups}", 'mean "groups"?']),
        ("quick    = { groups", "quick    = { group", ["quick.group:", 'mean "groups"?']),
        ("{ groups = 4 }", "{ seconds = 4 }", ["settings.seconds: is not a name of a setting"]),
        ("{ groups = 4 }", "{ groups = true }", ["settings.groups: true"]),
        ('["hackbench", "-g", "{groups}"]', "[]", ["case.one.command: an array"]),
        ('["hackbench", "-g", "{groups}"]', "[1]", ["case.one.command: an array"]),
        ('"rt-tests"', '"rt-tests"\nbench = "pipe"', ["case.one.bench: excludes command"]),
        ('"rt-tests"', '"rt-tests"\ndisk = "1G"', ["case.one.disk: goes together with {disk}"]),
        ('"rt-tests"', '"rt-tests"\ndisk = "1"', ['case.one.disk: "1" is not a size such as']),
        ('"{groups}"', '"{cpus}"', ["settings.groups: the command has no {groups}"]),
        ('"{groups}"', '"{groups}", "{tree}"', ["case.one.tree: goes together with {tree}"]),
        ('"rt-tests"', '"rt-tests"\nwarmups = -1', ["warmups: -1 should be greater"]),
        ('"rt-tests"', '"rt-tests"\nload = "jobs"', ["case.one.load: ", "Allowed: groups"]),
        ('"rt-tests"', '"rt-tests"\nneeds = [1]', ["case.one.needs[1]: 1,"]),
        ('"rt-tests"', '"rt-tests"\nprepare = []', ["case.one.prepare: "]),
        ('command  = ["hackbench", "-g", "{groups}"]', 'bench = "pipe"', ["command = [...]"]),
    ],
)
def test_mistakes_in_such_a_suite_are_named(
    tmp_path: Path, old: str, new: str, words: list[str]
) -> None:
    assert old in HACKBENCH
    path = suite_file(tmp_path, HACKBENCH.replace(old, new, 1))
    with pytest.raises(UsageError) as error:
        load_file(path)
    for word in [str(path), *words]:
        assert word in str(error.value)


def test_the_places_of_a_machine_go_only_where_they_are_asked_for(case: Case) -> None:
    asked = case_job(replace(case, command=("sh", "{programs}/x.sh", "{dir}", "{}")))
    user = case_job(load()["run"].case("command"), command=("echo", "{dir}"))
    job = in_place(Job((asked, user)), {"dir": "/d", "programs": "/p"})
    assert job.cases[0].args[-3:] == ("/p/x.sh", "/d", "{}")
    assert job.cases[1].args == ("--", "echo", "{dir}")


def test_a_missing_program_is_a_skip_with_what_installs_it(case: Case, tmp_path: Path) -> None:
    there = replace(case, name="there", needs=("sh",))
    gone = replace(case, name="gone", needs=("no-such-program",))
    half = replace(case, name="half", needs=("{programs}/fft", "no-such-program"), install="")
    own = replace(case, name="tree", needs=("sh",), tree=True)
    found = equip([there, gone, half, own], tmp_path / "guest", None, tmp_path, None, print)
    assert found.lacking == (
        "",
        "no-such-program is not installed: apt-get install rt-tests",
        "fft, no-such-program are not installed",
        'it compiles a kernel source: give [kernel] source = "debian:linux-source-7.3"',
    )
    with pytest.raises(ToolError, match="no case can run here: no-such-program is not installed"):
        equip([gone], tmp_path / "guest", None, tmp_path, None, print)


def said(case: int, output: str, **extra: str) -> record.Sample:
    return record.Sample(case, ((1, 10**9),), 1, 2, 3, 4, {"stdout": output, **extra})


def test_samples_of_a_boot_with_a_skip_a_figure_and_errors(case: Case) -> None:
    cases = [replace(case, name=name) for name in ("gone", "good", "bad", "hung", "never")]
    results = (
        said(0, "x" * 9000 + "\nTime: 3\n", low_parallelism_percent="40.0", load="100:1:9"),
        said(1, "Time: nan"),
        record.CaseError(2, "not done after its time limit of 60 s"),
    )
    found = samples_of(cases, Transcript(4, results=results), ("not installed", "", "", "", ""))
    assert [(it.case, it.status, it.score) for it in found] == [
        ("gone", "skip", None),
        ("good", "ok", 3.0),
        ("bad", "error", None),
        ("hung", "error", None),
    ]
    assert found[0].text == "not installed"
    assert found[2].text.startswith("the figure is nan")
    assert len(str(found[1].extra["stdout"])) == OUTPUT_KEPT
    assert found[1].extra["load"] == "100:1:9"
    (flag,) = load_flags(found)
    assert flag.kind == "low-parallelism"
    assert flag.text == "mine/good: parallelism fell below half of -j for 40 % of the time"


def test_shipped_suites_of_programs_say_what_they_need() -> None:
    suites = load()
    names = {
        "hackbench", "sysbench", "stress-ng", "perf-bench", "fio", "tiobench", "apachebench",
        "kernel-compile",
    }  # fmt: skip
    assert names <= set(suites)
    for name in names:
        for case in suites[name].cases:
            assert case.figure and case.install and case.needs, case
            assert case_job(case, quick=True).operations == 1
    phases = ["write", "random_write", "read", "random_read"]
    assert [case.name for case in suites["tiobench"].cases] == phases


@pytest.mark.parametrize(
    ("suite", "name", "output", "value"),
    [
        ("hackbench", "pipes", "Running in process mode\nTime: 0.118\n", 0.118),
        ("sysbench", "cpu", "    events per second:  3920.62\n", 3920.62),
        ("sysbench", "memory", "38.5 MiB transferred (39.44 MiB/sec)\n", 39.44),
        (
            "stress-ng",
            "pipe",
            "stress-ng: metrc: [1] stressor  bogo ops real time  usr time\n"
            "stress-ng: metrc: [1] pipe        568393      1.00      0.14      0.88    566576.68"
            "      555651.36       101.97          2396\n"
            "stress-ng: metrc: [1] pipe                 277.03 MB per sec pipe write rate\n",
            566576.68,
        ),
        ("perf-bench", "sched-messaging", "\n     Total time: 0.708 [sec]\n", 0.708),
        ("perf-bench", "sched-pipe", "     Total time: 1.9 [sec]\n\n  39.9683 usecs/op\n", 39.9683),
        ("perf-bench", "mem-memcpy", "# Copying 16MB\n\n       9.591774 GB/sec\n", 9.591774),
        ("fio", "read-4k", "3;fio-3.33;read-4k;0;0;65536;417426;104356;157;" + "0;" * 90, 417426),
        ("fio", "write-4k", "3;fio-3.33;write-4k;0;0;" + "0;" * 41 + "4096;512000;1;8;0", 512000),
        ("tiobench", "read", "mb_per_s: 415.5844\ncpu_percent: 1\n", 415.5844),
        ("apachebench", "default-page", "requests_per_s: 7170.69\n", 7170.69),
        ("kernel-compile", "lib", "real_s: 5.589\nuser_s: 0.000\n", 5.589),
    ],
)
def test_recorded_output_of_the_shipped_programs(
    suite: str, name: str, output: str, value: float
) -> None:
    assert read(load()[suite].case(name), output).value == value
