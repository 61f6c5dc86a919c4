# SPDX-License-Identifier: MIT
"""index.html: every run, with what was asked and what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kdyno.report import figures, plain
from kdyno.report.html.head import GLYPHS
from kdyno.report.html.markup import Content, Html, name, short, tag
from kdyno.report.html.table import Cell, Row, table
from kdyno.report.site.shell import shell
from kdyno.report.site.summary import Summary

HEADS = ("Run", "Answer", "State", "Begun (UTC)", "Kernels", "Machine", "Verdicts", "Compare")
_SHOWN_KERNELS = 4
_SHOWN_CHARACTERS = 300


def listing(summaries: Sequence[Summary], live: bool = False) -> str:
    """The page; newest first."""
    ordered = sorted(summaries, key=lambda it: (it.created, it.name), reverse=True)
    if not ordered:
        content: Content = tag("p", "There is no run yet: ", tag("code", "kdyno run EXPERIMENT"))
    else:
        rows = [Row(_cells(it), _facets(it)) for it in ordered]
        content = table("runs-table", "Runs", HEADS, rows, ("experiment", "state", "machine"))
    done = sum(it.has_report for it in ordered)
    intro = f"{figures.count(len(ordered), 'run')}, {done} with a report"
    return shell("Runs", "index.html", content, intro=tag("p", intro, class_="facts"), live=live)


def _facets(it: Summary) -> dict[str, str]:
    facets = {"state": plain.short(it.state)}
    if it.experiment:
        facets["experiment"] = plain.short(it.experiment)
    if it.machine:
        facets["machine"] = plain.short(it.machine)
    return facets


def _cells(it: Summary) -> list[Cell]:
    shown: Html = name(it.name)
    if it.has_report:
        shown = tag("a", shown, href=f"runs/{it.page}.html")
    asked = plain.sentence(it.question)
    counts = it.counts or {}
    compare = tag("a", "with …", href=f"compare.html#a={it.page}") if it.scores else None
    return [
        Cell(
            [tag("span", short(it.experiment or "?"), class_="what"), tag("small", shown)], it.name
        ),
        Cell(_answer(it, asked), plain.sentence(it.answer)),
        Cell(tag("span", plain.short(it.state), class_=f"state {_state_class(it.state)}")),
        Cell(plain.name(it.created[:16].replace("T", " ")), it.created),
        Cell(_kernels(it)),
        Cell(plain.sentence(it.machine)),
        Cell(_counts(counts), float(sum(counts.values())) if counts else None, True),
        Cell(compare),
    ]


def _answer(it: Summary, asked: str) -> Content:
    parts: list[Content] = []
    if asked:
        parts.append(tag("small", tag("bdi", _cut(asked))))
    if said := it.answer or it.reason:
        parts.append(tag("bdi", _cut(plain.sentence(said))))
    if it.answer and "damaged" in it.reason:
        parts.append(tag("small", plain.sentence(it.reason)))
    return parts


def _cut(text: str) -> str:
    """Enough of a text for a list; the report has the rest."""
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _state_class(state: str) -> str:
    known = ("finished", "running", "interrupted", "failed", "damaged", "empty")
    return state if state in known else "damaged"


def _kernels(it: Summary) -> Content:
    kernels = it.kernels or {}
    parts: list[Content] = []
    for variant, kernel in list(kernels.items())[:_SHOWN_KERNELS]:
        version = plain.short(kernel.version) if kernel.version else ""
        parts.append(tag("div", short(variant), f" {version}" if version != variant else ""))
    if len(kernels) > _SHOWN_KERNELS:
        parts.append(tag("div", f"and {len(kernels) - _SHOWN_KERNELS} more"))
    return parts


def _counts(counts: Mapping[str, int]) -> Content:
    parts: list[Content] = []
    for word, glyph in GLYPHS.items():
        if number := counts.get(word, 0):
            sign = tag("span", glyph, aria_hidden="true")
            unseen = tag("span", f" {word}", class_="unseen")
            parts.append(
                tag("span", sign, f" {number}", unseen, class_=f"badge {word}", title=word)
            )
            parts.append(Html(" "))
    return parts
