# SPDX-License-Identifier: MIT
"""What an article claims, held against the figures that it printed itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kdyno.labs.published.article import Cell, Check, Published, Table


@dataclass(frozen=True)
class Checked:
    """A claim, held against the figures that were printed with it."""

    text: str
    word: str
    """holds | does not hold | not settled | not checked"""
    found: tuple[tuple[str, float], ...]
    """(what, number) of every figure that the claim speaks of."""
    low: float | None
    high: float | None
    value: bool
    inside: int
    note: str = ""


def check(article: Published, claim: Check) -> Checked:
    """Every figure that the claim speaks of; it holds when enough of them lie in its range."""
    found = tuple(_numbers(article, claim)) if claim.figure else ()
    if not found:
        return Checked(claim.text, "not checked", (), None, None, False, 0, claim.note)
    low = -math.inf if claim.low is None else claim.low
    high = math.inf if claim.high is None else claim.high
    inside = sum(low <= number <= high for _, number in found)
    word = "holds" if inside >= claim.share * len(found) else "does not hold"
    return Checked(
        claim.text,
        "not settled" if claim.partial else word,
        found,
        claim.low,
        claim.high,
        claim.value,
        inside,
        claim.note,
    )


def pairs(table: Table, claim: Check) -> Iterator[tuple[Cell, Cell]]:
    """(cell, what it is compared with) for every cell that the claim speaks of."""
    names = list(table.factors)
    for cell in table.cells:
        level = dict(zip(names, cell, strict=True))
        if any(level.get(name) not in wanted for name, wanted in claim.where.items()):
            continue
        if claim.factor:
            if level.get(claim.factor) != claim.end:
                continue
            level[claim.factor] = claim.start
            against = tuple(level.values())
            if against in table.cells:
                yield cell, against
        elif claim.value or cell != table.baseline:
            yield cell, table.baseline


def _numbers(article: Published, claim: Check) -> Iterator[tuple[str, float]]:
    for table in article.tables:
        if claim.table and table.name != claim.table:
            continue
        several = "" if claim.table else f"{table.name} "
        for figure in (name for name in table.figures if fnmatchcase(name, claim.figure)):
            for cell, against in pairs(table, claim):
                number = (
                    table.cells[cell].get(figure)
                    if claim.value
                    else table.ratio(cell, figure, against)
                )
                if number is not None:
                    named = [] if len(table.cells) == 2 and not claim.value else [*cell]
                    yield several + " ".join([*named, figure]), number
