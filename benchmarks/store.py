# SPDX-License-Identifier: MIT
"""How long a shared store takes: ``python -m benchmarks.store [--runs N] [--boots N]``.

A PostgreSQL server in a temporary folder gets a run of 5,000 boots × 20 cases, and then a
thousand such runs: copies inside the server, with times and scores of their own. What is
measured is ``kdyno push`` of one, ``kdyno list runs``, and the list and history pages of a
thousand. Needs Debian's ``postgresql`` and about 4 GB of disk for some minutes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.invented import invented
from benchmarks.speed import Figure, finish, options, quiet, timed
from kdyno.report.site.history import history_page, series_of
from kdyno.report.site.pages import listing
from kdyno.report.site.shared import SharedSite
from kdyno.report.site.summary import Summary, of_rows
from kdyno.store.database.query import Wanted
from kdyno.store.database.shared import Shared

ROOT = Path(__file__).resolve().parent.parent
CASES = 20
NAMES = ("stock", "mine")
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
"""


def page_seconds(shared: Shared) -> tuple[float, float]:
    """(the list's, the history's): from the question to the page's text."""

    def summaries() -> list[Summary]:
        rows = shared.rows(Wanted())
        return [
            of_rows(fact, rows.kernels[fact.identity], rows.scores[fact.identity])
            for fact in rows.facts
        ]

    listed = timed(lambda: listing(summaries(), True))
    return listed, timed(lambda: history_page(series_of(summaries()), True))


def figures(folder: Path, runs: int, boots: int) -> list[Figure]:
    sys.path.insert(0, str(ROOT / "tests"))
    import postgres

    os.environ["KDYNO_CACHE"] = str(folder / "cache")
    run = invented(folder / "runs", "nightly", NAMES, boots, CASES, facts=20)
    with postgres.server() as server:
        address = server.database()
        base = address.partition("@/")[2].partition("?")[0]
        push_s = quiet("push", str(run.path), KDYNO_STORE=address)
        shared = Shared(address)
        facts = shared.find("last")
        with server.connect(base) as connection:
            number = connection.execute("SELECT id FROM runs").fetchone()
            assert number is not None
            for command in COPIES.split(";\n"):
                if command.strip():
                    connection.execute(command, {"run": number[0], "count": runs - 1})  # type: ignore[arg-type]
            connection.execute("ANALYZE")
            size = connection.execute("SELECT pg_database_size(current_database())").fetchone()
            assert size is not None
        empty = {"KDYNO_STORE": address, "KDYNO_RUNS": str(folder / "none")}
        list_s = quiet("list", "runs", **empty)
        words = ("--case", "case-7", "--kernel", "v7.1*", "--cpu", "a cpu")
        some_s = quiet("list", "runs", *words, **empty)
        site = SharedSite(
            shared, folder / "site", folder / "cache", Wanted(), full=False, live=True
        )
        site.build()
        again_s = timed(site.build)
        list_page_s, history_s = page_seconds(shared)
        fetch_s = timed(lambda: shared.fetch(facts, folder / "cache"))
        shared.close()
    such = f"{boots} boots × {CASES} cases, {facts.size_bytes / 1e6:.0f} MB of files"
    all_ = f"{runs} such runs, {int(str(size[0])) / 1e9:.1f} GB in the server"
    return [
        Figure("kdyno push of a run", push_s, "s", most=20, how=such),
        Figure("the same run fetched as a folder", fetch_s, "s", most=20),
        Figure("kdyno list runs", list_s, "s", most=2, how=all_),
        Figure("kdyno list runs --case --kernel --cpu", some_s, "s", most=2),
        Figure("list page, from its query on", list_page_s, "s", most=2),
        Figure("history page of an experiment, from its query on", history_s, "s", most=2),
        Figure("the site, nothing new", again_s, "s", most=0.5),
    ]


if __name__ == "__main__":
    given = options(__doc__, runs=1000, boots=5000)
    os.fsync = lambda _descriptor: None  # the run is thrown away
    with tempfile.TemporaryDirectory(prefix="kdyno-bench-") as folder:
        sys.exit(finish(figures(Path(folder), given.runs, given.boots), given.json))
