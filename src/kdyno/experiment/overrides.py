# SPDX-License-Identifier: MIT
"""What the command line changes against the experiment file; kept with the run for --resume."""

from __future__ import annotations

import dataclasses
import fnmatch
from dataclasses import dataclass
from typing import Any

from kdyno.errors import UsageError
from kdyno.experiment.model import INTERLEAVES, METRICS, Experiment, Measure, SuiteUse
from kdyno.reading.mistakes import meant

QUICK_SECONDS = 0.2
QUICK_BOOTS = 12
QUICK_MINUTES = 2.0
QUICK_PRECISION = 0.02


@dataclass(frozen=True)
class Overrides:
    """None leaves what the file says."""

    quick: bool = False
    """A first impression: short cases, few boots, at most two minutes of measuring."""
    seconds: float | None = None
    max_boots: int | None = None
    max_minutes: float | None = None
    precision: float | None = None
    seed: int | None = None
    calibrate: bool = False
    interleave: str | None = None
    metric: str | None = None
    exact_boots: int | None = None
    layouts: int | None = None
    confirms: str = ""
    """The run of the same experiment that this one is to confirm."""
    only_baseline: bool = False
    """Leave the other variants out (A/A alone)."""
    variants: tuple[str, ...] = ()
    """Only these (the baseline always stays)."""
    cases: tuple[str, ...] = ()
    """Only these; ``suite/case`` or ``case``, with shell patterns."""

    def to_json(self) -> dict[str, Any]:
        """The values that differ from the defaults."""
        return {
            item.name: getattr(self, item.name)
            for item in dataclasses.fields(self)
            if getattr(self, item.name) != item.default
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Overrides:
        """The reverse of to_json; unknown keys are ignored."""
        known = {item.name for item in dataclasses.fields(cls)}
        values = {key: value for key, value in data.items() if key in known}
        for key in ("variants", "cases"):
            if key in values:
                values[key] = tuple(values[key])
        return cls(**values)


def apply(overrides: Overrides, experiment: Experiment) -> Experiment:
    """The experiment as it is to be run. UsageError for names that it does not have."""
    measure = _measure(overrides, experiment.measure)
    suites = tuple(_suite(overrides, use) for use in experiment.suites)
    if overrides.cases:
        suites = _chosen_cases(overrides.cases, suites)
    variants = experiment.variants
    if overrides.variants:
        names = [variant.name for variant in variants]
        for name in overrides.variants:
            if name not in names:
                raise UsageError(_unknown("--variant", name, names))
        wanted = {*overrides.variants, experiment.baseline}
        variants = tuple(variant for variant in variants if variant.name in wanted)
    if overrides.only_baseline:
        variants = tuple(it for it in variants if it.name == experiment.baseline)
    if measure.layouts and len(variants) == 1:
        # Links of one kernel are compared with other links of it.
        measure = dataclasses.replace(measure, calibrate=True)
    return dataclasses.replace(experiment, measure=measure, suites=suites, variants=variants)


def _measure(overrides: Overrides, measure: Measure) -> Measure:
    changed: dict[str, Any] = {}
    if overrides.quick:
        limit = measure.max_minutes
        changed = {
            "max_boots": min(measure.max_boots, QUICK_BOOTS),
            "min_boots": min(measure.min_boots, QUICK_BOOTS),
            "max_minutes": QUICK_MINUTES if limit is None else min(limit, QUICK_MINUTES),
            "precision": max(measure.precision, QUICK_PRECISION),
        }
    for name in (
        *("max_boots", "max_minutes", "precision", "seed", "interleave", "metric"),
        *("exact_boots", "layouts"),
    ):
        if getattr(overrides, name) is not None:
            changed[name] = getattr(overrides, name)
    for option, given, known in (
        ("--interleave", overrides.interleave, INTERLEAVES),
        ("--metric", overrides.metric, METRICS),
    ):
        if given not in (None, *known):
            raise UsageError(f"{option} {given!r}: there are {', '.join(known)}")
    if overrides.calibrate:
        changed["calibrate"] = True
    measure = dataclasses.replace(measure, **changed)
    if measure.min_boots > measure.max_boots:
        measure = dataclasses.replace(measure, min_boots=measure.max_boots)
    return measure


def _suite(overrides: Overrides, use: SuiteUse) -> SuiteUse:
    seconds = use.seconds
    if overrides.quick:
        seconds = min(seconds, QUICK_SECONDS)
    if overrides.seconds is not None:
        seconds = overrides.seconds
    return dataclasses.replace(use, seconds=seconds, quick=use.quick or overrides.quick)


def _chosen_cases(patterns: tuple[str, ...], suites: tuple[SuiteUse, ...]) -> tuple[SuiteUse, ...]:
    """A cell of a cross goes by its case's name, which means all cells, and by its own."""
    kept: dict[int, set[str]] = {}
    for pattern in patterns:
        found = False
        for index, use in enumerate(suites):
            for case in use.cases:
                names = {case, use.name_in_run(case)}
                names |= {f"{use.name}/{name}" for name in names}
                if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                    kept.setdefault(index, set()).add(case)
                    found = True
        if not found:
            known = [use.name_in_run(case) for use in suites for case in use.cases]
            raise UsageError(_unknown("--case", pattern, known))
    chosen = (
        dataclasses.replace(use, cases=tuple(it for it in use.cases if it in kept.get(index, ())))
        for index, use in enumerate(suites)
    )
    return tuple(use for use in chosen if use.cases)


def _unknown(flag: str, found: str, names: list[str]) -> str:
    hint = meant(found, names, " Did you mean {!r}?")
    return f"{flag} {found!r} is not in this experiment.{hint} It has: {', '.join(names)}"
