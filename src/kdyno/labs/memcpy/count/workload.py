# SPDX-License-Identifier: MIT
"""What is counted where no experiment file says it: cases, or a command, in a stock kernel."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from kdyno.errors import UsageError
from kdyno.experiment import loader
from kdyno.experiment.layer import RUN_SUITE
from kdyno.experiment.model import NAME, Experiment, SuiteUse
from kdyno.measure.commands import DEFAULT_SOURCE, STOCK, in_guest
from kdyno.measure.vocabulary import vocabulary
from kdyno.reading.mistakes import meant
from kdyno.suites.catalogue import Catalogue


def of_cases(
    patterns: Sequence[str], suites: Catalogue, source: str = DEFAULT_SOURCE
) -> Experiment:
    """Cases of the catalogue: ``suite/case``, with patterns. UsageError for one that means none."""
    wanted: dict[str, list[str]] = {}
    for pattern in patterns:
        known = [f"{suite.name}/{case.name}" for suite in suites.values() for case in suite.cases]
        found = [name for name in known if fnmatchcase(name, pattern)]
        if not found:
            hint = meant(pattern, known, " Did you mean {}?")
            raise UsageError(
                f"--case {pattern}: no such case.{hint} `kdyno list cases` shows them all; "
                "write SUITE/CASE, patterns are allowed"
            )
        for name in found:
            suite, _, case = name.partition("/")
            if case not in wanted.setdefault(suite, []):
                wanted[suite].append(case)
    uses = [SuiteUse(suite, tuple(cases)) for suite, cases in wanted.items()]
    return _in_stock(uses, suites, source)


def of_command(
    command: tuple[str, ...], folder: Path, suites: Catalogue, source: str = DEFAULT_SOURCE
) -> Experiment:
    """Any command line, run in ``folder``; UsageError where a guest would not find it."""
    program = Path(command[0]).name
    name = program if NAME.fullmatch(program) else "command"
    use = SuiteUse(RUN_SUITE, (name,), command=in_guest(command, folder))
    return _in_stock([use], suites, source)


def _in_stock(uses: Sequence[SuiteUse], suites: Catalogue, source: str) -> Experiment:
    keys = {"source": source, "config": ["bench"]}
    kernel = loader.variant(STOCK, keys, "histogram", Path.cwd(), vocabulary(suites))
    return Experiment("histogram", "What is copied?", STOCK, (kernel,), tuple(uses))
