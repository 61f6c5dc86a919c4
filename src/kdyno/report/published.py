# SPDX-License-Identifier: MIT
"""A published experiment: its ratios, and its claims against its own figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kdyno.report import figures
from kdyno.report.claims import Checked, check
from kdyno.store.article import Published, Table

NO_SPREAD = "no spread was published: no verdict"


def verdictless(table: Table) -> bool:
    """Whether nothing can be said about the table's differences: no spread, or one run."""
    return not table.spread or table.samples is None or table.samples < 2


def lines(article: Published) -> list[str]:
    """For a terminal."""
    found = [article.title, *([article.system] if article.system else [])]
    for table in article.tables:
        found += ["", f"{table.name}: {_source(table)}", *aligned(_table(table))]
        if len(table.cells) > 1:
            found.append(NO_SPREAD if verdictless(table) else "")
    found += ["", "the article's claims against its own figures"]
    for claim in article.checks:
        found += [f"  {line}" for line in _claim(check(article, claim))]
    return found


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
    runs = "runs not told"
    if table.samples == 1:
        runs = "one run each"
    elif table.samples:
        runs = f"{'mean of ' if table.mean else ''}{table.samples} runs"
    better = f", {table.better} is better" if table.better else ""
    return f"{runs}{better}" + (f", against {base}" if len(table.cells) > 1 else "")


def _table(table: Table) -> list[tuple[str, ...]]:
    if len(table.cells) <= 2:
        others = [cell for cell in table.cells if cell != table.baseline]
        rows: list[tuple[str, ...]] = [("", *("+".join(it) for it in (table.baseline, *others)))]
        rows[0] += ("effect",) if others else ()
        for figure in table.figures:
            values = [table.cells[cell].get(figure) for cell in (table.baseline, *others)]
            effect = (figures.effect(table.ratio(others[0], figure)),) if others else ()
            rows.append((figure, *(f"{it:g}" if it is not None else "" for it in values), *effect))
        return rows
    rows = [("", *table.figures)]
    for cell, found in table.cells.items():
        base = cell == table.baseline
        rows.append(
            (
                "+".join(cell),
                *(
                    f"{found[it]:g}" if base else figures.effect(table.ratio(cell, it))
                    for it in table.figures
                ),
            )
        )
    return rows


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


def aligned(rows: Sequence[tuple[str, ...]], *, words: bool = False) -> list[str]:
    """Columns: names to the left, numbers to the right. ``words``: the last holds words."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    last = len(widths) - 1
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if i == 0 or (i == last and words) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
