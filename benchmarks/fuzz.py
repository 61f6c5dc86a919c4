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
from pathlib import Path
from typing import Any

from benchmarks.fuzz_place import Case, Place
from benchmarks.fuzz_targets import MAKE, PLAY
from kdyno import sandbox
from kdyno.errors import KdynoError
from kdyno.sandbox import TOOL

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "tests" / "data" / "fuzz"
_ROOM_BYTES = 1 << 30
_SOURCE = re.compile(r'src/(kdyno/\S+)", line (\d+)')


def found_by(name: str, place: Place, seed: int, begin: int, seconds: float) -> Iterator[Any]:
    """Each finding once for every place in the source, then how many were fed.

    The input with a number depends on the seed and that number alone. At least one is fed.
    """
    seen: set[str] = set()
    number, end_s = begin, time.monotonic() + seconds
    while number == begin or time.monotonic() < end_s:
        case = made(name, seed, number, place)
        if found := finding(name, case, place):
            where, text = found
            if where not in seen:
                seen.add(where)
                again = f"--only {name} --seed {seed} --number {number} --minutes 0"
                small = smallest(name, case, where, place)
                yield {"where": where, "text": text, "again": again, "case": small}
        number += 1
    yield {"fed": number - begin}


def made(name: str, seed: int, number: int, place: Place) -> Case:
    return MAKE[name](random.Random(f"{name}/{seed}/{number}"), place)


def finding(name: str, case: Case, place: Place) -> tuple[str, str] | None:
    """(where in the source it happens, all of it); None for a case that is answered as it must."""
    try:
        PLAY[name](case, place)
    except Exception as problem:
        text = "".join(traceback.format_exception(problem))
        return ":".join((_SOURCE.findall(text) or [(str(problem)[:60], "")])[-1]), text
    return None


def smallest(name: str, case: Case, where: str, place: Place) -> Case:
    """Without each change and each verb that the finding does not need."""
    for key in ("verbs", "changes"):
        for it in case.get(key, ()):
            less = {**case, key: [other for other in case[key] if other is not it]}
            found = less[key] and finding(name, less, place)
            if found and found[0] == where:
                case = less
    return case


def inside(names: list[str], seed: int, number: int, seconds: float) -> int:
    """In the sandbox: findings go out as lines of JSON, and by no other way."""
    sys.path.insert(0, str(ROOT / "tests"))
    from fuzz_seeds import seed_runs

    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else prints
    places = (ROOT / "experiments", ROOT / "tests" / "data" / "experiments")
    texts = [path.read_bytes() for each in places for path in sorted(each.glob("*.toml"))]
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as folder:
        place = Place.at(Path(folder), seed_runs(Path(made)), texts)
        for name in names:
            for it in found_by(name, place, seed, number, seconds / len(names)):
                print(json.dumps({"name": name, **it}), file=out, flush=True)
    return 0


def outside(words: list[str]) -> subprocess.Popen[bytes]:
    """This program once more, in a sandbox that writes nothing on the host."""
    sandbox.require()
    shown = dict.fromkeys((ROOT, Path(sys.prefix), Path(sys.base_prefix)))
    box = sandbox.Sandbox(
        TOOL,
        read_only=tuple((path, str(path)) for path in shown),
        tmp_bytes=_ROOM_BYTES,
        chdir=str(ROOT),
    )
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    return subprocess.Popen(
        box.argv([sys.executable, "-B", "-m", "benchmarks.fuzz", "--inside", *words]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env={**environment, "COLUMNS": "100"},
    )


def keep(folder: Path, name: str, found: dict[str, Any]) -> Path:
    """The case as a file of its own; what is there already stays."""
    text = json.dumps(found["case"], indent=1) + "\n"
    file = folder / f"{name}-{sha256(text.encode()).hexdigest()[:10]}.json"
    folder.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
    return file


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="in all")
    parser.add_argument("--only", choices=sorted(MAKE), help="one kind of input")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--number", type=int, default=0, help="the first input's number")
    parser.add_argument("--keep", type=Path, default=KEPT, help="a folder for what is found")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(1 << 31)
    names = [given.only] if given.only else list(MAKE)
    if given.inside:
        return inside(names, seed, given.number, 60 * given.minutes)
    words = ["--seed", str(seed), "--number", str(given.number), "--minutes", str(given.minutes)]
    words += ["--only", given.only] if given.only else []
    findings = 0
    try:
        with outside(words) as child:
            assert child.stdout is not None
            for line in child.stdout:
                it = json.loads(line)
                if "fed" in it:
                    print(f"{it['name']}: {it['fed']} inputs, seed {seed}", flush=True)
                    continue
                findings += 1
                file = keep(given.keep, it["name"], it)
                print(f"\n{it['where']} ({it['again']})\n{it['text']}kept: {file}", flush=True)
    except KdynoError as problem:
        print(problem, file=sys.stderr)
        return 1
    print(f"{findings} findings")
    return 1 if findings or child.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
