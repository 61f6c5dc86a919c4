# SPDX-License-Identifier: MIT
"""Runs that hold every kind of file, of every kind of run, for the fuzzer to break."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from command_line import FASTER, SLOWER, UNDECIDED, stored, verdict
from synthetic_run import DEMO, case, make
from test_counted import counting, lengths, run_of
from test_memcpy_bench import bench_of as bench
from test_profile_counts import MINE, STOCK
from test_profiles_shown import profile
from test_report_values import HOST

from kdyno.judge.judging import verdict_of
from kdyno.labs.memcpy.results import to_json as bench_json
from kdyno.labs.profile.record import to_json
from kdyno.machines.facts import between, look
from kdyno.report.sentence import worded
from kdyno.store.counts import FOLDER as COUNTS, to_json as counts_json
from kdyno.store.run import Run, write_run

SMALL = replace(
    DEMO, cases=DEMO.cases[3:8], variants={"mine": 1.03, "nothing": 1.0}, blocks=3, failed=(5,)
)
BUILT = {
    "release": "7.3.4-um",
    "source": "debian:linux-source-7.3",
    "objects": 812,
    "seconds": 131.5,
    "commands": ["make ARCH=um"],
}


def seed_runs(folder: Path) -> dict[str, Path]:
    """Name → run. Whole: with boots, images, profiles, a bench, two verdicts, a page. Then what
    only other kinds of run have: turns with gprof's profiles, factors, counts, figures of the
    host. And a verdict alone, and a run that was interrupted."""
    whole = make(folder / "whole", SMALL)
    _fill(whole)
    turns = make(folder / "turns", replace(SMALL, rounds=12, failed=()))
    _profiles(turns, "gprof")
    exact, judged = run_of(counting(lengths(41)), folder / "exact")
    with write_run(exact.path) as writer:
        writer.save_verdict(judged)
        for counted in (STOCK, MINE):
            writer.save_file(f"{counted.variant}.json", counts_json(counted), COUNTS)
    factors = _factors(folder / "factors")
    return {
        **{each.path.parent.name: each.path for each in (whole, turns, exact, factors)},
        "judged": stored(folder / "judged", verdict(FASTER, SLOWER, UNDECIDED)),
        "host": stored(folder / "host", HOST),
        "open": stored(folder / "open", None, state="interrupted"),
    }


def _fill(run: Run) -> None:
    """All that a run can hold."""
    moment = look(frozenset({0}))
    seen = between(moment, moment, frozenset({0}), 0.5)
    about = {"wall_s": 9.0, "inside_s": 5.0, "group_s": 8.0, "before": seen, "after": seen}
    _edit(run, "boots/*/host.json", {**about, "console_tail": "Kernel panic"})
    for file in run.path.glob("boots/*/samples.jsonl"):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        for row in rows:
            row["extra"] = {"load": "100:1:100 201:2:98", "load_tasks": 4.0, "stdout": "x"}
            row["extra"] |= {"p99_ms": 1.5, "counted-user": 20.0}
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for file in run.path.glob("boots/*/console.log"):
        file.write_bytes(b"Linux version 7.3\n\x1b[31mKernel panic\n\xff")
    _edit(run, "images/*.json", BUILT)
    _profiles(run, "perf")
    with write_run(run.path) as writer:
        writer.save_file("bench.json", json.dumps(bench_json(bench())).encode(), "memcpy")
        (run.path / "report.html").write_bytes(b"<p>A page.</p>")
        judged = writer.run.verdict()
        assert judged is not None
        writer.save_later_verdict(judged)


def _profiles(run: Run, method: str) -> None:
    with write_run(run.path) as writer:
        for name, part in (("stock", 1.0), ("mine", 0.5)):
            result = replace(profile(name, part), method=method)
            if method == "gprof":
                result = replace(result, stacks=())
            writer.save_file(f"{name}.json", to_json(result).encode(), "profile")


def _factors(folder: Path) -> Run:
    """Of kernels and of cases, with a reference level each."""
    cells = [f"{smp}+{lock}" for smp, lock in product(("off", "on"), ("old", "new"))]
    cases = tuple(
        case(2, "compile", case=f"whole-{jobs}", of="whole", levels={"jobs": jobs})
        for jobs in ("1", "4")
    )
    speeds = dict(zip(cells[1:], (1.2, 0.9, 1.1), strict=True))
    small = {"copy": None, "blocks": 6, "failed": ()}
    shape = replace(SMALL, cases=cases, baseline=cells[0], variants=speeds, **small)
    run = make(folder, shape)
    levels = {
        name: {"levels": dict(zip(("smp", "lock"), name.split("+"), strict=True))} for name in cells
    }
    _edit(run, "manifest.json", {"variants": levels})
    with write_run(run.path) as writer:
        writer.save_verdict(worded(verdict_of(run, run.manifest(), "max_boots")))
    return run


def _edit(run: Run, files: str, values: dict[str, Any]) -> None:
    """More keys in all of these files."""
    for file in run.path.glob(files):
        file.write_text(json.dumps(json.loads(file.read_text()) | values))
