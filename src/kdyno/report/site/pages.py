# SPDX-License-Identifier: MIT
"""index.html: every run, with what was asked and what came out; compare.html: any two of them.

The comparison judges nothing: whether two runs differ is said by ``judge.comparing`` alone, from
all their boots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdyno.report import figures, plain
from kdyno.report.page import document
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.html import Html, data, macros, table
from kdyno.report.site.summary import Summary

PAGES = {"index.html": "Runs", "compare.html": "Compare", "history.html": "History"}
WORDS = ("faster", "slower", "equivalent", "inconclusive", "failed")
HEADS = ("Case", "A", "B", "B ÷ A", "Own effect in A", "Own effect in B")
_STATES = ("finished", "running", "interrupted", "failed", "damaged", "empty")
_MOST_KERNELS = 4
_MOST_CHARACTERS = 300


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
    nobody for anything.
    """
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
    shown = table(grid) if runs else None
    return shell("listing.html", "Runs", "index.html", intro=intro, table=shown, live=live)


def _cell(kind: str, *values: Any) -> Html:
    content: Html = getattr(macros("cells.html"), kind)(*values)
    return content


def _state(run: Summary) -> Cell:
    kind = run.state if run.state in _STATES else "damaged"
    return Cell(markup=_cell("state", run.state, kind))


def _answer(run: Summary) -> Cell:
    outcome = plain.sentence(run.answer or run.reason)
    remark = plain.sentence(run.reason) if run.answer and "damaged" in run.reason else ""
    markup = _cell("answer", _cut(plain.sentence(run.question)), _cut(outcome), remark)
    return Cell(value=plain.sentence(run.answer), markup=markup)


def _cut(text: str) -> str:
    """Enough of a text for a list; the report has the rest."""
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _kernels(run: Summary) -> Cell:
    kernels = [
        (variant, "" if kernel.version in ("", variant) else f" {plain.short(kernel.version)}")
        for variant, kernel in (run.kernels or {}).items()
    ]
    left = len(kernels) - _MOST_KERNELS
    return Cell(markup=_cell("kernels", kernels[:_MOST_KERNELS], max(0, left)))


def _counts(run: Summary) -> Cell:
    counts = run.counts or {}
    return Cell(value=sum(counts.values()) if counts else None, markup=_cell("counts", counts))


_COLUMNS = (
    Column("Run", lambda run: Cell(value=run.name, markup=_cell("run", run))),
    Column("Answer", _answer),
    Column("State", _state),
    Column(
        "Begun (UTC)",
        lambda run: Cell(plain.name(run.created[:16].replace("T", " ")), run.created),
    ),
    Column("Kernels", _kernels),
    Column("Machine", lambda run: run.machine),
    Column("Verdicts", _counts, "number"),
    Column("Compare", lambda run: Cell(markup=_cell("compare", run) if run.scores else None)),
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
        heads=HEADS,
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
        variants = list(dict.fromkeys([run.baseline, *kernels, *(s.variant for s in run.scores)]))
        variants = [name for name in variants if any(s.variant == name for s in run.scores)]
        rows = []
        for score in run.scores:
            key = (score.suite, score.case, score.unit, score.better)
            word = WORDS.index(score.verdict) if score.verdict in WORDS else -1
            place = (cases.setdefault(key, len(cases)), variants.index(score.variant), score.work)
            value = (score.boots, score.value, score.low, score.high)
            rows.append([*place, *value, score.ratio, score.ratio_low, score.ratio_high, word])
        runs.append(
            {
                "id": run.page,
                "name": plain.name(run.name),
                "report": f"runs/{run.page}.html" if run.has_report else "",
                "kind": plain.name(run.kind),
                "machine": plain.sentence(run.machine),
                "key": run.machine_key,
                "memory": run.memory_bytes,
                "variants": [plain.name(name) for name in variants],
                "kernels": [
                    [kernels[name].version, kernels[name].digest] if name in kernels else ["", ""]
                    for name in variants
                ],
                "scores": rows,
            }
        )
    named = [[plain.name(part) for part in key] for key in cases]
    return {"words": WORDS, "cases": named, "runs": runs}
