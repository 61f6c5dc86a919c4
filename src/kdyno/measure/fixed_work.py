# SPDX-License-Identifier: MIT
"""The same operations in every boot of every variant, so that figures can be subtracted.

The baseline is booted once by time; how often it did each case's operation is the work of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kdyno.errors import ToolError
from kdyno.measure.bench import Bench, boot, plan_of
from kdyno.measure.sampling import samples_of
from kdyno.suites.job import CaseJob

_SLOWEST = 20.0
"""A variant, or a kernel that counts its own calls, may take so many times as long."""


def key_of(job: CaseJob) -> str:
    return f"{job.suite}/{job.case}"


def calibrated(
    bench: Bench, seconds: float, told: Callable[[str], None] = lambda _text: None
) -> dict[str, int]:
    """suite/case → operations that the baseline does in ``seconds``.

    Cases that already have a number keep it. Cases that cannot run are left out, said aloud;
    ToolError when none is left or the boot fails.
    """
    jobs = tuple(
        job if job.operations is not None else replace(job, seconds=seconds)
        for job in bench.runnable
    )
    name = bench.experiment.baseline
    outcome = boot(bench, plan_of(bench, name, jobs))
    if outcome.host.status != "ok":
        raise ToolError(
            f"{name}: the boot that says how often each case does its operation failed: "
            f"{outcome.host.reason}: {outcome.host.text}"
        )
    found: dict[str, int] = {}
    fixed = {key_of(job): job.operations for job in jobs if job.operations is not None}
    for sample in samples_of(bench.cases, outcome.transcript, bench.equipment.lacking):
        key = f"{sample.suite}/{sample.case}"
        done = sum(operations for operations, _ns in sample.reps)
        spent_s = sum(ns for _operations, ns in sample.reps) / 1e9
        if sample.score is None or not done or not spent_s:
            told(f"{key} is left out: {sample.text or 'it gave no result'}")
            continue
        found[key] = fixed.get(key) or max(1, round(done / spent_s * seconds))
    if not found:
        raise ToolError("no case is left: see what each of them said above")
    return found


def fixed_jobs(bench: Bench, operations: Mapping[str, int], seconds: float) -> tuple[CaseJob, ...]:
    """The cases that are left, each with its number of operations, in the order of the run."""
    return tuple(
        replace(
            job,
            seconds=None,
            operations=operations[key_of(job)],
            timeout_s=max(job.timeout_s, 30.0 + _SLOWEST * seconds),
        )
        for job in bench.runnable
        if key_of(job) in operations
    )
