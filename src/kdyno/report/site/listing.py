# SPDX-License-Identifier: MIT
"""index.html: every run, with what was asked and what came out."""

from __future__ import annotations

from collections.abc import Sequence

from kdyno.report import figures, plain
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.html import GLYPHS, table
from kdyno.report.show.markup import Content, Html, name, short, tag
from kdyno.report.site.shell import shell
from kdyno.report.site.summary import Summary

_SHOWN_KERNELS = 4
_SHOWN_CHARACTERS = 300


def listing(summaries: Sequence[Summary], live: bool = False) -> str:
    """The page; newest first."""
    ordered = sorted(summaries, key=lambda it: (it.created, it.name), reverse=True)
    if not ordered:
        content: Content = tag("p", "There is no run yet: ", tag("code", "kdyno run EXPERIMENT"))
    else:
        facets = {
            "experiment": lambda it: it.experiment and plain.short(it.experiment),
            "state": lambda it: plain.short(it.state),
            "machine": lambda it: it.machine and plain.short(it.machine),
        }
        content = table(Grid(_COLUMNS, ordered, "Runs", id="runs-table", facets=facets))
    done = sum(it.has_report for it in ordered)
    intro = f"{figures.count(len(ordered), 'run')}, {done} with a report"
    return shell("Runs", "index.html", content, intro=tag("p", intro, class_="facts"), live=live)


def _run(it: Summary) -> Cell:
    shown: Html = name(it.name)
    if it.has_report:
        shown = tag("a", shown, href=f"runs/{it.page}.html")
    what = tag("span", short(it.experiment or "?"), class_="what")
    return Cell(value=it.name, markup=[what, tag("small", shown)])


def _compare(it: Summary) -> Cell:
    link = tag("a", "with …", href=f"compare.html#a={it.page}")
    return Cell(markup=link if it.scores else None)


def _state(it: Summary) -> Cell:
    state = f"state {_state_class(it.state)}"
    return Cell(markup=tag("span", plain.short(it.state), class_=state))


def _begun(it: Summary) -> Cell:
    return Cell(plain.name(it.created[:16].replace("T", " ")), it.created)


def _answer(it: Summary) -> Cell:
    parts: list[Content] = []
    if asked := plain.sentence(it.question):
        parts.append(tag("small", tag("bdi", _cut(asked))))
    if said := it.answer or it.reason:
        parts.append(tag("bdi", _cut(plain.sentence(said))))
    if it.answer and "damaged" in it.reason:
        parts.append(tag("small", plain.sentence(it.reason)))
    return Cell(value=plain.sentence(it.answer), markup=parts)


def _cut(text: str) -> str:
    """Enough of a text for a list; the report has the rest."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _state_class(state: str) -> str:
    known = ("finished", "running", "interrupted", "failed", "damaged", "empty")
    return state if state in known else "damaged"


def _kernels(it: Summary) -> Cell:
    kernels = it.kernels or {}
    parts: list[Content] = []
    for variant, kernel in list(kernels.items())[:_SHOWN_KERNELS]:
        version = plain.short(kernel.version) if kernel.version else ""
        parts.append(tag("div", short(variant), f" {version}" if version != variant else ""))
    if len(kernels) > _SHOWN_KERNELS:
        parts.append(tag("div", f"and {len(kernels) - _SHOWN_KERNELS} more"))
    return Cell(markup=parts)


def _counts(it: Summary) -> Cell:
    counts = it.counts or {}
    parts: list[Content] = []
    for word, glyph in GLYPHS.items():
        if number := counts.get(word, 0):
            sign = tag("span", glyph, aria_hidden="true")
            unseen = tag("span", f" {word}", class_="unseen")
            parts.append(
                tag("span", sign, f" {number}", unseen, class_=f"badge {word}", title=word)
            )
            parts.append(Html(" "))
    return Cell(value=sum(counts.values()) if counts else None, markup=parts)


_COLUMNS = (
    Column("Run", _run),
    Column("Answer", _answer),
    Column("State", _state),
    Column("Begun (UTC)", _begun),
    Column("Kernels", _kernels),
    Column("Machine", lambda it: it.machine),
    Column("Verdicts", _counts, "number"),
    Column("Compare", _compare),
)
