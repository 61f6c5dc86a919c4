# SPDX-License-Identifier: MIT
"""One page for all published experiments: every claim, its own figures, and today's answer."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kdyno.labs.published import tables
from kdyno.labs.published.answering import CONTROL, Answer, Row, answer, summary
from kdyno.labs.published.article import Check, Checked, Published, check
from kdyno.labs.published.evidence import Evidence, Source
from kdyno.report import figures
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.markdown import escaped, table

INTRO = """\
Five articles measured kernels between 2003 and 2011: two schedulers of FreeBSD, compiling on two
CPUs, Mac OS X's kernel in 32 and in 64 bit, and vector registers in a kernel. None of them says how
far its runs lay apart, so from their figures alone nobody can tell a difference from chance. This
page has every claim that they make: whether the article's own figures carry it, what one can ask
about it today, and what came out.

- **Their kernels are not these kernels.** Where a claim is about FreeBSD or Mac OS X, Linux answers
  a question of the same kind. Each claim says what carries over.
- **Effects are ratios**, value ÷ baseline: +2 % is two per cent more of the unit that stands beside
  it. Where less is better, +2 % is slower. [Reading a verdict](reading-a-verdict.md) has the words,
  [how it measures](how-it-measures.md) the rule.
- **Intervals** are of 95 %, and those of a verdict are corrected for the number of effects in its
  run. `exact` is a count that was the same in every boot.
- **What is not answered says so**, and names the run that it needs. Figures of a run that compares
  other things than the claim say so first, and count as no answer.
- **carried today**: all effects that are decided go the way that the claim says, however far; **not
  carried**: none does; **differs**: some do. Where claim or figures have no direction, the figures
  stand there.
- **better, worse** in the list of claims: whichever way the unit goes.
"""
_WORDS = {
    "holds": "yes",
    "does not hold": "no",
    "not settled": "cannot be told: only a part of the figures was printed",
    "not checked": "no figure was printed",
}


@dataclass(frozen=True)
class Claim:
    """A claim with all that there is to say about it."""

    article: Published
    check: Check
    own: Checked
    answers: tuple[Answer, ...]

    @property
    def rows(self) -> list[Row]:
        return [row for each in self.answers for row in each.rows]

    @property
    def expected(self) -> str:
        """The word that effects of today would have if the claim held: faster, slower, equivalent;
        "" where its figures do not tell."""
        own = self.own
        if self.check.expect or own.value or not own.found:
            return self.check.expect
        low, high = own.low or 0.0, math.inf if own.high is None else own.high
        if low < 1.0 < high:
            return "equivalent"
        better = {
            table.better for table in self.article.tables if self.check.table in ("", table.name)
        }
        if better not in ({"higher"}, {"lower"}):
            return ""
        return "faster" if (low >= 1.0) == (better == {"higher"}) else "slower"

    @property
    def today(self) -> str:
        """In a few words."""
        asked = [it for it in self.answers if not it.ask.instead]
        if not asked:
            return "not asked"
        rows = [row for it in asked for row in it.rows]
        said = (carried(self.expected, rows) or summary(rows)) if rows else ""
        missing = sum(not it.rows for it in asked)
        if not missing:
            return said
        return f"{said}; partly answered" if said else "not answered yet"


def claims(article: Published, evidence: Evidence) -> list[Claim]:
    """In the article's order."""
    return [
        Claim(article, each, check(article, each), tuple(answer(it, evidence) for it in each.today))
        for each in article.checks
    ]


def page(
    articles: Sequence[Published], evidence: Evidence, pictures: Mapping[str, str] | None = None
) -> str:
    """The page as Markdown. ``pictures``: name of a chart → the link that shows it."""
    found = {article.name: claims(article, evidence) for article in articles}
    every = [claim for each in found.values() for claim in each]
    answered = sum(any(it.rows and not it.ask.instead for it in claim.answers) for claim in every)
    parts = [
        "<!-- SPDX-License-Identifier: MIT -->\n<!-- Made by `kdyno published`. -->",
        "# What became of the published results",
        INTRO.strip(),
        f"{len(every)} claims, {answered} of them with figures of today:",
        table(_overview(found)),
    ]
    for article in articles:
        parts += [f"## {escaped(article.title)}", *_article(article)]
        for claim in found[article.name]:
            parts += _claim(claim, pictures or {})
    parts += [
        "## The runs behind this page",
        "`kdyno published` makes this page from the runs that come with kdyno, "
        "`kdyno published RUN…` from yours.",
        table(_sources(evidence.sources)),
    ]
    return "\n\n".join(parts) + "\n"


def as_json(articles: Sequence[Published], evidence: Evidence) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schema": 1,
        "sources": [asdict(it) for it in evidence.sources],
        "claims": [
            {
                "article": claim.article.name,
                "text": claim.check.text,
                "own_figures": claim.own.word,
                "question": claim.check.question,
                "unasked": claim.check.unasked,
                "today": [
                    {
                        "source": it.source.name if it.source else None,
                        "needs": it.needs,
                        "instead": it.ask.instead,
                        "rows": [asdict(row) for row in it.rows],
                    }
                    for it in claim.answers
                ],
            }
            for article in articles
            for claim in claims(article, evidence)
        ],
    }


def carried(expected: str, rows: Sequence[Row]) -> str:
    """``carried today``, ``not carried`` or ``differs``; "" where rows or claim have no direction.

    Negative controls say nothing about a claim.
    """
    words = {
        "equivalent" if it.equivalent_too else it.verdict
        for it in rows
        if it.verdict in ("faster", "slower", "equivalent") and not it.what.endswith(CONTROL)
    }
    if not expected or not any(it.verdict for it in rows):
        return ""
    if not words:
        return "undecided"
    return (
        "carried today"
        if words == {expected}
        else "differs"
        if expected in words
        else "not carried"
    )


def _overview(found: Mapping[str, Sequence[Claim]]) -> Grid:
    """A row for each claim, with a link to what is said about it."""
    columns = [
        Column("article", lambda of: "" if of[0] else of[1].article.title),
        Column("claim", lambda of: Cell(of[1].check.text, link=f"#{anchor(_heading(of[1]))}")),
        Column("carried by its own figures", lambda of: _WORDS[of[1].own.word].partition(":")[0]),
        Column("today", lambda of: of[1].today),
    ]
    return Grid(columns, [each for of_article in found.values() for each in enumerate(of_article)])


def _heading(claim: Claim) -> str:
    return claim.check.text[:1].upper() + claim.check.text[1:]


def anchor(text: str) -> str:
    """What a heading is linked by."""
    return re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")


def _article(article: Published) -> Iterator[str]:
    spread = f"{tables.NO_SPREAD[0].upper()}{tables.NO_SPREAD[1:]}"
    told = f"{article.system}. " if article.system else ""
    yield escaped(f"{told}{spread}.") + f" All figures: `kdyno compare published:{article.name}`."


def _claim(claim: Claim, pictures: Mapping[str, str]) -> Iterator[str]:
    yield f"### {escaped(_heading(claim))}"
    yield f"**Do its own figures carry it?** {escaped(own(claim.own, _unit(claim)))}"
    if claim.check.chart in pictures:
        yield pictures[claim.check.chart]
    if claim.check.unasked:
        yield f"**Not asked today.** {escaped(claim.check.unasked)}"
        return
    yield f"**Asked today:** {escaped(claim.check.question)}"
    by_source: dict[tuple[Source, str], list[Row]] = {}
    for each in claim.answers:
        if each.source is not None:
            by_source.setdefault((each.source, each.ask.instead), []).extend(each.rows)
    for (source, instead), rows in by_source.items():
        if instead:
            yield f"**Not what the claim compares, and no answer to it:** {escaped(instead)}"
        yield f"{_where(source)}:"
        yield table(_figures(rows))
    for needs in dict.fromkeys(each.needs for each in claim.answers if each.source is None):
        yield f"**Not answered yet:** this needs {needs}."
    word = "carries over" if by_source else "would carry over"
    yield f"**What {word}:** {escaped(claim.check.carries)}"


def own(it: Checked, unit: str = "") -> str:
    """The claim against the figures that were printed with it, as a sentence. ``unit``: of the
    figures, where they are meant themselves and not their ratios."""
    head = f"{_WORDS[it.word][:1].upper()}{_WORDS[it.word][1:]}."
    note = f" {it.note[:1].upper()}{it.note[1:]}." if it.note else ""
    if not it.found:
        return head + note
    show = (lambda number: f"{number:.4g} {unit}".rstrip()) if it.value else figures.effect
    ends = list(dict.fromkeys(show(end) for end in (it.low, it.high) if end is not None))
    sides = "at least " if it.high is None else "at most " if it.low is None else ""
    meant = f"{sides}{' to '.join(ends)}"
    lowest, highest = (pick(it.found, key=lambda pair: pair[1]) for pick in (min, max))
    if len(it.found) == 1:
        return f"{head} The figure is {show(lowest[1])}; the claim means {meant}.{note}"
    return (
        f"{head} {it.inside} of {len(it.found)} figures are as the claim means ({meant}); they "
        f"go from {show(lowest[1])} ({lowest[0]}) to {show(highest[1])} ({highest[0]}).{note}"
    )


def _unit(claim: Claim) -> str:
    for each in claim.article.tables:
        if each.name == claim.check.table:
            return each.units.get(claim.check.figure, each.units.get("default", ""))
    return ""


def _where(it: Source) -> str:
    return escaped(", ".join(filter(None, (it.name, it.machine, it.day, it.extent))))


def _figures(rows: Sequence[Row]) -> Grid:
    columns = [
        Column("what", lambda it: Cell(it.what)),
        Column("compared", lambda it: Cell(it.compared)),
        Column("unit", lambda it: Cell(it.unit)),
        Column("effect", lambda it: Cell(it.shown, it.ratio), "effect"),
    ]
    if any(it.ci for it in rows):
        columns.append(Column("95 % interval", _interval, "number"))
    if any(it.verdict for it in rows):
        columns.append(Column("verdict", _verdict, "verdict"))
    return Grid(columns, rows)


def _interval(it: Row) -> Cell:
    if it.exact:
        return Cell("exact")
    return Cell(figures.interval(it.ci)) if it.ci is not None else Cell()


def _verdict(it: Row) -> Cell:
    notes = ("too little to matter",) if it.equivalent_too else ()
    word = "undecided" if it.verdict == "inconclusive" else it.verdict
    return Cell(word, None, notes, tone=it.verdict)


def _sources(found: Sequence[Source]) -> Grid:
    columns = [
        Column("from", lambda it: Cell(it.name)),
        Column("day", lambda it: it.day),
        Column("machine", lambda it: Cell(it.machine)),
        Column("measured", lambda it: it.extent),
        Column("command", lambda it: Cell(it.command)),
    ]
    return Grid(columns, found)
