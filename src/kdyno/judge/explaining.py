# SPDX-License-Identifier: MIT
"""Which functions a counted difference is in: the rows of two counted profiles, which add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kdyno.store.counts import CaseCounts, Counted, Where
from kdyno.store.verdict import Effect, FunctionCounts, Verdict
from kdyno.suites.catalogue import UNIT

NOTHING = 5e-4
"""Of an instruction: what three decimals show as 0.000."""
_SHOWN = 10


@dataclass(frozen=True)
class InBoth:
    """A function in two kernels: instructions of an operation."""

    where: Where
    function: str
    before: float
    after: float

    @property
    def more(self) -> float:
        return self.after - self.before


def differences(before: CaseCounts, after: CaseCounts) -> list[InBoth]:
    """Every function of either, the largest difference first."""
    old, new = before.functions, after.functions
    rows = [
        InBoth(*name, old.get(name, 0.0), new.get(name, 0.0))
        for name in dict.fromkeys((*old, *new))
    ]
    return sorted(rows, key=lambda row: (-abs(row.more), -row.before, row.function))


def explained(verdict: Verdict, counted: Mapping[str, Counted]) -> Verdict:
    """The same with the functions of each effect of counts, where they were counted."""
    by_case = {
        (case.suite, case.case, name): case for name, own in counted.items() for case in own.cases
    }

    def with_functions(effect: Effect) -> Effect:
        before = by_case.get((effect.suite, effect.case, verdict.baseline))
        after = by_case.get((effect.suite, effect.case, effect.variant))
        if effect.unit != UNIT or before is None or after is None:
            return effect
        return effect.model_copy(update={"functions": functions_of(before, after)})

    return verdict.model_copy(update={"effects": tuple(map(with_functions, verdict.effects))})


def functions_of(before: CaseCounts, after: CaseCounts) -> tuple[FunctionCounts, ...]:
    """The functions that differ most, and one row for all others: together they are the whole."""
    rows = differences(before, after)
    large = [row for row in rows if abs(row.more) >= NOTHING][:_SHOWN]
    counts = [
        FunctionCounts(
            where=row.where, function=row.function, baseline_value=row.before, value=row.after
        )
        for row in large
    ]
    if rest := rows[len(large) :]:
        others = FunctionCounts(
            where="others",
            function="",
            baseline_value=sum(row.before for row in rest),
            value=sum(row.after for row in rest),
            functions=len(rest),
        )
        counts.append(others)
    return tuple(counts)
