# SPDX-License-Identifier: MIT
"""Runs of any size made through the store, with what happens to real ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from kdyno.judge.judging import verdict_of
from kdyno.machines.uml import CAVEAT
from kdyno.report.sentence import worded
from kdyno.store.boot import BootFlag, BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Criteria, MachineInfo, Manifest, VariantInfo
from kdyno.store.run import Run, create_run
from kdyno.store.verdict import Verdict

HOSTILE = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "‮esrever‬ مرحبا بالعالم",
    "😀" * 40,
    "=cmd|' /C calc'!A0",
    "n" * 200,
    "漢字, \"quoted\", 'and' <!-- comment -->",
    "${style}\x1b[31m\x00\x07{{constructor}}",
)


@dataclass(frozen=True)
class Shape:
    cases: tuple[CaseInfo, ...]
    variants: dict[str, float]
    """Variant → ratio to the baseline, in every case that is not a control."""
    blocks: int = 24
    baseline: str = "stock"
    copy: str | None = None
    disturbed: float = 0.05
    """Share of the boots."""
    failed: tuple[int, ...] = ()
    """Indices of boots that panic."""
    question: str = "Is it faster?"
    experiment: str = "synthetic"
    rounds: int = 0
    """Of a group, in every case; 0: whole boots."""


def case(number: int, suite: str = "unixbench", **more: object) -> CaseInfo:
    rate = number % 3 != 2
    values = {
        "suite": suite,
        "case": f"case-{number}",
        "unit": "loops/s" if rate else "s",
        "better": "higher" if rate else "lower",
    }
    return CaseInfo.model_validate(values | more)


DEMO = Shape(
    cases=(
        *(case(number) for number in range(5)),
        case(0, case="whetstone-double", unit="MWIPS", control=True),
        *(case(number, "fio") for number in range(3)),
    ),
    variants={"mine": 1.03, "other": 0.985, "nothing": 1.0},
    copy="stock-again",
    disturbed=0.08,
    failed=(17,),
    question="Does my patch make the kernel faster?",
    experiment="demo",
)
HOSTILE_SHAPE = Shape(
    cases=tuple(case(0, HOSTILE[number % 3], case=text) for number, text in enumerate(HOSTILE)),
    variants={HOSTILE[0]: 1.02, HOSTILE[3]: 0.97, HOSTILE[7]: 1.0},
    baseline=HOSTILE[1],
    blocks=7,
    question="".join(HOSTILE),
    experiment=HOSTILE[6],
)


def record(
    runs: Path,
    boots: Iterable[tuple[int, str, Sequence[Sample] | str]] = (),
    verdict: Verdict | None = None,
    *,
    text: str = "",
    built: Mapping[str, dict[str, Any]] | None = None,
    **manifest: Any,
) -> Run:
    """A run of these boots: (block, variant, its samples or the reason why it failed)."""
    values: dict[str, Any] = {"tool": "0", "created": "2026-01-01T00:00:00", "experiment": "tiny"}
    values |= {"baseline": "stock", "seed": 1, "state": "finished"} | manifest
    with create_run(runs, text, Manifest.model_validate(values)) as writer:
        for name, facts in (built or {}).items():
            writer.save_image(name, facts)
        for index, (block, variant, samples) in enumerate(boots):
            job = BootJob(index=index, block=block, variant=variant)
            if isinstance(samples, str):
                boot = BootRecord(job=job, host=BootHost(status="failed", reason=samples))
            else:
                boot = BootRecord(job=job, host=BootHost(status="ok"), samples=tuple(samples))
            writer.add_boots([(boot, b"")])
        if verdict is not None:
            writer.save_verdict(verdict)
        return writer.run


def make(runs: Path, shape: Shape) -> Run:
    """A finished run with its verdict."""
    names = [shape.baseline, *([shape.copy] if shape.copy else []), *shape.variants]
    random = np.random.default_rng(7)
    orders = tuple(tuple(random.permutation(names).tolist()) for _ in range(shape.blocks))
    manifest = Manifest(
        tool="0.1.0",
        created="2026-11-21T09:00:00.000000+00:00",
        experiment=shape.experiment,
        baseline=shape.baseline,
        seed=7,
        host={"cpu_model": "A <b>CPU</b>", "cpus": 2.0, "memory_bytes": 2.0**34, "kvm": "no"},
        images=dict.fromkeys(names, "0" * 32),
        cases=shape.cases,
        machine=MachineInfo(caveats=(CAVEAT,)),
        variants={name: VariantInfo() for name in names if name != shape.copy},
        asked=Criteria(question=shape.question, copy_of_baseline=shape.copy),
        blocks=orders,
        overrides={"quick": True, "variants": ["mine"], "precision": 0.01},
        interleave="turns" if shape.rounds else "boots",
        state="finished",
        stopped="max_boots",
    )
    with create_run(runs, f'name = "{shape.experiment}"\nbaseline = "stock"\n', manifest) as writer:
        for name in names:
            facts = {
                "digest": "0" * 32,
                "build_again": f"kdyno build demo.toml --variant {name}",
                "inputs": {"arch": "um", "compiler": ["gcc", "gcc 12"], "config": ["A=y"]},
                "version": "7.3.4",
                "changed_files": ["fs/<b>.c"],
                "commands": ["make </pre>"],
            }
            writer.save_image(name, facts)
        jobs = [(block, variant) for block, order in enumerate(orders) for variant in order]
        for index, (block, variant) in enumerate(jobs):
            writer.add_boots([(_boot(shape, index, block, variant, random), b"")])
        writer.save_verdict(worded(verdict_of(writer.run, manifest, "max_boots")))
        return writer.run


def _boot(
    shape: Shape, index: int, block: int, variant: str, random: np.random.Generator
) -> BootRecord:
    started = datetime(2026, 11, 21, 9, tzinfo=UTC) + timedelta(seconds=7 * index)
    disturbed = random.random() < shape.disturbed
    flags = (BootFlag(kind="neighbour", text="other CPUs were busy"),) if disturbed else ()
    good = index not in shape.failed
    host = BootHost(status="ok" if good else "failed", reason="" if good else "panic", flags=flags)
    samples: tuple[Sample, ...] = ()
    if good and shape.rounds:
        samples = _turns(shape, block, variant, random)
    elif good:
        samples = _samples(shape, variant, disturbed, random)
    job = BootJob(
        index=index,
        block=block,
        variant=variant,
        command=("bwrap", "--", "linux", "mem=1G"),
        started_at=started.isoformat(timespec="milliseconds"),
    )
    return BootRecord(job=job, host=host, samples=samples)


def _samples(
    shape: Shape, variant: str, disturbed: bool, random: np.random.Generator
) -> tuple[Sample, ...]:
    noise = random.normal(0.0, 0.004, len(shape.cases)) - (0.03 if disturbed else 0.0)
    results = []
    for number, value in enumerate(shape.cases):
        effect = 1.0 if value.control else shape.variants.get(variant, 1.0)
        results.append(
            Sample(
                suite=value.suite,
                case=value.case,
                score=float((1000.0 + 100 * number) * effect * np.exp(noise[number])),
                reps=((1000.0, 1e8), (1000.0, 1.1e8)),
                user_ns=120_000_000,
                sys_ns=80_000_000,
            )
        )
    return tuple(results)


def _turns(
    shape: Shape, block: int, variant: str, random: np.random.Generator
) -> tuple[Sample, ...]:
    """The machine runs at half its speed for a while, in the same rounds for all of a block."""
    results = []
    for number, value in enumerate(shape.cases):
        machine = np.random.default_rng((block, number))
        start = int(machine.integers(shape.rounds // 2))
        slow = np.zeros(shape.rounds)
        slow[start : start + shape.rounds // 3] = -0.7 if (block, number) == (2, 1) else -0.2
        effect = 1.0 if value.control else shape.variants.get(variant, 1.0)
        sign = 1.0 if value.better == "higher" else -1.0
        boot = random.normal(0.0, 0.002)
        noise = boot + random.normal(0.0, 0.005, shape.rounds)
        logs = math.log(1e-3) + sign * math.log(effect) + slow + noise
        ns = 8000.0 / np.exp(logs)
        rate = float(np.median(1e9 * np.exp(logs)))
        results.append(
            Sample(
                suite=value.suite,
                case=value.case,
                score=rate if value.better == "higher" else 1.0 / rate,
                reps=tuple((8000.0, float(each)) for each in ns),
                interleave="turns",
            )
        )
    return tuple(results)
