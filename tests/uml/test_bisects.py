# SPDX-License-Identifier: MIT
"""Searches on real kernels: of a series one patch does not compile, and the next one is slow; the
slow commit of a branch that was merged."""

from __future__ import annotations

import difflib
import io
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest
from conftest import kdyno
from real_kernels import built_kernels

from kdyno.kernels import source
from kdyno.kernels.source import Tree
from kdyno.paths import cache_root

pytestmark = pytest.mark.uml
SOURCE = "debian:linux-source-7.3"
ANCHOR = "\t/* Null write succeeds. */\n"
UMASK = "\tmask = xchg(&current->fs->umask"
CHROOT = "\terror = security_path_chroot("
SPIN = "\tfor (int turn = 0; turn < 50000; turn++)\n\t\tbarrier();\n"
ERROR = "#error not yet\n"
LARGE = ("--min-effect", "40%")
"""A spin is larger on any CPU, and a step of that size is seen on a busy machine too. A system call
takes longer there and a spin does not: were spins far larger, their share would change by more."""


def linux() -> Tree:
    return source.fetch(source.parse(SOURCE), cache_root(), lambda _text, _part: None)


def series(folder: Path) -> Path:
    """1 a remark, 2 does not compile, 3 compiles again and spins in pipe writes, 4 a remark."""
    texts = {name: (linux().path / name).read_text() for name in ("mm/filemap.c", "fs/pipe.c")}
    steps = [
        {"mm/filemap.c": lambda text: f"/* 1 */\n{text}"},
        {"mm/filemap.c": lambda text: ERROR + text},
        {
            "mm/filemap.c": lambda text: text.removeprefix(ERROR),
            "fs/pipe.c": lambda text: text.replace(ANCHOR, SPIN + ANCHOR),
        },
        {"mm/filemap.c": lambda text: f"/* 4 */\n{text}"},
    ]
    folder.mkdir()
    for number, step in enumerate(steps, 1):
        lines: list[str] = []
        for name, change in step.items():
            before, texts[name] = texts[name], change(texts[name])
            halves = (text.splitlines(keepends=True) for text in (before, texts[name]))
            lines += difflib.unified_diff(*halves, f"a/{name}", f"b/{name}")
        (folder / f"{number}.patch").write_text("".join(lines))
    return folder


def test_the_slow_patch_is_found_behind_one_that_does_not_compile(tmp_path: Path) -> None:
    runs, result = tmp_path / "runs", tmp_path / "answer.json"
    words = ["--series", series(tmp_path / "patches"), "--source", SOURCE, *LARGE]
    ended = kdyno("bisect", *words, "--case", "unixbench/pipe", "--json", result, runs=runs)
    data = json.loads(result.read_text())
    (step,) = data["steps"]
    assert data["answer"] == "found" and step["verified"]
    assert (step["after"]["title"], step["point"]["title"]) == ("1.patch", "3.patch")
    assert step["difference"]["ci"][1] < 0.95
    outcomes = {probe["title"]: probe["outcome"] for probe in data["probes"]}
    assert outcomes["2.patch"] == "unusable" and "measured" in outcomes.values()
    assert "one of 2 patches" in ended.stdout and "2.patch" in ended.stdout
    # What is finished is not measured again.
    again = kdyno("bisect", "--resume", "last", runs=runs)
    assert again.stdout == ended.stdout


DRIVERS = ("base/", "block/", "char/", "net/loopback.c", "tty/")
KEPT = ("arch/um/", "arch/x86/", *(f"drivers/{name}" for name in DRIVERS))
LEFT_OUT = ("Documentation/", "arch/", "drivers/", "samples/", "sound/", "tools/")


def is_needed(path: str) -> bool:
    """Of what is left out nothing is compiled, and of all else Kconfig and make read parts."""
    makes = PurePosixPath(path).name.startswith(("Kbuild", "Kconfig", "Makefile"))
    return makes or path.startswith(KEPT) or not path.startswith(LEFT_OUT)


def repository(folder: Path) -> Path:
    """main: base, a commit, the merge of a branch of three, of which the second spins in pipe
    writes. A quarter of Linux's files, so that it takes seconds; the same commits each time."""
    tree, stream = linux(), io.BytesIO()
    modes = {path: line.split()[1] for path, line in tree.manifest().items() if is_needed(path)}

    def data(text: bytes) -> None:
        stream.write(b"data %d\n%b\n" % (len(text), text))

    def commit(branch: str, title: str, files: Mapping[str, bytes], parents: str = "") -> None:
        stream.write(f"commit refs/heads/{branch}\n".encode())
        stream.write(b"committer A <a@localhost> 1600000000 +0000\n")
        data(title.encode())
        stream.write(parents.encode())
        for path, text in files.items():
            mode = "120000" if modes[path] == "link" else f"100{modes[path]}"
            stream.write(f"M {mode} inline {path}\n".encode())
            data(text)

    def read(path: str) -> bytes:
        file = tree.path / path
        return os.fsencode(file.readlink()) if modes[path] == "link" else file.read_bytes()

    def spinning(path: str, anchor: str) -> dict[str, bytes]:
        return {path: read(path).replace(anchor.encode(), (SPIN + anchor).encode(), 1)}

    commit("main", "base", {path: read(path) for path in modes})
    commit("side", "side 1", spinning("kernel/sys.c", UMASK), "from refs/heads/main\n")
    slow = spinning("fs/pipe.c", ANCHOR)
    commit("side", "side 2", slow)
    remark = {"mm/filemap.c": read("mm/filemap.c") + b"/* 3 */\n"}
    commit("side", "side 3", remark)
    commit("main", "main 1", spinning("fs/open.c", CHROOT))
    branch = {**spinning("kernel/sys.c", UMASK), **slow, **remark}
    commit("main", "merge side", branch, "merge refs/heads/side\n")
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", folder], check=True)
    # --force: over what an earlier version of this test has left.
    command = ["git", "-C", folder, "-c", "core.compression=0", "fast-import", "--quiet", "--force"]
    subprocess.run(command, input=stream.getbuffer(), check=True)
    return folder


def test_the_slow_commit_is_found_inside_the_branch_that_was_merged(tmp_path: Path) -> None:
    built_kernels()  # all begin at its objects
    runs, result = tmp_path / "runs", tmp_path / "answer.json"
    place = repository(cache_root() / "tests" / "merged.git")
    words = ["--source", f"git:{place}", "--good", "main~2", "--bad", "main", *LARGE]
    ended = kdyno("bisect", *words, "--case", "unixbench/pipe", "--json", result, runs=runs)
    data = json.loads(result.read_text())
    (outer,), (inside,) = data["steps"], data["inside"]
    assert outer["point"]["title"] == "merge side" and outer["verified"]
    (step,) = inside["steps"]
    assert (step["after"]["title"], step["point"]["title"]) == ("side 1", "side 2")
    assert step["verified"] and step["difference"]["ci"][1] < 0.95
    assert step["reverted"]["ci"][0] > 1.05
    assert "inside the merge:" in ended.stdout and 'side 2"' in ended.stdout
