# SPDX-License-Identifier: MIT
"""index.html: every run, with what was asked and what came out; compare.html: any two of them.

The comparison judges nothing: whether two runs differ is decided by ``judge.comparing`` alone, from
all their boots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdyno.report import figures, plain
from kdyno.report.page import document
from kdyno.report.show.grid import Cell, Column, Grid, Value
from kdyno.report.show.html import data, macros, table
from kdyno.report.site.summary import Summary

PAGES = {"index.html": "Runs", "compare.html": "Compare", "history.html": "History"}
WORDS = ("faster", "slower", "equivalent", "inconclusive", "failed")


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
    page's scripts. live: it asks its server now and then whether there is news; all others ask
    nobody for anything."""
    return document(
        template,
        title=f"{title} · kdyno",
        heading=title,
        skip=("main", "To the contents"),
        scripts=("tip.js", *scripts, *(["live.js"] if live else [])),
        styles=("site.css",),
        also="; connect-src 'self'" if live else "",
        kind="site",
        pages=PAGES,
        here=here,
        up=up,
        live=live,
        data="" if values is None else data(values, "site-data"),
        **content,
    )


def markup_cell(kind: str, *about: Any, value: Value = None) -> Cell:
    """A cell that a macro of cells.html makes."""
    return Cell(value=value, markup=getattr(macros("cells.html"), kind)(*about))


def listing(summaries: Sequence[Summary], live: bool = False) -> str:
    """The list of runs; newest first."""
    runs = sorted(summaries, key=lambda run: (run.created, run.name), reverse=True)
    facets = {
        "experiment": lambda run: run.experiment and plain.short(run.experiment),
        "state": lambda run: plain.short(run.state),
        "machine": lambda run: run.machine and plain.short(run.machine),
    }
    grid = Grid(_COLUMNS, runs, "Runs", id="runs-table", facets=facets)
    reports = sum(run.has_report for run in runs)
    intro = f"{figures.count(len(runs), 'run')}, {reports} with a report"
    listed = table(grid) if runs else None
    return shell("listing.html", "Runs", "index.html", intro=intro, table=listed, live=live)


def _minute(run: Summary) -> str:
    return plain.name(run.created[:16].replace("T", " "))


def _effects(run: Summary) -> int | None:
    return sum(run.counts.values()) if run.counts else None


_COLUMNS = (
    Column("Run", lambda run: markup_cell("run", run, value=run.name)),
    Column("Answer", lambda run: markup_cell("answer", run, value=plain.sentence(run.answer))),
    Column("State", lambda run: markup_cell("state", run)),
    Column("Begun (UTC)", lambda run: Cell(_minute(run), run.created)),
    Column("Kernels", lambda run: markup_cell("kernels", run)),
    Column("Machine", lambda run: run.machine),
    Column("Verdicts", lambda run: markup_cell("counts", run, value=_effects(run)), "number"),
    Column("Compare", lambda run: markup_cell("compare", run)),
)


def comparison(summaries: Sequence[Summary], live: bool = False) -> str:
    """The page. With fewer than two runs that have scores it says so."""
    runs = [run for run in summaries if run.scores]
    runs.sort(key=lambda run: (run.created, run.name), reverse=True)
    return shell(
        "compare.html",
        "Two runs compared",
        "compare.html",
        runs=runs,
        scripts=["compare.js"],
        values=compare_data(runs),
        live=live,
    )


def compare_data(summaries: Sequence[Summary]) -> dict[str, Any]:
    """``runs[i].scores`` holds, by number, case, variant, work, boots, value, interval, and the
    effect within the run: ratio, interval, word."""
    cases: dict[tuple[str, str, str, str], int] = {}
    runs = []
    for run in summaries:
        kernels = run.kernels or {}
        measured = {score.variant for score in run.scores}
        order = dict.fromkeys([run.baseline, *kernels, *(score.variant for score in run.scores)])
        places = {name: at for at, name in enumerate(name for name in order if name in measured)}
        rows = []
        for score in run.scores:
            key = (score.suite, score.case, score.unit, score.better)
            word = WORDS.index(score.verdict) if score.verdict in WORDS else -1
            place = (cases.setdefault(key, len(cases)), places[score.variant], score.work)
            value = (score.boots, score.value, score.low, score.high)
            rows.append([*place, *value, score.ratio, score.ratio_low, score.ratio_high, word])
        versions = {name: [kernel.version, kernel.digest] for name, kernel in kernels.items()}
        about = {
            "id": run.page,
            "name": plain.name(run.name),
            "report": f"runs/{run.page}.html" if run.has_report else "",
            "kind": plain.name(run.kind),
            "machine": plain.sentence(run.machine),
            "key": run.machine_key,
            "memory": run.memory_bytes,
            "variants": [plain.name(name) for name in places],
            "kernels": [versions.get(name, ["", ""]) for name in places],
            "scores": rows,
        }
        runs.append(about)
    named = [[plain.name(part) for part in key] for key in cases]
    return {"words": WORDS, "cases": named, "runs": runs}
