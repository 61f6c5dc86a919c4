# SPDX-License-Identifier: MIT
"""Factors of cases: each level sets something in a case's arguments, or is a case itself.

Its cells are cases of one boot, side by side, so they cost no kernel and no boot of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from os.path import commonprefix

from kdyno.experiment.model import SuiteUse
from kdyno.experiment.table import Table
from kdyno.experiment.vocabulary import Vocabulary
from kdyno.reading.mistakes import Mistakes, quoted
from kdyno.reading.position import KeyPath

_SETTING = re.compile(r"[a-z][a-z0-9_]{0,39}")
_SETTING_RULE = "a setting is 1 to 40 of a-z, 0-9 and _, and begins with a letter"


@dataclass(frozen=True)
class CaseLevel:
    """One level: what fills ``{name}`` in arguments, or the case that this level is."""

    settings: tuple[tuple[str, str], ...] = ()
    case: str = ""


CaseFactors = Mapping[str, Mapping[str, CaseLevel]]
"""Factor → level → what it does, in the file's order."""


def listed(factor: str, data: object) -> object:
    """``jobs = [1, 4]`` as the levels it is short for; anything else as it is.

    The values of a factor called ``cpus`` are CPUs of the machine, of any other a setting.
    """
    if not isinstance(data, list):
        return data
    if factor == "cpus":
        return {str(value): {"cpus": value} for value in data}
    return {str(value): {"set": {factor: value}} for value in data}


def is_case_factor(levels: Mapping[str, object]) -> bool:
    """Whether any level says something of cases."""
    return any(isinstance(data, dict) and ({"set", "case"} & set(data)) for data in levels.values())


def read_case_level(data: object, path: KeyPath, mistakes: Mistakes) -> CaseLevel:
    """The level in ``data``: ``{ set = { jobs = 4 } }`` or ``{ case = "fscopy-256" }``."""
    table = Table(data, path, mistakes, ("set", "case"))
    if ("set" in table) == ("case" in table):
        mistakes.add(
            path,
            "a level of this factor needs one of set = { NAME = VALUE } and case = NAME, as the "
            "factor's other levels have; kernels and cases cannot be mixed in one factor",
        )
        return CaseLevel()
    found = []
    for name, value in table.table("set").items():
        at = (*path, "set", name)
        if not _SETTING.fullmatch(name):
            mistakes.add(at, f"{quoted(name)} is not a setting: {_SETTING_RULE}")
        elif isinstance(value, bool) or not isinstance(value, int | float | str):
            table.wrong_type(at, value, "a number or text")
        elif not str(value).isprintable() or not str(value):
            mistakes.add(at, f"{quoted(value)} is empty or contains a control character")
        else:
            found.append((name, str(value)))
    return CaseLevel(tuple(found), table.text("case"))


def expanded(
    uses: Iterable[SuiteUse], factors: CaseFactors, vocabulary: Vocabulary, mistakes: Mistakes
) -> tuple[SuiteUse, ...]:
    """The uses, those that a factor touches once for each of its levels.

    A case that no factor touches is measured once. A factor that touches no case is a mistake.
    """
    found: list[SuiteUse] = []
    touched: set[str] = set()
    chosen: set[str] = set()
    for use in uses:
        groups: dict[tuple[str, ...], list[str]] = {}
        for case in use.cases:
            names = _settings(use, case, vocabulary)
            mine = tuple(
                factor
                for factor, levels in factors.items()
                if any(level.case == case or names & dict(level.settings).keys()
                       for level in levels.values())
            )  # fmt: skip
            groups.setdefault(mine, []).append(case)
            touched.update(mine)
            chosen.update(
                case for it in mine for level in factors[it].values() if level.case == case
            )
        for mine, cases in groups.items():
            found += _cells(use, tuple(cases), {name: factors[name] for name in mine})
    for factor, levels in factors.items():
        if factor not in touched:
            known = {
                it for use in uses for case in use.cases for it in _settings(use, case, vocabulary)
            }
            asked = {name for level in levels.values() for name, _value in level.settings}
            what = (
                f"has a setting {' or '.join(sorted(asked))}" if asked else "is one of its levels"
            )
            mistakes.add(
                ("factor", factor),
                f"no case of this experiment {what}, so the factor changes nothing",
                allowed=sorted(known) if asked else (),
            )
            continue
        for name, level in levels.items():
            if level.case and level.case not in chosen:
                mistakes.add(
                    ("factor", factor, name),
                    f"{quoted(level.case)} is not a case that a [[suite]] here measures",
                    allowed=[case for use in uses for case in use.cases],
                    near=level.case,
                )
    return tuple(found)


def _settings(use: SuiteUse, case: str, vocabulary: Vocabulary) -> set[str]:
    """What a level may set in this case: in the user's own command line, any ``{name}``."""
    own = re.findall(r"\{([a-z][a-z0-9_]*)\}", " ".join(use.command))
    return {*own, *vocabulary.settings.get(use.name, {}).get(case, ())}


def _cells(use: SuiteUse, cases: tuple[str, ...], factors: CaseFactors) -> list[SuiteUse]:
    if not factors:
        return [replace(use, cases=cases)]
    found = []
    for cell in product(*(levels.items() for levels in factors.values())):
        picked = {level.case for _name, level in cell if level.case}
        here = tuple(case for case in cases if picked <= {case})
        if not here:
            continue
        family = ""
        if picked:
            named = [level.case for levels in factors.values() for level in levels.values()]
            family = commonprefix([name for name in named if name]) + "*"  # noqa: RUF071
        found.append(
            replace(
                use,
                cases=here,
                settings=tuple(pair for _name, level in cell for pair in level.settings),
                levels=tuple(zip(factors, (name for name, _level in cell), strict=True)),
                family=family,
            )
        )
    return found
