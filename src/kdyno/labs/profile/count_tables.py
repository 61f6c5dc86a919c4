# SPDX-License-Identifier: MIT
"""Counts by function on a terminal and as JSON: both kernels, and what differs between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kdyno.labs.profile.counts import CaseCounts, Where
from kdyno.report import figures, plain
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.terminal import Part

_NOTHING = 5e-4
"""Of an instruction: what three decimals show as 0.000."""


@dataclass(frozen=True)
class Row:
    """A function in two kernels: instructions of an operation."""

    where: Where | str
    function: str
    before: float
    after: float

    @property
    def more(self) -> float:
        return self.after - self.before


def differences(before: CaseCounts, after: CaseCounts) -> list[Row]:
    """Every function of either, the largest difference first."""
    names = dict.fromkeys((*before.functions, *after.functions))
    rows = [
        Row(where, name, before.functions.get((where, name), 0.0),
            after.functions.get((where, name), 0.0))
        for where, name in names
    ]  # fmt: skip
    return sorted(rows, key=lambda it: (-abs(it.more), -it.before, it.function))


def parts(found: Sequence[CaseCounts], baseline: str, top: int) -> Iterator[Part]:
    """A table for each case and variant; of the baseline alone, where nothing is compared."""
    base = {(it.suite, it.case): it for it in found if it.variant == baseline}
    others = [it for it in found if it.variant != baseline]
    for it in others or base.values():
        before = base[it.suite, it.case]
        against = f" − {plain.short(baseline)}" if others else ""
        yield (
            f"{plain.name(it.suite)}/{plain.name(it.case)}: {plain.short(it.variant)}{against}, "
            "instructions of an operation"
        )
        yield Grid(_COLUMNS if others else _ALONE, _shown(before, it, top if others else 2 * top))
        yield ""
    yield (
        "note: counted by QEMU, one boot of each kernel: the length of the path, not time. The sum "
        "is without the reading of the clock"
    )


def _shown(before: CaseCounts, after: CaseCounts, top: int) -> list[Row]:
    rows = differences(before, after)
    if before is after:
        rows.sort(key=lambda it: (-it.before, it.function))
        shown = rows[:top]
    else:
        shown = [it for it in rows if abs(it.more) >= _NOTHING][:top]
    rest = rows[len(shown) :] if before is after else [it for it in rows if it not in shown]
    if rest:
        left = figures.count(len(rest), "other function")
        shown.append(Row("", left, sum(it.before for it in rest), sum(it.after for it in rest)))
    return [*shown, Row("", "sum", before.total, after.total)]


_COLUMNS = (
    Column("where", lambda it: it.where),
    Column("function", lambda it: it.function, "name"),
    Column("baseline", lambda it: it.before, "number", "{:,.3f}".format),
    Column("variant", lambda it: it.after, "number", "{:,.3f}".format),
    Column("difference", lambda it: it.more, "number", figures.signed),
)
_ALONE = (
    Column("where", lambda it: it.where),
    Column("function", lambda it: it.function, "name"),
    Column("instructions", lambda it: it.before, "number", "{:,.3f}".format),
)


def as_json(found: Sequence[CaseCounts], baseline: str) -> dict[str, Any]:
    """For programs: every function of every case in every kernel."""
    return {
        "schema": 1,
        "baseline": baseline,
        "method": "count",
        "counts": [
            {
                "suite": it.suite,
                "case": it.case,
                "variant": it.variant,
                "operations": it.operations,
                "total": it.total,
                "functions": [
                    {"where": where, "function": name, "instructions": value}
                    for (where, name), value in sorted(it.functions.items(), key=lambda x: -x[1])
                ],
            }
            for it in found
        ],
    }
