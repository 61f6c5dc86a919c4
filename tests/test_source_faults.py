# SPDX-License-Identifier: MIT
"""Killed, cut short, hostile, full, and two at once: never a tree that is not whole."""

from __future__ import annotations

import resource
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from fake_tree import make_repository, make_tar
from test_source_kinds import cache, got, tree

from kdyno.errors import ToolError, UsageError

__all__ = ["cache", "tree"]

# argv: source, cache, N. Fetches, and kills itself at the Nth thing that it tells; prints how
# many things it told.
KILLED = """
import os, signal, sys
from pathlib import Path
from kdyno.kernels.source import fetch, parse
told = 0
def progress(text, fraction):
    global told
    told += 1
    if told == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
fetch(parse(sys.argv[1]), Path(sys.argv[2]), progress)
print(told)
"""

# argv: source, cache. Says what it does on stdout; while unpacking it waits for a line on stdin.
SLOW = """
import sys
from pathlib import Path
from kdyno.kernels.source import fetch, parse
def progress(text, fraction):
    print(text, flush=True)
    if text.startswith("unpacking"):
        sys.stdin.readline()
print("got", fetch(parse(sys.argv[1]), Path(sys.argv[2]), progress).path, flush=True)
"""


def sources(folder: Path, tree: Path) -> dict[str, str]:
    """The tree as each kind of source of this machine."""
    packed = make_tar(tree, folder / "x.tar.xz")
    make_repository(tree)
    return {"tar": f"tar:{packed}", "path": f"path:{tree}", "git": f"git:{tree}"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tar", "path", "git"])
def test_a_fetch_killed_anywhere_leaves_nothing_that_is_used(
    tmp_path: Path, tree: Path, kind: str
) -> None:
    source = {**sources(tmp_path, tree), "git": f"git:file://{tree}#main"}[kind]
    whole = got(source, tmp_path / "whole").manifest()
    for step in range(1, 20):
        cache = tmp_path / f"cache{step}"
        argv = [sys.executable, "-c", KILLED, source, str(cache), str(step)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            assert step > 2  # it was killed at least twice before it told everything
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        trees = got(source, cache)
        assert trees.manifest() == whole
        assert [entry.name for entry in (cache / "trees").iterdir()] == [trees.path.parent.name]
    else:
        pytest.fail("the fetch never ended")


def test_a_tree_without_its_record_is_made_again(tree: Path, cache: Path) -> None:
    trees = got(f"path:{tree}", cache)
    (trees.path.parent / "tree.json").write_text("{")
    (trees.path / "lib/sort.c").unlink()
    again = got(f"path:{tree}", cache)
    assert (again.path / "lib/sort.c").is_file()


@pytest.mark.slow
def test_two_fetches_of_one_source_wait_for_each_other(
    tmp_path: Path, tree: Path, cache: Path
) -> None:
    source = f"tar:{make_tar(tree, tmp_path / 'x.tar')}"
    argv = [sys.executable, "-c", SLOW, source, str(cache)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes) as first:  # type: ignore[call-overload]
        for line in first.stdout:
            if line.startswith("unpacking"):
                break
        with subprocess.Popen(argv, **pipes) as second:  # type: ignore[call-overload]
            messages = []
            for line in second.stdout:
                messages.append(line)
                if line.startswith("waiting"):
                    break
            assert f"another kdyno (process {first.pid}) is fetching tar-" in messages[-1]
            first.stdin.write("\n" * 50)
            first.stdin.close()
            rest = second.stdout.read()
            assert "unpacking" not in rest
            assert rest.splitlines()[-1] == first.stdout.read().splitlines()[-1]


@pytest.mark.parametrize("cut", ["tar.xz", "tar.gz", "tar", "tar between two members", "no tar"])
def test_an_archive_that_is_cut_short_is_refused(
    tmp_path: Path, tree: Path, cache: Path, cut: str
) -> None:
    file = make_tar(tree, tmp_path / f"x.{cut.split()[0] if cut != 'no tar' else 'tar'}")
    content = file.read_bytes()
    end = len(content) // 3 + 200
    if cut == "tar between two members":
        with tarfile.open(file) as archive:
            end = archive.getmembers()[-1].offset
    file.write_bytes(content[:end] if cut != "no tar" else b"not found\n")
    with pytest.raises(UsageError, match="damaged, cut short or no tar archive"):
        got(f"tar:{file}", cache)
    assert not list((cache / "trees").iterdir())


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("tar:{}/nowhere.tar", "does not exist"),
        ("tar:{}", "is a folder: write path:"),
        ("path:{}/Makefile", "is a file: write tar:"),
    ],
)
def test_what_is_not_there_or_of_another_kind(
    tree: Path, cache: Path, source: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        got(source.format(tree), cache)


@pytest.mark.parametrize(
    ("gone", "message"),
    [
        ("Makefile", "lacks Makefile"),
        ("Kbuild", "lacks Kbuild"),
        ("arch", "lacks arch/"),
        ("VERSION", "lacks VERSION and PATCHLEVEL in Makefile"),
    ],
)
def test_source_that_is_no_kernel(tree: Path, cache: Path, gone: str, message: str) -> None:
    if gone == "VERSION":
        (tree / "Makefile").write_text("all:\n\ttrue\n")
    else:
        shutil.rmtree(tree / gone) if (tree / gone).is_dir() else (tree / gone).unlink()
    for source in (f"path:{tree}", f"tar:{make_tar(tree, tree.with_suffix('.tar'))}"):
        with pytest.raises(UsageError, match=f"is not a kernel source: it {message}"):
            got(source, cache)
    assert not list((cache / "trees").glob("*"))


def test_a_disk_without_room_is_told_before_anything_is_written(
    tmp_path: Path, tree: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = make_tar(tree, tmp_path / "x.tar.xz")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage._replace(free=1000))
    for source in (f"tar:{file}", f"path:{tree}"):
        with pytest.raises(
            ToolError, match=r"no space left in .* \(1 kB free, about \d+ kB needed.*KDYNO_CACHE"
        ):
            got(source, cache)


def limited_to_64_kib() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tar", "path", "git"])
def test_a_disk_that_fills_up_on_the_way(
    tmp_path: Path, tree: Path, cache: Path, kind: str
) -> None:
    # A limit on file size fails where a full disk fails, without root or a mount.
    (tree / "lib/large.c").write_bytes(b"/* large */\n" * 20_000)
    source = sources(tmp_path, tree)[kind]
    argv = [sys.executable, "-c", KILLED, source, str(cache), "0"]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, preexec_fn=limited_to_64_kib
    )
    assert "MB free, about 2,000 MB needed, or a quota or limit is reached)" in done.stderr
    assert not list((cache / "trees").iterdir())
    assert got(source, cache).version == "7.3.4"


def test_a_cache_that_cannot_be_written(tmp_path: Path, tree: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the cache should be")
    with pytest.raises(ToolError, match="KDYNO_CACHE names another cache folder"):
        got(f"path:{tree}", blocked)
