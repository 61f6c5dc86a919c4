# SPDX-License-Identifier: MIT
"""The sandbox's command line and what may be written; external commands: run, written down, killed
with us. What must not come out of the sandbox is tried in attacks/."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_host_scripts import tool

from kdyno import sandbox
from kdyno.command import capture, kill_session, require, started, stream
from kdyno.errors import ToolError
from kdyno.sandbox import BUILD, GUEST, HOST, Sandbox, hand_over

needs_sandbox = pytest.mark.needs("sandbox")


@pytest.fixture
def asked_anew() -> Iterator[None]:
    sandbox.unusable.cache_clear()
    yield
    sandbox.unusable.cache_clear()


def inside(box: Sandbox, script: str, *, pass_fds: tuple[int, ...] = ()) -> str:
    argv = box.argv(["sh", "-c", script])
    done = subprocess.run(argv, capture_output=True, text=True, pass_fds=pass_fds)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_command_line_says_what_is_shared() -> None:
    reads, writes = ((Path("/a"), "/tmp/a/b"),), ((Path("/b"), "/tmp/a/b/c"),)
    box = Sandbox(BUILD, read_only=reads, writable=writes, chdir="/tmp/a/b")
    line = box.argv(["make", "-j2"], dropping=False)
    assert line[:2] == ["sh", "-c"] and line[4] == "bwrap"
    assert {"--unshare-user", "--unshare-net"} < set(line)
    assert line[line.index("--cap-drop") + 1] == "ALL" and "--cap-add" not in line
    assert "setpriv" not in line
    at = line.index("/tmp/a/b")
    assert line[at - 6 : at + 4] == [
        *("--dir", "/tmp", "--dir", "/tmp/a"),
        *("--ro-bind", "/a", "/tmp/a/b", "--bind", "/b", "/tmp/a/b/c"),
    ]
    assert line[at + 4 : at + 6] == ["--remount-ro", "/"]
    assert line[-9:-5] == ["--chdir", "/tmp/a/b", "--", "prlimit"]
    assert line[-3:] == ["--", "make", "-j2"]


def test_the_command_line_of_root_leaves_root_behind() -> None:
    line = Sandbox(GUEST).argv(["true"], dropping=True)
    kept = [line[at + 1] for at, word in enumerate(line) if word == "--cap-add"]
    assert line[line.index("--cap-drop") + 1] == "ALL" and kept == ["CAP_SETUID", "CAP_SETGID"]
    assert "--unshare-user" not in line
    after = line[line.index("setpriv") :]
    assert after[1:4] == [f"--reuid={GUEST.uid}", f"--regid={GUEST.uid}", "--clear-groups"]
    assert after[-2:] == ["--", "true"]


@needs_sandbox
def test_only_what_is_named_can_be_written(tmp_path: Path) -> None:
    given, mine, other = (tmp_path / name for name in ("given", "mine", "other"))
    for folder in (given, mine, other):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    hand_over(mine, BUILD)
    box = Sandbox(BUILD, read_only=((given, "/tmp/given"),), writable=((mine, "/tmp/mine"),))
    output = inside(
        box,
        "cat /tmp/given/file; echo ' seen'; echo x > /tmp/mine/new; echo x > /tmp/lost;"
        f"for place in /tmp/given/file /usr/x /etc/x {other}/file {Path.home()}/kdyno-x;"
        "do (echo x > $place) 2>/dev/null && echo wrote $place; done; ls /tmp",
    )
    assert output.split("\n") == ["given seen", "given", "lost", "mine"]
    assert (mine / "new").read_text() == "x\n"
    assert (other / "file").read_text() == "other"
    assert not Path("/tmp/lost").exists()


@needs_sandbox
def test_its_tmp_has_its_size_and_is_home() -> None:
    box = Sandbox(BUILD, tmp_bytes=1 << 20)
    assert inside(box, "echo $HOME $TMPDIR $PWD") == "/tmp /tmp /tmp"
    output = inside(box, "head -c 3000000 /dev/zero > /tmp/big 2>/dev/null; wc -c < /tmp/big")
    assert int(output) <= 1 << 20


@needs_sandbox
def test_a_descriptor_becomes_a_file() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"content")
    os.close(writing)
    try:
        box = Sandbox(HOST, files=((reading, "/tmp/job.json"),))
        assert inside(box, "cat /tmp/job.json", pass_fds=(reading,)) == "content"
    finally:
        os.close(reading)


def test_without_bwrap(asked_anew: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError) as caught:
        sandbox.require()
    message = str(caught.value)
    assert "bubblewrap (the program bwrap) is not installed" in message
    assert "--no-sandbox" in message and "Install bubblewrap" in message


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo bwrap: No permissions >&2; exit 1", "bwrap failed: bwrap: No permissions"),
        ("exit 3", "bwrap failed: exit status 3"),
    ],
)
def test_a_bwrap_that_does_not_work(
    asked_anew: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    tool(tmp_path, "bwrap", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert sandbox.unusable() == message
    with pytest.raises(ToolError, match="no sandbox: bwrap failed"):
        sandbox.require()


def test_a_commands_lines_go_to_log_and_listener(tmp_path: Path) -> None:
    log, seen = tmp_path / "log", list[str]()
    script = "echo one; echo two >&2; printf 'x\\377'; exit 3"
    assert stream(["sh", "-c", script], log=log, line=seen.append) == 3
    assert seen == ["one", "two", "x\ufffd"]
    command = shlex.join(["sh", "-c", script]).encode()
    assert log.read_bytes() == b"$ " + command + b"\none\ntwo\nx\xff"
    assert stream(["sh", "-c", "echo $A"], log=log, line=seen.append, env={"A": "b"}) == 0
    assert seen[-1] == "b" and log.read_bytes().endswith(b"\nb\n")


def test_a_listener_that_raises_ends_the_command_and_its_children(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "dies")

    def stop(_line: str) -> None:
        raise KeyboardInterrupt

    reading = os.open(tmp_path / "dies", os.O_RDONLY | os.O_NONBLOCK)
    script = f"(exec 3> {tmp_path}/dies; echo go; sleep 60) & wait"
    with pytest.raises(KeyboardInterrupt):
        stream(["sh", "-c", script], log=tmp_path / "log", line=stop)
    os.set_blocking(reading, True)
    assert os.read(reading, 1) == b""  # its last writer is gone
    os.close(reading)


def test_an_exit_status_that_no_signal_has_is_the_programs_own() -> None:
    statuses = (0, 1, 128, 129, 192, 193, 255, -9)
    assert [*map(sandbox.plain_status, statuses)] == [0, 1, 128, -1, -64, 193, 255, -9]


def test_killing_a_session_that_ended_is_no_error() -> None:
    process = subprocess.Popen(["true"], start_new_session=True)
    process.wait()
    kill_session(process)


def test_a_command_that_is_talked_to() -> None:
    script = "read line; echo $line; echo err >&2; exit 3"
    with started(["sh", "-c", script], stdin=subprocess.PIPE) as running:
        running.stdin.write(b"hello\n")
        running.stdin.close()
        assert running.stdout.read() == b"hello\n"
        assert (running.process.wait(), running.complaint()) == (3, "err\n")
    with pytest.raises(ZeroDivisionError), started(["sleep", "60"]) as running:
        raise ZeroDivisionError
    assert running.process.returncode == -signal.SIGKILL
    absent = pytest.raises(ToolError, match=r"cannot run kdyno-none: .*doctor")
    with absent, started(["kdyno-none"]):
        raise AssertionError("it runs")


@pytest.mark.slow
def test_short_commands(tmp_path: Path) -> None:
    done = capture(["sh", "-c", "echo out; echo err >&2; pwd; exit 4"], cwd=tmp_path)
    assert (done.status, done.output) == (4, f"out\nerr\n{tmp_path}\n")
    script = "cat; echo err >&2; echo $A"
    apart = capture(["sh", "-c", script], stdin=b"in ", env={"A": "b"}, apart=True)
    assert (apart.stdout, apart.complaint, apart.late) == (b"in b\n", "err\n", False)
    for limit_s in (0.3, 3.0, 30.0):  # a busy machine starts no shell in the first
        late = capture(["sh", "-c", "echo out; exec sleep 600"], limit_s=limit_s)
        if late.output:
            break
    assert (late.status, late.output, late.late) == (-signal.SIGKILL, "out\n", True)
    with pytest.raises(ToolError, match=r"cannot run kdyno-no-such-program --x: .*doctor"):
        capture(["kdyno-no-such-program", "--x"])
    assert Path(require("sh", "for this test")).is_absolute()
    with pytest.raises(ToolError, match=r"kdyno-none is not installed; .* for this test.*doctor"):
        require("kdyno-none", "for this test")
