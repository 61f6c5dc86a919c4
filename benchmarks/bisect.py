# SPDX-License-Identifier: MIT
"""Searches with a known answer: ``python -m benchmarks.bisect``.

64 commits on top of the sources that kdyno has of Debian's kernel: one makes each
write to a pipe slower, three do not build, one does not boot, the others touch comments, other
architectures and drivers that are off. `kdyno bisect` is to name that one. With --searches N so
many branches of one repository, each with its commits drawn by another seed, so that all start
from one tree and one kernel. With --later SPINS a later commit takes some of the spins away: two
steps of opposite sign, and both are to be named. --make FOLDER only makes the repository; --in
FOLDER uses one. Words behind -- are for kdyno bisect.
Needs minutes for each search, and 4 GB where TMPDIR is.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, main
from kdyno.kernels import source
from kdyno.paths import cache_root

SOURCE = "debian:linux-source-7.3"
PIPE = "fs/pipe.c"
COMMITS = 64
ANCHOR = "\t/* Null write succeeds. */\n"
SPIN = "#pragma GCC unroll 1\n\tfor (int turn = 0; turn < {}; turn++)\n\t\tbarrier();\n"
"""Unrolled, up to 16 turns would be no instruction at all."""
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
_SETTINGS = (
    *("-c", "user.name=kdyno", "-c", "user.email=kdyno@localhost"),
    *("-c", "core.compression=0"),
)


def special(generator: random.Random, later: int | None) -> tuple[list[int], int, int]:
    """Numbers of the commits that change the time, that does not build, and that does not boot.

    later: the spins that are left by a second change of the time; None: there is no second.
    """
    slow, broken, dead, *more = generator.sample(
        range(2, COMMITS - 4, 4), 3 if later is None else 4
    )
    return sorted([slow, *more]), broken, dead


def repository(place: Path, seeds: Iterable[int], spins: int, later: int | None) -> None:
    """Make it: tag c0, and of each seed SEED/c1 … SEED/c64 on a branch of its own."""
    tree = source.fetch(source.parse(SOURCE), cache_root(), lambda _text, _part: None).path
    shutil.copytree(tree, place, symlinks=True)

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", place, *_SETTINGS, *words], check=True)

    def change(path: str, before: str, after: str) -> str:
        text = (place / path).read_text()
        assert before in text
        (place / path).write_text(text.replace(before, after, 1))
        return path

    def comment(path: str, number: int) -> str:
        text, line = (place / path).read_text(), f"/* Remark {number}. */\n"
        # At the top it moves lines, and with them the numbers that warnings print.
        (place / path).write_text(line + text if number % 2 else text + line)
        return path

    git("init", "-q")
    git("add", "--all", "--force")
    git("commit", "-q", "-m", "c0")
    git("tag", "c0")
    for seed in seeds:
        git("checkout", "-q", "-b", f"seed-{seed}", "c0")
        generator = random.Random(seed)
        slow, broken, dead = special(generator, later)
        error, panic = "#error not yet\n", '\tpanic("not yet");\n'
        changes = {
            slow[0]: (PIPE, ANCHOR, SPIN.format(spins) + ANCHOR),
            broken: (PIPE, ANCHOR, error + ANCHOR),
            broken + 3: (PIPE, error, ""),
            dead: (BOOT, BOOT_ANCHOR, panic + BOOT_ANCHOR),
            dead + 1: (BOOT, panic, ""),
        }
        if later is not None:
            changes[slow[1]] = (PIPE, SPIN.format(spins), SPIN.format(later))
        for number in range(1, COMMITS + 1):
            if number in changes:
                path = change(*changes[number])
            else:
                kind = OTHERS if generator.random() < 0.5 else COMPILED
                path = comment(generator.choice(kind), number)
            git("commit", "-q", "-m", f"c{number}", path)
            git("tag", f"{seed}/c{number}")


def search(
    place: Path, results: Path, seed: int, later: int | None, words: list[str]
) -> tuple[bool, float, int]:
    """(whether the right commits were named, or ranges with them; seconds; points measured)."""
    result, (slow, _, _) = results / f"{seed}.json", special(random.Random(seed), later)
    command = [sys.executable, "-m", "kdyno", "bisect", "--source", f"git:{place}"]
    command += ["--good", "c0", "--bad", f"{seed}/c{COMMITS}", "--case", "unixbench/pipe"]
    began_s = time.monotonic()
    subprocess.run([*command, "--json", result, "--runs", results / "runs", *words], check=False)
    took_s = time.monotonic() - began_s
    data = json.loads(result.read_text())
    named = [(step["after"]["title"], step["point"]["title"]) for step in data["steps"]]
    numbers = [(int(after[1:]), int(title[1:])) for after, title in named]
    right = len(numbers) == len(slow) and all(
        low < at <= high for at, (low, high) in zip(slow, sorted(numbers), strict=True)
    )
    right = right and data["answer"] == ("found" if len(slow) == 1 else "unclear")
    where, word = " and ".join(f"c{at}" for at in slow), "right" if right else "WRONG"
    print(f"seed {seed}: {where}, {took_s:.0f} s, {word}: {named}", file=sys.stderr, flush=True)
    return right, took_s, len(data["probes"])


def searches(request: Any) -> Iterator[Figure]:
    seeds = range(request.seed, request.seed + request.searches)
    place = request.make or vars(request)["in"] or request.folder / "linux"
    if request.make or not vars(request)["in"]:
        repository(place, seeds, request.spins, request.later)
    if request.make:
        return
    results = [search(place, request.folder, seed, request.later, request.words) for seed in seeds]
    right, times_s, points = zip(*results, strict=True)
    how = ", ".join(f"{took_s / 60:.1f}" for took_s in times_s)
    yield Figure("right answer", sum(right), "", least=request.searches)
    yield Figure("a search", max(times_s) / 60, "min", most=25, how=how)
    # With two steps there are two searches.
    yield Figure("points measured", max(points), "", most=8 if request.later is None else 16)


if __name__ == "__main__":
    options = {"make": Path, "in": Path, "seed": 1, "spins": SPINS, "later": int, "searches": 1}
    main(__doc__, searches, words=(), **options)
