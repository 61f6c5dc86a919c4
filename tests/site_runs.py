# SPDX-License-Identifier: MIT
"""Many small runs over time, for the pages that show all of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
from synthetic_run import DEMO, Shape, make, record

from kdyno.judge.judging import verdict_of
from kdyno.machines.uml import CAVEAT
from kdyno.report.evidence import Evidence, gather
from kdyno.report.sentence import worded
from kdyno.store.boot import Sample
from kdyno.store.manifest import CaseInfo, Criteria, MachineInfo, VariantInfo
from kdyno.store.run import Run, write_run

CASES = (
    CaseInfo(suite="unixbench", case="pipe", unit="loops/s", better="higher"),
    CaseInfo(suite="fio", case="read", unit="s", better="lower"),
)
BEGIN = datetime(2026, 1, 1, 8, tzinfo=UTC)
MACHINE = {"cpu_model": "A CPU", "host_arch": "x86_64", "cpus": 2.0, "memory_bytes": 2.0**34}


def small(
    runs: Path,
    day: int = 0,
    level: float = 1.0,
    effect: float = 1.02,
    *,
    version: str = "7.3.0",
    cpu: str = "A CPU",
    cases: Sequence[CaseInfo] = CASES,
    blocks: int = 7,
    question: str = "Is it faster?",
    work: str = "",
    **more: object,
) -> Run:
    """A finished run of a baseline at ``level`` and a variant ``mine``, ``day`` days after the
    first; with more of a manifest."""
    names = ("stock", "mine")
    random = np.random.default_rng(day)
    boots = []
    for index in range(2 * blocks):
        ratio = level * (effect if index % 2 else 1.0)
        scores = 1000.0 * ratio * np.exp(random.normal(0, 0.001, len(cases)))
        samples = [
            Sample(suite=case.suite, case=case.case, score=float(score))
            for case, score in zip(cases, scores, strict=True)
        ]
        boots.append((index // 2, names[index % 2], samples))
    values = {
        "text": f'name = "{day}"\n',
        "tool": "0.1.0",
        "created": (BEGIN + timedelta(days=day)).isoformat(timespec="microseconds"),
        "experiment": "nightly",
        "host": {**MACHINE, "cpu_model": cpu},
        "images": {name: f"{name}-{version}" for name in names},
        "cases": tuple(case.model_copy(update={"work": work}) for case in cases),
        "machine": MachineInfo(caveats=(CAVEAT,)),
        "variants": {name: VariantInfo() for name in names},
        "asked": Criteria(question=question),
        "blocks": (names,) * blocks,
        "stopped": "max_boots",
    }
    built = {name: {"version": version} for name in names}
    run = record(runs, boots, built=built, **{**values, **more})
    with write_run(run.path) as writer:
        writer.save_verdict(worded(verdict_of(run, run.manifest(), "max_boots")))
    return run


def weeks(runs: Path, levels: Sequence[float], **more: object) -> list[Run]:
    """A run a day at these levels; the kernel's version changes with the level."""
    results = []
    noise = np.random.default_rng(5).normal(0, 0.004, len(levels))
    for day, level in enumerate(levels):
        version = f"7.{levels[: day + 1].index(level)}.0"
        value = level * float(np.exp(noise[day]))
        results.append(small(runs, day, value, version=version, **more))  # type: ignore[arg-type]
    return results


def evidence_of(run: Run) -> Evidence:
    """Of a run with a verdict."""
    verdict = run.verdict()
    assert verdict is not None
    return gather(run, verdict)


def measured(folder: Path, shape: Shape = DEMO) -> Evidence:
    """Of a synthetic run."""
    return evidence_of(make(folder, shape))
