# SPDX-License-Identifier: MIT
"""What a manifest says of its experiment, so that a run can be judged without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kdyno import __version__
from kdyno.experiment.model import Experiment
from kdyno.experiment.overrides import Overrides
from kdyno.machines import facts
from kdyno.machines.kinds import KINDS
from kdyno.measure.plan import copy_name, new_seed
from kdyno.store.manifest import Asked, CaseInfo, MachineInfo, Manifest, VariantInfo


def manifest_of(
    experiment: Experiment,
    overrides: Overrides,
    *,
    sandboxed: bool,
    images: Mapping[str, str],
    failed: Mapping[str, str],
    cases: Iterable[CaseInfo],
) -> Manifest:
    """Of a run that begins now. images: variant → digest; failed: variant → why it has none."""
    seed = experiment.measure.seed
    # Of `try` there is no file; what it names lies in the folder that it was called in.
    origin = experiment.path.resolve() if experiment.path else Path.cwd() / "experiment.toml"
    return Manifest(
        tool=__version__,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        experiment=experiment.name,
        baseline=experiment.baseline,
        seed=new_seed() if seed is None else seed,
        host={**facts.machine(), "sandbox": sandboxed},
        images=dict(images),
        failed=dict(failed),
        origin=str(origin),
        overrides=overrides.to_json(),
        cases=tuple(cases),
        **asked_of(experiment),
    )


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
    timed = experiment.measure.metric == "time"
    return MachineInfo(
        kind=machine.kind,
        builds=KINDS[machine.kind].builds,
        memory_bytes=machine.memory_bytes,
        cpus=machine.cpus,
        scattered=timed and not KINDS[machine.kind].can.scatter,
    )


def question_of(experiment: Experiment) -> Asked:
    measure = experiment.measure
    return Asked(
        question=experiment.question,
        confidence=measure.confidence,
        equivalent=measure.equivalent,
        precision=measure.precision,
        metric=measure.metric,  # type: ignore[arg-type]
        # In every link of a kernel, where it has several.
        exact_boots=max(measure.exact_boots, measure.layouts),
        copy_of_baseline=copy_name(experiment.baseline) if measure.calibrate else None,
    )
