# SPDX-License-Identifier: MIT
"""A published experiment as values: tables of cells, and claims as ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Published:
    name: str
    title: str
    system: str
    tables: tuple[Table, ...]
    checks: tuple[Check, ...]

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)
