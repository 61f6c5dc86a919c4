# SPDX-License-Identifier: MIT
"""A run of thousands of boots: kdyno's memory, and how long its report takes to write and open.

    python -m benchmarks.boots [--boots 5000] [--cases 20] [--json FILE]

Makes such a run in a folder of its own, then runs each verb in a process of its own and takes the
largest resident set that the system saw. Opening is measured in a Chromium without a window: from
asking for the file until it has been laid out and drawn; without Chromium that figure is left out,
with a word. Exit status 1 when a figure misses its target.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.invented import invented
from benchmarks.speed import Figure, finish, options
from kdyno.store.run import Run

ALLOWED_MB = 250.0
WRITTEN_S, OPENED_S = 10.0, 2.0
TRIES = 3
_DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
HTML = "report -f html"
NAMES = ("stock", "mine", "other", "nothing")
JUDGE = """
import sys
from pathlib import Path
from kdyno.judge.judging import Otherwise, judge_again
from kdyno.report.sentence import worded
from kdyno.store.run import open_run, write_run
verdict, manifest = judge_again(open_run(Path(sys.argv[1])), Otherwise())
with write_run(Path(sys.argv[1])) as writer:
    writer.save_verdict(worded(verdict, manifest))
"""


@dataclass(frozen=True)
class Peak:
    what: str
    resident_mb: float
    took_s: float


def peak(what: str, argv: list[str], environment: dict[str, str]) -> Peak:
    """The largest resident set of one process; it must end well."""
    started = time.monotonic()
    child = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"{what}: exit status {child.returncode}")
    return Peak(what, usage.ru_maxrss / 1024, time.monotonic() - started)


def peaks(run: Run, page: Path) -> list[Peak]:
    environment = {**os.environ, "KDYNO_RUNS": str(run.path.parent)}
    verbs = {
        "list runs": ["list", "runs"],
        "report": ["report", run.name],
        "report --scoring unixbench": ["report", run.name, "--scoring", "unixbench"],
        "report -f markdown": ["report", run.name, "-f", "markdown"],
        HTML: ["report", run.name, "-o", str(page)],
    }
    rows = [peak("judging", [sys.executable, "-c", JUDGE, str(run.path)], environment)]
    for what, words in verbs.items():
        rows.append(peak(what, [sys.executable, "-m", "kdyno", *words], environment))
    return rows


def opening_s(page: Path) -> float | None:
    """The best of a few, each in a browser window that has seen nothing yet; None: no Chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if program is None:
        return None
    times = []
    with sync_playwright() as engine:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = engine.chromium.launch(executable_path=program, args=flags)
        for _ in range(TRIES):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            window = context.new_page()
            began = time.perf_counter()
            window.goto(page.as_uri(), wait_until="load")
            window.evaluate(_DRAWN)
            times.append(time.perf_counter() - began)
            context.close()
        browser.close()
    return min(times)


def figures(boots: int, cases: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kdyno-boots-") as folder:
        os.fsync = lambda _descriptor: None  # the run is thrown away: no need to reach the disk
        run = invented(Path(folder), "memory", NAMES, boots, cases, judged=False)
        page = Path(folder) / "report.html"
        rows = []
        for peak in peaks(run, page):
            how = f"{boots} boots, {peak.took_s:.1f} s"
            rows.append(Figure(f"memory: {peak.what}", peak.resident_mb, "MB", ALLOWED_MB, how=how))
            if peak.what == HTML:
                how = f"{cases} cases, {page.stat().st_size / 1e6:.1f} MB"
                rows.append(Figure("report, written", peak.took_s, "s", WRITTEN_S, how=how))
        opened_s = opening_s(page)
    if opened_s is None:
        print("opening it is not measured: no Chromium or no playwright here", file=sys.stderr)
    else:
        rows.append(Figure("report, opened", opened_s, "s", OPENED_S, how=f"best of {TRIES}"))
    return rows


if __name__ == "__main__":
    given = options(__doc__, boots=5000, cases=20)
    sys.exit(finish(figures(given.boots, given.cases), given.json))
