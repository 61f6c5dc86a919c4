# SPDX-License-Identifier: MIT
"""kdyno calibrate."""

from __future__ import annotations

from kdyno.cli.run import measured
from kdyno.verbs.options import (
    Cases,
    ExperimentFile,
    Extent,
    Interleave,
    Metric,
    Push,
    Ref,
    Working,
    load,
)

NAME = "calibrate"
EXAMPLES = (
    "Examples: kdyno calibrate experiments/simd-memcpy.toml --quick | "
    "kdyno calibrate mine.toml --case pipe --max-minutes 5"
)


def verb(
    experiment: ExperimentFile = None,
    *,
    extent: Extent,
    interleave: Interleave = None,
    metric: Metric = None,
    case: Cases = None,
    ref: Ref = None,
    push: Push = False,
    working: Working,
) -> int:
    """Measure the baseline against its copy (A/A): the noise floor."""
    overrides = extent.overrides(
        calibrate=True,
        only_baseline=True,
        interleave=interleave,
        metric=metric,
        cases=tuple(case or ()),
    )
    options = working.options(overrides)
    return measured(*load(experiment, ref), options, working.json, push=push)
