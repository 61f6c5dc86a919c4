# SPDX-License-Identifier: MIT
"""compare.html: any two runs beside each other, out of their summaries. It judges nothing:
whether two runs differ is said by ``judge.comparing`` alone, from all their boots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdyno.report import plain
from kdyno.report.show.markup import Content, Html, tag
from kdyno.report.site.shell import shell
from kdyno.report.site.summary import Summary

WORDS = ("faster", "slower", "equivalent", "inconclusive", "failed")
HEADS = ("Case", "A", "B", "B ÷ A", "Own effect in A", "Own effect in B")
_NUMBERS = (1, 2, 3)


def comparison(summaries: Sequence[Summary], live: bool = False) -> str:
    """The page. With fewer than two runs that have scores it says so."""
    found = [it for it in summaries if it.scores]
    found.sort(key=lambda it: (it.created, it.name), reverse=True)
    intro = tag(
        "p",
        "These runs were measured one after the other: whatever changed between them, temperature, "
        "updates, what else ran, is in the differences. So there is no verdict here; below the "
        "table stands the command that says whether they differ by more than their boots.",
        class_="facts",
    )
    content: Content = tag("p", "Two runs with scores are needed to compare.")
    if len(found) >= 2:
        content = [_form(found), _result()]
    return shell(
        "Two runs compared",
        "compare.html",
        content,
        intro=intro,
        scripts=["compare.js"],
        values=compare_data(found),
        live=live,
    )


def compare_data(summaries: Sequence[Summary]) -> dict[str, Any]:
    """``runs[i].scores`` holds, by number, case, variant, work, boots, value, interval, and the
    effect within the run: ratio, interval, word."""
    cases: dict[tuple[str, str, str, str], int] = {}
    runs = []
    for it in summaries:
        kernels = it.kernels or {}
        variants = list(dict.fromkeys([it.baseline, *kernels, *(s.variant for s in it.scores)]))
        variants = [name for name in variants if any(s.variant == name for s in it.scores)]
        rows = []
        for s in it.scores:
            key = (s.suite, s.case, s.unit, s.better)
            word = WORDS.index(s.verdict) if s.verdict in WORDS else -1
            rows.append(
                [
                    *(cases.setdefault(key, len(cases)), variants.index(s.variant), s.work),
                    *(s.boots, s.value, s.low, s.high),
                    *(s.ratio, s.ratio_low, s.ratio_high, word),
                ]
            )
        runs.append(
            {
                "id": it.page,
                "name": plain.name(it.name),
                "report": f"runs/{it.page}.html" if it.has_report else "",
                "kind": plain.name(it.kind),
                "machine": plain.sentence(it.machine),
                "key": it.machine_key,
                "memory": it.memory_bytes,
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


def _form(found: Sequence[Summary]) -> Html:
    options = [
        tag("option", f"{plain.short(it.experiment)} · {plain.name(it.name)}", value=it.page)
        for it in found
    ]
    sides = []
    for side in ("a", "b"):
        label = side.upper()
        sides.append(
            tag(
                "fieldset",
                tag("legend", f"Run {label}"),
                tag("label", "Run ", tag("select", options, id=f"run-{side}")),
                tag("label", "Variant ", tag("select", id=f"variant-{side}")),
            )
        )
    return tag("form", sides, class_="sides", id="sides")


def _result() -> list[Content]:
    heads = [
        tag(
            "th",
            tag("button", text, type="button"),
            scope="col",
            class_="number" if number in _NUMBERS else None,
        )
        for number, text in enumerate(HEADS)
    ]
    whole = tag(
        "table",
        tag("caption", "Comparison", class_="unseen"),
        tag("thead", tag("tr", heads)),
        tag("tbody"),
        id="compare-table",
        class_="sortable",
    )
    frame = tag(
        "div",
        whole,
        class_="frame",
        role="region",
        aria_label="Comparison",
        tabindex=0,
        id="result",
    )
    return [
        tag("p", id="refused", class_="refused", role="status", hidden=True),
        frame,
        tag("ul", id="notes", class_="notes", aria_live="polite"),
    ]
