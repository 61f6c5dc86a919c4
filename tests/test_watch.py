# SPDX-License-Identifier: MIT
"""A watched branch: false alarms of years that are simulated, and visits of real repositories whose
runs and searches are made up."""

from __future__ import annotations

import json
import math
import os
import signal
import xml.etree.ElementTree as xml
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from command_line import Kdyno, by_sums, effect, verdict
from fake_tree import commit, git
from synthetic_run import record
from test_bisect import without_noise

from benchmarks.simulation.synthetic import normal
from benchmarks.statistics import recorded
from benchmarks.watch import CASES, COMMITS, NIGHTS, STEPS, replay, watcher
from kdyno import whole
from kdyno.bisect.search import Difference, Measured
from kdyno.bisect.session import Session, State, Step
from kdyno.cli import watch as branch
from kdyno.cli.bisect import searched
from kdyno.cli.watch import once
from kdyno.errors import BuildError, ToolError
from kdyno.experiment.model import Experiment
from kdyno.measure.execution import Options
from kdyno.store import watch as store
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict
from kdyno.store.watch import Alarm, Watch

# The rule, simulated.


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_three_steps_of_200_commits_are_told_once_and_one_is_undone(seed: int) -> None:
    own = replay(STEPS, COMMITS, recorded(*CASES), seed)
    assert (own.false, own.twice, own.missed, own.unfixed) == (0, 0, 0, 0)
    assert own.reference == "171", "what is there by now"


@pytest.mark.slow
def test_a_year_of_equal_kernels_has_no_alarm() -> None:
    """Though many of its nights look like one: however little matters."""
    own = replay({}, NIGHTS, recorded(*CASES), 7, equivalent=0.0005)
    assert own.false == 0 and own.confirmations >= 3


@pytest.mark.slow
def test_a_drift_that_no_visit_sees_alone_is_found_in_the_history(tmp_path: Path) -> None:
    """1.5 % over 60 commits, of which a night's run, ±1.4 %, is never sure."""
    levels = [-0.02 * min(1.0, max(0, at - 20) / 30) for at in range(80)]
    own = watcher(levels, normal(0.03), 3, tmp_path)
    for tip in range(80):
        own.visit(str(tip))
    (alarm, *_more) = own.watch.alarms
    assert alarm.word == "slower" and alarm.state == "bisected"
    assert not alarm.commit, "no commit has enough of it"


@pytest.mark.slow
def test_a_drift_is_found_beside_alarms_of_another_case(tmp_path: Path) -> None:
    """Each of them moves what later commits are compared with."""
    pipe = [-0.05 * (at // 5) for at in range(40)]
    spawn = [-0.001 * max(0, at - 5) for at in range(40)]
    own = watcher(pipe, normal(0.01), 5, tmp_path, second=spawn)
    for tip in range(40):
        own.visit(str(tip))
    alarms = {case: [alarm for alarm in own.watch.alarms if alarm.case == case] for case in CASES}
    assert [alarm.commit for alarm in alarms["pipe"]] == [str(at) for at in range(5, 40, 5)]
    assert alarms["spawn"] and not alarms["syscall"]
    assert all(alarm.word == "slower" for alarm in alarms["spawn"])


# Visits of a repository.

FILE = """\
name = "nightly"
[kernel]
source = "git:linux#main"
[[suite]]
name = "unixbench"
cases = ["pipe", "syscall"]
[watch]
command = ["sh", "-c", "cat >> told.jsonl; test ! -e deaf"]
"""


@dataclass
class World:
    """A repository whose commits say their speed, and what is measured in it."""

    folder: Path
    runs: Path
    call: Callable[..., Any]
    measured: list[tuple[str, ...]] = field(default_factory=list)
    """Titles of the commits of each run."""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """Of the variants of the last one."""
    searched: list[tuple[str, str]] = field(default_factory=list)
    fails: Mapping[str, Exception] = field(default_factory=dict)
    """Name of a run → what happens to it."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Variant → why it has no figure."""
    lacking: frozenset[str] = frozenset()
    """Cases that fail in the tip."""
    rare: bool = False
    """Only some turns have what a commit costs."""

    def git(self, *words: str) -> str:
        return git(self.folder / "linux", *words)

    def commit(self, title: str, speed: float, file: str = "speed") -> str:
        (self.folder / "linux" / file).write_text(f"{speed}\n")
        return commit(self.folder / "linux", title)

    def speed(self, commit: str) -> float:
        names = self.git("ls-tree", "--name-only", commit).split()
        speeds = [float(self.git("show", f"{commit}:{name}")) for name in names]
        return math.prod(speeds)

    def visit(self, *words: str) -> Any:
        return self.call("watch", self.folder / "n.toml", "--runs", self.runs, *words)

    def messages(self) -> list[dict[str, Any]]:
        file = self.folder / "told.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.replace("}{", "}\n{").splitlines()]

    def watch(self) -> Watch:
        return store.load(store.folder_of(self.runs, "nightly"))

    def once(self, experiment: Experiment, *_: object) -> tuple[Run, Verdict]:
        commits = {}
        for variant in experiment.variants:
            patch = variant.patches[0].stem.partition("-")[0] if variant.patches else ""
            commits[variant.name] = patch or variant.source.rpartition("#")[2]
        self.measured.append(
            tuple(self.git("log", "-1", "--format=%s", commit) for commit in commits.values())
        )
        if problem := self.fails.get(experiment.name):
            raise problem
        self.speeds = {name: self.speed(commit) for name, commit in commits.items()}
        return Run(self.runs / experiment.name), self.verdict(self.speeds, experiment.baseline)

    def verdict(self, speeds: Mapping[str, float], baseline: str) -> Verdict:
        effects = []
        for variant in speeds.keys() - {baseline}:
            for case in ("pipe", "syscall"):
                ratio = speeds[variant] / speeds[baseline] if case == "pipe" else 1.0
                word = "faster" if ratio > 1.002 else "slower" if ratio < 0.998 else "equivalent"
                p_value = 1e-5 if word != "equivalent" else 0.6
                decided = by_sums if self.rare else effect
                own = decided(case, word, ratio, variant=variant, p_value=p_value)
                if self.failed or case in self.lacking:
                    none = {"verdict": "failed", "ratio": None, "ci": None}
                    own = own.model_copy(update={**none, "reason": "tip: the case failed"})
                effects.append(own)
        return verdict(*effects, baseline=baseline, failed=dict(self.failed))

    def within(self, _run: Run, against: str, variant: str) -> Verdict:
        return self.verdict({name: self.speeds[name] for name in (against, variant)}, against)

    def search(
        self, place: Path, state: State, _options: object, _execute: object
    ) -> Iterator[State]:
        """Every step that there is."""
        points = state.range.points
        self.searched.append((points[0].title, points[-1].title))
        if problem := self.fails.get("search"):
            raise problem
        place.mkdir()
        yield without_noise(state, [math.log(self.speed(point.commit)) for point in points])


@pytest.fixture
def fresh(tmp_path: Path, kdyno: Kdyno, monkeypatch: pytest.MonkeyPatch) -> World:
    own = World(tmp_path, tmp_path / "runs", kdyno)
    (tmp_path / "linux").mkdir()
    own.git("init", "-q", "-b", "main")
    own.commit("base", 1.0)
    (tmp_path / "n.toml").write_text(FILE)
    monkeypatch.setattr(branch, "once", own.once)
    monkeypatch.setattr(branch, "searched", own.search)
    monkeypatch.setattr(branch, "within", own.within)
    return own


@pytest.fixture
def world(fresh: World) -> World:
    """After the first visit, to whose tip later ones are compared."""
    assert fresh.visit().status == 0
    return fresh


pytestmark = pytest.mark.needs("git", "sandbox")


@pytest.mark.slow
def test_a_step_is_measured_confirmed_searched_and_told_once(world: World) -> None:
    assert world.measured == []
    world.commit("docs", 1.0, "docs")
    assert world.visit().status == 0 and world.measured == [("base", "docs")]
    slow = world.commit("slow", 0.95)
    world.commit("after", 1.0, "docs2")
    done = world.visit("--junit", world.folder / "j.xml", "--json", world.folder / "new.json")
    assert done.status == 10 and "unixbench/pipe is slower: −5.00 %" in done.out
    assert world.measured[1:] == [("base", "after"), ("base", "after", "docs")]
    assert world.searched == [("docs", "after")], "from the last point, not from the reference"
    (message,) = world.messages()
    assert message["commit"] == slow and message["title"] == "slow" and message["word"] == "slower"
    assert message["state"] == "bisected" and message["text"] in done.out
    assert f'Fixes: {slow[:12]} ("slow")' in Path(message["search"], "answer.txt").read_text()
    assert json.loads((world.folder / "new.json").read_text())["new"][0]["id"] == message["id"]
    suite = xml.parse(world.folder / "j.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [len(test) for test in suite] == [1, 0]
    # Neither the same tip nor a later one has it again.
    assert world.visit().status == 0
    world.commit("later", 1.0, "docs3")
    done = world.visit()
    assert done.status == 0 and done.out == "" and len(world.messages()) == 1
    assert world.measured[-1] == ("after", "later"), "what is there by now"


@pytest.mark.slow
def test_a_step_by_summed_times_has_their_figures(world: World) -> None:
    world.rare, world.fails = True, {"search": ToolError("no search")}
    world.commit("slow", 0.95)
    world.visit()
    (alarm,) = world.watch().alarms
    assert (alarm.ratio, alarm.low, alarm.high) == pytest.approx((0.95, 0.948, 0.952))
    assert world.watch().points[-1].ratios["unixbench/pipe"] == pytest.approx(0.95)


@pytest.mark.slow
def test_what_is_undone_is_fixed(world: World) -> None:
    world.commit("slow", 0.95)
    world.visit()
    world.commit("other", 1.0, "docs")
    world.commit("undo", 1.0)
    done = world.visit()
    assert done.status == 0 and "is faster" in done.out
    first, second = world.watch().alarms
    assert (first.title, first.state) == ("slow", "fixed")
    assert second.undoes == first.id and f"undoes    {first.id}" in done.out
    assert [message["title"] for message in world.messages()] == ["slow", "undo"]
    refused = world.call("watch", "--acknowledge", first.id, "--runs", world.runs)
    assert refused.status == 2 and "it is fixed" in refused.err


@pytest.mark.slow
@pytest.mark.parametrize("second", [0.97, 0.988])
def test_a_step_that_a_visit_has_no_figure_of_is_found_behind_the_next(
    world: World, second: float
) -> None:
    """The next one's alarm is of both: what came since the last visit is a part of it."""
    world.lacking = frozenset({"pipe"})
    world.commit("first", 0.94)
    world.visit()
    world.lacking = frozenset()
    world.commit("second", 0.94 * second)
    assert world.visit().status == 10
    assert world.searched == [("base", "second")]
    assert world.messages()[0]["title"] == "first"


@pytest.mark.slow
def test_a_step_that_is_fixed_stays_so_on_a_rebased_branch(world: World) -> None:
    base, hashes = world.git("rev-parse", "HEAD"), []
    for title, speed in (("slow", 0.95), ("undo", 1.0)):
        hashes.append(world.commit(title, speed, "next"))
        world.visit()
    world.git("checkout", "-q", "-B", "main", base)
    world.commit("mainline", 1.0, "docs")
    for each in hashes:
        world.git("cherry-pick", each)
    world.commit("third", 0.97, "other")
    assert world.visit().status == 10
    assert [message["title"] for message in world.messages()] == ["slow", "undo", "third"]
    assert {alarm.title: alarm.state for alarm in world.watch().alarms}["slow"] == "fixed"


@pytest.mark.slow
def test_a_difference_that_no_part_of_the_range_has_is_not_called_spread(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def searched(place: Path, state: State, *_: object) -> Iterator[State]:
        place.mkdir()
        whole, nothing = Difference(0.95, 0.948, 0.952), Difference(1.0, 0.999, 1.001)
        probe = Step(1, Measured(nothing, nothing, nothing))
        yield replace(state, ends=whole, finished=True, steps=(probe,))

    monkeypatch.setattr(branch, "searched", searched)
    world.commit("docs", 1.0, "docs")
    world.commit("slow", 0.95)
    world.visit()
    (alarm,) = world.watch().alarms
    assert alarm.note == "no step: it was not there when parts of the range were measured"


@pytest.mark.slow
def test_two_steps_between_two_visits_are_two_differences(world: World) -> None:
    world.commit("slow", 0.95)
    world.commit("slower", 0.9)
    assert world.visit().status == 10
    assert [message["title"] for message in world.messages()] == ["slow", "slower"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nightly", "nightly-confirm", "search"])
def test_an_interrupted_visit_goes_on_where_it_was(world: World, name: str) -> None:
    world.commit("slow", 0.95)
    world.fails = {name: KeyboardInterrupt()}
    assert world.visit().status == 130 and world.messages() == []
    states = {"nightly": [], "nightly-confirm": ["new"], "search": ["confirmed"]}
    assert [alarm.state for alarm in world.watch().alarms] == states[name]
    before = len(world.measured)
    world.fails = {}
    assert world.visit().status == 10 and len(world.messages()) == 1
    runs = {"nightly": 2, "nightly-confirm": 1, "search": 0}
    assert len(world.measured) - before == runs[name], "what was finished is not measured again"


@pytest.mark.parametrize(
    ("after_s", "state", "outcome"),
    [
        (1, "finished", "taken"),
        (1, "interrupted", "gone on with"),
        (1, "failed", "new"),
        (-1, "finished", "new"),
        (-1, "interrupted", "new"),
    ],
)
def test_only_what_an_interrupted_visit_began_is_no_new_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after_s: int, state: str, outcome: str
) -> None:
    """A branch that is back at an earlier tip is measured again: by the same figures each
    difference would be confirmed."""
    plan, own = Experiment("nightly", "", "reference", (), (), text="[watch]"), verdict()
    file = tmp_path / store.STATE
    file.touch()
    saved = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    created = (saved + timedelta(seconds=after_s)).isoformat(timespec="microseconds")
    run = record(tmp_path / "runs", verdict=own, text=plan.text, created=created, state=state)
    begun: list[tuple[Path, ...]] = []

    def counted(_plan: object, _suites: object, _options: object, *more: Path) -> Any:
        begun.append(more)
        return run, own

    monkeypatch.setattr(branch, "counted", counted)
    options = Options(cache=tmp_path, runs=tmp_path / "runs")
    assert once(plan, {}, options, file) == (run, own)
    assert begun == {"taken": [], "gone on with": [(run.path,)], "new": [()]}[outcome]


@pytest.mark.slow
def test_a_first_visit_takes_no_run_of_an_earlier_watch(fresh: World) -> None:
    """Its state is there before it measures."""
    base = fresh.git("rev-parse", "HEAD")
    fresh.commit("docs", 1.0, "docs")
    (fresh.folder / "n.toml").write_text(f'{FILE}base = "{base}"\n')
    fresh.fails = {"nightly": KeyboardInterrupt()}
    assert fresh.visit().status == 130 and fresh.watch().points == ()


@pytest.mark.slow
def test_who_does_not_listen_is_told_again(world: World) -> None:
    world.commit("slow", 0.95)
    (world.folder / "deaf").touch()
    done = world.visit()
    assert done.status == 10 and "status 1" in done.err
    (world.folder / "deaf").unlink()
    assert world.visit().status == 10
    assert world.visit().status == 0
    assert len({message["id"] for message in world.messages()}) == 1 and len(world.messages()) == 2


@pytest.mark.slow
def test_what_was_undone_before_it_was_told_is_told(world: World) -> None:
    world.commit("slow", 0.95)
    (world.folder / "n.toml").write_text(FILE.replace('"sh"', '"./absent"'))
    done = world.visit("--json", world.folder / "new.json")
    assert done.status == 10 and "cannot run" in done.err and "called again" in done.err
    assert len(json.loads((world.folder / "new.json").read_text())["new"]) == 1
    (world.folder / "n.toml").write_text(FILE)
    world.commit("undo", 1.0)
    world.visit()
    assert [message["title"] for message in world.messages()] == ["slow", "undo"]
    assert world.messages()[0]["state"] == "fixed" and world.visit().status == 0


@pytest.mark.slow
def test_a_command_that_leaves_a_process_behind_has_taken_the_alarm(world: World) -> None:
    world.commit("slow", 0.95)
    line = "cat >> told.jsonl; sleep 600 & echo $! > left"
    (world.folder / "n.toml").write_text(FILE.replace("cat >> told.jsonl; test ! -e deaf", line))
    assert world.visit().status == 10 and world.visit().status == 0
    assert len(world.messages()) == 1
    os.kill(int((world.folder / "left").read_text()), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(("option", "read"), [("--json", json.loads), ("--junit", xml.fromstring)])
def test_stdout_is_what_a_program_reads_alone(
    world: World, option: str, read: Callable[[str], object]
) -> None:
    world.commit("slow", 0.95)
    done = world.visit(option, "-")
    assert done.status == 10 and "slow" in done.out and "is slower" in done.err
    read(done.out)


@pytest.mark.slow
def test_what_is_acknowledged_while_another_is_told_stays_so(world: World) -> None:
    world.commit("slow", 0.95)
    world.commit("slower", 0.9)
    (world.folder / "deaf").touch()
    world.visit()
    (world.folder / "deaf").unlink()
    _first, second = world.watch().alarms
    folder = store.folder_of(world.runs, "nightly") / store.ACKNOWLEDGED
    line = f"mkdir -p {folder}; touch {folder}/{second.id}; cat > /dev/null"
    (world.folder / "n.toml").write_text(FILE.replace("cat >> told.jsonl; test ! -e deaf", line))
    assert "slower" not in world.visit().out.replace("is slower", "")
    assert [alarm.state for alarm in world.watch().alarms] == ["bisected", "acknowledged"]


@pytest.mark.slow
def test_a_tip_that_does_not_build_is_no_difference(world: World) -> None:
    world.commit("broken", 0.5)
    world.fails = {"nightly": BuildError("variant 'tip' did not build:\n error")}
    done = world.visit("--junit", "-")
    assert done.status == 1 and "has no figure: variant 'tip' did not build" in done.err
    assert xml.fromstring(done.out)[0].get("errors") == "2"
    world.fails = {}
    world.commit("mended", 1.0)
    world.commit("docs", 1.0, "docs")
    assert world.visit().status == 0
    assert world.measured[-1] == ("base", "docs") and world.watch().alarms == ()


@pytest.mark.slow
def test_what_has_no_figure_is_an_error_each_time(world: World) -> None:
    """A reference that boots no more would end the watch in silence."""
    world.commit("docs", 1.0, "docs")
    world.failed = {"reference": "3 boots failed: panic"}
    done = world.visit("--junit", "-")
    assert done.status == 1 and "which it is compared with: 3 boots failed: panic" in done.err
    assert xml.fromstring(done.out)[0].get("errors") == "2" and world.visit().status == 1
    world.failed, world.lacking = {}, frozenset({"syscall"})
    world.commit("slow", 0.95)
    done = world.visit("--junit", "-")
    assert done.status == 10 and "unixbench/syscall: tip: the case failed" in done.err
    suite = xml.fromstring(done.out)[0]
    assert (suite.get("errors"), suite.get("failures")) == ("1", "1")
    world.lacking = frozenset()
    world.commit("slower", 0.9, "more")
    world.failed = {}
    assert world.visit().status == 10


@pytest.mark.slow
def test_a_tip_that_cannot_be_confirmed_holds_up_no_later_one(world: World) -> None:
    world.commit("slow", 0.95)
    world.fails = {"nightly-confirm": BuildError("variant 'reference' did not boot")}
    assert world.visit().status == 1 and world.watch().alarms == ()
    world.commit("quick again", 1.0)
    world.commit("docs", 1.0, "docs")
    assert world.visit().status == 0 and world.measured[-1] == ("base", "docs")
    world.commit("slow too", 0.95)
    assert world.visit().status == 1 and len(world.watch().points) == 1
    world.fails = {}
    assert world.visit().status == 10 and world.messages()[0]["title"] == "slow too"


@pytest.mark.slow
def test_what_a_second_run_or_the_search_does_not_have_is_no_alarm(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.commit("odd", 0.95)
    once = world.once

    def calm(experiment: Experiment, *more: object) -> tuple[Run, Verdict]:
        run, verdict = once(experiment, *more)
        if experiment.name == "nightly-confirm":
            verdict = world.verdict({"reference": 1.0, "tip": 1.0}, "reference")
        return run, verdict

    monkeypatch.setattr(branch, "once", calm)
    done = world.visit()
    assert done.status == 0 and "not confirmed" in done.err
    assert world.watch().alarms == () and not world.watch().points[-1].discovery
    assert world.watch().reference == world.git("rev-parse", "HEAD~1")
    monkeypatch.setattr(branch, "once", once)
    monkeypatch.setattr(world, "speed", lambda _commit: 1.0)
    world.commit("next", 0.95, "docs")
    assert world.visit().status == 0 and world.watch().alarms == ()


@pytest.mark.slow
def test_a_search_that_did_not_have_it_is_no_answer_for_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same range, to which a branch that was reset came back."""
    calm = True

    def run(own: Session) -> State:
        speeds = [1.0 if calm else world.speed(point.commit) for point in own.state.range.points]
        if own.state.ends is None:
            own.state = without_noise(own.state, list(map(math.log, speeds)))
            own.save()
        return own.state

    monkeypatch.setattr(Session, "run", run)
    monkeypatch.setattr(branch, "searched", searched)
    base, slow = world.git("rev-parse", "HEAD"), world.commit("slow", 0.95)
    assert "a third run does not have it" in world.visit().err
    world.git("checkout", "-q", "-B", "main", base)
    world.commit("docs", 1.0, "docs")
    world.visit()
    world.git("checkout", "-q", "-B", "main", slow)
    calm = False
    assert world.visit().status == 10 and world.messages()[0]["commit"] == slow


@pytest.mark.slow
def test_a_rebased_branch_is_compared_with_its_base(world: World) -> None:
    """As linux-next is, each day anew: the step is another commit, and the same difference."""
    base = world.git("rev-parse", "HEAD")
    world.commit("slow", 0.95, "next")
    world.visit()
    (first,) = world.messages()
    for day in ("one", "two"):
        world.git("checkout", "-q", "-B", "main", base)
        world.commit(f"mainline {day}", 1.0, f"docs-{day}")
        world.git("cherry-pick", first["commit"])
        world.commit(f"new {day}", 1.0, f"new-{day}")
        assert world.git("rev-parse", "main~1") != first["commit"]
        searches = len(world.searched)
        assert world.visit().status == 0 and len(world.messages()) == 1
        assert world.measured[-1][1] == f"new {day}" and len(world.searched) == searches
    # A new step in a branch that was rebased once more; where it came is sought from the base.
    world.git("checkout", "-q", "-B", "main", base)
    world.commit("mainline three", 1.0, "docs-three")  # else a quick test picks the same commit
    world.git("cherry-pick", first["commit"])
    world.commit("slow too", 0.9, "other")
    assert world.visit().status == 10
    assert world.searched[-1] == ("base", "slow too")
    assert [message["title"] for message in world.messages()] == ["slow", "slow too"]


@pytest.mark.slow
def test_a_difference_without_a_commit_is_told_once_of_a_rebased_branch(world: World) -> None:
    base = world.git("rev-parse", "HEAD")
    world.fails = {"search": BuildError("its base does not build")}
    for day in ("one", "two"):
        world.git("checkout", "-q", "-B", "main", base)
        world.commit(f"mainline {day}", 1.0, f"docs-{day}")
        world.commit(f"slow {day}", 0.95, "next")
        assert world.visit().status == (10 if day == "one" else 0)
    (message,) = world.messages()
    assert message["commit"] == "" and message["note"] == "its base does not build"


@pytest.mark.slow
def test_a_branch_elsewhere_is_fetched_with_its_history(fresh: World) -> None:
    file = fresh.folder / "n.toml"
    file.write_text(FILE.replace("git:linux#", f"git:file://{fresh.folder}/linux#"))
    fresh.visit()
    fresh.commit("docs", 1.0, "docs")
    slow = fresh.commit("slow", 0.95)
    assert fresh.visit().status == 10
    assert fresh.messages()[0]["commit"] == slow and fresh.searched == [("base", "slow")]


@pytest.mark.slow
def test_differences_are_listed_acknowledged_and_on_the_page(world: World) -> None:
    world.commit("<b>slow", 0.95)
    world.visit()
    (message,) = world.messages()
    listed = world.call("watch", "--list", "--runs", world.runs)
    assert message["id"] in listed.out and "bisected" in listed.out
    assert world.call("watch", "--acknowledge", "x", "--runs", world.runs).status == 2
    assert world.call("watch", "--acknowledge", message["id"], "--runs", world.runs).status == 0
    (own,) = json.loads(world.call("watch", "--list", "--json", "-", "--runs", world.runs).out)
    assert (own["state"], own["word"], own["watch"]) == ("acknowledged", "slower", "nightly")
    # A visit that began before neither stops it nor undoes it; one that comes after a fix is new.
    folder = store.folder_of(world.runs, "nightly")
    loaded = store.load(folder)
    assert loaded.alarms[0].state == "acknowledged"
    before = replace(loaded, alarms=(replace(loaded.alarms[0], state="bisected"),))
    assert store.save(folder, before) == loaded == store.load(folder)
    assert store.save(folder, before) == before == store.load(folder)
    store.acknowledge(world.runs, message["id"])  # in the visit that sees it fixed
    store.save(folder, replace(loaded, alarms=(replace(loaded.alarms[0], state="fixed"),)))
    assert store.save(folder, before) == before == store.load(folder)
    store.save(folder, loaded)
    place = world.folder / "site"
    assert world.call("report", "--all", "-o", place, "--runs", world.runs).status == 0
    page = (place / "history.html").read_text()
    assert message["id"] in page and "acknowledged" in page and "&lt;b&gt;slow" in page
    assert "<b>slow" not in page
    # A damaged file takes no page away.
    (folder / store.STATE).write_text("{")
    assert world.call("report", "--all", "-o", place, "--runs", world.runs).status == 0
    assert message["id"] not in (place / "history.html").read_text()
    assert "cannot be read" in world.visit().err


def test_what_is_acknowledged_is_so_in_every_watch_of_the_branch(tmp_path: Path) -> None:
    alarm = Alarm("i", "s", "c", "higher", "g", "b", 0.9, 0.89, 0.91)
    states: Mapping[str, store.State] = {"a": "fixed", "b": "bisected", "c": "bisected"}
    for name, state in states.items():
        store.folder_of(tmp_path, name).mkdir()
        own = Watch(name, "git:x#main", alarms=(replace(alarm, state=state),))
        store.save(store.folder_of(tmp_path, name), own)
    store.acknowledge(tmp_path, "i")
    loaded = [store.load(folder).alarms[0].state for folder in store.folders(tmp_path)]
    assert loaded == ["fixed", "acknowledged", "acknowledged"]


@pytest.mark.slow
def test_who_waited_for_another_visit_goes_on_from_what_that_one_left(
    fresh: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both were begun when there was nothing."""
    folder, tip = store.folder_of(fresh.runs, "nightly"), fresh.git("rev-parse", "HEAD")
    alarm = Alarm("i", "s", "c", "higher", "g", "b", 0.9, 0.89, 0.91, "bisected", told=True)
    real = whole.locked

    def locked(file: Path, waiting: Callable[[str], None]) -> AbstractContextManager[None]:
        source = f"git:{fresh.folder / 'linux'}#main"
        store.save(folder, Watch("nightly", source, tip, alarms=(alarm,)))
        return real(file, waiting)

    monkeypatch.setattr(whole, "locked", locked)
    assert fresh.visit().status == 0 and store.load(folder).alarms == (alarm,)


@pytest.mark.slow
def test_again_and_again_until_it_is_ended(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []

    def sleep(time_s: float) -> None:
        naps.append(time_s)
        if len(naps) == 1:
            fresh.commit("slow", 0.95)
            fresh.fails = {"nightly": ToolError("the disk is full")}
        elif len(naps) == 2:
            fresh.fails = {}
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(branch, "sleep", sleep)
    done = fresh.visit("--every", "1.5h")
    assert naps == [5400.0] * 3 and done.status == 130
    assert "the disk is full" in done.err and len(fresh.messages()) == 1


def test_a_slower_case_may_have_a_larger_figure() -> None:
    for better, ratio in (("higher", 0.9), ("lower", 1.1)):
        assert Alarm("i", "s", "c", better, "g", "b", ratio, ratio, ratio).word == "slower"
