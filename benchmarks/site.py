# SPDX-License-Identifier: MIT
"""How long a site of 500 runs takes: ``make bench`` (about 2 minutes, most of it to make the runs).

    python -m benchmarks.site [--runs N] [--full] [--json FILE]

The runs have 2 kernels, 24 blocks and 10 cases each, and lie in a temporary folder.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

from benchmarks.invented import CREATED, invented
from benchmarks.speed import Figure, finish, options
from kdyno.report.site.build import build_site

BLOCKS, CASES = 24, 10
NAMES = ("stock", "mine")
BEGIN = datetime.fromisoformat(CREATED)


def again(first: Path, number: int) -> None:
    """The same a day later, with scores of its own and a step in the middle of the year."""
    day = BEGIN + timedelta(days=number)
    run = first.parent / f"{day:%Y-%m-%dT%H%M}-nightly-{number:04x}"
    shutil.copytree(first, run)
    about = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps(about | {"created": day.isoformat()}))
    dice = random.Random(number)
    level = math.exp(dice.gauss(0, 0.004)) * (0.95 if number > 180 else 1.0)
    for path in (run / "boots").glob("*/samples.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["score"] = 1000.0 * level * math.exp(dice.gauss(0, 0.002))
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def figures(folder: Path, count: int, full: bool) -> list[Figure]:
    runs, site = folder / "runs", folder / "site"
    first = invented(runs, "nightly", NAMES, 2 * BLOCKS, CASES).path
    for number in range(1, count):
        again(first, number)

    def seconds() -> tuple[float, str]:
        start = time.monotonic()
        built = build_site(runs, site, full=full)
        return time.monotonic() - start, f"{built.rendered} of {built.runs} runs drawn"

    whole = seconds()
    nothing = seconds()
    again(first, count)
    one = seconds()
    largest = max((page.stat().st_size, page.name) for page in site.rglob("*.html"))
    kind = "full" if full else "light"
    return [
        Figure(f"a site of {count} runs, {kind} reports", whole[0], "s", most=30, how=whole[1]),
        Figure("the same again, nothing new", nothing[0], "s", most=1, how=nothing[1]),
        Figure("the same with one more run", one[0], "s", most=3, how=one[1]),
        Figure("largest page of it", largest[0] / 1e6, "MB", most=10, how=largest[1]),
    ]


if __name__ == "__main__":
    given = options(__doc__, runs=500, full=False)
    os.fsync = lambda _descriptor: None  # the runs are thrown away
    with tempfile.TemporaryDirectory(prefix="kdyno-bench-") as folder:
        sys.exit(finish(figures(Path(folder), given.runs, given.full), given.json))
