# SPDX-License-Identifier: MIT
"""The top of the page: what was asked, what the answer is, and what to beware of."""

from __future__ import annotations

from collections.abc import Sequence

from kdyno.report import figures, plain
from kdyno.report.evidence import Evidence
from kdyno.report.groups import groups, shown
from kdyno.report.sentence import answer
from kdyno.report.show.html import GLYPHS, badge
from kdyno.report.show.markup import Html, join, name, tag
from kdyno.store.verdict import Flag, Verdict


def head(evidence: Evidence, links: Sequence[Html]) -> Html:
    verdict = evidence.verdict
    question = plain.sentence(verdict.question)
    asked = [tag("p", name(verdict.experiment), class_="experiment")] if question else []
    return tag(
        "header",
        tag("div", *asked, _theme_switch(), class_="top"),
        tag("h1", tag("bdi", question) if question else name(verdict.experiment)),
        tag("p", tag("bdi", _unbroken(answer(verdict))), class_="answer"),
        _tally(verdict),
        _facts(evidence),
        _warnings(shown(verdict), evidence),
        tag("nav", links, aria_label="Sections"),
    )


def _unbroken(text: str) -> Html:
    """Keeps a line from ending between a number and its percent sign."""
    return Html(join([text]).replace(" %", "&nbsp;%"))


def _theme_switch() -> Html:
    return tag("button", "Dark", type="button", id="theme", aria_pressed="false")


def _tally(verdict: Verdict) -> Html | None:
    """How many cases of each verdict; controls and the baseline's copy make no claim."""
    tested = [it for group in groups(verdict) if not group.is_copy for it in group.tested]
    counts = {word: sum(it.verdict == word for it in tested) for word in GLYPHS}
    items = [
        tag("li", badge(word), " ", tag("b", str(count))) for word, count in counts.items() if count
    ]
    return tag("ul", items, class_="tally", aria_label="Effects by verdict") if items else None


def _facts(evidence: Evidence) -> Html:
    verdict = evidence.verdict
    booted = [count for count in verdict.boots.values() if count]
    parts = []
    if booted:
        low, high = min(booted), max(booted)
        each = str(high) if low == high else f"{low} to {high}"
        parts.append(f"{each} boots of each of {figures.count(len(booted), 'kernel')}")
    parts.append(f"{100 * verdict.confidence:g} % intervals, corrected for the number of effects")
    parts.append(f"differences inside {figures.tolerance(verdict.equivalent)} do not matter")
    if evidence.manifest is not None:
        parts.append(f"begun {evidence.manifest.created[:16].replace('T', ' ')} UTC")
    if verdict.stopped:
        parts.append(f"ended: {plain.sentence(verdict.stopped)}")
    return tag("p", " · ".join(parts), class_="facts")


def _warnings(verdict: Verdict, evidence: Evidence) -> Html | None:
    """What failed, and every flag. They stand above the figures that they are about."""
    items = [
        tag("li", badge("failed"), " ", name(variant), ": ", plain.sentence(reason))
        for variant, reason in verdict.failed.items()
    ]
    items += [_flag(flag) for flag in verdict.flags]
    told = {it for flag in verdict.flags if flag.kind == "damaged" for it in [flag.text]}
    items += [
        tag("li", tag("b", "damaged"), " ", plain.sentence(f"{bad.name}: {bad.reason}"))
        for bad in evidence.damaged
        if not any(bad.name in text for text in told)
    ]
    if not items:
        return None
    summary = tag("summary", figures.count(len(items), "remark"), " on these figures")
    # A failure or a control that moved must be seen without a click.
    loud = bool(verdict.failed) or any("moved" in flag.kind for flag in verdict.flags)
    return tag("details", summary, tag("ul", items), class_="remarks", open=loud or len(items) < 4)


def _flag(flag: Flag) -> Html:
    where = "/".join(plain.short(part) for part in (flag.suite, flag.case) if part)
    if flag.variant:
        where += f"{' in ' if where else ''}{plain.short(flag.variant)}"
    said = join([tag("bdi", where), ": "]) if where else None
    return tag("li", tag("b", plain.name(flag.kind)), " ", said, plain.sentence(flag.text))
