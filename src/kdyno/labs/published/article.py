# SPDX-License-Identifier: MIT
"""A published experiment as values, and what it claims held against its own figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

ARM = "kernel"
"""The one factor of a table that has arms instead of a cross."""

Cell = tuple[str, ...]
"""One level for each factor."""


@dataclass(frozen=True)
class Today:
    """Where kdyno measures what a table holds."""

    suite: str
    cases: Mapping[str, str] = field(default_factory=dict)
    """Figure → case, where the names differ."""
    figure: str | None = None
    """For a cross: the figure that a case's score is."""
    levels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Factor → published level → today's level, where the names differ."""


@dataclass(frozen=True)
class Table:
    name: str
    factors: Mapping[str, tuple[str, ...]]
    """Factor → levels, in the table's order."""
    cells: Mapping[Cell, Mapping[str, float]]
    """Cell → figure → printed number."""
    baseline: Cell
    better: str | None
    samples: int | None
    """Runs behind a figure; None where the text does not say."""
    mean: bool
    spread: bool
    """Whether anything was published that says how much the runs differed."""
    units: Mapping[str, str] = field(default_factory=dict)
    today: Today | None = None

    @property
    def figures(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for cell in self.cells.values() for name in cell))

    def ratio(self, cell: Cell, figure: str, against: Cell | None = None) -> float | None:
        """Of two printed numbers; None where one is missing or zero."""
        value = self.cells[cell].get(figure)
        base = self.cells[self.baseline if against is None else against].get(figure)
        return value / base if value is not None and base else None


@dataclass(frozen=True)
class Ask:
    """What is asked today about a claim, and which run or file has the answer. Names may be
    patterns; what does not belong to ``what`` stays empty."""

    what: str
    """See asking.What."""
    run: str = ""
    """The experiment."""
    suite: str = ""
    case: str = ""
    variant: str = ""
    factor: str = ""
    level: str = ""
    other: str = ""
    """The factor at whose levels ``factor`` is looked at; empty: averaged over the others."""
    function: str = ""
    routine: str = ""
    against: str = ""
    flags: str = ""
    reason: str = ""
    job: str = ""
    instead: str = ""
    """What is compared there in place of what the claim compares: its figures answer another
    question, and are no answer to the claim."""
    bytes: tuple[int, ...] = ()
    """The smallest and the largest size; for forms, each size."""


@dataclass(frozen=True)
class Check:
    """A claim as a range that figures have to lie in. See docs/comparing.md for the keys."""

    text: str
    table: str = ""
    """Empty: every table that has the figure."""
    figure: str = ""
    """A name or a pattern; empty: nothing in the tables says anything about this claim."""
    low: float | None = None
    high: float | None = None
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    factor: str = ""
    start: str = ""
    end: str = ""
    value: bool = False
    """The printed number itself is meant, not its ratio to the baseline's."""
    share: float = 1.0
    """Part of the figures that must lie in the range."""
    partial: bool = False
    """The figures are a selection, which cannot settle the claim."""
    note: str = ""
    question: str = ""
    """What one can ask today."""
    expect: str = ""
    """faster, slower or equivalent, where the claim's own figures do not tell: what today's effects
    are if it holds."""
    carries: str = ""
    """What of the answer carries over to the claim, honestly, in a sentence."""
    today: tuple[Ask, ...] = ()
    unasked: str = ""
    """In place of these three: why nothing is asked."""
    chart: str = ""
    """Beside it, see charts.CHARTS."""


@dataclass(frozen=True)
class Published:
    name: str
    title: str
    system: str
    tables: tuple[Table, ...]
    checks: tuple[Check, ...]

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)


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
