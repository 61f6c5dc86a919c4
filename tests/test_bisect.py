# SPDX-License-Identifier: MIT
"""The search by itself: exact answers, noisy ones, points without figures; commits, patches,
options as points; the answer's words."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import EXPERIMENT, Kdyno
from fake_tree import commit, git
from hypothesis import given, strategies as st
from synthetic_run import record

from benchmarks.simulation import searches
from benchmarks.statistics import recorded
from kdyno.bisect import points, session
from kdyno.bisect.points import Point, Range
from kdyno.bisect.search import MOST_UNUSABLE, Difference, Measured, Same, Search, Span, Unusable
from kdyno.bisect.session import Question, Session, State, Step, Verification, git_log, load, toml
from kdyno.cli import bisect
from kdyno.cli.bisect import Request
from kdyno.errors import ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.kernels.config import Option
from kdyno.kernels.image import Image
from kdyno.kernels.sources import git as fetching
from kdyno.measure import execution
from kdyno.measure.bench import same_kernels
from kdyno.measure.builder import Built, Recipes
from kdyno.measure.execution import Options
from kdyno.measure.vocabulary import vocabulary
from kdyno.store.run import Run
from kdyno.store.verdict import FunctionCounts, Verdict
from kdyno.suites import catalogue

NOISE = 1.96 * math.sqrt(2)
"""Half-width of the difference of two points ÷ standard error of one."""


def difference(log: float, half: float = 1e-9) -> Difference:
    return Difference(math.exp(log), math.exp(log - half), math.exp(log + half))


def simulated(
    values: list[float], seed: int = 0, unusable: frozenset[int] = frozenset(), noise: float = 1.0
) -> Search:
    """A search over points of these log values, each step it names measured once more."""
    generator = random.Random(seed)
    least = abs(values[-1]) / 4 or 0.001
    half = 0.64 * least if noise else 1e-9

    def measured(*chosen: int) -> list[float]:
        return [values[at] + noise * generator.gauss(0, half / NOISE) for at in chosen]

    def probe(state: Search, at: int) -> Measured | Unusable:
        assert state.span is not None
        if at in unusable:
            return Unusable("does not build")
        low, middle, high = measured(state.span.low, at, state.span.high)
        logs = (middle - low, high - middle, high - low)
        return Measured(*(difference(log, half) for log in logs))

    low, high = measured(0, len(values) - 1)
    state = searches.search(Span(0, len(values) - 1, difference(high - low, half)), least, probe)
    for step in list(state.steps):
        low, high = measured(step.low, step.high)
        if not difference(high - low, half).is_step(least):
            state.reject(step)
    return state


def step_at(count: int, *steps: tuple[int, float]) -> list[float]:
    return [sum(size for at, size in steps if number >= at) for number in range(count + 1)]


@pytest.mark.slow
@given(st.data())
def test_without_noise_the_step_is_in_the_range_that_is_named(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 300))
    at = data.draw(st.integers(1, count))
    inside = st.integers(1, count - 1) if count > 1 else st.nothing()
    unusable = data.draw(st.frozensets(inside, max_size=20)) if count > 1 else frozenset()
    state = simulated(step_at(count, (at, -0.01)), unusable=unusable, noise=0.0)
    (step,) = state.steps
    assert state.certain and step.low < at <= step.high
    without = set(range(step.low + 1, step.high))
    # Of a range in which so many have none the others are not tried.
    assert without <= unusable or len(without & unusable) >= MOST_UNUSABLE
    if not unusable:
        assert step.high == step.low + 1
        assert state.probes <= math.ceil(math.log2(count)) if count > 1 else state.probes == 0


@pytest.mark.slow
@pytest.mark.parametrize(("count", "share"), [(8, 0.0), (64, 0.1), (4096, 0.05)])
def test_with_noise_no_wrong_commit_in_two_hundred(count: int, share: float) -> None:
    for seed in range(200):
        generator = random.Random(seed)
        at = generator.randint(1, count)
        unusable = frozenset(number for number in range(1, count) if generator.random() < share)
        state = simulated(step_at(count, (at, 0.01)), seed, unusable)
        (step,) = state.steps
        assert step.low < at <= step.high


@pytest.mark.slow
def test_two_steps_are_both_found_and_none_is_the_cause() -> None:
    results = [simulated(step_at(64, (10, 0.01), (40, -0.004)), seed) for seed in range(100)]
    named = [sorted(step.high for step in state.steps) for state in results]
    assert named.count([10, 40]) >= 98
    assert not any(state.certain for state, own in zip(results, named, strict=True) if len(own) > 1)


def test_a_slow_drift_names_no_commit() -> None:
    drift = step_at(64, *((at, 0.0005) for at in range(1, 65)))
    results = [simulated(drift, seed) for seed in range(100)]
    assert sum(bool(state.steps) for state in results) <= 1
    assert sum(bool(state.spread) for state in results) >= 80


def test_a_range_that_proves_empty_sends_the_search_back() -> None:
    """The first probe errs: it sees the step of the second half in the first."""
    state = Search(Span(0, 8, difference(0.01)), least=0.0025)
    yes, no = difference(0.01), difference(0.0)
    state.record(4, Measured(yes, no, yes))
    assert state.span is not None and (state.span.low, state.span.high) == (0, 4)
    state.record(2, Measured(no, no, no))
    assert state.span is not None and (state.span.low, state.span.high) == (4, 8)


def test_an_equal_kernel_narrows_the_range_without_a_measurement() -> None:
    state = Search(Span(0, 4, difference(0.01)), least=0.0025)
    state.record(2, Same(as_low=True))
    assert state.span is not None and (state.span.low, state.span.high) == (2, 4)
    state.record(3, Same(as_low=False))
    assert [(step.low, step.high) for step in state.steps] == [(2, 3)] and state.span is None


def test_a_range_in_which_nothing_has_a_figure_is_given_up() -> None:
    search = Search(Span(0, 500, difference(0.02)), 0.005)
    while search.span is not None:
        search.record(search.probe((), 60.0, 60.0), Unusable("it does not build"))
    assert search.probes == MOST_UNUSABLE and search.left() == 0
    assert [(step.low, step.high) for step in search.steps] == [(0, 500)] and search.certain


def test_a_built_neighbour_is_preferred_to_the_middle() -> None:
    state = Search(Span(0, 64, difference(0.01)), least=0.0025)
    assert state.probe({0, 64}, 60, 30) == 32
    assert state.probe({0, 64, 27}, 60, 30) == 27
    assert state.probe({0, 64, 2}, 60, 30) == 32
    state.record(32, Unusable("does not build"))
    assert abs(state.probe({0, 64}, 60, 30) - 32) > 2


# Points.


LINE = ["base", "slow", "docs", "merge side", "last"]


def titles(line: Iterable[Point]) -> list[str]:
    return [point.title for point in line]


def repository(folder: Path) -> Path:
    """main: 5 commits and a merge of a branch of 2."""

    def change(title: str, file: str, text: str) -> None:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
        commit(folder, title)

    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    change("base", "fs/pipe.c", "one\n")
    change("slow", "fs/pipe.c", "one\ntwo\n")
    change("docs", "Documentation/x.rst", "x\n")
    git(folder, "checkout", "-q", "-b", "side", "HEAD~1")
    change("side 1", "fs/open.c", "a\n")
    change("side 2", "fs/Makefile", "b\n")
    git(folder, "checkout", "-q", "main")
    git(folder, "merge", "-q", "--no-ff", "-m", "merge side", "side")
    change("last", "arch/arm64/a.c", "y\n")
    return folder


@pytest.mark.slow
def test_commits_are_those_of_the_first_parents_and_patches_over_the_good_tree(
    tmp_path: Path,
) -> None:
    place = repository(tmp_path / "linux")
    commits = points.commits(place, "HEAD~4", "main")
    assert titles(commits) == LINE
    assert [each.name[:2] for each in commits] == ["0-", "1-", "2-", "3-", "4-"]
    merge = commits[3]
    assert len(merge.parents) == 2 and set(merge.files) == {"fs/open.c", "fs/Makefile"}
    base, last = points.merged(place, merge, commits[2]) or ("", "")
    assert titles(points.commits(place, base, last)) == ["slow", "side 1", "side 2"]
    assert points.merged(place, commits[1], commits[0]) is None
    active = titles(points.active(commits, frozenset({"fs/pipe.c"})))
    assert active == ["base", "slow", "merge side"], "it changes a Makefile"
    # Each is a patch over the good tree.
    patches = tmp_path / "patches"
    good = points.with_keys(place, commits[0], commits[0].commit, patches)
    assert good.keys == {"source": f"git:{place}#{commits[0].commit}"}
    slow = points.with_keys(place, commits[1], commits[0].commit, patches)
    assert slow.keys["source"] == good.keys["source"]
    (patch,) = slow.keys["patches"]
    assert "+two" in Path(patch).read_text()
    assert "-two" in points.reverted(place, commits[1], patches).read_text()


@pytest.mark.slow
def test_a_branch_that_took_the_mainline_in_is_searched_from_there(tmp_path: Path) -> None:
    place = repository(tmp_path / "linux")
    git(place, "checkout", "-q", "-b", "topic", "main~3")
    (place / "fs/file.c").write_text("1\n")
    commit(place, "topic 1")
    git(place, "merge", "-q", "--no-ff", "-m", "main into topic", "main")
    (place / "fs/file.c").write_text("2\n")
    commit(place, "topic 2")
    commits = points.commits(place, "main", "topic")
    assert titles(commits) == ["last", "main into topic", "topic 2"]
    # Of that merge it is the topic's side that the point before does not have.
    base, last = points.merged(place, commits[1], commits[0]) or ("", "")
    assert titles(points.commits(place, base, last)) == ["slow", "topic 1"]


@pytest.mark.slow
def test_a_commit_with_a_link_or_a_submodule_is_a_tree_of_its_own(tmp_path: Path) -> None:
    place = repository(tmp_path / "linux")
    (place / "fs/link").symlink_to("pipe.c")
    commit(place, "a link")
    git(place, "update-index", "--add", "--cacheinfo", f"160000,{'a' * 40},sub")
    git(place, "commit", "-q", "-m", "a submodule")
    good, link, submodule = points.commits(place, "HEAD~2", "HEAD")
    for point in (link, submodule):
        keys = points.with_keys(place, point, good.commit, tmp_path / "patches").keys
        assert keys == {"source": f"git:{place}#{point.commit}"}


def years(folder: Path) -> Path:
    """c0 … c199 on main, ten days apart; c190 merges a branch that left main at c100."""
    parts = []
    for at in range(200):
        who = f"A <a@localhost> {1_600_000_000 + at * 864_000} +0000"
        merge = "merge refs/heads/old\n" if at == 190 else ""
        parts.append(f"commit refs/heads/main\nmark :{at + 1}\ncommitter {who}\n")
        parts.append(f"data <<.\nc{at}\n.\n{merge}M 644 inline fs/{at % 7}.c\ndata <<.\n{at}\n.\n")
        if at == 100:
            parts.append(f"commit refs/heads/old\ncommitter {who}\ndata 3\nold\nfrom :101\n")
            parts.append("M 644 inline fs/old.c\ndata 1\nx\n")
        if at in (185, 192):
            parts.append(f"tag v{at}\nfrom :{at + 1}\ntagger {who}\ndata 0\n\n")
    folder.mkdir()
    git(folder, "init", "-q", "--bare", "-b", "main")
    subprocess.run(
        ["git", "-C", folder, "fast-import", "--quiet"], input="".join(parts).encode(), check=True
    )
    return folder


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_of_a_url_the_commits_between_are_fetched_and_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KDYNO_CACHE", str(tmp_path / "cache"))
    place = years(tmp_path / "linux.git")
    url = f"file://{place}"
    source = Request(source=f"git:{url}", good="v185", bad="v192", case="unixbench/pipe")
    state = bisect._begun(source)
    own = Path(state.question.repository)
    assert titles(state.range.points) == [f"c{at}" for at in range(185, 193)]
    merge = state.range.points[5]
    assert len(merge.parents) == 2
    assert set(git(own, "log", "--all", "--format=%s").split()) == {
        *("c100", "old"),
        *(f"c{at}" for at in range(184, 193)),
    }
    patch = points.with_keys(own, merge, state.range.points[0].commit, tmp_path).keys["patches"]
    assert "+190" in Path(patch[0]).read_text()
    with pytest.raises(ToolError):  # the branch began years before
        points.merged(own, merge, state.range.points[4])
    # Once more, now that it is there; and from a hash.
    for good in ("v185", "v185", state.range.points[0].commit):
        again = fetching.between(url, good, "main", tmp_path / "cache", lambda _text, _part: None)
        assert len(points.commits(again, good, "main")) == 15
    assert points.merged(again, merge, state.range.points[4])
    with pytest.raises(UsageError, match=r"no branch, tag or commit 'v186'.*Did you mean v185\?"):
        fetching.between(url, "v186", "main", tmp_path / "cache", lambda _text, _part: None)


def test_a_series_adds_a_patch_at_each_point(tmp_path: Path) -> None:
    for name in ("0002-b.patch", "0001-a.patch"):
        (tmp_path / name).write_text("x")
    commits = points.series(tmp_path)
    keys = map(Range(commits, "patch").keys, commits)
    names = [[Path(each).name for each in own["patches"]] for own in keys]
    assert names == [[], ["0001-a.patch"], ["0001-a.patch", "0002-b.patch"]]
    assert titles(commits) == ["no patch", "0001-a.patch", "0002-b.patch"]
    (tmp_path / "series").write_text("# order\n0002-b.patch -p1\n0001-a.patch\n")
    assert points.series(tmp_path)[1].title == "0002-b.patch"
    (tmp_path / "series").write_text("0003-c.patch\n")
    with pytest.raises(UsageError, match=r"0003-c\.patch is not there"):
        points.series(tmp_path)


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
@pytest.mark.parametrize(
    ("good", "bad", "words"),
    [
        ("main", "main", "are the same commit"),
        ("main", "HEAD~2", "is a later commit than"),
        ("side", "main~2", "no ancestor"),
        ("v6.1", "main", "no branch, tag or commit 'v6.1'"),
    ],
)
def test_ends_that_cannot_be_are_refused(tmp_path: Path, good: str, bad: str, words: str) -> None:
    source = f"git:{repository(tmp_path / 'linux')}"
    with pytest.raises(UsageError, match=words):
        bisect._begun(Request(source=source, good=good, bad=bad, case="unixbench/pipe"))


def test_options_are_added_one_by_one(tmp_path: Path) -> None:
    good, bad = tmp_path / "a.config", tmp_path / "b.config"
    good.write_text("CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=3\n")
    bad.write_text("# a comment\nCONFIG_A=y\nCONFIG_B=y\n")
    range_ = points.options(good, bad)
    commits, keys = range_.points, range_.keys
    assert not range_.complete
    assert titles(commits) == ["a.config", "CONFIG_B=y", "without CONFIG_C=3"]
    assert keys(commits[2])["config"] == ["CONFIG_A=y", "CONFIG_B=y"], "a number is never unset"
    assert keys(commits[1])["config"] == ["CONFIG_A=y", "CONFIG_B=y", "CONFIG_C=3"]
    with pytest.raises(UsageError, match="the two set the same"):
        points.options(good, good)
    (tmp_path / "whole").write_text(WHOLE.format("gcc 12", "y", "y", "m", 17))
    for pair in ((tmp_path / "whole", bad), (good, tmp_path / "whole")):
        with pytest.raises(UsageError, match=r"whole is a whole configuration and .* only some"):
            points.options(*pair)


WHOLE = """\
# Automatically generated file; DO NOT EDIT.
CONFIG_CC_VERSION_TEXT="{}"
CONFIG_LOCKS={}
CONFIG_LOCKS_SELECTED={}
CONFIG_MODULE={}
CONFIG_SHIFT={}
"""


def test_of_whole_configurations_what_a_person_can_set_is_a_point(tmp_path: Path) -> None:
    texts = [WHOLE.format("gcc 12", "y", "y", "m", 17), WHOLE.format("gcc 14", "n", "n", "y", 15)]
    for name, text in zip("ab", texts, strict=True):
        (tmp_path / name).write_text(text)
    range_ = points.options(tmp_path / "a", tmp_path / "b")
    assert range_.complete
    # A compiler is no option, and a guest has no modules: what was one is not set.
    expected = ["CONFIG_LOCKS=n", "CONFIG_LOCKS_SELECTED=n", "CONFIG_MODULE=y", "CONFIG_SHIFT=15"]
    assert titles(range_.points[1:]) == expected
    assert "# CONFIG_MODULE is not set" in range_.points[0].keys["config"]
    declared = {
        f"CONFIG_{name}": Option("bool", name != "LOCKS_SELECTED")
        for name in ("LOCKS", "LOCKS_SELECTED", "MODULE", "SHIFT")
    }
    # In the end a module that neither kernel has differs no more.
    finals = ("CONFIG_LOCKS=y\nCONFIG_SHIFT=17", "# CONFIG_LOCKS is not set\nCONFIG_SHIFT=15")
    left = points.settable(range_, *finals, declared)
    assert titles(left[1:]) == ["CONFIG_LOCKS=n", "CONFIG_SHIFT=15"]
    along = points.drawn_along(left[1], "CONFIG_LOCKS=y\nCONFIG_LOCKS_SELECTED=y", "CONFIG_NEW=2")
    assert along == ("# CONFIG_LOCKS_SELECTED is not set", "CONFIG_NEW=2")
    with pytest.raises(UsageError, match="the two make the same kernel here"):
        points.settable(range_, finals[0], finals[0], declared)


def test_the_answers_of_a_choice_are_one_point(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("CONFIG_HZ_100=y\n")
    (tmp_path / "b").write_text("CONFIG_HZ_1000=y\nCONFIG_SMP=y\n")
    declared = {"CONFIG_SMP": Option("bool", prompt=True)}
    for hz in (100, 300, 1000):
        declared[f"CONFIG_HZ_{hz}"] = Option("bool", prompt=True, choice="kernel/Kconfig.hz:6")
    range_ = points.options(tmp_path / "a", tmp_path / "b")
    assert len(range_.points) == 4
    own = points.together(range_.points, declared)
    assert titles(own) == ["a", "CONFIG_SMP=y", "CONFIG_HZ_1000=y"]
    assert points.together(own, declared) == own
    config = replace(range_, points=own).keys(own[-1])["config"]
    assert config == ["CONFIG_SMP=y", "CONFIG_HZ_1000=y"]
    finals = "CONFIG_HZ_100=y\nCONFIG_HZ=100", "CONFIG_HZ_1000=y\nCONFIG_HZ=1000"
    assert points.drawn_along(own[-1], *finals) == ("CONFIG_HZ=1000",)


# What is kept, and what is said.


BASE = {
    "kernel": {"source": "debian:linux-source-7.3"},
    "suite": [{"name": "unixbench", "cases": ["pipe"]}],
}


def state_of(range_: Range, **question: Any) -> State:
    """The ends are measured: the bad one is a tenth slower."""
    ends = Difference(0.9, 0.89, 0.91)
    return State(Question("unixbench", "pipe", BASE, **question), range_, ends, "ends")


def session_of(
    folder: Path, state: State, execute: Any = None, tell: Callable[[str], None] = print
) -> Session:
    """With cache and runs beside its folder, which is made."""
    (folder / session.PATCHES).mkdir(parents=True)
    options = Options(folder.parent / "cache", folder.parent / "runs")
    return Session(folder, state, catalogue.load(), options, execute, tell)


def a_state(*, holds: bool = True) -> State:
    names = [Point(f"{n}-{n}aaaaaaa", f"title {n}", {}, f"{n}" + "a" * 39) for n in range(5)]
    yes, no = difference(-0.01, 0.001), difference(0.0, 0.001)
    base = {"machine": {"kind": "uml"}, "kernel": {"config": ["bench"]}}
    unusable = Unusable("variant '3' did not build:\n  error")
    why_not = "only one commit can be taken out alone"
    return State(
        Question("unixbench", "pipe", base),
        Range(tuple(names), "commit"),
        yes,
        "run-0",
        steps=(Step(2, Measured(no, yes, yes), "run-1"), Step(3, unusable)),
        verified=(Verification(2, 4, "run-2", yes, holds, None, why_not),),
        finished=True,
    )


def test_the_state_is_read_back_as_it_was_and_replayed(tmp_path: Path) -> None:
    state, folder = a_state(), tmp_path / "search"
    session_of(folder, state).save()
    assert load(folder) == state
    replayed = state.search()
    assert [(step.low, step.high) for step in replayed.steps] == [(2, 4)] and replayed.span is None
    (folder / session.STATE).write_text("{")
    with pytest.raises(UsageError, match="cannot be read"):
        load(folder)


def test_the_answer_names_the_range_and_why() -> None:
    state = a_state()
    text, data = session.answer(state), session.data(state)
    assert "one of 2 commits, of which only the last has a figure" in text
    assert "title 3  (variant '3' did not build:)" in text and "title 4" in text
    assert state.word == session.FOUND
    assert data["steps"][0]["verified"] and data["probes"][1]["outcome"] == "unusable"
    assert data["probes"][1]["why"].startswith("variant '3' did not build:\n")
    assert data["steps"][0]["not_reverted"] == "only one commit can be taken out alone"
    assert session.letter(state, "x86_64") == "", "a range is no commit"
    unheld = a_state(holds=False)
    assert unheld.search().steps == [] and unheld.word == session.UNCLEAR
    assert "no step" in session.answer(unheld)
    marks = (("bad", 4), ("good", 0), ("good", 2), ("skip", 3))
    log = [f"git bisect {word} {at}{'a' * 39}" for word, at in marks]
    assert git_log(state).splitlines()[1:] == log


def test_a_merge_of_several_branches_is_said_to_be_one() -> None:
    state = a_state()
    *before, last = state.range.points
    last = replace(last, parents=("b" * 40, "c" * 40, "d" * 40))
    good = replace(state.steps[0], at=3)
    range_ = replace(state.range, points=(*before, last))
    text = session.answer(replace(state, range=range_, steps=(good,), verified=()))
    assert "merges    2 branches at once, which are not searched" in text
    assert "branches" not in session.answer(a_state())


def test_the_answer_has_the_functions_where_they_were_counted() -> None:
    state = a_state()
    counts = (
        FunctionCounts(where="kernel", function="pipe_write", baseline_value=410, value=7230.5),
        FunctionCounts(where="others", function="", baseline_value=90, value=88, functions=12),
    )
    state = replace(state, verified=(replace(state.verified[0], functions=counts),))
    text = session.answer(state)
    assert "+6,820 instructions in pipe_write" in text and "-2 instructions in 12 others" in text
    assert session.data(state)["steps"][0]["functions"][0]["function"] == "pipe_write"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.slow
@given(
    st.dictionaries(
        TEXT, st.one_of(TEXT, st.booleans(), st.integers(0, 9), st.floats(0.001, 1e9)), max_size=4
    )
)
def test_an_experiment_is_written_as_toml(values: dict[str, object]) -> None:
    document = {"a": 1, "table": {"inner": values, "list": ["x", "\x7f"]}, "suite": [values]}
    assert tomllib.loads(toml(document)) == document


# An experiment file.

FILE = """\
name = "slower"
[kernel]
source = "git:linux#main"
config = ["mine.config"]
[machine]
cpus = 2
[[suite]]
name = "unixbench"
cases = ["pip*", "syscall"]
seconds = 0.2
[measure]
precision = "5%"
min_boots = 12
[bisect]
good = "main~4"
bad = "main"
case = "unixbench/pipe"
min_effect = "1%"
"""


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
def test_an_experiment_file_says_what_is_searched(
    tmp_path: Path, kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository(tmp_path / "linux")
    (tmp_path / "mine.config").write_text("CONFIG_SLUB=y\n")
    (tmp_path / "x.toml").write_text(FILE)
    states: list[State] = []
    monkeypatch.setattr(Session, "run", lambda own: states.append(own.state) or own.state)
    monkeypatch.setattr(session, "answer", lambda state: state.question.case)
    monkeypatch.setattr(session, "data", lambda state: {"answer": state.word})
    words = ("bisect", tmp_path / "x.toml", "--runs", tmp_path / "runs")
    assert kdyno(*words, "--max-minutes", "3").status == 12
    (state,) = states
    assert titles(state.range.points) == LINE
    own = state.question
    assert (own.suite, own.case, own.max_minutes) == ("unixbench", "pipe", 3)
    assert own.min_effect is not None and math.expm1(own.min_effect) == pytest.approx(0.01)
    assert own.base["suite"] == [{"name": "unixbench", "cases": ["pipe"], "seconds": 0.2}]
    assert own.base["measure"] == {"min_boots": 12}, "how precisely is for the search to say"
    assert own.home == str(tmp_path) and own.base["machine"] == {"cpus": 2}
    assert kdyno(*words, "--good", "main~2", "--case", "unixbench/syscall").status == 12
    assert states[1].range.points[0].title == "docs" and states[1].question.case == "syscall"
    for more, message in (
        (("--cpus", "1"), "--cpus: .*says that already"),
        (("--case", "unixbench/spawn"), "one of unixbench/pipe, unixbench/syscall"),
    ):
        refused = kdyno(*words, *more)
        assert refused.status == 2 and re.search(message, refused.err)


def built(folder: Path, **kernels: bytes) -> Built:
    """Images of these bytes, each from a recipe of its own."""
    images = {}
    for name, content in kernels.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "linux").write_bytes(content)
        images[name] = Image(name, folder / name, "um", 64, "7.3", {})
    return Built(images)


@pytest.mark.parametrize(
    ("middle", "outcome"), [(b"2", None), (b"1", Same(True)), (b"3", Same(False))]
)
def test_what_a_probe_has_built_is_what_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, middle: bytes, outcome: Same | None
) -> None:
    points = tuple(Point(name, name, {"cmdline": f"x={name}"}) for name in ("good", "one", "bad"))
    result = Recipes({}, {}), built(tmp_path / "images", good=b"1", one=middle, bad=b"3")
    monkeypatch.setattr(session, "check", lambda *_, **__: result[0])
    monkeypatch.setattr(session, "built_of", lambda *_, **__: result[1])
    seen: list[Options] = []

    def execute(experiment: object, suites: object, options: Options) -> tuple[Run, Verdict]:
        seen.append(options)
        raise UsageError("measured")

    search = session_of(tmp_path / "search", state_of(Range(points, "patch")), execute)
    with pytest.raises(UsageError, match="measured"):
        search.run()
    # A probe; or, where none was needed, the verification, which is another experiment.
    assert [each.prepared for each in seen] == [None if outcome else result]
    assert [step.outcome for step in search.state.steps] == ([outcome] if outcome else [])


@pytest.mark.parametrize(("now", "refused"), [("1", False), ("2", True)])
def test_a_point_that_is_another_kernel_by_now_ends_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, now: str, refused: bool
) -> None:
    points = tuple(Point(name, name, {"cmdline": f"x={name}"}) for name in ("good", "one", "bad"))
    before = record(tmp_path / "runs", images={"good": "1" * 32, "bad": "3" * 32})
    images = built(tmp_path / "images", good=b"1", one=b"2", bad=b"3").images
    installed = {name: replace(image, digest=now * 32) for name, image in images.items()}
    installed["bad"] = replace(images["bad"], digest="3" * 32)
    monkeypatch.setattr(session, "check", lambda *_, **__: Recipes({}, {}, installed=installed))
    monkeypatch.setattr(session, "built_of", lambda *_, **__: Built(images))

    def execute(*_: object) -> tuple[Run, Verdict]:
        raise UsageError("measured")

    state = replace(state_of(Range(points, "patch")), ends_run=before.name)
    why = "good is not the kernel that it was in" if refused else "measured"
    with pytest.raises((ToolError, UsageError), match=why):
        session_of(tmp_path / "search", state, execute).run()


@pytest.mark.slow
def test_a_file_that_does_not_build_alone_takes_those_first_that_the_compiler_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["a.h", "area.h", "b.c", "step.c", "sum.c", "table.c", "z.c"]
    points = [Point("good", "good", {"source": "debian:linux-source-7.3"})]
    for at, name in enumerate(names, 1):
        patch = tmp_path / f"{at}.patch"
        lines = (f"--- a/net/{name}", f"+++ b/net/{name}", "@@ -1 +1 @@")
        patch.write_text("\n".join([*lines, f"-int {name[:-2]}_old;", "+int other;", ""]))
        points.append(Point(f"{at}", name, {}, files=(f"net/{name}",), adds=str(patch)))
    points.append(Point("bad", "bad", {"source": "debian:linux-source-7.3", "cmdline": "bad"}))
    complaints = {
        "sum.c": "  ../net/sum.c:7:2: error: too few arguments to function 'area_old'",
        "table.c": "  ld: net/z.o: undefined reference to `table_old'",
    }

    def build(experiment: Experiment, *_: object, **__: object) -> Built:
        """area.h needs sum.c and table.c, and step.c is the step."""
        images: dict[str, bytes] = {}
        failed: dict[str, str] = {}
        for variant in experiment.variants:
            text = "".join(Path(patch).read_text() for patch in variant.patches)
            lacking = [name for name in complaints if f"b/net/{name}" not in text]
            if "b/net/area.h" in text and lacking:
                failed[variant.name] = complaints[lacking[-1]]
            else:
                is_bad = variant.name == "bad" or "b/net/step.c" in text
                images[variant.name] = b"bad" if is_bad else b"good"
        folder = tmp_path / f"images-{len(list(tmp_path.glob('images-*')))}"
        return replace(built(folder, **images), failed=failed)

    def verify(*_: object) -> None:
        raise UsageError("to be verified")

    monkeypatch.setattr(session, "check", lambda *_, **__: Recipes({}, {}))
    monkeypatch.setattr(session, "built_of", build)
    monkeypatch.setattr(Session, "_verify", verify)
    heard: list[str] = []
    state = state_of(Range(tuple(points), "file"))
    search = session_of(tmp_path / "search", state, tell=heard.append)
    with pytest.raises(UsageError, match="to be verified"):
        search.run()
    order = titles(search.state.range.points)
    assert order == ["good", "a.h", "sum.c", "table.c", "area.h", "b.c", "step.c", "z.c", "bad"]
    (step,) = search.state.search().steps
    assert order[step.low + 1 : step.high + 1] == ["step.c"]
    assert "4 does not build without sum.c: with them, then" in heard
    assert not search.state.search().unusable
    monkeypatch.setattr(session, "_MOST_BUILDS", 1)
    search = session_of(tmp_path / "short", state)
    with pytest.raises(UsageError, match="to be verified"):
        search.run()
    assert titles(search.state.range.points) == ["good", *names, "bad"]
    assert search.state.search().unusable.keys() == {2, 3, 4, 5}

    def failures() -> list[str]:
        return [search.state.range.points[step.at].title for step in search.state.steps]

    before = failures()
    search._take_before([points[5]], 2, 4)
    assert titles(search.state.range.points[1:4]) == ["a.h", "sum.c", "area.h"]
    assert failures() == before, "each with the failure of its own point"


def test_a_kernel_in_which_nothing_compiled_differs_is_called_the_same(tmp_path: Path) -> None:
    images = dict(built(tmp_path, stock=b"1", remark=b"1", other=b"2", blank=b"1").images)
    (flag,) = same_kernels(images, "stock")
    assert flag.kind == "same-kernel"
    assert flag.text.startswith("remark, blank: the same kernel as stock, byte for byte")
    # One image under several names, as of variants that differ in their command lines, is meant.
    alike = {"stock": images["stock"], "quiet": images["stock"], "other": images["other"]}
    assert same_kernels(alike, "stock") == () == same_kernels({}, "stock")


def test_what_is_prepared_is_neither_checked_nor_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def again(*_: object, **__: object) -> None:
        raise AssertionError("checked or built a second time")

    monkeypatch.setattr(execution, "check", again)
    monkeypatch.setattr(execution, "build_all", again)
    monkeypatch.setattr(execution, "check_cases", lambda *_: ())
    result = built(tmp_path, stock=b"1", mine=b"1")
    recipes = Recipes({}, {}, installed=result.images)
    notes: list[str] = []

    def bench(_experiment: object, _suites: object, own: object, images: object, _: object) -> None:
        assert (own, images) == (recipes, result)
        raise UsageError("ready")

    monkeypatch.setattr(execution, "_bench", bench)
    listener = execution.Listener(notify=notes.append)
    options = Options(tmp_path, tmp_path, listener=listener, prepared=(recipes, result))
    experiment = loader.parse(EXPERIMENT, "x.toml", tmp_path, vocabulary(catalogue.load()))
    with pytest.raises(UsageError, match="ready"):
        execution.execute(experiment, catalogue.load(), options)
    assert [note.partition(":")[0] for note in notes] == ["mine"]


# Beside other tools, on recorded noise.


@pytest.mark.slow
def test_other_tools_name_wrong_commits_where_this_one_does_not() -> None:
    def beside(effect: float, count: int) -> dict[str, searches.Row]:
        draw = recorded("pipe")
        return {
            tool: searches.simulate(tool, 64, effect, count, draw, 5) for tool in searches.TOOLS
        }

    rows = beside(0.02, 30)
    own, threshold, tosses = rows["kdyno"], rows["mean of three"], rows["coin tosses"]
    assert (own.wrong, own.unnamed) == (0, 0) and own.builds <= 2 + 6 + 1
    assert threshold.wrong > 0.3 and threshold.builds == 8
    assert tosses.wrong + tosses.unnamed > 0.02 and tosses.builds > own.builds
    rows = beside(0.0, 40)  # where nothing differs
    assert rows["kdyno"].unnamed >= 0.97 and rows["mean of three"].wrong == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps",
    [{11: -0.04, 47: 0.02}, {11: -0.02, 47: 0.02}, {at: -0.002 for at in range(3, 63, 3)}],
    ids=["opposite", "undone", "drift"],
)
def test_what_is_no_single_step_names_none_on_recorded_noise(steps: dict[int, float]) -> None:
    levels = np.cumsum([steps.get(at, 0.0) for at in range(65)])
    draw = recorded("pipe")
    for seed in range(20):
        own = searches.Range(levels, draw, np.random.default_rng([seed, 28]))
        assert searches.kdyno(own) is None, seed


def without_noise(state: State, levels: Sequence[float]) -> State:
    """At its end, each step verified; ``levels``: log figures of the points."""

    def between(low: int, high: int) -> Difference:
        return difference(levels[high] - levels[low])

    state = replace(state, ends=between(0, len(levels) - 1), finished=True)
    while state.reproduced and (span := state.search().span) is not None:
        at = (span.low + span.high) // 2
        halves = between(span.low, at), between(at, span.high)
        outcome = Measured(*halves, between(span.low, span.high))
        state = replace(state, steps=(*state.steps, Step(at, outcome)))
    steps = state.search().steps if state.reproduced else ()
    checks = [Verification(step.low, step.high, "v", step.difference, True) for step in steps]
    return replace(state, verified=tuple(checks))


@pytest.mark.slow
@pytest.mark.needs("git", "sandbox")
@pytest.mark.parametrize("inside", [-0.05, -0.02])
def test_the_branch_of_a_merge_that_is_found_is_searched(
    tmp_path: Path, kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch, inside: float
) -> None:
    """Real commits: those that have `side 2` are slow. If that is less than half of what the merge
    brought, it is not the cause."""
    place = repository(tmp_path / "linux")
    effects = {point.commit: -0.05 for point in points.commits(place, "main~2", "main")[1:]}
    effects[points.commits(place, "main~1^2~1", "main~1^2")[1].commit] = inside

    def run(own: Session) -> State:
        levels = [effects.get(point.commit, 0.0) for point in own.state.range.points]
        return without_noise(own.state, levels)

    monkeypatch.setattr(Session, "run", run)
    words = ["--source", f"git:{place}", "--good", "HEAD~4", "--bad", "main", "--case"]
    done = kdyno("bisect", *words, "unixbench/pipe", "--runs", tmp_path / "runs", "--json", "-")
    data = json.loads(done.out)
    (outer,), (branch,) = data["steps"], data["inside"]
    assert outer["point"]["title"] == "merge side" and "is a merge" in done.err
    (answer_file,) = (tmp_path / "runs").glob("*/answer.txt")
    assert "inside the merge:" in answer_file.read_text()
    if inside == -0.02:
        assert branch["answer"] == "not-reproduced" and branch["steps"] == []
        assert "Fixes:" in answer_file.read_text() and 'side 2"' not in answer_file.read_text()
        return
    (step,) = branch["steps"]
    assert (step["after"]["title"], step["point"]["title"]) == ("side 1", "side 2")
    assert "side 2" in answer_file.read_text()
