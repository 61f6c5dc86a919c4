# SPDX-License-Identifier: MIT
"""What reads and shows many boots, on runs whose figures were never measured.

    python -m benchmarks.invented [memory] [site] [--boots N] [--cases N] [--runs N]

``memory``: the largest resident set of each verb on one run, and how long its page takes to write
and to open in Chromium. ``site``: pages of a run for each night.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.figure import Figure, main
from kdyno.paths import data_root
from kdyno.report.site.build import build_site
from kdyno.store.run import Run

sys.path.insert(0, str(data_root() / "tests"))
from synthetic_run import Shape, case, make

ALLOWED_MB = 250.0
TRIES = 3
_LAID_OUT = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
JUDGE = """
import sys
from pathlib import Path
from kdyno.judge.judging import judge_again
from kdyno.report.sentence import worded
from kdyno.store.run import open_run, write_run
verdict, manifest = judge_again(open_run(Path(sys.argv[1])))
with write_run(Path(sys.argv[1])) as writer:
    writer.save_verdict(worded(verdict, manifest))
"""
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A small process between: a child's peak begins at what its parent has."""


def invented(runs: Path, variants: int, boots: int, cases: int) -> Run:
    """A finished run of a baseline and so many variants."""
    shape = Shape(
        cases=tuple(case(number) for number in range(cases)),
        variants={f"mine-{number}": 1.03 for number in range(variants)},
        blocks=boots // (1 + variants),
        experiment="nightly",
        repetitions=8,
    )
    return make(runs, shape)


def memory(request: Any) -> Iterator[Figure]:
    run = invented(request.folder, 3, request.boots, request.cases)
    page = request.folder / "report.html"
    verbs = {
        "list runs": ["list", "runs"],
        "report": ["report", run.name],
        "report --scoring unixbench": ["report", run.name, "--scoring", "unixbench"],
        "report -f markdown": ["report", run.name, "-f", "markdown"],
        "report -f html": ["report", run.name, "-o", str(page)],
    }
    commands = {name: ["-m", "kdyno", *words] for name, words in verbs.items()}
    environment = {**os.environ, "KDYNO_RUNS": str(run.path.parent)}
    for name, words in {"judging": ["-c", JUDGE, str(run.path)], **commands}.items():
        command = [sys.executable, "-c", PEAK, sys.executable, *words]
        began_s = time.monotonic()
        peak = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
        took_s = time.monotonic() - began_s
        how = f"{request.boots} boots, {took_s:.1f} s"
        yield Figure(f"memory: {name}", int(peak.stdout) / 1024, "MB", ALLOWED_MB, how=how)
    how = f"{request.cases} cases, {page.stat().st_size / 1e6:.1f} MB"
    yield Figure("report, written", took_s, "s", 10, how=how)
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("opening it is not measured: no Chromium", file=sys.stderr)
    else:
        yield Figure("report, opened", opening_s(page, program), "s", 2, how=f"best of {TRIES}")


def opening_s(page: Path, program: str) -> float:
    """From asking for the file until it has been laid out, in a window that has seen nothing."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as engine:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = engine.chromium.launch(executable_path=program, args=flags)
        for _ in range(TRIES):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            window = context.new_page()
            began_s = time.perf_counter()
            window.goto(page.as_uri(), wait_until="load")
            window.evaluate(_LAID_OUT)
            times.append(time.perf_counter() - began_s)
            context.close()
        browser.close()
    return min(times)


def again(first: Path, number: int) -> None:
    """The same a day later, with scores of its own and a step in the middle of the year."""
    about = json.loads((first / "manifest.json").read_text())
    day = datetime.fromisoformat(about["created"]) + timedelta(days=number)
    run = first.parent / f"{day:%Y-%m-%dT%H%M}-nightly-{number:04x}"
    shutil.copytree(first, run)
    (run / "manifest.json").write_text(json.dumps(about | {"created": day.isoformat()}))
    dice = random.Random(number)
    level = math.exp(dice.gauss(0, 0.004)) * (0.95 if number > 180 else 1.0)
    for path in (run / "boots").glob("*/samples.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["score"] = 1000.0 * level * math.exp(dice.gauss(0, 0.002))
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def site(request: Any) -> Iterator[Figure]:
    runs, folder = request.folder / "runs", request.folder / "site"
    first = invented(runs, 1, 48, 10).path
    nights = request.runs
    for number in range(1, nights):
        again(first, number)

    def built(name: str, most: float) -> Figure:
        began_s = time.monotonic()
        result = build_site(runs, folder)
        how = f"{result.rendered} of {result.runs} runs rendered"
        return Figure(name, time.monotonic() - began_s, "s", most, how=how)

    yield built(f"a site of {nights} runs", 30)
    yield built("the same again, nothing new", 1)
    again(first, nights)
    yield built("the same with one more run", 3)
    size, name = max((page.stat().st_size, page.name) for page in folder.rglob("*.html"))
    yield Figure("largest page of it", size / 1e6, "MB", most=10, how=name)


if __name__ == "__main__":
    os.fsync = lambda _descriptor: None  # the runs are thrown away
    main(__doc__, memory, site, boots=5000, cases=20, runs=500)
