# SPDX-License-Identifier: MIT
"""kdyno calibrate."""

from __future__ import annotations

from kdyno.cli.run import measured
from kdyno.verbs.options import (
    Cases,
    ExperimentFile,
    Interleave,
    Jobs,
    MaxBoots,
    MaxMinutes,
    Metric,
    NoSandbox,
    NoWait,
    Precision,
    Quick,
    Runs,
    Seconds,
    Seed,
    percent,
    runs_folder,
)
from kdyno.verbs.output import Json

NAME = "calibrate"
EXAMPLES = (
    "Examples: kdyno calibrate experiments/simd-memcpy.toml --quick | "
    "kdyno calibrate mine.toml --case pipe --max-minutes 5"
)


def verb(
    experiment: ExperimentFile = None,
    quick: Quick = False,
    seconds: Seconds = None,
    max_boots: MaxBoots = None,
    max_minutes: MaxMinutes = None,
    precision: Precision = None,
    seed: Seed = None,
    interleave: Interleave = None,
    metric: Metric = None,
    case: Cases = None,
    jobs: Jobs = None,
    runs: Runs = None,
    no_sandbox: NoSandbox = False,
    no_wait: NoWait = False,
    json: Json = None,
) -> int:
    """Measure the baseline against an identical copy (A/A): this machine's noise floor."""
    from kdyno.experiment.overrides import Overrides

    overrides = Overrides(
        quick=quick,
        seconds=seconds,
        max_boots=max_boots,
        max_minutes=max_minutes,
        precision=percent(precision),
        seed=seed,
        calibrate=True,
        only_baseline=True,
        interleave=interleave,
        metric=metric,
        cases=tuple(case or ()),
    )
    return measured(
        experiment,
        None,
        overrides,
        [],
        json,
        runs=runs_folder(runs),
        sandboxed=not no_sandbox,
        wait=not no_wait,
        jobs=jobs,
        refresh=False,
    )
