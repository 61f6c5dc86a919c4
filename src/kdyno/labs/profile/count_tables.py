# SPDX-License-Identifier: MIT
"""Counts by function on a terminal and as JSON: both kernels, what differs, and who calls it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kdyno.judge.explaining import NOTHING, differences
from kdyno.report import figures, plain
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.terminal import Part
from kdyno.store.counts import CaseCounts, Chain, Counted

_CHAINS = 3
"""Shown of each function."""
_FRAMES = 6
_NOTE = (
    "note: counted by QEMU, one boot of each kernel: the length of the path, not time. The sum "
    "is without the reading of the clock"
)


@dataclass(frozen=True)
class _Line:
    """A row of the table; ``before`` and ``after`` are instructions of an operation."""

    where: str
    function: str
    before: float
    after: float

    @property
    def more(self) -> float:
        return self.after - self.before


def pairs(found: Sequence[Counted]) -> Iterator[tuple[CaseCounts, CaseCounts]]:
    """(baseline, variant) of each case and variant; the baseline twice where it is alone."""
    base = {(it.suite, it.case): it for it in found[0].cases}
    for counted in found[1:] or found[:1]:
        for it in counted.cases:
            if (it.suite, it.case) in base:
                yield base[it.suite, it.case], it


def parts(found: Sequence[Counted], top: int) -> Iterator[Part]:
    """A table for each case and variant; of the baseline alone, where nothing is compared."""
    for before, it in pairs(found):
        compared = before is not it
        against = f" − {plain.short(before.variant)}" if compared else ""
        yield (
            f"{plain.name(it.suite)}/{plain.name(it.case)}: {plain.short(it.variant)}{against}, "
            "instructions of an operation"
        )
        yield Grid(
            _COLUMNS if compared else _ALONE, _shown(before, it, top if compared else 2 * top)
        )
        yield from _callers(before, it)
        yield ""
    yield _NOTE


def _shown(before: CaseCounts, after: CaseCounts, top: int) -> list[_Line]:
    rows = differences(before, after)
    if before is after:
        rows.sort(key=lambda it: (-it.before, it.function))
        shown = rows[:top]
    else:
        shown = [it for it in rows if abs(it.more) >= NOTHING][:top]
    rest = rows[len(shown) :]
    lines = [_Line(it.where, it.function, it.before, it.after) for it in shown]
    if rest:
        left = figures.count(len(rest), "other function")
        lines.append(_Line("", left, sum(it.before for it in rest), sum(it.after for it in rest)))
    return [*lines, _Line("", "sum", before.total, after.total)]


def _callers(before: CaseCounts, after: CaseCounts) -> Iterator[str]:
    """Below the table: by which calls a processor comes to what differs."""
    for more, chain in chains(before, after):
        yield f"  {figures.signed(more)} by {path(chain)}"


def chains(before: CaseCounts, after: CaseCounts) -> list[tuple[float, Chain]]:
    """(difference, chain) of the functions that differ, most of all first; some of each."""
    found = [
        (after.chains.get(chain, 0.0) - before.chains.get(chain, 0.0), chain)
        for chain in dict.fromkeys((*before.chains, *after.chains))
    ]
    found = [it for it in found if abs(it[0]) >= NOTHING and len(it[1]) > 1]
    found.sort(key=lambda it: (-abs(it[0]), it[1]))
    taken: dict[object, int] = {}
    shown = []
    for more, chain in found if before is not after else []:
        taken[chain[-1]] = taken.get(chain[-1], 0) + 1
        if taken[chain[-1]] <= _CHAINS:
            shown.append((more, chain))
    return shown


def path(chain: Chain) -> str:
    """``ksys_write › vfs_write › anon_pipe_write``: the innermost calls."""
    names = [plain.name(function) for _where, function in chain]
    return " › ".join(names if len(names) <= _FRAMES else ["…", *names[-_FRAMES:]])


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


def as_json(found: Sequence[Counted]) -> dict[str, Any]:
    """For programs: every function and chain of calls of every case in every kernel."""
    return {
        "schema": 1,
        "baseline": found[0].variant,
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
                "chains": [
                    {"functions": [name for _where, name in chain], "instructions": value}
                    for chain, value in sorted(it.chains.items(), key=lambda x: -x[1])
                ],
            }
            for counted in found
            for it in counted.cases
        ],
    }


def folded(found: Sequence[Counted]) -> str:
    """``kernel;case;frame;frame count`` a line, for flame graphs: thousandths of an instruction of
    one operation."""
    lines = []
    for counted in found:
        for it in counted.cases:
            for chain, value in it.chains.items():
                frames = (counted.variant, f"{it.suite}/{it.case}", *(name for _w, name in chain))
                plainly = (" ".join(each.replace(";", ":").split()) or "?" for each in frames)
                if thousandths := round(1000 * value):
                    lines.append(f"{';'.join(plainly)} {thousandths}\n")
    return "".join(sorted(lines))
