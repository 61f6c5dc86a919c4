# SPDX-License-Identifier: MIT
"""The effects of a verdict in the order in which every report shows them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kdyno.store.verdict import Effect, Flag, Verdict, deciding

MOST_SHOWN = 2000
"""Rows that people are shown. Drawing takes some milliseconds each, and nobody reads more."""
MOST_CHARTS = 60
"""Variants whose effects are plotted: a tenth of a second each."""


@dataclass(frozen=True)
class Group:
    """One variant against the baseline."""

    variant: str
    is_copy: bool
    """The baseline once more (A/A)."""
    effects: tuple[Effect, ...]
    """By suite and case in the order of the verdict; controls last within each suite."""

    @property
    def suites(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(effect.suite for effect in self.effects))

    @property
    def tested(self) -> tuple[Effect, ...]:
        """Cases that depend on the kernel."""
        return tuple(effect for effect in self.effects if not effect.control)


def groups(verdict: Verdict) -> tuple[Group, ...]:
    """Variants in the order of the verdict; the copy of the baseline comes last."""
    by_variant: dict[str, list[Effect]] = {}
    for effect in map(deciding, verdict.effects):
        by_variant.setdefault(effect.variant, []).append(effect)
    variants = []
    for variant, effects in by_variant.items():
        suites = list(dict.fromkeys(effect.suite for effect in effects))
        # sorted is stable: within a suite the verdict's own order of cases stays.
        ordered = sorted(effects, key=lambda effect: (suites.index(effect.suite), effect.control))
        variants.append(Group(variant, variant == verdict.copy_of_baseline, tuple(ordered)))
    return tuple(sorted(variants, key=lambda group: group.is_copy))


def cut_short(verdict: Verdict) -> str:
    """A remark where people are not shown all of a verdict's effects; else empty."""
    of_factors = len(verdict.factors.effects) if verdict.factors else 0
    most = max(len(verdict.effects), len(verdict.values), len(verdict.groups), of_factors)
    if most <= MOST_SHOWN:
        return ""
    return f"these are the first {MOST_SHOWN} of {most} effects; `kdyno report RUN -f csv` has all"


def first_groups(variants: Sequence[Group]) -> tuple[Sequence[Group], str]:
    """The variants that have a chart, and a remark where that is not all of them."""
    if len(variants) <= MOST_CHARTS:
        return variants, ""
    return variants[:MOST_CHARTS], f"Charts of the first {MOST_CHARTS} of {len(variants)} variants."


def displayed(verdict: Verdict) -> Verdict:
    """The verdict with no more rows than people are shown, and a remark where it had more.

    An answer, a tally and an exit status are made of the whole one."""
    remark = cut_short(verdict)
    if not remark:
        return verdict
    names = ("effects", "values", "groups")
    update: dict[str, object] = {name: getattr(verdict, name)[:MOST_SHOWN] for name in names}
    if (table := verdict.factors) is not None:
        rows = table.effects[:MOST_SHOWN]
        update["factors"] = table.model_copy(update={"effects": rows})
    update["flags"] = (Flag(kind="cut-short", text=remark), *verdict.flags)
    return verdict.model_copy(update=update)


def geometric_mean(effects: Iterable[Effect]) -> float | None:
    """Of the ratios; None unless at least two cases are measured and agree on what is good."""
    measured = [effect for effect in effects if effect.ratio is not None and effect.ratio > 0]
    if len(measured) < 2 or len({effect.better for effect in measured}) != 1:
        return None
    return math.exp(sum(math.log(effect.ratio or 1.0) for effect in measured) / len(measured))
