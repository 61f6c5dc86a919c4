# SPDX-License-Identifier: MIT
"""All that a report of one run can show: its verdict, and the boots behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import ModuleType
from typing import Any

from kdyno.errors import ToolError
from kdyno.report.groups import displayed
from kdyno.store.manifest import CaseInfo, Manifest
from kdyno.store.run import IMAGES, Damaged, Run
from kdyno.store.samples import Key, Samples, every_case
from kdyno.store.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot of the run. ``position`` counts the readable boots in time order, from 0."""

    position: int
    index: int
    block: int
    variant: str
    started_at: str
    """UTC, ISO 8601."""
    ok: bool
    disturbed: tuple[str, ...]
    """Kinds of disturbance: ``steal``, ``neighbour`` … Such a boot counts all the same."""


@dataclass(frozen=True, slots=True)
class Point:
    """The score of one case in one boot."""

    boot: Boot
    score: float
    """In the case's unit, above 0."""
    operations: float
    """Over all repetitions."""
    load: str = ""
    """What a load meter saw: ``ms:runnable tasks:CPU %`` and so on; empty where none looked."""
    tasks: float | None = None
    """Tasks that it was to run at once (-j); None: not recorded."""


@dataclass(frozen=True)
class Evidence:
    verdict: Verdict
    manifest: Manifest | None = None
    """None: only a verdict is known, without the run that it came from."""
    run: Run | None = None
    """For sections that read files of their own (profiles)."""
    boots: tuple[Boot, ...] = ()
    points: Mapping[Key, tuple[Point, ...]] = field(default_factory=dict)
    """(suite, case, variant) → its scores in time order; boots that failed have none."""
    samples: Samples = field(default_factory=Samples)
    """As the statistics see them, with the rounds of guests that took turns."""
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Variant → the command of its first boot."""
    builds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Variant → what images/VARIANT.json says."""
    experiment_text: str = ""
    sections: Sequence[ModuleType] = ()
    """What the caller adds to the page's own sections."""

    @property
    def name(self) -> str:
        return self.run.name if self.run else self.verdict.experiment

    @cached_property
    def variants(self) -> tuple[str, ...]:
        """The baseline first, its copy last; between them in the order of the verdict."""
        names = [self.verdict.baseline, *self.verdict.boots, *(boot.variant for boot in self.boots)]
        copy = self.verdict.copy_of_baseline
        return tuple(sorted(dict.fromkeys(names), key=lambda name: name == copy))

    @cached_property
    def cases(self) -> tuple[CaseInfo, ...]:
        return every_case(self.verdict, self.manifest)

    @cached_property
    def cells(self) -> tuple[tuple[CaseInfo, str, tuple[Point, ...]], ...]:
        """(case, variant, its scores) by case and then by variant; only what has scores.

        Found from the scores: a verdict may name any number of cases and of variants."""
        places = {name: at for at, name in enumerate(self.variants)}
        measured: dict[tuple[str, str], dict[str, tuple[Point, ...]]] = {}
        for key in sorted(self.points, key=lambda key: places[key[2]]):
            if self.points[key]:
                measured.setdefault(key[:2], {})[key[2]] = self.points[key]
        return tuple(
            (case, variant, points)
            for case in self.cases
            for variant, points in measured.get(case.key, {}).items()
        )

    def cut(self) -> Evidence:
        """Of far too many effects what people are shown: the first, and the cases of these.

        The verdict's remarks say so. Itself where there are not that many."""
        verdict = displayed(self.verdict)
        if verdict is self.verdict:
            return self
        rows = {effect.key for effect in verdict.effects}
        named = {(suite, case) for suite, case, _ in rows}
        named |= {(value.suite, value.case) for value in verdict.values}
        rows |= {(suite, case, verdict.baseline) for suite, case in named}
        manifest = self.manifest
        if manifest is not None:
            kept = tuple(case for case in manifest.cases if case.key in named)
            manifest = manifest.model_copy(update={"cases": kept})
        points = {key: values for key, values in self.points.items() if key in rows}
        return replace(self, verdict=verdict, manifest=manifest, points=points)


def gather(run: Run, verdict: Verdict) -> Evidence:
    """Everything that the run has on disk. What is damaged is left out, or listed as such."""
    manifest = run.manifest()
    boots: list[Boot] = []
    points: dict[Key, list[Point]] = {}
    commands: dict[str, tuple[str, ...]] = {}
    samples = Samples()
    for record in run.boots():
        samples.add(record)
        if isinstance(record, Damaged):
            continue
        boot = Boot(
            position=len(boots),
            index=record.index,
            block=record.block,
            variant=record.variant,
            started_at=record.job.started_at,
            ok=record.ok,
            disturbed=tuple(dict.fromkeys(flag.kind for flag in record.host.flags)),
        )
        boots.append(boot)
        commands.setdefault(boot.variant, record.job.command)
        for sample in record.samples if record.ok else ():
            if sample.score is None:
                continue
            load, tasks = sample.extra.get("load"), sample.extra.get("load_tasks")
            point = Point(
                boot,
                sample.score,
                sum(count for count, _ns in sample.reps),
                load if isinstance(load, str) else "",
                tasks if isinstance(tasks, float) else None,
            )
            points.setdefault((sample.suite, sample.case, boot.variant), []).append(point)
    experiment_text = ""
    with suppress(ToolError):
        experiment_text = run.experiment_text()
    builds: dict[str, Mapping[str, Any]] = {}
    if (run.path / IMAGES).is_dir():  # a run may ship without them
        for variant in manifest.images:
            try:
                builds[variant] = run.image(variant)
            except ToolError as error:
                builds[variant] = {"unreadable": str(error)}
    return Evidence(
        verdict=verdict,
        manifest=manifest,
        run=run,
        boots=tuple(boots),
        points={key: tuple(of_key) for key, of_key in points.items()},
        samples=samples,
        commands=commands,
        builds=builds,
        experiment_text=experiment_text,
    )
