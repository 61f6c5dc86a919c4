# SPDX-License-Identifier: MIT
"""Feeds kdyno broken experiments, run folders and channels, and keeps what it stumbles over.

    python -m benchmarks.fuzz                          (a minute, a new seed each time)
    python -m benchmarks.fuzz --minutes 60 --only run
    python -m benchmarks.fuzz --seed 7 --only run --number 123 --minutes 0     (that one again)

Whatever is fed, the answer is a result or an error of kdyno's own words: any other exception, a
traceback, a control character on the screen, or a file outside of the run that was read or written
is a finding. Findings become files in tests/data/fuzz, which tests/test_fuzz.py plays again.

All of it runs in kdyno's own sandbox, in which nothing of the host can be written: a reader that
follows a link must not find anything there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from benchmarks.fuzz_oracles import Case, Place
from benchmarks.fuzz_targets import TARGETS
from kdyno import sandbox
from kdyno.errors import KdynoError

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests" / "data" / "fuzz"
_ROOM_BYTES = 1 << 30
_SOURCE = re.compile(r'src/(kdyno/\S+)", line (\d+)')


def findings(name: str, place: Place, seed: int, begin: int, seconds: float) -> Iterator[Any]:
    """Each finding once for every place in the source, then how many were fed.

    The input with a number depends on the seed and that number alone. At least one is fed.
    """
    sources: set[str] = set()
    end_s = time.monotonic() + seconds
    for number in count(begin):
        case = case_of(name, seed, number, place)
        problem = finding(case, place)
        if problem and problem[0] not in sources:
            where, text = problem
            sources.add(where)
            again = f"--only {name} --seed {seed} --number {number} --minutes 0"
            small = smallest(case, where, place)
            yield {"where": where, "text": text, "again": again, "case": small}
        if time.monotonic() >= end_s:
            yield {"fed": number + 1 - begin}
            return


def case_of(name: str, seed: int, number: int, place: Place) -> Case:
    return TARGETS[name][0](random.Random(f"{name}/{seed}/{number}"), place)


def finding(case: Case, place: Place) -> tuple[str, str] | None:
    """(where in the source it happens, the traceback); None for a case that is handled."""
    try:
        TARGETS[case["target"]][1](case, place)
    except Exception as problem:
        text = "".join(traceback.format_exception(problem))
        return ":".join((_SOURCE.findall(text) or [(str(problem)[:60], "")])[-1]), text
    return None


def smallest(case: Case, where: str, place: Place) -> Case:
    """Without each change and each verb that the finding does not need."""
    for key in ("verbs", "changes"):
        for part in case.get(key, ()):
            less = {**case, key: [other for other in case[key] if other is not part]}
            problem = less[key] and finding(less, place)
            if problem and problem[0] == where:
                case = less
    return case


def inside(names: list[str], seed: int, number: int, seconds: float) -> int:
    """In the sandbox: findings go out as lines of JSON, and by no other way."""
    from fuzz_seeds import seed_runs

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints
    folders = (ROOT / "experiments", ROOT / "tests" / "data" / "experiments")
    texts = [path.read_bytes() for each in folders for path in sorted(each.glob("*.toml"))]
    with tempfile.TemporaryDirectory() as seeds, tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), seed_runs(Path(seeds)), texts)
        for name in names:
            for line in findings(name, place, seed, number, seconds / len(names)):
                print(json.dumps({"name": name, **line}), file=out, flush=True)
    return 0


def outside(words: list[str]) -> subprocess.Popen[bytes]:
    """This program once more, in a sandbox that writes nothing on the host."""
    sandbox.require()
    folders = dict.fromkeys((ROOT, Path(sys.prefix), Path(sys.base_prefix)))
    box = sandbox.Sandbox(
        sandbox.TOOL,
        read_only=tuple((path, str(path)) for path in folders),
        tmp_bytes=_ROOM_BYTES,
        chdir=str(ROOT),
    )
    return subprocess.Popen(
        box.argv([sys.executable, "-B", "-m", "benchmarks.fuzz", "--inside", *words]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "COLUMNS": "100"},
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="in all")
    parser.add_argument("--only", choices=sorted(TARGETS), help="one kind of input")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--number", type=int, default=0, help="the first input's number")
    parser.add_argument("--keep", type=Path, default=KEPT, help="a folder for what is found")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    request = parser.parse_args()
    seed = random.randrange(1 << 31) if request.seed is None else request.seed
    names = [request.only] if request.only else list(TARGETS)
    if request.inside:
        return inside(names, seed, request.number, 60 * request.minutes)
    words = ["--seed", seed, "--number", request.number, "--minutes", request.minutes]
    words += ["--only", request.only] if request.only else []
    number = 0
    with outside(list(map(str, words))) as child:
        assert child.stdout is not None
        for record in map(json.loads, child.stdout):
            if "fed" in record:
                print(f"{record['name']}: {record['fed']} inputs, seed {seed}", flush=True)
                continue
            number += 1
            print(f"\n{record['where']} ({record['again']})\n{record['text']}", end="")
            text = json.dumps(record["case"], indent=1) + "\n"
            digest = sha256(text.encode()).hexdigest()[:10]
            file = request.keep / f"{record['name']}-{digest}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            print(f"kept: {file}", flush=True)
    print(f"{number} findings")
    return 1 if number or child.returncode else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KdynoError as problem:
        sys.exit(str(problem))
