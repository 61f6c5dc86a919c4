# SPDX-License-Identifier: MIT
"""What an experiment measures: its suites and cases, looked up in the catalogue.

A case may be a cell of a cross: a factor's level gives its settings, and what stands in the place
of ``{jobs}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment, SuiteUse
from kdyno.suites.catalogue import Better, Case, Catalogue, Suite, case_job, find
from kdyno.suites.job import CaseJob
from kdyno.suites.wrapping import BUILTIN, in_words, placeholders


def _pairs(experiment: Experiment, catalogue: Catalogue) -> Iterator[tuple[SuiteUse, Case]]:
    seen: set[tuple[str, str]] = set()
    for use in experiment.suites:
        suite = find(catalogue, use.name)
        for name in use.cases or tuple(case.name for case in suite.cases):
            case = in_cell(_case(suite, use, name), use)
            if (suite.name, case.name) in seen:
                raise UsageError(f"{suite.name}/{case.name} is asked for twice")
            seen.add((suite.name, case.name))
            yield use, case


def _case(suite: Suite, use: SuiteUse, name: str) -> Case:
    if use.command and name not in {case.name for case in suite.cases}:
        # A command line of the user's goes by the name that the experiment gives it.
        return _reading(replace(suite.cases[0], name=name), use)
    return _reading(suite.case(name), use)


def _reading(case: Case, use: SuiteUse) -> Case:
    """A command of the user's that prints its figure, instead of being timed."""
    if use.figure is None:
        return case
    better: Better = "higher" if use.better == "higher" else "lower"
    return replace(case, figure=use.figure, unit=use.unit, better=better)


def open_settings(case: Case) -> tuple[str, ...]:
    """The names that a factor may set: the case's settings, and ``{jobs}`` in its arguments."""
    named = [name for name, _value in case.settings]
    inside = [name for text in case.args for name in placeholders(text) if name not in BUILTIN]
    return tuple(dict.fromkeys([*named, *inside]))


def in_cell(case: Case, use: SuiteUse) -> Case:
    """The case under the name, and with the settings, that it has at the use's levels."""
    if not use.levels:
        return case
    asked = dict(use.settings)
    return replace(
        case,
        name=use.name_in_run(case.name),
        args=in_words(case.args, dict(use.settings)),
        settings=tuple((name, asked.get(name, value)) for name, value in case.settings),
        # What a factor crosses stays crossed in a quick run.
        quick=tuple((name, value) for name, value in case.quick if name not in asked),
        of=use.family or case.name,
        levels=use.levels,
    )


def cases_of(experiment: Experiment, catalogue: Catalogue) -> tuple[Case, ...]:
    """The cases of one boot, in order; a suite without ``cases`` means all of them.

    UsageError with the nearest right word for a suite or case that does not exist.
    """
    return tuple(case for _, case in _pairs(experiment, catalogue))


def jobs_of(experiment: Experiment, catalogue: Catalogue) -> tuple[CaseJob, ...]:
    """As cases_of, in the same order, as a guest runs them."""
    return tuple(
        case_job(
            case,
            use.seconds,
            use.operations,
            in_words(use.command, dict(use.settings)),
            cpus=experiment.cpus,
            quick=use.quick,
        )
        for use, case in _pairs(experiment, catalogue)
    )
