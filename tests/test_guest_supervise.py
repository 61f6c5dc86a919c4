# SPDX-License-Identifier: MIT
"""The guest program as the supervisor of a command on the host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_guest import call


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


def test_supervise_leaves_nothing_behind_and_counts_it(program: Path, tmp_path: Path) -> None:
    # An orphan in a session of its own burns CPU; its parent ends when it has burnt enough.
    burn = "while :; do :; done"
    script = (
        f"setsid sh -c '{burn}' & echo $! > pid; "
        "until [ $(cut -d' ' -f14 /proc/$!/stat) -ge 10 ]; do :; done"
    )
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
