# SPDX-License-Identifier: MIT
"""A run in jobs, by engines in memory whose nodes die, fail and differ."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from descendants import until, until_killed
from fake_run import bench, boots_of, manifest_of, steady
from site_runs import MACHINE, small

from kdyno.errors import ToolError, UsageError
from kdyno.fleet import waves
from kdyno.fleet.engine import LATE_S, Commands, Engine, Job, Settings, settings
from kdyno.fleet.waves import Controller, Place, Record, Shard, Union, build
from kdyno.judge.flags import of_manifest
from kdyno.measure.loop import Status
from kdyno.paths import state_root
from kdyno.store.comparable import join, reservations
from kdyno.store.manifest import MachineInfo
from kdyno.store.run import Run, RunWriter, create_run, write_run
from kdyno.store.verdict import Flag

TEXT = 'name = "0"\n'


def option(command: Sequence[str], name: str) -> str:
    return command[command.index(name) + 1]


@dataclass
class FakeEngine:
    """Each look a node measures one more group of its job. ``dies``: job → groups before it is
    lost; ``fails``: jobs that say so."""

    folder: Path
    dies: dict[int, int] = field(default_factory=dict)
    fails: frozenset[int] = frozenset()
    commands: list[list[str]] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    done: Counter[int] = field(default_factory=Counter)
    cancelled: list[str] = field(default_factory=list)

    def submit(self, work: Sequence[Commands], *_options: Any) -> list[Job]:
        self.folder.mkdir(parents=True, exist_ok=True)
        for number, ((*command,),) in enumerate(work, len(self.jobs)):
            self.jobs.append(Job(str(number), self.folder / f"{number}.json", "RUNNING"))
            self.commands.append(command)
        return self.jobs[-len(work) :]

    def look(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.state != "RUNNING":
                job.lost = True
                continue
            number = int(job.name)
            command = self.commands[number]
            if number in self.fails:
                self.end(job, 1, "kdyno run: exit status 1")
            elif self.done[number] == self.dies.get(number):
                job.state = "NODE_FAIL"
            else:
                self.done[number] += 1
                shard(Path(option(command, "--runs")), number, self.done[number])
                if self.done[number] == int(option(command, "--max-boots")):
                    self.end(job, 0, "")

    def end(self, job: Job, status: int, why: str) -> None:
        job.state = "COMPLETED"
        job.log.write_text("the disk is full\n")
        message = {"node": f"n{int(job.name) % 2}", "status": status, "why": why}
        job.outcome.write_text(json.dumps(message))

    def cancel(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if not job.over:
                self.cancelled.append(job.name)
                job.state = "CANCELLED"

    def cancel_label(self) -> None:
        self.cancel(self.jobs)


def shard(runs: Path, number: int, blocks: int, **images: str) -> None:
    """The run of a job, with so many groups."""
    result = next(iter(runs.glob("*")), None)
    if result is None:
        about: dict[str, Any] = {"text": TEXT, "images": {"stock": "a", "mine": "b", **images}}
        about["host"] = {**MACHINE, "node": f"n{number % 2}"}
        caveat = Flag(kind="machine", text=f"n{number % 2} runs on battery")
        about["machine"] = MachineInfo(caveats=(caveat,))
        result = small(runs, number, 1.0 + number, blocks=20, **about).path
        (result / "boots").rename(result / "later")
        (result / "boots").mkdir()
    for boot in sorted((result / "later").iterdir()):
        if int(boot.name[:4]) < 2 * blocks:
            boot.rename(result / "boots" / boot.name)


@dataclass
class Fleet:
    """A run in jobs, with what was said."""

    runs: Path
    engine: FakeEngine
    messages: list[str] = field(default_factory=list)
    states: list[Status] = field(default_factory=list)
    now_s: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def controller(
        self, writer: RunWriter, record: Record | None = None, **measure: object
    ) -> Controller:
        request = {"max_boots": 20, "precision": 1e-9, "min_boots": 8, **measure}
        experiment = bench(steady({}), ("stock", "mine"), **request).experiment  # type: ignore[arg-type]
        place = Place(writer.run.path)
        self.engine.folder = place.jobs / "0"
        own = record or Record(settings=Settings(nodes=2, groups=8), file="mine.toml")
        return Controller(
            experiment,
            Union(writer),
            place,
            own.model_copy(update={"built": ["stock", "mine"]}),
            [own.file],
            self.engine,
            self.messages.append,
            self.states.append,
            clock=lambda: self.now_s,
            sleep=self.sleep,
        )

    def new(self) -> RunWriter:
        setup = bench(steady({}), ("stock", "mine"))
        manifest = manifest_of(setup).model_copy(update={"images": {}, "cases": (), "seed": 100})
        return create_run(self.runs, TEXT, manifest)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return Fleet(tmp_path / "runs", FakeEngine(tmp_path / "jobs"))


@pytest.mark.slow
def test_a_shard_that_was_ended_as_it_began_gives_no_images(fleet: Fleet) -> None:
    with fleet.new() as writer:
        controller = fleet.controller(writer)
        controller.run()
        place, union = controller.place, controller.union
        shutil.rmtree(next(place.shard(0).glob("*")) / "images")
        union.save_images(map(place.shard, place.numbers()))
        assert {path.stem for path in (writer.run.path / "images").iterdir()} == {"stock", "mine"}


def options(fleet: Fleet, name: str) -> list[str]:
    """Of each job so far."""
    return [option(command, name) for command in fleet.engine.commands]


def ran(fleet: Fleet, **measure: Any) -> tuple[Run, str]:
    """A new run to its end, and why it stopped."""
    with fleet.new() as writer:
        return writer.run, fleet.controller(writer, **measure).run()


@pytest.mark.slow
def test_why_nodes_took_no_turns_is_the_runs_reason_too(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    why, whole = "this host cannot freeze a guest", {"unixbench/spawn": "it forks"}
    boots = partial(small, interleave="boots", why_boots=why, whole=whole)
    monkeypatch.setattr(sys.modules[__name__], "small", boots)
    manifest = ran(fleet)[0].manifest()
    assert (manifest.interleave, manifest.why_boots, manifest.whole) == ("boots", why, whole)
    assert [flag.kind for flag in of_manifest(manifest)].count("not-by-turns") >= 1
    other = manifest.model_copy(update={"why_boots": "it has one guest"})
    two = manifest.model_copy(update=reservations((manifest, other)))
    assert reservations((two, other, manifest))["why_boots"] == f"{why}; it has one guest"


@pytest.mark.slow
def test_nodes_that_take_turns_beside_nodes_that_do_not(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever is heard first; and as runs that are joined by hand."""
    why, made_up = "guests need 4 GiB together", small

    def own(runs: Path, number: int, *args: Any, **more: Any) -> Run:
        way = {"interleave": "turns"} if number % 2 else {"interleave": "boots", "why_boots": why}
        return made_up(runs, number, *args, **more, **way)

    monkeypatch.setattr(sys.modules[__name__], "small", own)
    runs = [own(fleet.runs / "own", number) for number in (0, 1)]
    with join(runs, fleet.runs) as writer:
        joined = writer.run.manifest()
    for manifest in (ran(fleet)[0].manifest(), joined):
        assert (manifest.interleave, manifest.why_boots) == ("mixed", why)
        (flag,) = (flag for flag in of_manifest(manifest) if flag.kind == "not-by-turns")
        assert flag.text == f"on some machines one whole boot after the other, not by turns: {why}"


@pytest.mark.slow
def test_until_the_budget(fleet: Fleet) -> None:
    run, why = ran(fleet)
    assert why == "max_boots = 20 reached"
    result, manifest = boots_of(run), run.manifest()
    assert len(result) == 40 and len({each.job.shard for each in result}) == 40
    assert [each.index for each in result] == list(range(40))
    assert Counter(each.block for each in result) == dict.fromkeys(range(20), 2)
    assert sorted(manifest.machines) == ["A CPU n0", "A CPU n1"]
    caveats = [flag.text for flag in manifest.machine.caveats]
    assert caveats == ["n0 runs on battery", "n1 runs on battery"]
    assert manifest.images == {"stock": "a", "mine": "b"} and len(manifest.blocks) == 20
    command = fleet.engine.commands[0]
    assert command[1:6] == ["-P", "-m", "kdyno", "run", "mine.toml"]
    assert "--variant stock --variant mine --max-boots 8" in " ".join(command)
    assert options(fleet, "--seed") == ["100", "101", "102", "103"]
    assert options(fleet, "--max-boots") == ["8", "8", "2", "2"]
    assert fleet.engine.cancelled == []


def test_a_shard_of_the_baseline_and_its_copy_measures_no_other_variant(fleet: Fleet) -> None:
    with fleet.new() as writer:
        own = fleet.controller(writer)
    own.record = own.record.model_copy(update={"built": ["stock"]})
    assert "mine.toml --variant stock --max-boots" in " ".join(own._command(0, 4))


@pytest.mark.slow
def test_until_the_widths_are_small_or_the_minutes_are_over(fleet: Fleet) -> None:
    run, why = ran(fleet, precision=0.01, max_boots=1000)
    # The first look is after 8 groups: four looks at two nodes.
    assert why == "precision reached" and len(boots_of(run)) == 2 * 8
    assert fleet.engine.cancelled == ["0", "1"]
    assert fleet.states[-1].variant == "on 2 nodes" and fleet.states[-1].block == 6
    run, why = ran(fleet, max_minutes=0.05, max_boots=1000)
    # Three seconds, two groups at a look each half second.
    assert why == "max_minutes = 0.05 reached" and len(boots_of(run)) == 2 * 14
    # Not before each of the links was booted.
    run, why = ran(fleet, precision=0.01, max_boots=1000, layouts=12)
    assert why == "precision reached" and len(boots_of(run)) == 2 * 12


@pytest.mark.slow
def test_a_node_that_dies_loses_what_it_was_at_and_no_more(fleet: Fleet) -> None:
    fleet.engine.dies = {1: 5}
    run, _ = ran(fleet)
    lost = [boot for boot in boots_of(run) if boot.job.shard.startswith("1/")]
    assert len(lost) == 10 and len(boots_of(run)) == 40
    assert fleet.messages == ["job 1: it ended without a result (node_fail)"]
    assert len(fleet.engine.jobs) == 4


@pytest.mark.slow
def test_what_is_seen_late_is_not_measured_again(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job has said that all went well, and its groups are not seen here yet."""
    fresh, ended = Shard.fresh, Shard.manifest

    def hidden(each: Shard) -> bool:
        return each.number == 0 and fleet.now_s < 20

    monkeypatch.setattr(Shard, "fresh", lambda value: [] if hidden(value) else fresh(value))
    monkeypatch.setattr(Shard, "manifest", lambda value: None if hidden(value) else ended(value))
    assert ran(fleet)[1] == "max_boots = 20 reached"
    assert options(fleet, "--max-boots") == ["8", "8", "2", "2"]
    assert 20 <= fleet.now_s < 25 and fleet.messages == []


def test_jobs_that_only_fail_end_it_in_the_nodes_words(fleet: Fleet) -> None:
    fleet.engine.fails = frozenset(range(100))
    words = r"3 jobs in a row failed, the last: job 2 on n0.*(\n.*)*full"
    with pytest.raises(ToolError, match=words):
        ran(fleet)


@pytest.mark.slow
def test_a_failure_now_and_then_does_not_end_it(fleet: Fleet) -> None:
    fleet.engine.fails = frozenset({1, 2, 4, 5})
    assert ran(fleet)[1] == "max_boots = 20 reached" and len(fleet.messages) == 4


@pytest.mark.slow
def test_an_engine_that_is_away_for_a_while(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = fleet.engine.submit

    def refused(*given: Any) -> list[Job]:
        if fleet.engine.jobs and fleet.now_s < 60:
            raise ToolError("no job could be submitted: the controller is away")
        return submit(*given)

    monkeypatch.setattr(fleet.engine, "submit", refused)
    assert ran(fleet)[1] == "max_boots = 20 reached"
    assert fleet.messages == ["no job could be submitted: the controller is away; trying again"]
    monkeypatch.setattr(waves, "_PATIENCE_S", 10.0)
    fleet.now_s = 0.0
    fleet.engine.jobs.clear()
    fleet.engine.commands.clear()
    fleet.engine.done.clear()
    with pytest.raises(ToolError, match="the controller is away"):
        ran(fleet, max_boots=100)


@pytest.mark.parametrize("problem", [ToolError("sbatch timed out"), KeyboardInterrupt("away")])
def test_jobs_of_a_submission_that_was_cut_off_are_cancelled(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, problem: BaseException
) -> None:
    """The engine had taken them, and nobody knows their numbers."""
    submit = fleet.engine.submit

    def cut_off(*given: Any) -> list[Job]:
        submit(*given)
        raise problem

    monkeypatch.setattr(fleet.engine, "submit", cut_off)
    with pytest.raises(type(problem), match=str(problem)):
        ran(fleet)
    assert fleet.engine.cancelled == ["0", "1"]
    with pytest.raises(type(problem), match=str(problem)):
        build(fleet.engine, ["mine.toml"], fleet.runs / "built", fleet.messages.append)
    assert fleet.engine.cancelled == ["0", "1", "2"]


def record_of(run: Run) -> Record:
    result = Place(run.path).read()
    assert result is not None
    return result


def killed(fleet: Fleet, at_s: float, how: type[BaseException]) -> Run:
    """A run whose controller ends at that time; SystemExit: without a word to anybody."""
    with fleet.new() as writer:
        own = fleet.controller(writer)
        sleep = own.sleep

        def ends(seconds: float) -> None:
            sleep(seconds)
            if fleet.now_s >= at_s:
                own.sleep = sleep
                if how is SystemExit:
                    own.engine = FakeEngine(fleet.engine.folder)
                raise how

        own.sleep = ends
        if how is SystemExit:
            own._end = lambda _parts: None  # type: ignore[method-assign]
        with pytest.raises(how):
            own.run()
        return writer.run


def resumed(fleet: Fleet, run: Run, count: int = 40) -> None:
    """To its end; each of its boots is there once."""
    with write_run(run.path) as writer:
        why = fleet.controller(writer, record_of(run)).run()
    assert why == "max_boots = 20 reached"
    assert len({boot.job.shard for boot in boots_of(run)}) == len(boots_of(run)) == count


@pytest.mark.slow
def test_leaving_cancels_its_own_jobs_and_keeps_their_groups(fleet: Fleet) -> None:
    run = killed(fleet, 2.0, KeyboardInterrupt)
    assert fleet.engine.cancelled == ["0", "1"] and len(boots_of(run)) == 16
    assert (record_of(run).next, record_of(run).spent_s) == (2, 2.0)
    resumed(fleet, run)
    assert options(fleet, "--max-boots")[2:] == ["6", "6"]


@pytest.mark.slow
def test_what_the_jobs_of_a_killed_controller_measured_counts(fleet: Fleet) -> None:
    run = killed(fleet, 2.0, SystemExit)
    assert len(boots_of(run)) == 16
    # They go on meanwhile, until whoever goes on with the run cancels them.
    for _ in range(2):
        fleet.engine.look(fleet.engine.jobs)
    assert fleet.engine.cancelled == [] and record_of(run).next == 2
    resumed(fleet, run)
    assert fleet.engine.cancelled == ["0", "1"]
    assert options(fleet, "--max-boots")[2:] == ["4", "4"]


ENGINE = """
import sys, time
from pathlib import Path
from kdyno.fleet.engine import Engine, Settings
engine = Engine(Settings(engine="local"), Path(sys.argv[1]))
engine.submit([[["sh", "-c", f"echo $$ >{sys.argv[1]}/number; exec sleep 600"]]])
time.sleep(600)
"""


@pytest.mark.slow
def test_jobs_on_this_machine_end_with_a_controller_that_is_killed(tmp_path: Path) -> None:
    number = tmp_path / "jobs" / "number"
    with until_killed([sys.executable, "-c", ENGINE, str(tmp_path / "jobs")]) as controller:
        until(lambda: number.exists() and number.read_text().strip() != "", controller)
        job = Path("/proc") / number.read_text().strip()
        assert job.exists()
    until(lambda: has_ended(job))


def has_ended(process: Path) -> bool:
    """Where nobody reaps what has lost its parent, a dead process stays listed."""
    try:
        return ") Z " in (process / "stat").read_text()
    except OSError:  # it may end while it is read
        return True


@pytest.mark.slow
def test_nodes_that_measure_something_else(fleet: Fleet) -> None:
    with fleet.new() as writer:
        place = Place(writer.run.path)
        shard(place.shard(0), 0, 1)
        shard(place.shard(1), 1, 1, mine="c")
        words = r"A CPU n1 measured something else .*: the kernels are"
        with pytest.raises(ToolError, match=words):
            fleet.controller(writer).run()
        (file,) = place.shard(1).glob("*/experiment.toml")
        file.write_text("#")
        with pytest.raises(ToolError, match="was changed since the run began"):
            fleet.controller(writer).run()


@pytest.mark.slow
def test_boots_that_say_of_no_job_that_they_are_its(fleet: Fleet) -> None:
    """Of a run that somebody changed; an odd text is no job's number."""
    run = killed(fleet, 2.0, KeyboardInterrupt)
    for name, each in (("0000-stock", "x/0/0000-stock"), ("0001-mine", "²/0/0001-mine")):
        job = run.path / "boots" / name / "job.json"
        job.write_text(json.dumps({**json.loads(job.read_text()), "shard": each}))
    resumed(fleet, run)
    assert {boot.job.shard for boot in boots_of(run)} >= {"x/0/0000-stock", "0/0/0000-stock"}


@pytest.mark.slow
def test_boots_that_cannot_be_read_are_taken_up_once_more_as_new_ones(fleet: Fleet) -> None:
    run = killed(fleet, 2.0, KeyboardInterrupt)
    for boot in boots_of(run):
        if boot.block in (3, 7):  # the newest is among them
            (run.path / "boots" / boot.folder_name / "job.json").write_text("{")
    resumed(fleet, run, 38)
    blocks = Counter(boot.block for boot in boots_of(run))
    assert blocks == dict.fromkeys({*range(20)} - {3}, 2)


@pytest.mark.slow
def test_what_jobs_leave_is_not_read_through_links(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"node": "sesame", "status": 1, "why": "sesame"}')
    for name in ("it.json", "it.log"):
        (tmp_path / name).symlink_to(secret)
    job = Job("1", tmp_path / "it.json", "COMPLETED")
    assert job.failure() == "job 1: it ended without a result" and job.node == ""
    for name in ("it.json", "it.log"):
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
    assert job.failure() == "job 1: it ended without a result"
    (tmp_path / "it.log").unlink()
    (tmp_path / "it.log").write_bytes(b"x" * (100 << 20) + b"\nthe disk is full\n")
    assert job.failure().endswith("\n  the disk is full")


def test_the_record_of_a_run(fleet: Fleet, tmp_path: Path) -> None:
    with fleet.new() as writer:
        place = Place(writer.run.path)
    assert place.path == fleet.runs / ".fleet" / writer.run.name and place.read() is None
    record = Record(settings=Settings(), file="a", next=3)
    place.make()
    place.write(record)
    assert Place(writer.run.path).read() == record
    # By whoever moves the run as well, and not once it would build something else.
    moved = writer.run.path.rename(tmp_path / "moved")
    assert Place(moved).read() == record
    file = moved / "experiment.toml"
    file.write_text(file.read_text() + "#")
    assert Place(moved).read() is None
    file.write_text(file.read_text()[:-1])
    (note,) = state_root().glob("runs/*.json")
    for text in ("{}", "[" * 100_000, "\0", note.read_text().replace(": 3", ': "3"')):
        note.write_text(text)
        with pytest.raises(ToolError, match="damaged"):
            place.read()
    place.remove()
    assert not place.path.exists() and list(state_root().glob("runs/*")) == []


@dataclass
class Builder:
    """Nodes on which `kdyno build` answers. ``lost``: jobs that leave nothing."""

    folder: Path
    answer: bytes = b'{"images": {"stock": {}, "mine": {}}, "failed": {"avx": "skipped: no AVX"}}'
    lost: Sequence[int] = ()
    late_s: float = 0.0
    now_s: float = 0.0
    messages: list[str] = field(default_factory=list)
    commands: list[list[str]] = field(default_factory=list)

    def submit(self, work: Sequence[Commands]) -> list[Job]:
        number = len(self.commands)
        (((*command,),),) = work
        self.commands.append(command)
        self.folder.mkdir(exist_ok=True)
        job = Job(str(number), self.folder / f"{number}.json", "NODE_FAIL", lost=True)
        if number not in self.lost:
            job.outcome.write_text('{"node": "n1", "status": 0}')
            self.sleep(0.0)
        return [job]

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        if self.now_s >= self.late_s:
            Path(option(self.commands[-1], "--json")).write_bytes(self.answer)

    def look(self, jobs: Iterable[Job]) -> None: ...

    def cancel(self, jobs: Iterable[Job]) -> None: ...

    def built(self) -> tuple[list[str], dict[str, str]]:
        folder = self.folder / "b"
        return build(
            self, ["mine.toml"], folder, self.messages.append, self.sleep, lambda: self.now_s
        )


@pytest.mark.parametrize(("late_s", "lost"), [(0, ()), (0, (0, 1)), (30, ())])
def test_kernels_are_built_by_a_job(tmp_path: Path, late_s: float, lost: Sequence[int]) -> None:
    """Lost ones are submitted again; what a node wrote may be seen late."""
    builder = Builder(tmp_path / "jobs", late_s=late_s, lost=lost)
    assert builder.built() == (["stock", "mine"], {"avx": "skipped: no AVX"})
    assert len(builder.commands) == len(lost) + 1
    assert builder.commands[0][3:6] == ["kdyno", "build", "mine.toml"]
    assert builder.messages[-1] == f"kernels: built by job {len(lost)}"


@pytest.mark.parametrize(
    ("message", "about"),
    [
        (r"not built: job 2: it ended .* \(node_fail\)", {"lost": (0, 1, 2)}),
        (r"not built: .* is not seen here", {"late_s": 90.0}),
        (r"\.json: damaged: ", {"answer": b"{}"}),
        (r"\.json: damaged: ", {"answer": b"[" * 100_000}),
        (r"\.json: damaged: ", {"answer": b'{"images": {"mine": {}}, "failed": []}'}),
    ],
)
def test_kernels_that_no_job_builds(tmp_path: Path, message: str, about: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match=message):
        Builder(tmp_path / "jobs", **about).built()


def test_settings(tmp_path: Path) -> None:
    file = tmp_path / "fleet.toml"
    assert settings("local", file).nodes == 2
    file.write_text('[fleet]\npartition = "lab"\nnodes = 7\nsbatch = { account = "me" }\n')
    result = settings("slurm", file)
    assert (result.engine, result.partition, result.nodes) == ("slurm", "lab", 7)
    assert result.sbatch == {"account": "me"}
    assert settings("slurm:big", file).partition == "big"
    for on in ("pbs", "local:lab", ""):
        with pytest.raises(UsageError, match="there are slurm"):
            settings(on, file)
    mistakes = {"[fleet]\nnodez = 1\n": 'Did you mean "nodes"', "[fleet]\nnodes = 0\n": "nodes"}
    mistakes['[fleet]\nsbatch = { job-name = "me" }\n'] = "job-name: kdyno finds its jobs by that"
    for text, message in {**mistakes, "[fleet": "is not TOML"}.items():
        file.write_text(text)
        with pytest.raises(UsageError, match=message):
            settings("slurm", file)


class Slurm(Engine):
    """That says of all jobs the same, at a time that the test sets."""

    def __init__(self, folder: Path) -> None:
        super().__init__(Settings(engine="slurm"), folder, clock=lambda: self.now_s)
        self.now_s, self.word, self.requests = 0.0, "RUNNING", 0

    def _states(self) -> dict[str, str] | None:
        self.requests += 1
        return {"1": self.word} if self.word else None

    def until_done(self, job: Job, most_s: float) -> float | None:
        """Seconds after which a job is done."""
        began_s = self.now_s
        while self.now_s - began_s <= most_s:
            self.look([job])
            if job.done:
                return self.now_s - began_s
            self.now_s += 0.5
        return None


@pytest.fixture
def slurm(tmp_path: Path) -> Slurm:
    return Slurm(tmp_path)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job("1", tmp_path / "outcome.json")


def test_slurm_is_not_asked_all_the_time(slurm: Slurm, job: Job) -> None:
    assert slurm.until_done(job, 60) is None
    assert slurm.requests == 31 and job.state == "RUNNING"


def test_a_job_that_its_node_lost_is_soon_known(slurm: Slurm, job: Job) -> None:
    slurm.word = "NODE_FAIL"
    assert slurm.until_done(job, 60) == 2
    assert job.failure() == "job 1: it ended without a result (node_fail)"


@pytest.mark.parametrize("word", ["COMPLETED", "SOMETHING ELSE"])
def test_a_job_that_ended_well_may_be_seen_late(slurm: Slurm, job: Job, word: str) -> None:
    """Its outcome is in a folder that this machine shows as it was some seconds ago."""
    slurm.word = word
    if word != "COMPLETED":
        job.name, job.state = "2", ""  # Slurm does not know it any more
    assert slurm.until_done(job, 30) is None
    job.outcome.write_text('{"node": "n1", "status": 0}')
    assert job.done and job.well and job.failure() == ""
    job.outcome.unlink()
    assert slurm.until_done(job, 60) == LATE_S - 30.5
    assert "ended without a result" in job.failure()


def test_who_cannot_be_asked_has_not_said_that_it_is_over(slurm: Slurm, job: Job) -> None:
    slurm.word = ""
    assert slurm.until_done(job, 2 * LATE_S) is None
    # And one that goes on after all is none of those that were over.
    slurm.word = "COMPLETED"
    assert slurm.until_done(job, 10) is None and job.over_s is not None
    slurm.word = "RUNNING"
    assert slurm.until_done(job, 10) is None and job.over_s is None
