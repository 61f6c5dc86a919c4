# SPDX-License-Identifier: MIT
"""The host as a machine, using a stand-in for the guest program; processes and their CPU time."""

from __future__ import annotations

import dataclasses
import errno
import gzip
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from descendants import below, descendants
from fake_run import boots_of
from on_screen import text

from kdyno import sandbox, whole
from kdyno.errors import ToolError, UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Experiment
from kdyno.machines import guest, host
from kdyno.machines.cpus import measuring, place
from kdyno.machines.guest import boot, start
from kdyno.machines.host import HostJob, running
from kdyno.machines.machine import Alive
from kdyno.machines.process import CpuTime, Events, Outcome, _family
from kdyno.machines.uml import UmlBoot
from kdyno.measure import bench
from kdyno.measure.execution import Options, execute, resume
from kdyno.measure.vocabulary import vocabulary
from kdyno.store.index import entries
from kdyno.store.manifest import Criteria
from kdyno.store.run import Damaged, Run, RunWriter, list_runs, write_run
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import load
from kdyno.suites.job import CaseJob, Job

PROGRAM = """#!{python}
# SPDX-License-Identifier: MIT
# supervise and job of the guest program, as far as a host job needs them.
import json, os, subprocess, sys
if sys.argv[1] == "supervise":
    fd = int(sys.argv[3])
    status = subprocess.call(sys.argv[5:], close_fds=False)
    line = dict(status=status, user_us=1000, sys_us=2000, maxrss_kb=100, wall_us=1)
    os.write(fd, json.dumps(line).encode() + b"\\n")
    sys.exit(0)
lines = open(sys.argv[2]).read().splitlines()
nonce = lines[1].split()[1]
fd, seq = int(sys.argv[4]), 0
def say(kind, **more):
    global seq
    os.write(fd, b"\\n" + json.dumps(dict(n=nonce, seq=seq, t=kind, **more)).encode() + b"\\n")
    seq += 1
{before}
say("hello", protocol=1, release="r", machine="m", word_bits=64, cpus=1, mem_kb=1, mono_ns=1)
cases = [at for at, line in enumerate(lines) if line.startswith("case ")]
for number, at in enumerate(cases):
    args = [line[4:] for line in lines[at:] if line.startswith("arg ")]
    say("begin", case=number, bench="pipe", mono_ns=2)
    {inside}
    say("sample", case=number, reps=[[10, 10**7]], user_ns=1, sys_ns=1, calibration_ns=1,
        mono_ns=3, extra=dict(stdout="Time: 2.5", args=" ".join(args)))
say("bye", mono_ns=10**7, inside_ns=10**6)
"""

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def program(before: str = "", inside: str = "pass") -> Path:
        path = tmp_path / "kdyno-guest-64"
        path.write_text(PROGRAM.format(python=sys.executable, before=before, inside=inside))
        path.chmod(0o755)
        return path

    return program


def host_job(program: Path, *cases: CaseJob, **more: object) -> HostJob:
    request = cases or (CaseJob("s", "c", "pipe"),)
    given = {"program": program, "job": Job(request), "placement": place(1), **more}
    return HostJob(sandboxed=False, **given)  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_job_is_worked_off_and_recorded(make: Make) -> None:
    begun: list[str] = []
    outcome = boot(host_job(make()), begun.append)
    host = outcome.host
    assert host.status == "ok", host
    assert outcome.transcript.complete and begun == ["c"] and host.flags == ()
    assert (host.user_s, host.sys_s, host.inside_s) == (0.001, 0.002, 0.001)


def test_a_guest_that_repeats_itself_leaves_room_for_other_flags(make: Make) -> None:
    loud = "print('kdyno-guest: not known: quiet\\n' * 200, flush=True); os.write(fd, b'x\\n')"
    host = boot(host_job(make(loud), cmdline="quiet")).host
    assert [flag.kind for flag in host.flags] == ["no-effect", "guest-channel"]


def test_a_guest_that_is_gone_takes_no_notice_of_orders(make: Make) -> None:
    with closing(Events()) as events:
        session = start(host_job(make()), events)
        while not session.ended:
            events.wait()
        session.send("turn 0 1", 1.0)
        session.pause()
        session.resume()
        assert session.close().host.status == "ok"


def test_a_guest_that_cannot_be_closed_leaves_no_other_alive(make: Make) -> None:
    def fail(*_given: object) -> Outcome:
        raise ToolError("its record is lost")

    program = make("__import__('signal').pause()")
    with closing(Events()) as events:
        sessions = [start(host_job(program), events) for _ in range(3)]
        sessions[0]._conclude = fail
        with pytest.raises(ToolError, match="lost"), Alive(events, sessions) as alive:
            pass
        assert [session.ended for session in sessions] == [True] * 3
        assert [outcome.host.reason for outcome in alive.outcomes] == ["closed", "closed"]
        assert descendants(os.fsencode(program)) == []


@pytest.mark.parametrize(
    ("place", "name", "call"),
    [
        (os, "pidfd_open", 1),
        (os, "set_blocking", 3),
        (os, "pipe", 3),
        *((Events, "add", call) for call in range(1, 5)),
    ],
)
def test_a_guest_that_cannot_be_watched_is_gone(
    make: Make, monkeypatch: pytest.MonkeyPatch, place: object, name: str, call: int
) -> None:
    """However far its start came: no process, no descriptor, no entry in the loop is left."""
    done, real = [0], getattr(place, name)

    def failing(*given: object) -> object:
        done[0] += 1
        if done[0] == call:
            raise OSError(errno.EMFILE, name)
        return real(*given)

    program = make("__import__('signal').pause()")
    with closing(Events()) as events:
        before = {path.name for path in Path("/proc/self/fd").iterdir()}
        monkeypatch.setattr(place, name, failing)
        with pytest.raises(OSError, match=name):
            start(host_job(program), events)
        monkeypatch.undo()
        assert {path.name for path in Path("/proc/self/fd").iterdir()} == before
        assert descendants(os.fsencode(program)) == []
        assert events._calls == {}


def test_places_and_disk_are_given_and_gone_afterwards(make: Make, tmp_path: Path) -> None:
    case = CaseJob("s", "c", "run", ("{disk}", "{dir}", "{programs}"), None, 1, placed=True)
    shared, disks = ((tmp_path, "programs"),), tmp_path / "disks"
    outcome = boot(host_job(make(), case, shared=shared, disk_bytes=1 << 20, disk_parent=disks))
    (sample,) = outcome.transcript.results
    folder, work, programs = sample.extra["args"].split()  # type: ignore[union-attr]
    assert Path(folder).parent.parent == disks and programs == str(tmp_path)
    assert not Path(folder).exists() and not Path(work).exists()


@pytest.mark.parametrize(
    ("before", "inside", "reason", "words"),
    [
        ("print('oh'); sys.exit(3)", "pass", "no-result", ": oh"),
        ("", "sys.exit(3)", "no-result", "ended with status"),
        ("say('fatal', reason='no such bench'); sys.exit(1)", "pass", "job-refused", "no such"),
        ("os.write(fd, b'x' * (17 << 20))", "pass", "flood", "more than is read"),
    ],
)
def test_a_job_that_fails_says_why(
    make: Make, before: str, inside: str, reason: str, words: str
) -> None:
    host = boot(host_job(make(before, inside))).host
    assert (host.status, host.reason) == ("failed", reason) and words in host.text


@pytest.mark.slow
def test_a_job_that_never_ends_is_killed(make: Make) -> None:
    outcome = boot(host_job(make(inside="__import__('signal').pause()"), limit_s=3.0))
    assert outcome.host.reason == "timeout" and outcome.transcript.running == 0


def test_the_machine_s_settings_are_not_changed(make: Make) -> None:
    job = Job((), (("vm.swappiness", "1"),))
    with pytest.raises(UsageError, match="does not change the settings"):
        HostJob(program=make(), job=job, placement=place(1), sandboxed=False)


def test_a_disk_needs_room_and_leaves_nothing(tmp_path: Path) -> None:
    small = pytest.raises(ToolError, match="MB free, about 1,152,921,505,681 MB needed")
    with small as refusal, guest.disk_folder(tmp_path, 1 << 60):
        pass
    assert str(refusal.value).endswith(". Free some")  # a cache has nothing to do with it
    with whole.scratch("boot", tmp_path) as mine:
        # Its lock is nobody's: as a kdyno that was killed leaves it.
        left = tmp_path / "kdyno-boot-dead"
        (left / "in").mkdir(parents=True)
        (left / ".held").write_text("1\n")
        with guest.disk_folder(tmp_path, 1) as folder:
            assert folder.is_dir()
        assert list(tmp_path.iterdir()) == [mine.parent]
    assert list(tmp_path.iterdir()) == []


def test_the_running_kernel_is_read(tmp_path: Path) -> None:
    result = running()
    assert result["release"] == os.uname().release
    bare = running(tmp_path)
    assert (bare["config"], bare["cmdline"]) == ("", "not readable")
    assert bare["config_from"].startswith("not readable")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cmdline").write_text("quiet mitigations=off\n")
    (tmp_path / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_HZ=250\n"))
    full = running(tmp_path)
    assert (full["config"], full["cmdline"]) == ("CONFIG_HZ=250\n", "quiet mitigations=off")
    assert full["config_from"] == str(tmp_path / "proc/config.gz")
    assert full["digest"] != bare["digest"] and len(full["digest"]) == 32
    for damaged in (b"no gzip", gzip.compress(b"CONFIG_HZ=250\n")[:10] + b"\xff" * 20):
        (tmp_path / "proc/config.gz").write_bytes(damaged)
        assert running(tmp_path)["config"] == ""


HOST = """
name = "own"
[machine]
kind = "host"
[[suite]]
name = "unixbench"
cases = ["pipe"]
[[suite]]
name = "hackbench"
cases = ["pipes"]
[measure]
max_boots = 3
"""


def experiment(text: str = HOST) -> Experiment:
    return loader.parse(text, "own.toml", Path.cwd(), vocabulary(load()))


@pytest.mark.slow
def test_an_experiment_on_the_host_needs_no_kernel() -> None:
    (variant,) = experiment().variants
    assert (variant.name, variant.source, experiment().baseline) == ("running", "", "running")
    named = experiment(HOST + '[kernel]\nsource = "debian:linux-source-7.3"\n')
    assert named.variants[0].source == "debian:linux-source-7.3"


@pytest.fixture
def options(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    sandbox.waive()
    program = make()
    for module in (bench, host):
        monkeypatch.setattr(module, "guest_program", lambda _cache, _bits: program)
    monkeypatch.setattr("kdyno.measure.bench._exists", lambda *_: True)
    # Another kdyno that measures on this machine is nothing to wait for here.
    lock = f"\0kdyno-test-{os.getpid()}-{tmp_path.name}"
    monkeypatch.setattr("kdyno.machines.cpus._LOCK", lock)
    return Options(cache=tmp_path / "cache", runs=tmp_path / "runs")


def ran(options: Options, text: str = HOST) -> tuple[Run, Verdict]:
    return execute(experiment(text), load(), options)


@pytest.mark.slow
def test_a_run_on_the_host_tells_values_and_claims_nothing(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, verdict = ran(options)
    assert verdict.stopped == "max_boots = 3 reached" and verdict.effects == ()
    values = [(value.case, value.value, value.repetitions) for value in verdict.values]
    assert values == [("pipe", 1000.0, 3), ("pipes", 2.5, 3)]
    assert "not-rebooted" in [flag.kind for flag in verdict.flags]
    assert "nothing is compared" in verdict.answer and os.uname().release in verdict.answer
    screen = text(verdict, 80)
    assert "hackbench/pipes" in screen and "2.5" in screen and "No answer" not in screen
    assert [boot.variant for boot in boots_of(run)] == ["running"] * 3
    manifest = run.manifest()
    assert manifest.images == {"running": running()["digest"]}
    assert "governor" in manifest.host and manifest.host["host_kernel"] == os.uname().release
    image = (run.path / "images" / "running.json").read_text()
    assert '"release"' in image and '"cmdline"' in image and '"config_from"' in image
    # It is not resumed with other work, nor under another kernel.
    with write_run(run.path) as writer:
        one, *others = manifest.cases
        other_cases = (one.model_copy(update={"work": "0" * 16}), *others)
        writer.save_manifest(manifest.model_copy(update={"cases": other_cases}))
    with pytest.raises(UsageError, match=f"{one.suite}/{one.case} is not what it was"):
        resume(run.path, experiment(), load(), options)
    other = running() | {"digest": "0" * 32, "release": "6.0-other"}
    monkeypatch.setattr(host, "running", lambda: other)
    with pytest.raises(UsageError, match="another kernel, or another command line"):
        resume(run.path, experiment(), load(), options)


@pytest.mark.slow
def test_the_host_against_itself(options: Options) -> None:
    _, verdict = ran(options, HOST + "calibrate = true\n")
    assert verdict.values == ()
    assert {effect.variant for effect in verdict.effects} == {"running.copy"}


@pytest.mark.slow
@pytest.mark.parametrize("lost", [["0002-running"], ["0001-running", "0002-running"]])
def test_a_run_whose_newest_boots_are_damaged_is_resumed(options: Options, lost: list[str]) -> None:
    run, _ = ran(options)
    for name in lost:
        (run.path / "boots" / name / "host.json").write_text("{")
    resumed, verdict = resume(run.path, experiment(), load(), options)
    assert verdict.stopped == "max_boots = 3 reached"
    assert [value.repetitions for value in verdict.values] == [3, 3]
    boots = boots_of(resumed)
    assert [boot.block for boot in boots] == [0, 1, 2]
    assert [boot.index for boot in boots][-len(lost) :] == [*range(3, 3 + len(lost))]
    assert [each.name for each in resumed.boots() if isinstance(each, Damaged)] == lost


@pytest.mark.slow
def test_a_run_says_what_was_asked_and_of_which_work(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kdyno.measure.bench._exists", lambda need, *_where: need != "hackbench")
    run, verdict = ran(options, HOST + 'equivalent = "2%"\n')
    assert [(value.case, value.reason) for value in verdict.values] == [
        ("pipe", None),
        ("pipes", "skip: hackbench is not installed: apt-get install rt-tests"),
    ]
    today = run.manifest()
    assert today.asked == Criteria(equivalent=0.02)
    assert (today.machine.kind, today.machine.cpus) == ("host", 1)
    assert [flag.kind for flag in today.machine.caveats] == ["not-rebooted"]
    assert {name: variant.arch for name, variant in today.variants.items()} == {"running": "host"}
    assert [case.seconds for case in today.cases] == [0.5, None]
    assert all(case.work for case in today.cases)


@pytest.mark.slow
def test_a_run_that_is_refused_the_machine_leaves_nothing(options: Options) -> None:
    refused = dataclasses.replace(options, wait=False)
    refusal = pytest.raises(ToolError, match="leave out --no-wait to have the run of own wait")
    with measuring("this test", wait=False), refusal:
        ran(refused)
    assert list_runs(options.runs) == ()
    assert ran(refused)[0].manifest().state == "finished"


@pytest.mark.slow
def test_a_run_is_finished_only_once_its_verdict_is_there(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(_writer: RunWriter, _verdict: Verdict) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(RunWriter, "save_verdict", killed)
        ran(options)
    (run,) = list_runs(options.runs)
    assert run.manifest().state == "running" and run.verdict() is None
    assert [facts.state for _, facts in entries(options.runs)] == ["interrupted"]
    again, verdict = resume(run.path, experiment(), load(), options)
    assert again.manifest().state == "finished" and again.verdict() == verdict
    assert verdict.boots == {"running": 3}


@pytest.mark.slow
def test_a_run_outside_the_sandbox_says_so_for_good(options: Options) -> None:
    run, verdict = ran(options)
    texts = [flag.text for flag in verdict.flags if flag.kind == "no-sandbox"]
    assert len(texts) == 1 and "--no-sandbox" in texts[0]
    # A run that was begun inside, and had one boot outside when it was taken up again.
    with write_run(run.path) as writer:
        host = {**run.manifest().host, "sandbox": True}
        writer.save_manifest(run.manifest().model_copy(update={"host": host}))
    _, verdict = resume(run.path, experiment(), load(), options)
    assert [flag.text for flag in verdict.flags if flag.kind == "no-sandbox"] == texts


WORKS = "import sys\nfor _ in sys.stdin:\n sum(range(300000)); print(flush=True)\n"


def test_it_counts_what_the_process_does_and_not_what_it_waits() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin and child.stdout
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        meter = CpuTime([child.pid])
        begun_ns = meter.ns()
        child.stdin.write("\n")
        child.stdin.flush()
        child.stdout.readline()
        worked_ns = meter.ns() - begun_ns
        assert begun_ns > 0 and worked_ns > 0
        still_ns = meter.ns()
        sum(range(600_000))  # by us, who are not counted
        assert meter.ns() - still_ns < worked_ns
        child.stdin.close()
        child.wait()
        assert meter.ns() == 0
        meter.close()


def test_nobody_and_who_is_gone_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    meter = CpuTime([child.pid])
    assert meter.ns() == CpuTime().ns() == 0
    own = CpuTime([os.getpid()])
    assert own.ns() > 0
    own.close()
    assert own.ns() == 0

    def ended(path: object = ".") -> list[str]:
        raise FileNotFoundError(2, "No such file or directory", str(path))

    # Nor has a process that ends while its threads are listed.
    monkeypatch.setattr(os, "scandir", ended)
    monkeypatch.setattr(os, "listdir", ended)
    assert _family(os.getpid()) == [os.getpid()]
    assert CpuTime([os.getpid()]).ns() == 0


@pytest.mark.parametrize("hidden", ["/dev/shm", "/run"])
def test_without_a_sandbox_the_guest_must_see_its_job(
    hidden: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own /dev or /run would lie over the folder, and it would say nothing."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "resolve", lambda self: hidden / self.relative_to("/"))
    files = {"program": tmp_path / "guest", "kernel": tmp_path / "linux"}
    request = UmlBoot(**files, job=Job(), placement=place(1), sandboxed=False)
    with pytest.raises(UsageError, match="such as /var/tmp") as refused:
        boot(request)
    assert str(refused.value).startswith(f"TMPDIR: {tmp_path}: a guest has a /{hidden[1:4]}")
    assert list(tmp_path.iterdir()) == []


# Which processes a test takes for its own.


GUEST = [sys.executable, "-c", "input()", "kdyno.job=/tmp/x"]
LOOK = """\
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from descendants import adopt, descendants
adopt()
print(len(descendants(b"kdyno.job=/tmp")), flush=True)
code = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:], stdout=-3, stderr=-3).pid)"
closed, _ = os.pipe()
orphan = subprocess.run([sys.executable, "-c", code, *sys.argv[2:]], stdin=closed,
    stdout=subprocess.PIPE, timeout=60)
print(descendants(b"kdyno.job=/tmp") == [int(orphan.stdout)])
"""


def test_children_of_children_and_nobody_else() -> None:
    assert below(10, {10: 1, 11: 10, 12: 11, 13: 1, 14: 13, 1: 0}) == {11, 12}


@pytest.mark.slow
def test_an_orphan_is_ones_own_and_anothers_guest_is_not() -> None:
    with subprocess.Popen(GUEST, stdin=subprocess.PIPE) as other:
        argv = [sys.executable, "-c", LOOK, Path(__file__).parent, *GUEST]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert other.poll() is None
        other.communicate(b"\n")
    assert done.stdout.split() == ["0", "True"], done.stderr
