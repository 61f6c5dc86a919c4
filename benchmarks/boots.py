# SPDX-License-Identifier: MIT
"""A run of thousands of boots: kdyno's memory, and how long its report takes to write and open.

    python -m benchmarks.boots [--boots 5000] [--cases 20] [--json FILE]

Makes such a run in a folder of its own, then runs each verb in a process of its own and takes the
largest resident set that the system saw. Opening is measured in a Chromium without a window: from
asking for the file until it has been laid out and drawn; without Chromium that figure is left out,
with a word. Exit status 1 when a figure misses its target.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.speed import Figure, finish
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import Run, create_run

ALLOWED_MB = 250.0
WRITTEN_S, OPENED_S = 10.0, 2.0
TRIES = 3
_DRAWN = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
HTML = "report -f html"
BASELINE, VARIANTS = "stock", ("mine", "other", "nothing")
JUDGE = """
import sys
from pathlib import Path
from kdyno.judge.judging import verdict_of
from kdyno.judge.pairs import Question
from kdyno.report.sentence import worded
from kdyno.store.run import write_run
with write_run(Path(sys.argv[1])) as writer:
    question = Question(
        experiment="memory", text="", baseline="stock", variants=("mine", "other", "nothing"),
        copy=None, cases=writer.run.manifest().cases, confidence=0.95, equivalent=0.01,
        precision=0.005,
    )
    writer.save_verdict(worded(verdict_of(writer.run, question, "max_boots")))
"""


@dataclass(frozen=True)
class Peak:
    what: str
    resident_mb: float
    took_s: float


def cases_of(count: int) -> tuple[CaseInfo, ...]:
    return tuple(
        CaseInfo(suite="unixbench", case=f"case-{number}", unit="loops/s", better="higher")
        for number in range(count)
    )


def make(folder: Path, boots: int, cases: int) -> Run:
    """A finished run without its verdict: so many boots of four variants, eight repetitions."""
    names = (BASELINE, *VARIANTS)
    chance = random.Random(7)
    blocks = tuple(tuple(chance.sample(names, len(names))) for _ in range(boots // len(names)))
    manifest = Manifest(
        tool="0",
        created="2026-01-01T00:00:00.000000+00:00",
        experiment="memory",
        baseline=BASELINE,
        seed=7,
        cases=cases_of(cases),
        blocks=blocks,
        state="finished",
        stopped="max_boots",
    )
    with create_run(folder, 'name = "memory"\n', manifest) as writer:
        index = 0
        for block, order in enumerate(blocks):
            for variant in order:
                writer.add_boot(_boot(index, block, variant, manifest, chance), b"console\n" * 50)
                index += 1
        return writer.run


def _boot(
    index: int, block: int, variant: str, manifest: Manifest, chance: random.Random
) -> BootRecord:
    samples = tuple(
        Sample(
            suite=case.suite,
            case=case.case,
            score=1000.0 * chance.gauss(1.0, 0.01),
            reps=tuple((1000.0, 1e8 * chance.gauss(1.0, 0.01)) for _ in range(8)),
            user_ns=10**8,
            sys_ns=10**8,
        )
        for case in manifest.cases
    )
    job = BootJob(index=index, block=block, variant=variant, command=("linux", "mem=1G"))
    return BootRecord(job=job, host=BootHost(status="ok", wall_s=4.0), samples=samples)


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
    found = [peak("judging", [sys.executable, "-c", JUDGE, str(run.path)], environment)]
    for what, words in verbs.items():
        found.append(peak(what, [sys.executable, "-m", "kdyno", *words], environment))
    return found


def opening_s(page: Path) -> float | None:
    """The best of a few, each in a browser window that has seen nothing yet; None: no Chromium."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if program is None:
        return None
    found = []
    with sync_playwright() as engine:
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = engine.chromium.launch(executable_path=program, args=flags)
        for _ in range(TRIES):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            window = context.new_page()
            began = time.perf_counter()
            window.goto(page.as_uri(), wait_until="load")
            window.evaluate(_DRAWN)
            found.append(time.perf_counter() - began)
            context.close()
        browser.close()
    return min(found)


def figures(boots: int, cases: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="kdyno-boots-") as folder:
        os.fsync = lambda _descriptor: None  # the run is thrown away: no need to reach the disk
        run = make(Path(folder), boots, cases)
        page = Path(folder) / "report.html"
        found = []
        for it in peaks(run, page):
            how = f"{it.took_s:.1f} s"
            found.append(Figure(f"memory: {it.what}", it.resident_mb, "MB", ALLOWED_MB, how=how))
            if it.what == HTML:
                how = f"{cases} cases, {page.stat().st_size / 1e6:.1f} MB"
                found.append(Figure("report, written", it.took_s, "s", WRITTEN_S, how=how))
        opened_s = opening_s(page)
    if opened_s is None:
        print("opening it is not measured: no Chromium or no playwright here", file=sys.stderr)
    else:
        found.append(Figure("report, opened", opened_s, "s", OPENED_S, how=f"best of {TRIES}"))
    return found


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--boots", type=int, default=5000)
    arguments.add_argument("--cases", type=int, default=20)
    arguments.add_argument("--json", metavar="FILE", type=Path)
    given = arguments.parse_args()
    found = figures(given.boots, given.cases)
    print(f"a run of {given.boots} boots:")
    return finish(found, given.json)


if __name__ == "__main__":
    sys.exit(main())
