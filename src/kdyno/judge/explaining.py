# SPDX-License-Identifier: MIT
"""Which functions a counted difference is in: the rows of two counted profiles, which add up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kdyno.store.counts import CaseCounts, Counted, Function, Where
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
    return _rows(before.functions, after.functions)


def _rows(before: Mapping[Function, float], after: Mapping[Function, float]) -> list[InBoth]:
    rows = [
        InBoth(*name, before.get(name, 0.0), after.get(name, 0.0))
        for name in dict.fromkeys((*before, *after))
    ]
    return sorted(rows, key=lambda it: (-abs(it.more), -it.before, it.function))


def explained(verdict: Verdict, counted: Mapping[str, Counted]) -> Verdict:
    """The same with the functions of each effect of counts, where they were counted."""
    by_case = {
        (each.suite, each.case, name): each for name, it in counted.items() for each in it.cases
    }

    def with_functions(it: Effect) -> Effect:
        before = by_case.get((it.suite, it.case, verdict.baseline))
        after = by_case.get((it.suite, it.case, it.variant))
        if it.unit != UNIT or before is None or after is None:
            return it
        return it.model_copy(update={"functions": functions_of(before, after)})

    return verdict.model_copy(update={"effects": tuple(map(with_functions, verdict.effects))})


def functions_of(before: CaseCounts, after: CaseCounts) -> tuple[FunctionCounts, ...]:
    """The functions that differ most, and one row for all others: together they are the whole."""
    rows = differences(before, after)
    shown = [it for it in rows if abs(it.more) >= NOTHING][:_SHOWN]
    rest = rows[len(shown) :]
    found = [
        FunctionCounts(
            where=it.where, function=it.function, baseline_value=it.before, value=it.after
        )
        for it in shown
    ]
    if rest:
        found.append(_others(rest))
    return tuple(found)


def _others(rest: Sequence[InBoth]) -> FunctionCounts:
    return FunctionCounts(
        where="others",
        function="",
        baseline_value=sum(it.before for it in rest),
        value=sum(it.after for it in rest),
        functions=len(rest),
    )
