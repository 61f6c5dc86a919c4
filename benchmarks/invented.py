# SPDX-License-Identifier: MIT
"""Whole runs whose figures were never measured, for what reads, shows and stores many boots."""

from __future__ import annotations

import random
from pathlib import Path

from kdyno.store.boot import BootHost, BootJob, BootRecord, Sample
from kdyno.store.manifest import CaseInfo, Manifest, VariantInfo
from kdyno.store.run import Run, create_run
from kdyno.store.verdict import Effect, Verdict

CREATED = "2025-01-01T00:00:00.000000+00:00"


def invented(
    runs: Path,
    experiment: str,
    names: tuple[str, ...],
    boots: int,
    cases: int,
    facts: int = 0,
    judged: bool = True,
) -> Run:
    """A finished run of so many boots in all of these variants, the baseline first, with eight
    repetitions of each case. ``facts``: figures of the host before and after each boot; with a
    verdict that finds every variant faster, if ``judged``."""
    dice = random.Random(7)
    blocks = tuple(tuple(dice.sample(names, len(names))) for _ in range(boots // len(names)))
    manifest = Manifest(
        tool="0",
        created=CREATED,
        experiment=experiment,
        baseline=names[0],
        seed=7,
        host={"cpu_model": "a CPU", "cpus": 2.0, "memory_bytes": 2.0**34},
        images={name: name for name in names},
        variants={name: VariantInfo() for name in names},
        cases=tuple(
            CaseInfo(suite="unixbench", case=f"case-{number}", unit="loops/s", better="higher")
            for number in range(cases)
        ),
        blocks=blocks,
        state="finished",
        stopped="max_boots",
    )
    host = {f"fact {number}": dice.random() for number in range(facts)}
    with create_run(runs, f'name = "{experiment}"\n', manifest) as writer:
        for name in names:
            writer.save_image(name, {"version": "7.3.0"})
        for index in range(len(blocks) * len(names)):
            block, place = divmod(index, len(names))
            samples = tuple(
                Sample(
                    suite=case.suite,
                    case=case.case,
                    score=1000.0 * dice.lognormvariate(0, 0.01),
                    reps=tuple((1000.0, 1e8 * dice.gauss(1.0, 0.01)) for _ in range(8)),
                    user_ns=10**8,
                    sys_ns=10**8,
                )
                for case in manifest.cases
            )
            job = BootJob(index=index, block=block, variant=blocks[block][place])
            record = BootHost(status="ok", wall_s=4.0, before=host, after=host)
            boot = BootRecord(job=job, host=record, samples=samples)
            writer.add_boot(boot, b"a console\n" * 50)
        effects = tuple(
            Effect(
                suite=case.suite, case=case.case, variant=name, unit=case.unit, better="higher",
                baseline_value=1000.0, value=1030.0, ratio=1.03, ci=(1.02, 1.04),
                blocks=len(blocks), verdict="faster",
            )
            for name in names[1:]
            for case in manifest.cases
        )  # fmt: skip
        if judged:
            verdict = Verdict(
                experiment=experiment,
                answer=f"{names[1]} is faster.",
                baseline=names[0],
                boots=dict.fromkeys(names, len(blocks)),
                effects=effects,
            )
            writer.save_verdict(verdict)
        return writer.run
