# SPDX-License-Identifier: MIT
"""The guest program, run as an ordinary process: its verbs, its harness, and as a supervisor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kdyno.paths import data_root
from kdyno.suites.job import CaseJob, Job, render
from kdyno.suites.protocol import CaseError, Reader, Sample, Skip, Transcript

NONCE = "0123456789abcdef" * 2
GUEST = data_root() / "guest"


def call(program: Path, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(program), *words], capture_output=True, text=True, timeout=60, check=False, **more
    )


def bench(program: Path, tmp_path: Path, *words: str) -> dict[str, Any]:
    """The record of a case by itself."""
    done = call(program, "bench", *words, env={**os.environ, "KDYNO_DIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    record: dict[str, Any] = json.loads(done.stdout)
    return record


def test_it_is_static(program: Path) -> None:
    headers = subprocess.run(["readelf", "-l", str(program)], capture_output=True, check=True)
    assert b"INTERP" not in headers.stdout


def test_list_has_name_and_help(program: Path) -> None:
    lines = [json.loads(line) for line in call(program, "list", "--json").stdout.splitlines()]
    names = [line["name"] for line in lines]
    assert names == sorted(path.stem for path in (GUEST / "bench").glob("*.c"))
    assert all(line["help"] for line in lines)
    text = call(program, "list").stdout.splitlines()
    assert [line.split()[0] for line in text] == names


def test_operations_are_done_exactly(program: Path, tmp_path: Path) -> None:
    record = bench(program, tmp_path, "idle", "--operations", "23")
    assert [operations for operations, _ in record["reps"]] == [2, 2, 2, 2, 3, 3, 3, 3, 3]
    record = bench(program, tmp_path, "idle", "--operations", "2")
    assert [operations for operations, _ in record["reps"]] == [1, 1]


def test_a_repetition_too_short_for_the_clock_is_an_error(program: Path) -> None:
    done = call(program, "bench", "hello", "--operations", "5")
    assert done.returncode == 1 and "less than 1 ms cannot be timed" in done.stderr


@pytest.fixture(scope="module")
def ticked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The harness by a clock that only its ticks move."""
    program = tmp_path_factory.mktemp("native") / "ticked"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{GUEST}"]
    source = Path(__file__).with_name("native") / "clock_ticked.c"
    flags += ["-Dclock_gettime=ticked_gettime", "-o", str(program)]
    subprocess.run(["gcc", *flags, source, GUEST / "harness.c"], check=True)
    return program


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("seconds", [0.1, 1.0])
@pytest.mark.parametrize("tick_ns", [1, 4_000_000, 10_000_000])
@pytest.mark.parametrize("each_ns", [1, 1000, 7_000_000])
def test_a_clock_that_knows_its_ticks_only_makes_no_case_endless(
    ticked: Path, each_ns: int, tick_ns: int, seconds: float
) -> None:
    took_s, repetitions = call(ticked, str(each_ns), str(tick_ns), str(seconds)).stdout.split()
    assert seconds / 2 < float(took_s) < 3 * seconds + 0.5 and int(repetitions) >= 1


def ran(program: Path, tmp_path: Path, *words: str, operations: int = 1) -> dict[str, Any]:
    return bench(program, tmp_path, "run", "--operations", str(operations), "--", *words)


def test_run_keeps_the_output_of_the_last_run(program: Path, tmp_path: Path) -> None:
    script = 'printf "a\\tb\\n\\303\\251\\377"; echo err >&2; exec sleep 0.002'
    record = ran(program, tmp_path, "sh", "-c", script, operations=3)
    assert [operations for operations, _ in record["reps"]] == [1, 1, 1]
    assert record["extra"]["stdout"] == "a\tb\né\ufffd"
    assert record["extra"]["stderr"] == "err\n"
    assert int(record["extra"]["last_user_us"]) >= 0
    # Of much output only the end.
    text = ran(program, tmp_path, "sh", "-c", "seq 1 100000; echo last")["extra"]["stdout"]
    assert text.endswith("100000\nlast\n") and 32 * 1024 <= len(text) <= 64 * 1024
    # Beside other notes there is room for a little less, and then it is the beginning that goes.
    script = "head -c 65528 /dev/zero | tr '\\0' x; echo 12.345"
    assert ran(program, tmp_path, "sh", "-c", script)["extra"]["stdout"].endswith("x12.345\n")


def test_a_printed_figure_may_come_from_a_run_too_short_to_time(
    program: Path, tmp_path: Path
) -> None:
    """And only in a guest are rights taken away."""
    command = ("grep", "-E", "^(Cap|NoNewPrivs)", "/proc/self/status")
    ours = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    record = ran(program, tmp_path, "--figure", "printed", "--", *command)
    assert [operations for operations, _ in record["reps"]] == [1]
    assert record["extra"]["stdout"] == ours


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["run", "--", "sh", "-c", "echo why >&2; exit 4"], "status 4; its last output: why"),
        (["run", "--", "sh", "-c", "kill -9 $$"], "killed by signal 9"),
        (["run", "--", "no-such-program"], "cannot start no-such-program: No such file"),
        (["run"], "run wants a command line"),
        (["fault-segv"], "killed by signal 11 (Segmentation fault)"),
        (["fault-exit", "status"], "exited with status 3 without a result"),
        (["fault-exit", "orphan"], "exited with status 3 without a result"),
        (["fault-hang", "--timeout", "0.05"], "not done after its time limit of 0.05 s"),
        (["no-such"], "no benchmark no-such"),
        (["pipe", "5"], "takes no arguments"),
        (["fscopy", "0", "5"], "the block size is 0"),
        (["fscopy", "2048", "1"], "does not fit"),
        (["fscopy", "2048", "8", "4096"], "the place in a page is 4096"),
        (["fsread", "1024"], "a block size in bytes and a file size in KiB are wanted"),
        (["shell"], "a number of copies"),
        (["shell", "0"], "the number of copies is 0"),
        (["stream", "twice"], "copy, scale, add or triad"),
        (["memfill"], "a block size in KiB"),
        (["memcopy", "x"], "the block size is x"),
    ],
)
def test_a_bad_case_says_why(program: Path, tmp_path: Path, words: list[str], text: str) -> None:
    done = call(program, "bench", *words, env={**os.environ, "KDYNO_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "") and text in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["fault-panic", "fault-oom", "fault-flood", "fault-fill"])
def test_dangerous_faults_refuse_outside_a_guest(program: Path, name: str) -> None:
    done = call(program, "bench", name)
    assert done.returncode == 77 and "only in a guest" in done.stderr


@pytest.mark.parametrize(
    "line", ["bench", "bench pipe --seconds 0", "bench pipe --what 1", "nonsense", "", "init"]
)
def test_misuse_is_status_2(program: Path, line: str) -> None:
    done = call(program, *line.split())
    assert done.returncode == 2 and (line != "init" or "process 1" in done.stderr)


def case(bench_: str, *args: str, operations: int = 5, timeout_s: float = 10.0) -> CaseJob:
    return CaseJob("s", bench_, bench_, args, None, operations, timeout_s)


def worked_off(program: Path, tmp_path: Path, job: Job) -> Transcript:
    path = tmp_path / "job"
    path.write_text(render(job, NONCE))
    done = subprocess.run([program, "job", path], capture_output=True, timeout=60, check=False)
    reader = Reader(NONCE, len(job.cases))
    reader.feed(done.stdout)
    return reader.finish()


@pytest.mark.slow
def test_a_whole_job_survives_its_bad_cases(program: Path, tmp_path: Path) -> None:
    script = "ls -l /proc/self/fd; env; echo '$x' \"y z\"; sleep 0.002"
    cases = (
        case("idle"),
        case("fault-segv"),
        case("fault-exit", "orphan"),
        case("fault-hang", timeout_s=0.05),
        case("fault-oom"),
        case("run", "--", "sh", "-c", script),
        case("idle", operations=7),
    )
    transcript = worked_off(program, tmp_path, Job(cases))
    assert transcript.anomaly_texts == () and transcript.complete
    assert transcript.hello is not None
    assert transcript.hello.word_bits == (32 if program.name.endswith("32") else 64)
    assert [begin.bench for begin in transcript.begun] == [one.bench for one in cases]
    kinds = [type(result) for result in transcript.results]
    assert kinds == [Sample, CaseError, CaseError, CaseError, Skip, Sample, Sample]
    output, last = transcript.results[-2:]
    assert isinstance(last, Sample) and isinstance(output, Sample)
    assert [operations for operations, _ in last.reps] == [1] * 7
    # What a case can see holds neither the nonce nor the channel.
    text = output.extra["stdout"]
    assert "y z\n" in text and NONCE not in text
    assert "3 -> /proc/" in text, "only 0, 1, 2 and ls' own descriptor"


def test_a_sysctl_that_does_not_take_is_fatal(program: Path, tmp_path: Path) -> None:
    transcript = worked_off(program, tmp_path, Job((case("idle"),), (("kdyno.nonsense", "1"),)))
    assert transcript.fatal == "sysctl kdyno.nonsense = 1: this kernel has no such setting"
    assert transcript.results == ()


HEAD = f"kdyno-job 1\nnonce {NONCE}\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "cut off"),
        ("kdyno-job 2\n", "kdyno-job 1"),
        ("kdyno-job 1\nend\n", "nonce must come before end"),
        ("kdyno-job 1\nnonce abc\nend\n", "32 hexadecimal digits"),
        (HEAD, "end is missing"),
        (HEAD + "end", "cut off"),
        (HEAD + "end\nmore\n", "after end"),
        (HEAD + "seconds 1\nend\n", "none has begun"),
        (HEAD + "case 1 idle\nend\n", "index 0"),
        (HEAD + "case 0 idle\nend\n", "either seconds or operations"),
        (HEAD + "case 0 idle\nseconds nan\nend\n", "seconds must be"),
        (HEAD + "case 0 idle\noperations -1\nend\n", "operations must be"),
        (HEAD + "case 0 idle\ntimeout x\nend\n", "timeout must be"),
        (HEAD + "what 1\nend\n", "none has begun"),
        (HEAD + "case 0 idle\nwhat 1\nend\n", "unknown word what"),
        (HEAD + "sysctl x\nend\n", "a name and a value"),
        (HEAD + "x" * 200_000, "longer than 128 KiB"),
    ],
)
def test_a_bad_job_file_is_refused(program: Path, tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "job"
    path.write_text(text)
    done = call(program, "job", str(path))
    assert done.returncode == 2 and why in done.stderr and NONCE not in done.stderr


@pytest.mark.slow
def test_c_is_formatted() -> None:
    schedulers = GUEST.parent / "kernel" / "sched"
    files = [*sorted(GUEST.rglob("*.[ch]")), *sorted(schedulers.glob("*.[ch]"))]
    words = [f"--style=file:{GUEST / '.clang-format'}", "--dry-run", "-Werror"]
    formatter = Path(sys.executable).with_name("clang-format")
    done = subprocess.run([formatter, *words, *files], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def supervise(
    program: Path, *words: str, cwd: Path, outputs: tuple[str, ...] = ()
) -> tuple[dict[str, int], list[bytes]]:
    report, sender = os.pipe()
    pipes = [os.pipe() for _ in outputs]
    options = [f"{name}:{fd}" for name, (_, fd) in zip(outputs, pipes, strict=True)]
    options = [word for option in options for word in ("--output", option)]
    fds = [sender, *(fd for _, fd in pipes)]
    argv = [program, "supervise", "--report-fd", str(sender), *options, *words]
    done = subprocess.run(argv, pass_fds=fds, cwd=cwd, timeout=60, check=False, capture_output=True)
    for fd in fds:
        os.close(fd)
    assert done.returncode == 0, done.stderr
    texts = []
    for fd in (report, *(fd for fd, _ in pipes)):
        with os.fdopen(fd, "rb") as file:
            texts.append(file.read())
    return json.loads(texts[0]), texts[1:]


@pytest.mark.parametrize(
    ("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM)]
)
def test_supervise_reports_the_status(
    program: Path, tmp_path: Path, script: str, status: int
) -> None:
    report, _ = supervise(program, "--", "sh", "-c", script, cwd=tmp_path)
    assert report["status"] == status
    assert set(report) == {"status", "user_us", "sys_us", "maxrss_kb", "wall_us"}


@pytest.mark.slow
def test_supervise_leaves_nothing_behind_and_counts_it(program: Path, tmp_path: Path) -> None:
    # An orphan in a session of its own burns CPU; its parent ends when it has burnt enough.
    burn = "while :; do :; done"
    script = f"setsid sh -c '{burn}' & echo $! > pid; "
    script += "until [ $(cut -d' ' -f14 /proc/$!/stat) -ge 10 ]; do :; done"
    report, _ = supervise(program, "--", "sh", "-c", script, cwd=tmp_path)
    assert report["user_us"] >= 100_000 / (os.sysconf("SC_CLK_TCK") / 100)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_supervise_hands_over_regular_files_only(program: Path, tmp_path: Path) -> None:
    script = "printf profile > gmon.out; ln -s /etc/passwd link; mkfifo fifo"
    outputs = ("gmon.out", "link", "fifo", "missing")
    _, texts = supervise(program, "--", "sh", "-c", script, cwd=tmp_path, outputs=outputs)
    assert texts == [b"profile", b"", b"", b""]


def test_supervise_limits_file_size(program: Path, tmp_path: Path) -> None:
    command = "head -c 100000 /dev/zero > big"
    report, _ = supervise(program, "--fsize", "5000", "--", "sh", "-c", command, cwd=tmp_path)
    assert report["status"] != 0
    assert (tmp_path / "big").stat().st_size == 5000


def test_supervise_fixes_addresses_where_it_may(program: Path, tmp_path: Path) -> None:
    command = ("--", "sh", "-c", "cat /proc/self/personality > as")
    supervise(program, "--addresses", "fixed", *command, cwd=tmp_path)
    fixed = int((tmp_path / "as").read_text(), 16)
    supervise(program, *command, cwd=tmp_path)
    may = subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0
    assert fixed == int((tmp_path / "as").read_text(), 16) | (0x40000 if may else 0)


@pytest.mark.slow
@pytest.mark.needs("sandbox")
def test_supervise_needs_no_proc_where_it_is_alone(program: Path, tmp_path: Path) -> None:
    """As the first and as the second process of a sandbox; an orphan has left the group."""
    inside = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev"]
    inside += ["--tmpfs", "/proc", "--tmpfs", "/tmp", "--ro-bind", str(program), "/tmp/guest"]
    # Only who is reaped counts: an orphan, in a session of its own, of 9 MB.
    orphan = "x=$(yes | head -c 9000000); : > /tmp/grown; exec 1>&-; read y <&3"
    script = f"mkfifo /tmp/never; setsid sh -c '{orphan}' 3<>/tmp/never & "
    script += "until [ -e /tmp/grown ]; do :; done; exit 5"
    words = ("supervise", "--report-fd", "1", "--alone", "yes", "--", "sh", "-c")
    for more in (["--as-pid-1"], []):
        done = call(Path(inside[0]), *inside[1:], *more, "--", "/tmp/guest", *words, script)
        report = json.loads(done.stdout)
        assert report["status"] == 5 and report["maxrss_kb"] > 9_000, (report, done.stderr)
    outside = call(program, *words, "exit 5")
    assert (outside.returncode, outside.stdout) == (2, "")
    assert "first or second process" in outside.stderr


def test_supervise_forwards_sigterm(program: Path) -> None:
    report, sender = os.pipe()
    words = ("supervise", "--report-fd", str(sender), "--", "sh", "-c", "echo up; read x")
    pipe = subprocess.PIPE
    process = subprocess.Popen([program, *words], pass_fds=[sender], stdin=pipe, stdout=pipe)
    os.close(sender)
    assert process.stdout is not None and process.stdout.readline() == b"up\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    process.communicate()
    with os.fdopen(report, "rb") as file:
        assert json.loads(file.read())["status"] == 128 + signal.SIGTERM


def test_supervise_ends_with_the_one_who_started_it(program: Path, tmp_path: Path) -> None:
    """Also when that is killed; so does what left the command's group."""
    for name in ("born", "dies"):
        os.mkfifo(tmp_path / name)
    # The only writers of `dies` are the command and its orphan.
    orphan = "setsid sh -c 'echo x; exec sleep 1000'"
    script = f"exec 3> dies; exec > born; {orphan} & wait"
    words = [str(program), "supervise", "--report-fd", "{fd}", "--", "sh", "-c", script]
    code = (
        "import os, subprocess, sys; own, fd = os.pipe();"
        f"words = [it.format(fd=fd) for it in {words!r}];"
        "subprocess.run(words, pass_fds=[fd])"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    with (tmp_path / "dies").open() as dies:
        with (tmp_path / "born").open() as born:
            assert born.readline() == "x\n"
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        assert dies.read() == ""


def test_supervise_does_not_begin_for_one_who_is_gone(program: Path, tmp_path: Path) -> None:
    report, sender = os.pipe()
    os.close(report)
    words = ("supervise", "--report-fd", str(sender), "--", "touch", str(tmp_path / "begun"))
    done = subprocess.run([program, *words], pass_fds=[sender], timeout=60, check=False)
    os.close(sender)
    assert done.returncode == 1 and not (tmp_path / "begun").exists()


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_of_a_long_command_the_load_is_that_of_all_looks(tmp_path: Path) -> None:
    """Where the picture of it is thinned, first after 102 seconds."""
    program = tmp_path / "load_thinned"
    source = Path(__file__).with_name("native") / "load_thinned.c"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{GUEST}"]
    subprocess.run(["gcc", *flags, "-o", program, source], check=True)
    done = subprocess.run([program, "60", "102", "104", "900"], capture_output=True, text=True)
    for line in done.stdout.splitlines():
        assert [float(word) for word in line.split()] == pytest.approx([6.4, 20.0], rel=0.02)
    assert len(done.stdout.splitlines()) == 4
