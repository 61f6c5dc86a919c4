# SPDX-License-Identifier: MIT
"""The table of crossed factors: a sentence for each, then the rows behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kdyno.report import effects, figures, plain
from kdyno.report.show import terminal
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.markdown import escaped
from kdyno.report.show.markdown import table as as_markdown
from kdyno.report.show.terminal import Part, words
from kdyno.store.verdict import FactorEffect, FactorTable, Verdict


def grids(verdict: Verdict) -> list[Grid]:
    """A table for every case: each main effect, what it is at other factors' levels, and how much
    more it is there."""
    table = verdict.factors
    if table is None:
        return []
    columns = [
        Column("level", _level),
        Column("effect", effects.effect, "effect"),
        Column(effects.level(verdict), effects.interval, "number", worth=1),
        Column("verdict", effects.verdict, "verdict"),
        Column("blocks", lambda it: it.blocks, "number", worth=2),
    ]
    found = []
    for number, (suite, case) in enumerate(_cases(table)):
        mine = [it for it in table.effects if (it.suite, it.case) == (suite, case)]
        lower = ", lower is better" if mine[0].better == "lower" else ""
        title = f"{plain.short(suite)}/{plain.short(case)} ({plain.name(mine[0].unit)}{lower})"
        found.append(Grid(columns, mine, title, id=f"factors-{number}"))
    return found


def summary(table: FactorTable, equivalent: float) -> tuple[str, ...]:
    """``kernel-compile/whole: smp on: −47 % time at jobs ≥ 2, nothing at jobs 1``."""
    same: dict[tuple[str, str, str], list[str]] = {}
    for suite, case in _cases(table):
        mine = [it for it in table.effects if (it.suite, it.case) == (suite, case)]
        for main in (it for it in mine if it.kind == "main"):
            own = [it for it in mine if (it.factor, it.level) == (main.factor, main.level)]
            said = _by_level(main, own, table, equivalent) or _phrase([main], equivalent)
            what = f"{plain.short(main.factor)} {plain.short(main.level)}"
            same.setdefault((plain.short(suite), what, said), []).append(plain.short(case))
    return tuple(
        f"{suite}/{cases[0]}: {what}: {said}"
        if len(cases) == 1
        else f"{suite}: {what}: {said}, in {_and(cases)}"
        for (suite, what, said), cases in same.items()
    )


def markdown(verdict: Verdict) -> list[str]:
    """Paragraphs and tables; empty without factors."""
    table = verdict.factors
    if table is None:
        return []
    parts = ["### Factors", "\n".join(f"- {escaped(line)}" for line in table.summary)]
    for grid in grids(verdict):
        first, *others = grid.columns
        titled = replace(grid, columns=[replace(first, head=grid.title), *others])
        parts.append(as_markdown(titled))
    if table.missing:
        parts.append("\n".join(f"- {escaped(plain.sentence(text))}" for text in table.missing))
    parts.append(note(verdict))
    return parts


def parts(verdict: Verdict, width: int) -> Iterator[Part]:
    """The tables for a terminal, at most ``width`` columns where names allow it."""
    if verdict.factors is None:
        return
    yield from ("", "factors")
    yield from (words(f"  {line}") for line in verdict.factors.summary)
    for grid in grids(verdict):
        yield ""
        yield words(grid.title)
        yield terminal.fit(grid, width, 1)


def note(verdict: Verdict) -> str:
    """What the rows mean, once below them."""
    return (
        "A row compares a level with its factor's reference, within blocks and on the log scale, "
        "averaged over the other factors; × rows say how much more or less two levels do together "
        "than each alone. Intervals are corrected for all rows of this table. Equivalent means "
        f"inside {figures.tolerance(verdict.equivalent)}."
    )


def _cases(table: FactorTable) -> list[tuple[str, str]]:
    return list(dict.fromkeys((it.suite, it.case) for it in table.effects))


def _level(it: FactorEffect) -> Cell:
    """What the row is about; a main effect's refinements stand below it."""
    if it.kind == "main":
        return Cell(f"{plain.short(it.factor)} {plain.short(it.level)}")
    other = f"{plain.short(it.other or '')} {plain.short(it.at or '')}"
    return Cell(f"{'at' if it.kind == 'conditional' else '×'} {other}", depth=1)


def _matters(it: FactorEffect) -> bool:
    return it.verdict in ("faster", "slower") and not it.equivalent_too


def _by_level(
    main: FactorEffect, own: Sequence[FactorEffect], table: FactorTable, equivalent: float
) -> str:
    """The effect at the levels of the factor that changes it most; "" when none does."""
    mine = (main.factor, main.level)
    changing = [
        it
        for it in table.effects
        if it.kind == "interaction"
        and (it.suite, it.case) == (main.suite, main.case)
        and _matters(it)
        and (mine == (it.factor, it.level) or mine == (it.other, it.at))
    ]
    if not changing:
        return ""
    most = max(changing, key=lambda it: abs((it.ratio or 1.0) - 1.0))
    other = most.other if most.factor == main.factor else most.factor
    there = [it for it in own if it.kind == "conditional" and it.other == other]
    groups: dict[str, list[FactorEffect]] = {}
    for it in there:
        groups.setdefault(it.verdict if _matters(it) else _nothing(it), []).append(it)
    levels = table.factors.get(other or "", ())
    said = [
        f"{_phrase(group, equivalent, bare=True)} at "
        f"{_levels(plain.short(other or ''), [it.at or '' for it in group], levels)}"
        for group in sorted(groups.values(), key=lambda group: not _matters(group[0]))
    ]
    return ", ".join(said)


def _nothing(it: FactorEffect) -> str:
    small = it.verdict == "equivalent" or it.equivalent_too
    return "nothing" if small else "undecided"


def _phrase(group: Sequence[FactorEffect], equivalent: float, bare: bool = False) -> str:
    """``−47 % time``, ``−45 to −47 % time``, ``nothing``, ``undecided``."""
    first = group[0]
    if not _matters(first):
        word = _nothing(first)
        return word if bare or word != "nothing" else f"nothing ({figures.tolerance(equivalent)})"
    ordered = sorted((it.ratio or 1.0 for it in group), key=lambda ratio: abs(ratio - 1.0))
    texts = [figures.effect(ordered[0]), figures.effect(ordered[-1])]
    text = texts[0] if texts[0] == texts[1] else f"{texts[0].removesuffix(' %')} to {texts[1]}"
    if figures.is_time(first.unit):
        return f"{text} time"
    return f"{text} ({first.verdict})" if first.better == "lower" else text


def _levels(factor: str, wanted: Sequence[str], levels: Sequence[str]) -> str:
    """``jobs ≥ 2`` for an upper end of numbers, ``≤ 2`` for a lower one, else the names."""
    try:
        numbers = sorted(levels, key=float)
        mine = sorted(wanted, key=float)
    except ValueError:
        numbers, mine = list(levels), list(wanted)
    else:
        if 1 < len(mine) < len(numbers):
            if mine == numbers[-len(mine) :]:
                return f"{factor} ≥ {mine[0]}"
            if mine == numbers[: len(mine)]:
                return f"{factor} ≤ {mine[-1]}"
    if len(mine) == len(numbers):
        return f"every level of {factor}"
    return f"{factor} {_and([plain.short(name) for name in mine])}"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
