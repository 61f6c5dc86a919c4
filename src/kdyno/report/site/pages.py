# SPDX-License-Identifier: MIT
"""What all pages of a site have in common, and index.html: every run and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdyno.report import figures, plain
from kdyno.report.page import document
from kdyno.report.show.grid import Cell, Column, Grid, Value
from kdyno.report.show.html import data, macros, table
from kdyno.report.site.summary import Summary


def shell(
    template: str,
    title: str,
    here: str,
    *,
    scripts: Sequence[str] = (),
    values: Any = None,
    up: str = "",
    live: bool = False,
    **content: Any,
) -> str:
    """A whole page of a site: a template on top of site.html.

    here: its file, for the links to the others. up: ``../`` in a folder. values: JSON for the
    page's scripts. live: it asks its server for news now and then; all others ask for nothing."""
    return document(
        template,
        title=f"{title} · kdyno",
        heading=title,
        scripts=("tip.js", *scripts, *(["live.js"] if live else [])),
        styles=("site.css",),
        also="; connect-src 'self'" if live else "",
        kind="site",
        pages={"index.html": "Runs", "history.html": "History"},
        here=here,
        up=up,
        live=live,
        data="" if values is None else data(values, "site-data"),
        **content,
    )


def markup_cell(kind: str, *about: Any, text: str = "", value: Value = None) -> Cell:
    """A cell that a macro of cells.html makes; ``text`` is what rows are chosen by."""
    return Cell(text, value, markup=getattr(macros("cells.html"), kind)(*about))


def listing(summaries: Sequence[Summary], live: bool = False) -> str:
    runs = sorted(summaries, key=lambda run: (run.created, run.name), reverse=True)
    grid = Grid(_COLUMNS, runs, "Runs", id="runs-table", facets=("experiment", "state", "machine"))
    reports = sum(run.has_report for run in runs)
    intro = f"{figures.count(len(runs), 'run')}, {reports} with a report"
    listed = table(grid) if runs else None
    return shell("listing.html", "Runs", "index.html", intro=intro, table=listed, live=live)


def minute(run: Summary) -> str:
    return plain.name(run.created[:16].replace("T", " "))


def _effects(run: Summary) -> int | None:
    return sum(run.counts.values()) if run.counts else None


_COLUMNS = (
    Column("Experiment", lambda run: markup_cell("run", run, text=run.experiment, value=run.name)),
    Column("Answer", lambda run: markup_cell("answer", run, value=plain.sentence(run.answer))),
    Column("State", lambda run: markup_cell("state", run, text=run.state)),
    Column("Begun (UTC)", lambda run: Cell(minute(run), run.created)),
    Column("Kernels", lambda run: markup_cell("kernels", run)),
    Column("Machine", lambda run: run.machine),
    Column("Verdicts", lambda run: markup_cell("counts", run, value=_effects(run)), "number"),
)
