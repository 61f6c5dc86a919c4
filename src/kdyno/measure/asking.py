# SPDX-License-Identifier: MIT
"""What a manifest says of its experiment, so that a run can be judged without it."""

from __future__ import annotations

from typing import Any

from kdyno.experiment.model import Experiment
from kdyno.measure.plan import copy_name
from kdyno.store.manifest import Asked, MachineInfo, VariantInfo


def asked_of(experiment: Experiment) -> dict[str, Any]:
    """The manifest's keys that follow from the experiment alone."""
    return {
        "machine": machine_of(experiment),
        "variants": {
            variant.name: VariantInfo(
                arch=variant.arch, cpus=variant.cpus, levels=dict(variant.levels)
            )
            for variant in experiment.variants
        },
        "asked": question_of(experiment),
    }


def machine_of(experiment: Experiment) -> MachineInfo:
    """Without its caveats, which the machine itself says once it was probed."""
    machine = experiment.machine
    return MachineInfo(kind=machine.kind, memory_bytes=machine.memory_bytes, cpus=machine.cpus)


def question_of(experiment: Experiment) -> Asked:
    measure = experiment.measure
    return Asked(
        question=experiment.question,
        confidence=measure.confidence,
        equivalent=measure.equivalent,
        precision=measure.precision,
        metric=measure.metric,  # type: ignore[arg-type]
        copy_of_baseline=copy_name(experiment.baseline) if measure.calibrate else None,
    )
