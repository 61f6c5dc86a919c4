# SPDX-License-Identifier: MIT
"""How long a site of 500 runs takes: ``make bench`` (about 2 minutes, most of it to make the runs).

    python -m benchmarks.site [--runs N] [--full] [--keep FOLDER]

The runs have 2 kernels, 24 blocks and 10 cases each, and lie in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.speed import Figure
from kdyno.report.site.build import build_site
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import create_run
from kdyno.store.verdict import Effect, Verdict

BLOCKS, CASES = 24, 10
NAMES = ("stock", "mine")
BEGIN = datetime(2025, 1, 1, tzinfo=UTC)


def template(runs: Path) -> Path:
    """One run, written as kdyno writes it."""
    cases = tuple(
        CaseInfo(suite="unixbench", case=f"case-{number}", unit="loops/s", better="higher")
        for number in range(CASES)
    )
    manifest = Manifest(
        tool="0",
        created=BEGIN.isoformat(),
        experiment="nightly",
        baseline="stock",
        seed=1,
        host={"cpu_model": "a CPU", "cpus": 2.0, "memory_bytes": 2.0**34},
        images={name: name for name in NAMES},
        cases=cases,
        state="finished",
        stopped="max_boots",
    )
    effects = tuple(
        Effect(
            suite=it.suite,
            case=it.case,
            variant="mine",
            unit=it.unit,
            better="higher",
            baseline_value=1000.0,
            value=1030.0,
            ratio=1.03,
            ci=(1.02, 1.04),
            blocks=BLOCKS,
            verdict="faster",
        )
        for it in cases
    )
    verdict = Verdict(
        experiment="nightly",
        question="Is tonight's kernel slower?",
        baseline="stock",
        boots=dict.fromkeys(NAMES, BLOCKS),
        effects=effects,
    )
    with create_run(runs, 'name = "nightly"\n', manifest) as writer:
        for name in NAMES:
            writer.save_image(name, {"version": "7.3.0"})
        for index in range(2 * BLOCKS):
            samples = tuple(
                Sample(suite=it.suite, case=it.case, score=1000.0, reps=((1000.0, 1e8),) * 5)
                for it in cases
            )
            about = BootJob(index=index, block=index // 2, variant=NAMES[index % 2])
            boot = BootRecord(job=about, host=BootHost(status="ok"), samples=samples)
            writer.add_boot(boot, b"a console\n" * 50)
        writer.save_verdict(verdict)
        return writer.run.path


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
    first = template(runs)
    for number in range(1, count):
        again(first, number)

    def seconds() -> tuple[float, str]:
        start = time.monotonic()
        built = build_site(runs, site, full=full)
        return time.monotonic() - start, f"{built.made} of {built.runs} runs drawn"

    whole = seconds()
    nothing = seconds()
    again(first, count)
    one = seconds()
    largest = max((it.stat().st_size, it.name) for it in site.rglob("*.html"))
    kind = "full" if full else "light"
    return [
        Figure(f"a site of {count} runs, {kind} reports", whole[0], "s", most=30, how=whole[1]),
        Figure("the same again, nothing new", nothing[0], "s", most=1, how=nothing[1]),
        Figure("the same with one more run", one[0], "s", most=3, how=one[1]),
        Figure("largest page of it", largest[0] / 1e6, "MB", most=10, how=largest[1]),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    os.fsync = lambda _descriptor: None  # the runs are thrown away
    if asked.keep:
        found = figures(asked.keep, asked.runs, asked.full)
    else:
        with tempfile.TemporaryDirectory(prefix="kdyno-bench-") as folder:
            found = figures(Path(folder), asked.runs, asked.full)
    for figure in found:
        print(figure.line())
    return 0 if all(it.met for it in found) else 1


if __name__ == "__main__":
    sys.exit(main())
