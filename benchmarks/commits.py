# SPDX-License-Identifier: MIT
"""[matrix] over commits of a real kernel: ``python -m benchmarks.commits``.

A git repository with the sources that kdyno has of Debian's kernel and two commits on top: one
makes writes to a pipe slower, the next takes that back. `kdyno run` measures a patched kernel
against the unpatched one at each of them. What is asked: how long a commit takes, with images
built from the object tree of the one before; whether the patch's effect is found at each; and
whether the history shows the slow commit. Needs some minutes and 10 GB where TMPDIR is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from benchmarks.speed import Figure, finish
from kdyno.kernels import source
from kdyno.kernels.source import Tree
from kdyno.paths import cache_root
from kdyno.report.site.history import Series, series_of
from kdyno.report.site.summary import summarize
from kdyno.store.run import Run, list_runs

SOURCE = "debian:linux-source-7.3"
PIPE, ANCHOR = "fs/pipe.c", "\t/* Null write succeeds. */\n"
SLOW = "\tfor (int turn = 0; turn < 40000; turn++)\n\t\tbarrier();\n"
REFS = ("fast", "slow", "fast-again")
EXPERIMENT = """\
name = "commits"
question = "What does a delay in umask() cost at {ref}?"
baseline = "stock"
[matrix]
refs = ["fast", "slow", "fast-again"]
[kernel]
source = "git:linux#{ref}"
config = ["bench"]
[variant.stock]
[variant.slow-umask]
patches = ["slow-umask.patch"]
[[suite]]
name = "unixbench"
cases = ["syscall", "pipe"]
seconds = 0.1
[measure]
precision = "1%"
min_boots = 12
max_boots = 24
"""


def repository(tree: Tree, place: Path) -> None:
    """The tree as a commit, and two on top of it, tagged as REFS."""
    place.mkdir()
    # Nothing is compressed: that would be most of the time, and the files live for minutes.
    git = ["git", "-C", str(place), "-c", "core.compression=0"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "config", "core.compression", "0"], check=True)
    pipe = (tree.path / PIPE).read_text()
    assert pipe.count(ANCHOR) == 1
    slow = pipe.replace(ANCHOR, SLOW + ANCHOR).encode()
    again = pipe.replace(ANCHOR, f"\t/* As fast as before. */\n{ANCHOR}").encode()
    fed = subprocess.Popen([*git, "fast-import", "--quiet", "--depth=0"], stdin=subprocess.PIPE)
    assert fed.stdin is not None
    with fed.stdin as out:
        commit(out, REFS[0], _files(tree.path))
        commit(out, REFS[1], [("100644", PIPE, slow)])
        commit(out, REFS[2], [("100644", PIPE, again)])
    assert fed.wait() == 0


def commit(out: IO[bytes], name: str, files: Iterator[_File] | Sequence[_File]) -> None:
    who = b"kdyno <kdyno@localhost> 1700000000 +0000"
    out.write(b"commit refs/heads/main\ncommitter %s\n" % who)
    out.write(b"data %d\n%s\n" % (len(name), name.encode()))
    for mode, path, data in files:
        out.write(b"M %s inline %s\n" % (mode.encode(), os.fsencode(path)))
        out.write(b"data %d\n%s\n" % (len(data), data))
    out.write(b"reset refs/tags/%s\nfrom refs/heads/main\n\n" % name.encode())


_File = tuple[str, str, bytes]


def _files(top: Path) -> Iterator[_File]:
    for folder, folders, names in os.walk(top):
        for name in (*names, *(it for it in folders if Path(folder, it).is_symlink())):
            path = Path(folder, name)
            where = str(path.relative_to(top))
            if path.is_symlink():
                # As it is: a Path would make a shorter one of it.
                yield "120000", where, os.fsencode(os.readlink(path))  # noqa: PTH115
            else:
                mode = "100755" if path.stat().st_mode & 0o100 else "100644"
                yield mode, where, path.read_bytes()


def kdyno(*words: object, **environment: str) -> float:
    """Seconds that a verb took; what it says goes where ours goes."""
    command = [sys.executable, "-m", "kdyno", *map(str, words)]
    began_s = time.monotonic()
    subprocess.run(command, check=True, env={**os.environ, **environment})
    return time.monotonic() - began_s


def with_trunks(cache: Path) -> None:
    """A cache of its own that knows the object trees of the user's signed kernels."""
    (cache / "trunks").mkdir(parents=True)
    for trunk in (cache_root() / "trunks").iterdir():
        if "-" not in trunk.name:
            (cache / "trunks" / trunk.name).symlink_to(trunk)


def figures(folder: Path) -> list[Figure]:
    tree = source.fetch(source.parse(SOURCE), cache_root(), lambda _text, _part: None)
    began_s = time.monotonic()
    repository(tree, folder / "linux")
    print(f"the repository was made in {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    file, runs = folder / "commits.toml", folder / "runs"
    file.write_text(EXPERIMENT)
    with_trunks(folder / "cache")
    own = {"KDYNO_CACHE": str(folder / "cache"), "KDYNO_RUNS": str(runs)}
    sources, builds = [], []
    for ref in REFS:
        sources.append(kdyno("build", file, "--ref", ref, "--dry-run", **own))
        builds.append(kdyno("build", file, "--ref", ref, **own))
    whole_s = kdyno("run", file, **own)
    assert kdyno("run", file, **own) < whole_s / 4  # all of it is there
    found = list_runs(runs)
    umask = [effect(run, "syscall") for run in found]
    shown = series_of([summarize(run)[0] for run in found])
    return [
        _most("files of a commit, fetched and unpacked", sources, 60),
        _most("two images of a commit", builds, 60),
        Figure("measuring three commits", whole_s, "s", most=180),
        Figure("the patch's effect on syscall, the least of three", max(umask), "×", most=0.95),
        Figure("pipe at the slow commit ÷ the one before", step(shown), "×", most=0.7),
        Figure("points of a commit each in its history", points(shown), "", least=3),
    ]


def _most(name: str, found: Sequence[float], most: float) -> Figure:
    how = ", ".join(f"{it:.0f}" for it in found)
    return Figure(name, max(found), "s", most=most, how=how)


def effect(run: Run, case: str) -> float:
    """Ratio of the patched kernel to the other; 1 where it is not told apart."""
    verdict = run.verdict()
    assert verdict is not None
    (it,) = (it for it in verdict.effects if it.case == case)
    return it.ratio if it.ratio is not None and it.verdict == "slower" else 1.0


def _pipe(shown: Sequence[Series]) -> Series:
    (found,) = (
        it for it in shown if (it.case, it.variant, it.measure) == ("pipe", "stock", "score")
    )
    return found


def step(shown: Sequence[Series]) -> float:
    fast, slow, _again = (it.value for it in _pipe(shown).marks)
    return slow / fast


def points(shown: Sequence[Series]) -> int:
    return len(_pipe(shown).marks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kdyno-commits-") as folder:
        return finish(figures(Path(folder)), asked.json)


if __name__ == "__main__":
    sys.exit(main())
