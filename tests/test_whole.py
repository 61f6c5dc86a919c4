# SPDX-License-Identifier: MIT
"""Whole or absent: a full disk, a kill at any moment, and what the dead have left."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from command_line import effect, stored, verdict

from kdyno import whole
from kdyno.errors import ToolError

HOLDER = """
with whole.scratch("test", place) as folder:
    (folder / "big").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def swept_by_nobody_yet() -> None:
    whole._sweep_once.cache_clear()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    whole.write(file, b"new")
    mask = os.umask(0)
    os.umask(mask)
    assert file.stat().st_mode & 0o777 == 0o644 & ~mask
    file.chmod(0o640)
    whole.write(file, b"newer")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"newer", 0o640)
    (tmp_path / "link").symlink_to(file)
    whole.write(tmp_path / "link", b"through")
    assert (tmp_path / "link").is_symlink() and file.read_bytes() == b"through"
    assert names(tmp_path) == ["link", "report.html"]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_a_full_disk_leaves_the_old_file_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    file = tmp_path / "report.html"
    file.write_text("old")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    message = rf"report\.html: not written: no space left in {tmp_path} \(.* MB free, about 5 MB"
    with monkeypatch.context() as patched, pytest.raises(ToolError, match=message):
        patched.setattr(os, call, full)
        whole.write(file, b"x" * 5_000_000)
    assert (names(tmp_path), file.read_text()) == (["report.html"], "old")


@pytest.mark.slow
def test_a_real_limit_while_the_command_exports(tmp_path: Path) -> None:
    """4 KB of a new report once stood in an old one's place."""
    stored(tmp_path / "runs", verdict(*(effect(f"case-{n}", "faster", 1.05) for n in range(40))))
    out = tmp_path / "out.csv"
    out.write_text("old")
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "from kdyno.cli.main import main; sys.exit(main())"
    )
    for words in (("-f", "csv", "-o", out), ("--json", out)):
        done = subprocess.run(
            [sys.executable, "-B", "-c", code, "report", "last", *words],
            capture_output=True,
            text=True,
            env={**os.environ, "KDYNO_RUNS": str(tmp_path / "runs")},
        )
        assert done.returncode == 1 and "Traceback" not in done.stderr
        assert f"{out}: not written: no space left in {tmp_path} (" in done.stderr
        assert (names(tmp_path), out.read_text()) == (["out.csv", "runs"], "old")


def test_pipes_and_devices_are_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    whole.check(pipe)
    whole.write(pipe, b"said")
    assert os.read(reader, 10) == b"said"
    os.close(reader)
    whole.write(Path("/dev/null"), b"x")
    assert pipe.is_fifo() and Path("/dev/null").is_char_device()


def test_what_could_not_be_written_is_known_before(tmp_path: Path) -> None:
    file = tmp_path / "file"
    whole.check(file)
    assert names(tmp_path) == []
    with pytest.raises(OSError, match="No such file"):
        whole.check(tmp_path / "nowhere" / "file")
    long = tmp_path / ("é" * 127)
    whole.check(long)
    whole.write(long, b"x")
    assert long.read_bytes() == b"x"
    with pytest.raises(OSError, match="too long"):
        whole.write(tmp_path / ("é" * 128), b"x")
    assert names(tmp_path) == [long.name]


def test_what_a_killed_writer_left_goes_and_what_a_living_one_holds_stays(tmp_path: Path) -> None:
    file = tmp_path / "report"
    living, descriptor = whole._aside(file)
    (tmp_path / f"{living.name[:-6]}killed").write_bytes(b"half")
    whole.write(file, b"x")
    assert names(tmp_path) == [living.name, "report"]
    os.close(descriptor)
    whole.write(file, b"y")
    assert names(tmp_path) == ["report"]


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with whole.folder(tmp_path / "a" / "made") as inside:
        (inside / "x").write_text("x")
        assert not (tmp_path / "a" / "made").exists()
    assert names(tmp_path / "a") == ["made"] and names(tmp_path / "a" / "made") == ["x"]
    with pytest.raises(KeyError), whole.folder(tmp_path / "b") as inside:
        (inside / "x").write_text("x")
        raise KeyError
    assert names(tmp_path) == ["a"]


def started(code: str, place: Path) -> tuple[subprocess.Popen[str], str]:
    """A process of this code with a ``place``, and the first line that it prints."""
    head = "import sys; from pathlib import Path; from kdyno import whole"
    words = [sys.executable, "-c", f"{head}\nplace = Path(sys.argv[1])\n{code}", str(place)]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


@pytest.mark.slow
def test_the_next_one_sweeps_what_the_killed_one_left(tmp_path: Path) -> None:
    living, kept = started(HOLDER, tmp_path)
    killed, left = started(HOLDER, tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert Path(left, "big").exists()
    with whole.scratch("other", tmp_path) as mine:
        assert mine.is_dir() and not Path(left).parent.exists() and Path(kept, "big").exists()
        whole.sweep(tmp_path)  # one's own stay as well
        assert mine.is_dir()
    living.communicate("")
    assert names(tmp_path) == []


def test_folders_that_are_closed_to_their_owner_go_too(tmp_path: Path) -> None:
    code = """
import os
if os.geteuid() == 0:
    os.chown(place, 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
with whole.scratch("test", Path(".")) as folder:
    (folder / "outer" / "inner").mkdir(parents=True)
    (folder / "outer" / "inner" / "file").write_text("x")
    (folder / "link").symlink_to(place)
    for closed in ("outer/inner", "outer", "."):
        (folder / closed).chmod(0)
print(oct(os.stat(".").st_mode & 0o777), os.listdir("."))
"""
    tmp_path.chmod(0o755)
    process, line = started(f"import os; os.chdir(place)\n{code}", tmp_path)
    assert line == "0o755 []", process.communicate()


def test_what_was_killed_before_it_held_its_lock_goes_after_a_day(tmp_path: Path) -> None:
    """Before that it may be one that lives and is about to; and a person's own has another mode."""
    for name, mode in (("kdyno-empty", 0o700), ("kdyno-begun", 0o700), ("kdyno-notes", 0o755)):
        (tmp_path / name).mkdir(mode=mode)
    (tmp_path / "kdyno-begun" / ".new").touch()
    whole.sweep(tmp_path)
    assert names(tmp_path) == ["kdyno-begun", "kdyno-empty", "kdyno-notes"]
    for folder in tmp_path.iterdir():
        os.utime(folder, times=(0, time.time() - whole.LONG_S - 1))
    whole.sweep(tmp_path)
    assert names(tmp_path) == ["kdyno-notes"]


def test_what_is_not_ours_is_not_swept(tmp_path: Path) -> None:
    """A person's own folder may begin with the same word."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (tmp_path / "kdyno-boot-notes").mkdir()
    (tmp_path / "kdyno-boot-notes" / "thesis").write_text("x")
    (tmp_path / "kdyno-file").write_text("x")
    (tmp_path / "kdyno-link").symlink_to(outside)
    (outside / ".held").write_text("")
    other = tmp_path / "kdyno-boot-other"
    other.mkdir()
    (other / ".held").symlink_to(outside / "precious")
    before = names(tmp_path)
    whole.sweep(tmp_path)
    assert names(tmp_path) == before and (outside / "precious").exists()
    if os.geteuid() == 0:
        (other / ".held").unlink()
        (other / ".held").write_text("")
        os.chown(other, 65534, 65534)
        whole.sweep(tmp_path)
        assert other.exists()  # another user's


def test_a_lock_is_waited_for_and_its_holder_named(tmp_path: Path) -> None:
    lock = tmp_path / "locks" / "a"
    code = "with whole.locked(place, lambda who: print(who, flush=True)):\n    print('mine')"
    with whole.locked(lock):
        other, holder = started(code, lock)
    assert (holder, other.communicate()[0]) == (f"process {os.getpid()}", "mine\n")


def test_where_temporary_files_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with whole.scratch("boot") as folder:
        assert folder.parent.parent == tmp_path and folder.parent.name.startswith("kdyno-boot-")
        assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert names(tmp_path) == []


@pytest.fixture
def lockless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system on which a lock of one machine is not seen by another."""
    monkeypatch.setattr(whole.fcntl, "flock", lambda *_: None)


def test_what_another_machine_makes_is_not_taken_for_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lockless: None
) -> None:
    with whole.scratch("build", tmp_path) as theirs:
        (theirs / "object").write_text("x")
        aside, descriptor = whole._aside(tmp_path / "config")
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(whole, "here", lambda: "other1")
            whole.sweep(tmp_path)
            whole.write(tmp_path / "config", b"ours")
            assert (theirs / "object").exists() and aside.exists()
            held = theirs.parent / whole._HELD
            os.utime(held, (0, 0))
            whole.sweep(tmp_path)
        assert not theirs.exists()
        os.close(descriptor)
        whole.write(tmp_path / "config", b"again")
        assert not aside.exists()


def test_two_machines_that_make_the_same_folder(tmp_path: Path, lockless: None) -> None:
    place = tmp_path / "image"
    with whole.folder(place) as one, whole.folder(place) as other:
        (one / "linux").write_text("one")
        (other / "linux").write_text("other")
    assert names(tmp_path) == ["image"]
    assert (names(place), (place / "linux").read_text()) == (["linux"], "other")
