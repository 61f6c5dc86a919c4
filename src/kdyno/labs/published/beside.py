# SPDX-License-Identifier: MIT
"""Today's effects beside those of a published experiment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kdyno.labs.published.article import Check, Published, Table, pairs
from kdyno.labs.published.tables import NO_SPREAD
from kdyno.report import effects, figures, plain
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.terminal import Part
from kdyno.store.verdict import Effect, FactorEffect, Verdict


@dataclass(frozen=True)
class Beside:
    """A published ratio and today's effect."""

    what: str
    published: float
    table: str
    today: Effect | FactorEffect


def beside(article: Published, verdict: Verdict) -> list[Beside]:
    """Today's effects that measure what the article did, in the order of its tables."""
    found = []
    for table in article.tables:
        if table.today is None:
            continue
        if len(table.factors) == 1:
            found += list(_arms_beside(table, verdict))
        elif verdict.factors is not None:
            found += list(_factors_beside(table, verdict))
    return found


def parts(article: Published, verdict: Verdict) -> Iterator[Part]:
    """Today's effects beside the published ones."""
    yield f"{plain.name(verdict.experiment)} beside “{article.title}”"
    found = beside(article, verdict)
    if not found:
        yield "no case of this run measures what the article did"
        return
    yield Grid(_COLUMNS, found)
    yield f"{NO_SPREAD} about how far the two are apart"


def _verdict(it: Beside) -> str:
    ci = it.today.ci
    inside = ci is not None and ci[0] <= it.published <= ci[1]
    return it.today.verdict + (", the published figure lies in it" if inside else "")


_COLUMNS = (
    Column("", lambda it: it.what),
    Column("published", lambda it: it.published, "number", figures.effect),
    Column("today", lambda it: effects.effect(it.today), "effect"),
    Column("interval", lambda it: effects.interval(it.today), "number"),
    Column("verdict today", lambda it: Cell(_verdict(it), tone=it.today.verdict), "verdict"),
)


def beside_json(article: Published, verdict: Verdict) -> list[dict[str, Any]]:
    """For programs."""
    return [
        {
            "what": it.what,
            "table": it.table,
            "published_ratio": it.published,
            "ratio": it.today.ratio,
            "ci": it.today.ci,
            "verdict": it.today.verdict,
        }
        for it in beside(article, verdict)
    ]


def _arms_beside(table: Table, verdict: Verdict) -> Iterator[Beside]:
    today = table.today
    assert today is not None
    for cell in table.cells:
        for figure in table.cells[cell]:
            ratio = table.ratio(cell, figure)
            if cell == table.baseline or ratio is None:
                continue
            for effect in verdict.effects:
                same = effect.suite == today.suite and fnmatchcase(
                    effect.case, today.cases.get(figure, figure)
                )
                if same and effect.ratio is not None and effect.variant != verdict.copy_of_baseline:
                    what = f"{effect.suite}/{effect.case}: {effect.variant}"
                    yield Beside(what, ratio, table.name, effect)


def _factors_beside(table: Table, verdict: Verdict) -> Iterator[Beside]:
    today = table.today
    assert today is not None and verdict.factors is not None

    def printed(factor: str, level: str | None) -> str | None:
        back = {new: old for old, new in today.levels.get(factor, {}).items()}
        found = back.get(level or "", level)
        return found if found in table.factors.get(factor, ()) else None

    for effect in verdict.factors.effects:
        if effect.suite != today.suite or effect.kind == "interaction":
            continue
        start, end = printed(effect.factor, effect.reference), printed(effect.factor, effect.level)
        where: dict[str, tuple[str, ...]] = {}
        if effect.other is not None:
            level = printed(effect.other, effect.at)
            if level is None:
                continue
            where[effect.other] = (level,)
        if start is None or end is None:
            continue
        claim = Check(
            "", table.name, today.figure or "", None, None, where, effect.factor, start, end
        )
        ratios = [
            it
            for cell, against in pairs(table, claim)
            if (it := table.ratio(cell, today.figure or "", against)) is not None
        ]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            at = f" at {effect.other} {effect.at}" if effect.other else ""
            what = f"{table.name}: {effect.factor} {effect.level}{at} ({effect.case})"
            yield Beside(what, mean, table.name, effect)
