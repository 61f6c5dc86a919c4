# SPDX-License-Identifier: MIT
"""A published experiment: its ratios, and its claims against its own figures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from kdyno.labs.published.article import Checked, Published, Table, check
from kdyno.report import figures
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.terminal import Part

NO_SPREAD = "no spread was published: no verdict"


def verdictless(table: Table) -> bool:
    """Whether nothing can be said about the table's differences: no spread, or one run."""
    return not table.spread or table.samples is None or table.samples < 2


def parts(article: Published) -> Iterator[Part]:
    """For a terminal."""
    yield from filter(None, (article.title, article.system))
    for table in article.tables:
        yield from ("", f"{table.name}: {_source(table)}", _grid(table))
        if len(table.cells) > 1:
            yield NO_SPREAD if verdictless(table) else ""
    yield from ("", "the article's claims against its own figures")
    for claim in article.checks:
        yield from (f"  {line}" for line in _claim(check(article, claim)))


def as_json(article: Published) -> dict[str, Any]:
    """Ratios and checks, for programs."""
    return {
        "name": article.name,
        "title": article.title,
        "system": article.system,
        "tables": [
            {
                "name": table.name,
                "baseline": "+".join(table.baseline),
                "better": table.better,
                "samples_per_cell": table.samples,
                "verdict": NO_SPREAD if verdictless(table) else None,
                "ratios": {
                    "+".join(cell): {
                        figure: table.ratio(cell, figure) for figure in table.cells[cell]
                    }
                    for cell in table.cells
                    if cell != table.baseline
                },
            }
            for table in article.tables
        ],
        "claims": [asdict(check(article, claim)) for claim in article.checks],
    }


def _source(table: Table) -> str:
    base = "+".join(table.baseline)
    runs = "number of runs not given"
    if table.samples == 1:
        runs = "one run each"
    elif table.samples:
        runs = f"{'mean of ' if table.mean else ''}{table.samples} runs"
    better = f", {table.better} is better" if table.better else ""
    return f"{runs}{better}" + (f", against {base}" if len(table.cells) > 1 else "")


def _grid(table: Table) -> Grid:
    """Figures with the effect where two cells are compared, else cells with the effects."""
    if len(table.cells) > 2:
        columns = [Column("", lambda cell: "+".join(cell))]
        columns += [Column(it, partial(_change, table, it), "number") for it in table.figures]
        return Grid(columns, list(table.cells))
    others = [cell for cell in table.cells if cell != table.baseline]
    columns = [Column("", str)]
    columns += [
        Column("+".join(cell), table.cells[cell].get, "number", "{:g}".format)
        for cell in (table.baseline, *others)
    ]
    columns += [
        Column("effect", lambda it: figures.effect(table.ratio(others[0], it)), "number")
        for _ in others
    ]
    return Grid(columns, table.figures)


def _change(table: Table, figure: str, cell: tuple[str, ...]) -> str:
    if cell == table.baseline:
        return f"{table.cells[cell][figure]:g}"
    return figures.effect(table.ratio(cell, figure))


def _claim(it: Checked) -> list[str]:
    found = [f"{it.word}: {it.text}"]
    if it.found:
        shown = [number for _, number in it.found]
        lowest = min(it.found, key=lambda pair: pair[1])
        highest = max(it.found, key=lambda pair: pair[1])
        show = (lambda x: f"{x:.4g}") if it.value else figures.effect
        if len(shown) == 1:
            text = f"the figures give {show(shown[0])}"
        else:
            text = (
                f"{it.inside} of {len(shown)} figures; they go from {show(lowest[1])} "
                f"({lowest[0]}) to {show(highest[1])} ({highest[0]})"
            )
        ends = [show(end) for end in (it.low, it.high) if end is not None]
        sides = "at least" if it.high is None else "at most" if it.low is None else "meant:"
        found.append(f"    {text}; {sides} {' to '.join(ends)}")
    elif not it.found:
        found.append("    no printed figure says anything about it")
    if it.note:
        found.append(f"    {it.note}")
    return found
