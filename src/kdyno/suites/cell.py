# SPDX-License-Identifier: MIT
"""A case as a cell of a cross: what a factor's level puts in the place of ``{jobs}``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kdyno.experiment.model import SuiteUse
from kdyno.suites.catalogue import Case
from kdyno.suites.wrapping import BUILTIN

_OPEN = re.compile(r"\{([a-z][a-z0-9_]*)\}")
Settings = Iterable[tuple[str, str]]


def filled(texts: Iterable[str], settings: Settings) -> tuple[str, ...]:
    """``texts`` with the settings' ``{name}``s replaced; all other braces stay."""
    values = dict(settings)
    return tuple(_OPEN.sub(lambda it: values.get(it[1], it[0]), text) for text in texts)


def open_settings(case: Case) -> tuple[str, ...]:
    """The names that a factor may set: the case's settings, and ``{jobs}`` in its arguments."""
    named = [name for name, _value in case.settings]
    inside = [name for text in case.args for name in _OPEN.findall(text) if name not in BUILTIN]
    return tuple(dict.fromkeys([*named, *inside]))


def in_cell(case: Case, use: SuiteUse) -> Case:
    """The case under the name, and with the settings, that it has at the use's levels."""
    if not use.levels:
        return case
    asked = dict(use.settings)
    return replace(
        case,
        name=use.name_in_run(case.name),
        args=filled(case.args, use.settings),
        settings=tuple((name, asked.get(name, value)) for name, value in case.settings),
        # What a factor crosses stays crossed in a quick run.
        quick=tuple((name, value) for name, value in case.quick if name not in asked),
        of=use.family or case.name,
        levels=use.levels,
    )
