# SPDX-License-Identifier: MIT
"""Groups of cases, and groups of groups, scored by harmonic mean (XBench)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kdyno.suites.table import Table, nearest


@dataclass(frozen=True)
class Group:
    """``members`` are names of cases, or of groups that stand before this one."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class GroupScore:
    """``value`` is None when anything is missing: it is never the mean of fewer."""

    value: float | None
    missing: tuple[str, ...] = ()
    """The cases (or groups without a score of their own) that are not there."""


def group_scores(groups: Iterable[Group], scores: Mapping[str, float]) -> dict[str, GroupScore]:
    """The score of every group, in their order.

    ``scores`` by the name of the case, all above 0. A score that stands under a group's own name
    is taken where its members have none, as in published tables that print only the group.
    """
    found: dict[str, GroupScore] = {}
    known = dict(scores)
    for group in groups:
        missing = tuple(
            name
            for member in group.members
            if member not in known
            for name in (found[member].missing if member in found else (member,))
        )
        if not missing:
            known[group.name] = statistics.harmonic_mean([known[it] for it in group.members])
            found[group.name] = GroupScore(known[group.name])
        elif group.name in scores:
            found[group.name] = GroupScore(scores[group.name])
        else:
            found[group.name] = GroupScore(None, missing)
    return found


def read_groups(table: Table, cases: Iterable[str]) -> tuple[Group, ...]:
    """The key ``groups`` of a suite's file: a table of lists. UsageError names what is wrong."""
    allowed = list(cases)
    own = set(allowed)
    groups = []
    for name, members in table.take("groups", dict, "a table of lists", {}).items():
        key = f"groups.{name}"
        if name in own:
            raise table.refuse(key, "is the name of a case already")
        if not isinstance(members, list) or not members:
            raise table.refuse(key, f"is {members!r}, but must be a list of names")
        for member in members:
            if member not in allowed:
                raise table.refuse(key, f"has {member!r}{nearest(str(member), allowed)}")
        if len(set(members)) < len(members):
            raise table.refuse(key, "names something twice")
        groups.append(Group(name, tuple(members)))
        allowed.append(name)
    return tuple(groups)
