# SPDX-License-Identifier: MIT
"""What an experiment measures: its suites and cases, looked up in the catalogue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kdyno.errors import UsageError
from kdyno.experiment.model import Experiment, SuiteUse
from kdyno.suites.catalogue import Case, Catalogue, Suite, case_job, find
from kdyno.suites.job import CaseJob


def _pairs(experiment: Experiment, catalogue: Catalogue) -> Iterator[tuple[SuiteUse, Case]]:
    seen: set[tuple[str, str]] = set()
    for use in experiment.suites:
        suite = find(catalogue, use.name)
        for name in use.cases or tuple(case.name for case in suite.cases):
            if (suite.name, name) in seen:
                raise UsageError(f"{suite.name}/{name} is asked for twice")
            seen.add((suite.name, name))
            yield use, _case(suite, use, name)


def _case(suite: Suite, use: SuiteUse, name: str) -> Case:
    if use.command and name not in {case.name for case in suite.cases}:
        # A command line of the user's goes by the name that the experiment gives it.
        return replace(suite.cases[0], name=name)
    return suite.case(name)


def cases_of(experiment: Experiment, catalogue: Catalogue) -> tuple[Case, ...]:
    """The cases of one boot, in order; a suite without ``cases`` means all of them.

    UsageError with the nearest right word for a suite or case that does not exist.
    """
    return tuple(case for _, case in _pairs(experiment, catalogue))


def jobs_of(experiment: Experiment, catalogue: Catalogue) -> tuple[CaseJob, ...]:
    """As cases_of, in the same order, as a guest runs them."""
    return tuple(
        case_job(case, use.seconds, use.operations, use.command)
        for use, case in _pairs(experiment, catalogue)
    )
