# SPDX-License-Identifier: MIT
"""What reads and shows many boots, on runs whose figures were never measured.

    python -m benchmarks.invented [memory] [site] [--boots N] [--cases N] [--runs N]

``memory``: the largest resident set of each verb on one run, and how long its page takes to write
and to open in Chromium. ``site``: pages of a run for each night.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.figure import KDYNO, Figure, main
from kdyno.paths import data_root
from kdyno.report.site.build import build_site

sys.path.insert(0, str(data_root() / "tests"))
import needed
from site_runs import small, weeks
from synthetic_run import Shape, case, make

ALLOWED_MB = 250.0
TRIES = 3
_LAID_OUT = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def memory(request: Any) -> Iterator[Figure]:
    shape = Shape(
        cases=tuple(case(number) for number in range(request.cases)),
        variants={f"mine-{number}": 1.03 for number in range(3)},
        blocks=request.boots // 4,
        experiment="nightly",
    )
    run = make(request.folder, shape)
    page, peak = request.folder / "report.html", request.folder / "peak"
    environment = {**os.environ, "KDYNO_RUNS": str(run.path.parent)}
    verbs = {"judge": ["judge", run.name], "report -f html": ["report", run.name, "-o", str(page)]}
    for name, words in verbs.items():
        command = [sys.executable, "-c", KDYNO, peak, *words]
        began_s = time.monotonic()
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        took_s = time.monotonic() - began_s
        how = f"{request.boots} boots, {took_s:.1f} s"
        yield Figure(f"memory: {name}", int(peak.read_text()) / 1024, "MB", ALLOWED_MB, how=how)
    how = f"{request.cases} cases, {page.stat().st_size / 1e6:.1f} MB"
    yield Figure("report, written", took_s, "s", 10, how=how)
    program = needed.path_of("chromium")
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


def site(request: Any) -> Iterator[Figure]:
    runs, folder, nights = request.folder / "runs", request.folder / "site", request.runs
    cases = tuple(case(number) for number in range(10))
    levels = [0.95 if number > 180 else 1.0 for number in range(nights)]  # a step in the middle
    weeks(runs, levels, cases=cases, blocks=24)

    def built(name: str, most: float) -> Figure:
        began_s = time.monotonic()
        result = build_site(runs, folder)
        how = f"{result.rendered} of {result.runs} runs rendered"
        return Figure(name, time.monotonic() - began_s, "s", most, how=how)

    yield built(f"a site of {nights} runs", 30)
    yield built("the same again, nothing new", 1)
    small(runs, nights, 0.95, cases=cases, blocks=24)
    yield built("the same with one more run", 3)
    size, name = max((page.stat().st_size, page.name) for page in folder.rglob("*.html"))
    yield Figure("largest page of it", size / 1e6, "MB", most=10, how=name)


if __name__ == "__main__":
    os.fsync = lambda _descriptor: None  # the runs are thrown away
    main(__doc__, memory, site, boots=5000, cases=20, runs=500)
