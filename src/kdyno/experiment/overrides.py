# SPDX-License-Identifier: MIT
"""What the command line changes against the experiment file; kept with the run for --resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from pydantic import TypeAdapter

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
    variants: tuple[str, ...] = ()
    """Only these (the baseline always stays)."""
    cases: tuple[str, ...] = ()
    """Only these; ``suite/case`` or ``case``, with shell patterns."""

    def to_json(self) -> dict[str, Any]:
        """The values that differ from the defaults."""
        return {
            name: value for name, value in vars(self).items() if value != getattr(Overrides, name)
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Overrides:
        """The reverse of to_json; unknown keys are ignored."""
        return TypeAdapter(Overrides).validate_python(data)


def options(overrides: Mapping[str, Any]) -> list[str]:
    """The words of a command line that say what ``to_json`` gave; of other keys nothing."""
    names = {"variants": "variant", "cases": "case"}
    words = []
    for key, value in overrides.items():
        if key not in vars(Overrides()) or key == "confirms":
            continue
        option = f"--{names.get(key, key).replace('_', '-')}"
        for each in value if isinstance(value, list | tuple) else [value]:
            text = f"{each:.12g}" if isinstance(each, float) else str(each)
            words += [option] if each is True else [option, text]
    return words


def apply(overrides: Overrides, experiment: Experiment) -> Experiment:
    """The experiment as it is to be run. UsageError for names that it does not have."""
    measure = _measure(overrides, experiment.measure)
    quick, seconds = overrides.quick, overrides.seconds
    suites = tuple(
        replace(
            use,
            seconds=seconds or (min(use.seconds, QUICK_SECONDS) if quick else use.seconds),
            quick=use.quick or quick,
        )
        for use in experiment.suites
    )
    if overrides.cases:
        suites = _chosen_cases(overrides.cases, suites)
    names = [variant.name for variant in experiment.variants]
    for name in overrides.variants:
        if name not in names:
            raise UsageError(_unknown("--variant", name, names))
    kept = {*overrides.variants, experiment.baseline} if overrides.variants else {*names}
    variants = tuple(variant for variant in experiment.variants if variant.name in kept)
    if measure.layouts and len(variants) == 1:
        # Links of one kernel are compared with other links of it.
        measure = replace(measure, calibrate=True)
    return replace(experiment, measure=measure, suites=suites, variants=variants)


def _measure(overrides: Overrides, measure: Measure) -> Measure:
    changed: dict[str, Any] = {}
    if overrides.quick:
        changed |= {
            "max_boots": min(measure.max_boots, QUICK_BOOTS),
            "min_boots": min(measure.min_boots, QUICK_BOOTS),
            "max_minutes": min(measure.max_minutes or QUICK_MINUTES, QUICK_MINUTES),
            "precision": max(measure.precision, QUICK_PRECISION),
        }
    for option, words in (("interleave", INTERLEAVES), ("metric", METRICS)):
        if (word := getattr(overrides, option)) not in (None, *words):
            raise UsageError(f"--{option} {word!r}: there are {', '.join(words)}")
    given = {name: value for name, value in vars(overrides).items() if name in vars(measure)}
    changed |= {key: new for key, new in given.items() if new is not None and new is not False}
    measure = replace(measure, **changed)
    return replace(measure, min_boots=min(measure.min_boots, measure.max_boots))


def _chosen_cases(patterns: tuple[str, ...], suites: tuple[SuiteUse, ...]) -> tuple[SuiteUse, ...]:
    """A cell of a cross goes by its case's name, which means all cells, and by its own."""
    matched: set[str] = set()

    def is_chosen(use: SuiteUse, case: str) -> bool:
        names = {case, use.name_in_run(case)}
        names |= {f"{use.name}/{name}" for name in names}
        fitting = {text for text in patterns if any(fnmatchcase(name, text) for name in names)}
        matched.update(fitting)
        return bool(fitting)

    chosen = [
        replace(use, cases=tuple(case for case in use.cases if is_chosen(use, case)))
        for use in suites
    ]
    for pattern in patterns:
        if pattern not in matched:
            names = [use.name_in_run(case) for use in suites for case in use.cases]
            raise UsageError(_unknown("--case", pattern, names))
    return tuple(use for use in chosen if use.cases)


def _unknown(flag: str, name: str, names: list[str]) -> str:
    hint = meant(name, names, " Did you mean {!r}?")
    return f"{flag} {name!r} is not in this experiment.{hint} It has: {', '.join(names)}"
