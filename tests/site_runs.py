# SPDX-License-Identifier: MIT
"""Many small runs over time, for the pages that show all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from synthetic_run import DEMO, Shape, make

from kdyno.judge.judging import verdict_of
from kdyno.judge.pairs import Question
from kdyno.machines.uml import CAVEAT
from kdyno.report.evidence import Evidence, gather
from kdyno.report.sentence import worded
from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Criteria, MachineInfo, Manifest, VariantInfo
from kdyno.store.run import Run, create_run

CASES = (
    CaseInfo(suite="unixbench", case="pipe", unit="loops/s", better="higher"),
    CaseInfo(suite="fio", case="read", unit="s", better="lower"),
)
BEGIN = datetime(2026, 1, 1, 8, tzinfo=UTC)
MACHINE = {"cpu_model": "A CPU", "host_arch": "x86_64", "cpus": 2.0, "memory_bytes": 2.0**34}


def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are written without waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


def small(
    runs: Path,
    day: int = 0,
    level: float = 1.0,
    effect: float = 1.02,
    *,
    experiment: str = "nightly",
    version: str = "7.3.0",
    cpu: str = "A CPU",
    cases: Sequence[CaseInfo] = CASES,
    blocks: int = 7,
    question: str = "Is it faster?",
    work: str = "",
) -> Run:
    """A finished run of a baseline at ``level`` and a variant ``mine``, ``day`` days after the
    first."""
    names = ("stock", "mine")
    created = BEGIN + timedelta(days=day)
    manifest = Manifest(
        tool="0.1.0",
        created=created.isoformat(timespec="microseconds"),
        experiment=experiment,
        baseline="stock",
        seed=1,
        host={**MACHINE, "cpu_model": cpu},
        images={name: f"{name}-{version}" for name in names},
        cases=tuple(case.model_copy(update={"work": work}) for case in cases),
        machine=MachineInfo(caveats=(CAVEAT,)),
        variants={name: VariantInfo() for name in names},
        asked=Criteria(question=question),
        blocks=(names,) * blocks,
        state="finished",
        stopped="max_boots",
    )
    random = np.random.default_rng(day)
    with create_run(runs, f'name = "{day}"\n', manifest) as writer:
        for name in names:
            writer.save_image(name, {"version": version})
        for index in range(2 * blocks):
            name = names[index % 2]
            ratio = level * (effect if name == "mine" else 1.0)
            samples = tuple(
                Sample(suite=case.suite, case=case.case, score=float(score))
                for case, score in zip(
                    cases,
                    1000.0 * ratio * np.exp(random.normal(0, 0.001, len(cases))),
                    strict=True,
                )
            )
            about = BootJob(index=index, block=index // 2, variant=name)
            boot = BootRecord(job=about, host=BootHost(status="ok"), samples=samples)
            writer.add_boot(boot, b"")
        writer.save_verdict(worded(verdict_of(writer.run, Question.of(manifest), "max_boots")))
        return writer.run


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
    with pytest.MonkeyPatch.context() as patch:
        return evidence_of(make(folder, shape, patch))
