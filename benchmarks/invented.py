# SPDX-License-Identifier: MIT
"""What reads, shows and stores many boots, on runs whose figures were never measured.

    python -m benchmarks.invented [memory] [site] [store] [--boots N] [--cases N] [--runs N]

``memory``: the largest resident set of each verb on one run, and how long its page takes to write
and to open in Chromium. ``site``: pages of a run for each night. ``store``: PostgreSQL with one run
and its copies, made inside the server: Debian's ``postgresql``, 4 GB of disk for some minutes.
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

from benchmarks.figure import Figure, kdyno, main, timed
from kdyno.paths import data_root
from kdyno.report.site.build import build_site
from kdyno.report.site.history import history_page, series_of
from kdyno.report.site.pages import listing
from kdyno.report.site.shared import SharedSite
from kdyno.report.site.summary import Summary, of_rows
from kdyno.store.database.query import Wanted
from kdyno.store.database.shared import Shared
from kdyno.store.run import Run

sys.path.insert(0, str(data_root() / "tests"))
import postgres
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


def invented(runs: Path, variants: int, boots: int, cases: int, facts: int = 0) -> Run:
    """A finished run of a baseline and so many variants. ``facts``: figures of the host before and
    after each boot."""
    shape = Shape(
        cases=tuple(case(number) for number in range(cases)),
        variants={f"mine-{number}": 1.03 for number in range(variants)},
        blocks=boots // (1 + variants),
        experiment="nightly",
        repetitions=8,
        facts={f"fact {number}": 0.5 for number in range(facts)},
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
    nights = request.runs // 2
    for number in range(1, nights):
        again(first, number)

    def built(name: str, most: float) -> Figure:
        began_s = time.monotonic()
        result = build_site(runs, folder, full=False)
        how = f"{result.rendered} of {result.runs} runs rendered"
        return Figure(name, time.monotonic() - began_s, "s", most, how=how)

    yield built(f"a site of {nights} runs", 30)
    yield built("the same again, nothing new", 1)
    again(first, nights)
    yield built("the same with one more run", 3)
    size, name = max((page.stat().st_size, page.name) for page in folder.rglob("*.html"))
    yield Figure("largest page of it", size / 1e6, "MB", most=10, how=name)


_COLUMNS = (
    "experiment, state, reason, question, answer, baseline, kind, emulator, cpu_model, host_arch, "
    "cpus, memory_bytes, guest_cpus, guest_memory_bytes, counts, judged, boots, damaged, outside, "
    "files, size_bytes"
)
COPIES = f"""
INSERT INTO runs (identity, name, digest, created, {_COLUMNS})
SELECT md5(n::text), 'run-' || n, md5(n::text),
       to_char(timestamptz '2024-01-01' + n * interval '8 hours', 'YYYY-MM-DD"T"HH24:MI:SS'),
       {_COLUMNS}
FROM runs, generate_series(1, %(count)s) n WHERE runs.id = %(run)s;
INSERT INTO kernels (run, variant, place, version, source, digest)
SELECT copy.id, variant, place, '7.' || copy.id / 50, source, kernels.digest
FROM kernels, runs copy WHERE kernels.run = %(run)s AND copy.id <> %(run)s;
INSERT INTO machines (run, place, name, cpu_model)
SELECT copy.id, place, machines.name, machines.cpu_model
FROM machines, runs copy WHERE machines.run = %(run)s AND copy.id <> %(run)s;
INSERT INTO scores (run, place, suite, "case", variant, unit, better, work, boots,
    value, low, high, ratio, ratio_low, ratio_high, verdict)
SELECT copy.id, place, suite, "case", variant, unit, better, work, scores.boots,
       value * level, low * level, high * level, ratio, ratio_low, ratio_high, verdict
FROM scores, runs copy,
     LATERAL (SELECT exp(0.004 * sin(copy.id * 37.0) + copy.id / 400 * 0.03) level) levels
WHERE scores.run = %(run)s AND copy.id <> %(run)s;
INSERT INTO samples (run, suite, "case", variant, blocks, scores)
SELECT copy.id, suite, "case", variant, blocks, samples.scores
FROM samples, runs copy WHERE samples.run = %(run)s AND copy.id <> %(run)s;
INSERT INTO parts (run, number, content)
SELECT copy.id, number, content
FROM parts, runs copy WHERE parts.run = %(run)s AND copy.id <> %(run)s;
ANALYZE
"""


def store(request: Any) -> Iterator[Figure]:
    folder = request.folder
    os.environ["KDYNO_CACHE"] = str(folder / "cache")
    run = invented(folder / "runs", 1, request.boots, request.cases, facts=20)
    with postgres.server() as server:
        address = server.database()
        push_s = kdyno("push", run.path, KDYNO_STORE=address)
        shared = Shared(address)
        facts = shared.find("last")
        with server.connect(address.partition("@/")[2].partition("?")[0]) as connection:
            number = connection.execute("SELECT id FROM runs").fetchone()
            assert number is not None
            for command in COPIES.split(";\n"):
                values = {"run": number[0], "count": request.runs - 1}
                connection.execute(command, values if "%(" in command else None)
            size = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            assert size is not None
        such = f"{request.boots} boots × {request.cases} cases, {facts.size_bytes / 1e6:.0f} MB"
        yield Figure("kdyno push of a run", push_s, "s", most=20, how=such)
        empty = {"KDYNO_STORE": address, "KDYNO_RUNS": str(folder / "none")}
        list_s = kdyno("list", "runs", **empty)
        how = f"{request.runs} such runs, {int(str(size[0])) / 1e9:.1f} GB in the server"
        yield Figure("kdyno list runs", list_s, "s", most=2, how=how)
        words = ("--case", "case-7", "--kernel", "v7.1*", "--cpu", "a cpu")
        some_s = kdyno("list", "runs", *words, **empty)
        yield Figure("kdyno list runs --case --kernel --cpu", some_s, "s", most=2)

        def summaries() -> list[Summary]:
            rows = shared.rows(Wanted())
            return [
                of_rows(fact, rows.kernels[fact.identity], rows.scores[fact.identity])
                for fact in rows.facts
            ]

        list_s = timed(lambda: listing(summaries(), True))
        yield Figure("list page, from its query on", list_s, "s", most=2)
        history_s = timed(lambda: history_page(series_of(summaries()), True))
        yield Figure("history page of an experiment, from its query on", history_s, "s", most=2)
        place, cache = folder / "site", folder / "cache"
        own = SharedSite(shared, place, cache, Wanted(), full=False, live=True)
        own.build()
        yield Figure("the site, nothing new", timed(own.build), "s", most=0.5)
        fetch_s = timed(lambda: shared.fetch(facts, folder / "cache"))
        yield Figure("the run fetched as a folder", fetch_s, "s", most=20)
        shared.close()


if __name__ == "__main__":
    os.fsync = lambda _descriptor: None  # the runs are thrown away
    main(__doc__, memory, site, store, boots=5000, cases=20, runs=1000)
