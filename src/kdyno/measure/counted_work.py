# SPDX-License-Identifier: MIT
"""How many operations are counted: few, the same in every boot of every variant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kdyno.measure.bench import Bench, info
from kdyno.measure.fixed_work import calibrated, fixed_jobs, key_of
from kdyno.measure.undecided import COUNT_S, PARTS
from kdyno.store.manifest import CaseInfo, Manifest


def with_fixed_work(
    bench: Bench, manifest: Manifest, told: Callable[[str], None]
) -> tuple[Bench, Manifest]:
    """Both with the work of each case, where instructions are counted.

    By one boot of the baseline, or as an earlier part of the run had it.
    """
    if not bench.counts:
        return bench, manifest
    known = {
        f"{case.suite}/{case.case}": case.operations for case in manifest.cases if case.operations
    }
    bench = with_counted_work(bench, known, told)
    cases: tuple[CaseInfo, ...] = tuple(
        info(case, job) for case, job in zip(bench.cases, bench.jobs, strict=True)
    )
    return bench, manifest.model_copy(update={"cases": cases})


def with_counted_work(bench: Bench, known: Mapping[str, int], told: Callable[[str], None]) -> Bench:
    """The same with a number of operations for each case: those that are known, suite/case →
    operations, where that are all of them, else by a boot of the baseline."""
    if not {key_of(job) for job in bench.runnable} <= known.keys():
        own = {key_of(job): job.operations for job in bench.jobs if job.operations}
        # For twice as long: parts of half a repetition are refused as too short to be timed.
        measured = calibrated(bench, 2 * COUNT_S, told)
        known = {key: own.get(key) or _even(count // 2) for key, count in measured.items()}
    fixed = {key_of(job): job for job in fixed_jobs(bench, known, COUNT_S)}
    jobs = tuple(fixed.get(key_of(job), job) for job in bench.jobs)
    return replace(bench, jobs=jobs)


def _even(operations: int) -> int:
    """As many in each part; of those that are long, as few as the time is for."""
    return operations // PARTS * PARTS or max(1, operations)
