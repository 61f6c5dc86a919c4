# SPDX-License-Identifier: MIT
"""Inputs that are small to send and huge to read: they are refused by their size, unread."""

from __future__ import annotations

import gzip
import resource
import struct
import subprocess
import sys
import tarfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest
from fake_tree import make_tree

from kdyno import command
from kdyno.errors import UsageError
from kdyno.experiment.loader import parse as read_experiment
from kdyno.experiment.model import one_group
from kdyno.kernels import compiler
from kdyno.kernels.changes import Changes
from kdyno.kernels.config import Wish, arch, lost_options
from kdyno.kernels.leavings import sections
from kdyno.kernels.routines.routine import find_routine
from kdyno.kernels.source import fetch, parse
from kdyno.kernels.sources import archive, tree as trees
from kdyno.machines import guest
from kdyno.measure.vocabulary import vocabulary
from kdyno.suites import score as figure
from kdyno.suites.catalogue import Case, load, load_file

HEAD = 'name = "x"\nquestion = "?"\nbaseline = "a"\n[kernel]\nsource = "debian:linux-source-7.3"\n'
LONG = "K" * 100_000


def sparse_tree(folder: Path) -> Path:
    tree = make_tree(folder / "linux")
    with (tree / "lib/hole.c").open("wb") as file:
        file.truncate(200 << 30)
    return tree


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    read = trees.content_hash

    def watched(path: str, mode: int) -> str:
        assert Path(path).lstat().st_size < 1 << 20, f"{path} is read"
        return read(path, mode)

    monkeypatch.setattr(trees, "content_hash", watched)


@pytest.mark.parametrize("kind", ["tar", "path"])
def test_a_sparse_file_of_200_gb_is_refused_by_its_size(
    tmp_path: Path, unread: None, kind: str
) -> None:
    place = tree = sparse_tree(tmp_path)
    if kind == "tar":
        place = tmp_path / "linux.tar"
        subprocess.run(
            ["tar", "--sparse", "-C", str(tmp_path), "-cf", str(place), tree.name], check=True
        )
        assert place.stat().st_size < 1 << 20
    with pytest.raises(UsageError, match=r"'lib/hole.c' has 214,748 MB; .* has 256 MB at most"):
        fetch(parse(f"{kind}:{place}"), tmp_path / "cache", lambda _text, _part: None)
    assert not list((tmp_path / "cache").glob("trees/*"))


def test_many_files_are_refused_by_their_sum(
    tmp_path: Path, unread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "MOST_BYTES", 300)
    tree = make_tree(tmp_path / "linux")
    with pytest.raises(UsageError, match=r"its files have 0\.0 GB together"):
        fetch(parse(f"path:{tree}"), tmp_path / "cache", lambda _text, _part: None)


def small_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tar", "path"])
def test_a_makefile_of_60_gb_without_a_line_end_is_not_read(tmp_path: Path, kind: str) -> None:
    place = tree = make_tree(tmp_path / "linux")
    with (tree / "Makefile").open("r+b") as file:
        file.truncate(60 << 30)
    if kind == "tar":
        place = tmp_path / "linux.tar"
        words = ["tar", "--sparse", "-C", str(tmp_path), "-cf", str(place), tree.name]
        subprocess.run(words, check=True)
    program = (
        "import sys; from pathlib import Path; from kdyno.kernels.source import fetch, parse\n"
        "try: fetch(parse(sys.argv[1]), Path(sys.argv[2]), lambda *_: None)\n"
        "except Exception as problem: print(type(problem).__name__, problem)"
    )
    argv = [sys.executable, "-c", program, f"{kind}:{place}", str(tmp_path / "cache")]
    output = subprocess.run(argv, capture_output=True, text=True, preexec_fn=small_memory)
    assert "UsageError" in output.stdout and "'Makefile' has 64,425 MB" in output.stdout, output
    assert not list((tmp_path / "cache").glob("trees/*"))


def test_a_version_is_read_from_the_beginning_of_a_makefile(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "linux")
    (tree / "Makefile").write_text("#" * (1 << 16) + "\n" + (tree / "Makefile").read_text())
    with pytest.raises(UsageError, match="lacks VERSION and PATCHLEVEL in Makefile"):
        fetch(parse(f"path:{tree}"), tmp_path / "cache", lambda _text, _part: None)


@pytest.mark.parametrize("name", ["mine.S", "mine.toml"])
def test_a_file_of_100_gb_is_no_routine_and_no_suite(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(100 << 30)
    with pytest.raises(UsageError, match=r"at most 1048576 bytes|more than 1 MiB"):
        find_routine(str(path)) if name == "mine.S" else load_file(path)


Usage = namedtuple("Usage", "total used free")


@pytest.mark.slow
@pytest.mark.parametrize("packed", [True, False])
def test_an_archive_that_fills_the_disk_is_stopped_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    tree = make_tree(tmp_path / "linux")
    (tree / "zeros").write_bytes(bytes(300 << 20))
    place = tmp_path / "linux.tar"
    with tarfile.open(place, "w") as result:
        result.add(tree, "linux")
    if packed:
        place.write_bytes(gzip.compress(place.read_bytes(), 1))
        assert place.stat().st_size < 2 << 20
    most_seen = 0

    def progress(_text: str, _part: float | None) -> None:
        nonlocal most_seen
        paths = [path for path in (tmp_path / "cache").rglob("zeros") if path.is_file()]
        most_seen = max([most_seen, *(each.stat().st_size for each in paths)])

    # Of a disk with 30 MB left; the check of the room before, which guesses, is taken in.
    monkeypatch.setattr(archive.whole, "require_space", lambda *_: None)
    monkeypatch.setattr(archive.shutil, "disk_usage", lambda _: Usage(1 << 40, 0, 30 << 20))
    with pytest.raises(UsageError, match=r"is refused: more than 0\.0 GB come out of it"):
        fetch(parse(f"tar:{place}"), tmp_path / "cache", progress)
    assert most_seen <= 30 << 20
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name == "zeros"]


def case_with(pattern: str) -> Case:
    (case,) = [case for case in load()["hackbench"].cases if case.name == "sockets"]
    return replace(case, figure=pattern, also=(("more", pattern),))


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["(a+)+b", "((?:a|aa)+)$", "(?:a*)*(b)"])
def test_an_expression_without_an_end_is_ended(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figure, "_SEARCH_S", 0.05)
    case = case_with(pattern)
    text = "a" * 60 + "c\n"
    for search in (figure.read, figure.also):
        with pytest.raises(figure.NoFigure, match=r"0\.05 s of CPU time without an end"):
            search(case, text)


def test_sections_of_an_object_are_its_file_once_and_no_more(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text("int zeros[1 << 20]; int f(void) { return zeros[0]; }\n")
    subprocess.run(["gcc", "-c", "-o", "x.o", "x.c"], cwd=tmp_path, check=True)
    content = (tmp_path / "x.o").read_bytes()
    table = sections(content)
    assert sum(len(each.content) for each in table) < len(content)
    assert [each.name for each in table if each.code and each.content] == [".text"]
    (at,), (count,) = struct.unpack_from("<Q", content, 40), struct.unpack_from("<H", content, 60)
    large = bytearray(content)
    for number in range(1, count):  # all of them the whole file
        struct.pack_into("<2Q", large, at + 64 * number + 24, 0, len(content))
    with pytest.raises(ValueError, match="sections that overlap"):
        sections(bytes(large))


@pytest.mark.parametrize(
    "text",
    [
        'source "a\0b"',
        f'source "{"a" * 300}"',
        " " * 200_000,
        f"config X\n\tint\n\tdepends on {'A' * 200_000}a",
    ],
    ids=["no-name", "long-name", "blanks", "symbol"],
)
def test_an_odd_kconfig_is_read_to_its_end(tmp_path: Path, text: str) -> None:
    (tmp_path / "Kconfig").write_text(f'{text}\nconfig Y\n\tbool "y"\n\tdepends on \\\n X\n')
    lost = [(Wish(f"CONFIG_{name}", "1" if name == "X" else "y", "mine"), "n") for name in "XY"]
    error = lost_options("x", lost, "", tmp_path, Changes(), arch("um"))
    assert "it became n; it depends on X, and here X=n" in str(error)


def test_a_version_of_5000_digits_is_none(tmp_path: Path) -> None:
    script = tmp_path / "scripts/min-tool-version.sh"
    script.parent.mkdir()
    script.write_text(f"llvm)\n\techo {'9' * 5000}.0.0\n\t;;\n")
    assert compiler._least_clang(tmp_path) is None


def test_a_line_without_an_end_comes_in_parts(tmp_path: Path) -> None:
    parts: list[str] = []
    argv = ["head", "-c", "300000", "/dev/zero"]
    assert command.stream(argv, log=tmp_path / "log", line=parts.append) == 0
    assert max(map(len, parts)) == 1 << 16 and sum(map(len, parts)) == 300_000


@pytest.mark.slow
def test_a_command_that_prints_for_ever_is_ended_and_the_next_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MOST_LOG_BYTES", 1 << 20)
    lines: list[str] = []
    log = tmp_path / "log"
    assert command.stream(["yes"], log=log, line=lines.append) == -9
    assert lines[-1] == "kdyno: ended, because more than 1 MiB were printed"
    assert log.read_text().endswith(f"y\n\n{lines[-1]}\n") and log.stat().st_size < 2 << 20
    assert command.stream(["echo", "on"], log=log) == 0


@pytest.mark.slow
@pytest.mark.parametrize("beginning", ["Requested init ", "INFO: rcu"])
def test_a_console_of_one_line_takes_no_minutes(beginning: str) -> None:
    console = beginning * ((2 << 20) // len(beginning))
    assert guest.sign(console) is None and guest._WARNING.findall(console) == []


@pytest.mark.parametrize("pattern", ["(" * 600 + ")" * 600, "(a)" + "b" * 1000, "(?:" * 330 + "x"])
def test_an_expression_that_cannot_be_read_is_a_mistake(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"characters|regular expression"):
        one_group(pattern)


@pytest.mark.parametrize(
    "text",
    [
        f"{LONG} = 1\n{HEAD}[variant.a]\n",
        f"{HEAD}{LONG} = 1\n[variant.a]\n",
        f"{HEAD}[variant.{LONG}]\n",
        f"{HEAD}[variant.a]\n[{LONG}.{LONG}]\nx = 1\n",
        f'{HEAD}[variant.a]\n"{LONG}" = 1\n',
        f'{HEAD}[variant.a]\nconfig = ["{LONG}"]\n',
        f'{HEAD}[variant.a]\nconfig = ["CONFIG_{LONG}=y", "CONFIG_{LONG}=n"]\n',
        f'{HEAD}[variant.a]\nmemcpy = "{LONG}.S"\n',
        f'{HEAD}[variant.a]\npatches = ["{LONG}.patch"]\n',
        f"{HEAD}[variant.a]\nsysctl = {{ {LONG} = [] }}\n",
        f"{HEAD}[variant.a]\n[factor.{LONG}]\non = {{}}\n",
        f"{HEAD}[variant.a]\n[measure]\n{LONG} = 1\n{LONG} = 2\n",
    ],
)
def test_a_key_of_100_000_characters_is_not_echoed_whole(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_experiment(text, "x.toml", tmp_path, vocabulary(load()))
    assert len(str(caught.value)) < 5000
