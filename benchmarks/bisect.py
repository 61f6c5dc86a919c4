# SPDX-License-Identifier: MIT
"""Searches with a known answer: ``python -m benchmarks.bisect``.

A repository of 64 commits on top of the sources that kdyno has of Debian's kernel: one makes each
write to a pipe slower, three do not build, one does not boot, the others touch comments, other
architectures and drivers that are off. `kdyno bisect` is to name that one. With --searches N so
many repositories, each with its commits drawn by another seed. --make FOLDER only makes one.
Needs minutes for each search, and 4 GB where TMPDIR is.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from benchmarks.speed import Figure, finish
from kdyno.kernels import source
from kdyno.paths import cache_root

SOURCE = "debian:linux-source-7.3"
PIPE = "fs/pipe.c"
COMMITS = 64
ANCHOR = "\t/* Null write succeeds. */\n"
SPIN = "\tfor (int turn = 0; turn < {}; turn++)\n\t\tbarrier();\n"
SPINS = 640
"""About 1 % of a write and a read of 512 bytes."""
COMPILED = ("kernel/sys.c", "mm/filemap.c", "fs/read_write.c", "kernel/fork.c", "fs/open.c")
OTHERS = (
    "arch/arm64/kernel/setup.c",
    "arch/s390/kernel/setup.c",
    "drivers/net/loopback.c",
    "drivers/gpu/drm/drm_file.c",
    "Documentation/process/howto.rst",
)
BOOT, BOOT_ANCHOR = "init/main.c", "\tset_task_stack_end_magic(&init_task);\n"


_File = tuple[str, str, bytes]
"""(mode, path, content)"""


def commit(
    out: IO[bytes], name: str, files: Iterable[_File], branch: str = "main", after: str = ""
) -> None:
    """For git fast-import, tagged with its own title. after: ``from`` or ``merge`` of another."""
    who = b"kdyno <kdyno@localhost> 1700000000 +0000"
    out.write(b"commit refs/heads/%s\ncommitter %s\n" % (branch.encode(), who))
    out.write(b"data %d\n%s\n" % (len(name), name.encode()))
    out.write(b"%s\n" % after.encode() if after else b"")
    for mode, path, data in files:
        out.write(b"M %s inline %s\n" % (mode.encode(), os.fsencode(path)))
        out.write(b"data %d\n%s\n" % (len(data), data))
    out.write(b"reset refs/tags/%s\nfrom refs/heads/%s\n\n" % (name.encode(), branch.encode()))


def files_of(top: Path) -> Iterator[_File]:
    """All of a tree."""
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


class Files:
    """Files of the tree as the commits so far left them."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._texts: dict[str, str] = {}

    def change(self, path: str, before: str, after: str) -> list[_File]:
        text = self._texts.get(path) or (self._tree / path).read_text()
        assert before in text
        self._texts[path] = text.replace(before, after, 1)
        return [("100644", path, self._texts[path].encode())]

    def comment(self, path: str, number: int) -> list[_File]:
        text = self._texts.get(path) or (self._tree / path).read_text()
        line = f"/* Remark {number}. */\n"
        # At the top it moves lines, and with them the numbers that warnings print.
        self._texts[path] = line + text if number % 2 else text + line
        return [("100644", path, self._texts[path].encode())]


def repository(place: Path, seed: int, spins: int = SPINS) -> int:
    """Make it; the number of the slow commit. Tags c0 … c64."""
    tree = source.fetch(source.parse(SOURCE), cache_root(), lambda _text, _part: None).path
    generator = random.Random(seed)
    place.mkdir(parents=True)
    git = ["git", "-C", str(place)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "config", "core.compression", "0"], check=True)
    slow, broken, dead = generator.sample(range(2, COMMITS - 4, 4), 3)
    files = Files(tree)
    fed = subprocess.Popen([*git, "fast-import", "--quiet", "--depth=0"], stdin=subprocess.PIPE)
    assert fed.stdin is not None
    with fed.stdin as out:
        commit(out, "c0", files_of(tree))
        for number in range(1, COMMITS + 1):
            if number == slow:
                own = files.change(PIPE, ANCHOR, SPIN.format(spins) + ANCHOR)
            elif number == broken:
                own = files.change(PIPE, ANCHOR, "#error not yet\n" + ANCHOR)
            elif number == broken + 3:
                own = files.change(PIPE, "#error not yet\n", "")
            elif number == dead:
                own = files.change(BOOT, BOOT_ANCHOR, '\tpanic("not yet");\n' + BOOT_ANCHOR)
            elif number == dead + 1:
                own = files.change(BOOT, '\tpanic("not yet");\n', "")
            else:
                kind = OTHERS if generator.random() < 0.5 else COMPILED
                own = files.comment(generator.choice(kind), number)
            commit(out, f"c{number}", own)
    assert fed.wait() == 0
    return slow


def search(folder: Path, seed: int, spins: int, words: list[str]) -> tuple[bool, float, int]:
    """(whether the right commit was named, or a range with it; seconds; kernels built)."""
    place, result = folder / f"linux-{seed}", folder / f"{seed}.json"
    slow = repository(place, seed, spins)
    command = [sys.executable, "-m", "kdyno", "bisect", "--source", f"git:{place}"]
    command += ["--good", "c0", "--bad", f"c{COMMITS}", "--case", "unixbench/pipe"]
    began_s = time.monotonic()
    subprocess.run([*command, "--json", result, *words], check=False)
    took_s = time.monotonic() - began_s
    data = json.loads(result.read_text())
    print(f"seed {seed}: c{slow}, {took_s:.0f} s; {data['steps']}", file=sys.stderr)
    named = [(step["after"]["title"], step["point"]["title"]) for step in data["steps"]]
    numbers = [(int(after[1:]), int(title[1:])) for after, title in named]
    right = len(numbers) == 1 and numbers[0][0] < slow <= numbers[0][1]
    return right, took_s, len(data["probes"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--make", type=Path, metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spins", type=int, default=SPINS)
    parser.add_argument("--searches", type=int, default=1, metavar="N")
    parser.add_argument("words", nargs="*", help="more words for kdyno bisect, behind --")
    asked = parser.parse_args()
    if asked.make:
        print(f"the slow commit is c{repository(asked.make, asked.seed, asked.spins)}")
        return 0
    with tempfile.TemporaryDirectory(prefix="kdyno-bisect-") as folder:
        began_s = time.monotonic()
        results = [
            search(Path(folder), asked.seed + number, asked.spins, asked.words)
            for number in range(asked.searches)
        ]
        print(f"{time.monotonic() - began_s:.0f} s in all", file=sys.stderr)
    times = ", ".join(f"{took_s / 60:.1f}" for _right, took_s, _probes in results)
    return finish(
        [
            Figure("right commit", sum(it[0] for it in results), "", least=asked.searches),
            Figure("a search", max(it[1] for it in results) / 60, "min", most=25, how=times),
            Figure("points measured", max(it[2] for it in results), "", most=8),
        ],
        asked.json,
    )


if __name__ == "__main__":
    sys.exit(main())
