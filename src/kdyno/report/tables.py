# SPDX-License-Identifier: MIT
"""The tables that only some verdicts have, once for every place where they are shown.

Each is a Grid, or None where there is nothing of the kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from kdyno.judge.comparing import RULE
from kdyno.report import effects, figures, plain
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.store.verdict import (
    CaseValue,
    Effect,
    FactorEffect,
    FactorTable,
    FunctionCounts,
    StratumEffect,
    Verdict,
    by_sums,
    deciding,
)

NOTE_OF_GROUPS = (
    "a group is the harmonic mean of its cases' ratios in each block, and above 0 % is better; "
    "intervals are corrected for all that the run claims"
)
_NOTHING = 5e-4
"""Instructions: fewer are shown as none."""


def values(verdict: Verdict) -> Grid | None:
    """The figures of a run that compares nothing: median with unit, its interval, repetitions."""

    def median(value: CaseValue) -> Cell:
        if value.value is None:
            return Cell(f"no figure: {plain.sentence(value.reason or 'it was never begun')}")
        return effects.amount(value, value.value)

    def interval(value: CaseValue) -> Cell:
        ci = value.ci
        return Cell(" … ".join(map(figures.amount, ci)), ci[0]) if ci is not None else Cell()

    def half(value: CaseValue) -> float | None:
        ci = value.ci
        return (ci[1] - ci[0]) / 2 / value.value if ci is not None and value.value else None

    def count(name: str, value: CaseValue) -> float | None:
        return value.counters.get(name)

    named = dict.fromkeys(name for value in verdict.values for name in value.counters)
    columns = [
        Column("case", lambda value: effects.case(value, "before"), "name"),
        Column("median", median, "number"),
        Column("interval", interval, "number"),
        Column("repetitions", lambda value: value.repetitions, "number"),
        Column("±", half, "number", figures.share),
        *(Column(name, partial(count, name), "number", figures.amount, worth=2) for name in named),
    ]
    return Grid(columns, verdict.values, "Values", id="values-table") if verdict.values else None


def groups(verdict: Verdict) -> Grid | None:
    """Effects on groups of a suite's cases, such as XBench's CPU, memory and total."""
    several = len({group.variant for group in verdict.groups}) > 1
    columns = [
        *([Column("variant", lambda group: plain.name(group.variant))] if several else []),
        Column("group", lambda of: f"{plain.name(of.suite)}/{plain.name(of.group)}", "name"),
        *effects.columns(verdict, verdict.groups, "effect interval verdict blocks"),
    ]
    rows = [deciding(group) for group in verdict.groups]
    return Grid(columns, rows, "Effects on groups", id="groups-table") if rows else None


def apart(verdict: Verdict) -> Grid | None:
    """What operations are made of, counted: one row for each effect."""
    rows = [effect for effect in verdict.effects if effect.apart]
    named = {part.figure for effect in rows for part in effect.apart}
    heads = {"user": "program", "kernel": "kernel"}

    def cell(name: str, effect: Effect) -> Cell:
        for part in effect.apart:
            before, more = part.baseline_value, part.value - part.baseline_value
            if part.figure == name and name in heads:
                text = f" ({figures.signed(more)})" if abs(more) >= _NOTHING else ""
                return Cell(f"{part.value:,.1f}{text}", part.value)
            if part.figure == name:
                text = f" ({figures.effect(part.value / before)})" if before else ""
                return Cell(f"{figures.amount(part.value)}{text}", part.value)
        return Cell()

    columns = [
        Column("variant", lambda effect: effect.variant, "name"),
        Column("case", lambda effect: effect.case, "name"),
        *(
            Column(heads.get(name, name), partial(cell, name), "number", worth=worth)
            for worth, name in enumerate([*heads, *sorted(named - {*heads})], 1)
            if name in named
        ),
    ]
    return Grid(columns, rows, "What an operation is made of", id="apart-table") if rows else None


def functions(verdict: Verdict) -> Grid | None:
    """The functions that counted differences are in, in instructions; of effects that differ."""
    rows = [
        (effect, counts)
        for effect in verdict.effects
        if any(abs(each.more) >= _NOTHING for each in effect.functions)
        for counts in effect.functions
    ]

    def function(row: tuple[Effect, FunctionCounts]) -> str:
        counts = row[1]
        if counts.where == "others":
            return figures.count(counts.functions, "other")
        return counts.function if counts.where == "kernel" else f"{counts.function} (program)"

    columns = [
        Column("variant", lambda row: row[0].variant, "name"),
        Column("case", lambda row: row[0].case, "name"),
        Column("function", function, "name"),
        Column("baseline", lambda row: row[1].baseline_value, "number", "{:,.3f}".format, worth=1),
        Column("value", lambda row: row[1].value, "number", "{:,.3f}".format, worth=1),
        Column("difference", lambda row: row[1].more, "number", figures.signed),
    ]
    return Grid(columns, rows, "Instructions by function", id="functions-table") if rows else None


def strata(verdict: Verdict, most: int = 16) -> Grid | None:
    """For each effect the common one, then by CPU model, then by machine; None for one machine.

    most: machines of an effect that are shown, of more those at both ends; a page has all."""
    rows: list[tuple[Effect | None, StratumEffect]] = []
    for effect in verdict.effects:
        if effect.strata is None:
            continue
        # A machine's effect is that of its typical turn, also where summed times decide.
        name = "all together, typical turns" if by_sums(effect) else "all together"
        common = StratumEffect(stratum=name, ratio=effect.ratio, ci=effect.ci, blocks=effect.blocks)
        rows.append((effect, common))
        machines = list(effect.strata.machines)
        if len(machines) > most:
            machines.sort(key=lambda stratum: stratum.ratio or 1.0)
            between = machines[most // 2 : -(most // 2)]
            blocks = sum(stratum.blocks for stratum in between)
            words = f"and {len(between)} machines between"
            rest = StratumEffect(stratum=words, ratio=None, ci=None, blocks=blocks)
            machines[most // 2 : -(most // 2)] = [rest]
        rows += [(None, stratum) for stratum in (*effect.strata.cpu_models, *machines)]

    def once(name: str, row: tuple[Effect | None, StratumEffect]) -> Cell:
        """In the first row of an effect."""
        text = getattr(row[0], name, "")
        return Cell(plain.name(text), text) if row[0] else Cell()

    def differs(row: tuple[Effect | None, StratumEffect]) -> str:
        own = row[0].strata if row[0] else None
        if own is None or own.p_value is None:
            return ""
        return "differs" if own.differs else "no difference seen"

    columns = [
        Column("variant", partial(once, "variant")),
        Column("case", partial(once, "case")),
        Column("machine", lambda row: row[1].stratum, "name"),
        Column("effect", lambda row: row[1].ratio, "effect", figures.effect),
        Column("interval", lambda row: effects.interval(row[1]), "number", worth=1),
        Column("blocks", lambda row: row[1].blocks, "number", quiet=True, worth=2),
        Column("by machine", differs),
    ]
    return Grid(columns, rows, "Effects by machine", id="strata-table") if rows else None


def method(verdict: Verdict) -> str:
    """What effects, values and intervals are, below their table."""
    paired, corrected = "paired within blocks", "corrected for the number of effects"
    if verdict.rule == RULE:
        paired = "of runs that were measured one after the other"
        corrected += " where there is a verdict, else of the spread inside the runs alone"
    return (
        f"The effect is variant ÷ baseline, {paired}; the value is the baseline's median × the "
        f"effect; the interval is {corrected}."
    )


class Detail(NamedTuple):
    """A table behind the effects, as texts show it: with a heading and a note, folded."""

    heading: str
    grid: Callable[[Verdict], Grid | None]
    note: str
    mark: str = ""
    """What the note explains."""


DETAILS = (
    Detail(
        "an operation is made of",
        apart,
        "of the variant, and how many more or fewer than the baseline; medians over boots",
        "(±n)",
    ),
    Detail(
        "effects by machine",
        strata,
        "intervals are not corrected for their number; machines of fewer than six blocks have none",
    ),
    Detail(
        "instructions by function",
        functions,
        "counted by function in a boot of each kernel of its own; the rows of a case add up",
        "function",
    ),
)


def factors(verdict: Verdict) -> list[Grid]:
    """A table for every case: each main effect of a crossed factor, what it is at other factors'
    levels, and how much more it is there."""
    if verdict.factors is None:
        return []

    def level(effect: FactorEffect) -> Cell:
        """A main effect's refinements stand below it."""
        if effect.kind == "main":
            return Cell(f"{plain.short(effect.factor)} {plain.short(effect.level)}")
        other = f"{plain.short(effect.other or '')} {plain.short(effect.at or '')}"
        return Cell(f"{'at' if effect.kind == 'conditional' else '×'} {other}", depth=1)

    columns = [
        Column("level", level),
        *effects.columns(verdict, (), "effect interval verdict blocks"),
    ]
    grids = []
    for number, rows in enumerate(_by_case(verdict.factors)):
        case = f"{plain.short(rows[0].suite)}/{plain.short(rows[0].case)}"
        lower = ", lower is better" if rows[0].better == "lower" else ""
        title = f"{case} ({plain.name(rows[0].unit)}{lower})"
        grids.append(Grid(columns, rows, title, id=f"factors-{number}"))
    return grids


def note_of_factors(verdict: Verdict) -> str:
    """What the rows of factors mean, once below them."""
    return (
        "A row compares a level with its factor's reference, within blocks and on the log scale, "
        "averaged over the other factors; × rows say how much more or less two levels do together "
        "than each alone. Intervals are corrected for all that the run claims. Equivalent means "
        f"inside {figures.tolerance(verdict.equivalent)}."
    )


def _by_case(table: FactorTable) -> list[list[FactorEffect]]:
    cases: dict[tuple[str, str], list[FactorEffect]] = {}
    for effect in map(deciding, table.effects):
        cases.setdefault((effect.suite, effect.case), []).append(effect)
    return list(cases.values())


def summary_of_factors(table: FactorTable, equivalent: float) -> tuple[str, ...]:
    """``kernel-compile/whole: smp on: −47 % time at jobs ≥ 2, nothing at jobs 1``."""
    same: dict[tuple[str, str, str], list[str]] = {}
    for rows in _by_case(table):
        for main in (row for row in rows if row.kind == "main"):
            words = _by_level(main, rows, table, equivalent) or _phrase([main], equivalent)
            what = f"{plain.short(main.factor)} {plain.short(main.level)}"
            key = (plain.short(main.suite), what, words)
            same.setdefault(key, []).append(plain.short(main.case))
    return tuple(
        f"{suite}/{cases[0]}: {what}: {words}"
        if len(cases) == 1
        else f"{suite}: {what}: {words}, in {listed(cases)}"
        for (suite, what, words), cases in same.items()
    )


def _word(effect: FactorEffect) -> str:
    """What a row says: faster, slower, nothing or undecided."""
    if effect.verdict == "equivalent" or effect.equivalent_too:
        return "nothing"
    return effect.verdict if effect.verdict in ("faster", "slower") else "undecided"


def _matters(effect: FactorEffect) -> bool:
    return _word(effect) in ("faster", "slower")


def _by_level(
    main: FactorEffect, rows: Sequence[FactorEffect], table: FactorTable, equivalent: float
) -> str:
    """The effect at the levels of the factor that changes it most; "" when none does."""
    level = (main.factor, main.level)
    changing = [
        row
        for row in rows
        if row.kind == "interaction"
        and _matters(row)
        and level in ((row.factor, row.level), (row.other, row.at))
    ]
    if not changing:
        return ""
    most = max(changing, key=lambda row: abs((row.ratio or 1.0) - 1.0))
    other = (most.other if most.factor == main.factor else most.factor) or ""
    alike: dict[str, list[FactorEffect]] = {}
    for row in rows:
        if (row.factor, row.level, row.kind, row.other) == (*level, "conditional", other):
            alike.setdefault(_word(row), []).append(row)
    parts = []
    for group in sorted(alike.values(), key=lambda group: not _matters(group[0])):
        place = _levels(other, [row.at or "" for row in group], table.factors.get(other, ()))
        parts.append(f"{_phrase(group, equivalent, bare=True)} at {place}")
    return ", ".join(parts)


def _phrase(group: Sequence[FactorEffect], equivalent: float, bare: bool = False) -> str:
    """``−47 % time``, ``−45 to −47 % time``, ``nothing``, ``undecided``."""
    first, word = group[0], _word(group[0])
    if not _matters(first):
        return word if bare or word != "nothing" else f"nothing ({figures.tolerance(equivalent)})"
    ordered = sorted((row.ratio or 1.0 for row in group), key=lambda ratio: abs(ratio - 1.0))
    least, most = figures.effect(ordered[0]), figures.effect(ordered[-1])
    text = least if least == most else f"{least.removesuffix(' %')} to {most}"
    if figures.is_time(first.unit):
        return f"{text} time"
    return f"{text} ({word})" if first.better == "lower" else text


def _levels(factor: str, wanted: Sequence[str], levels: Sequence[str]) -> str:
    """``jobs ≥ 2`` for an upper end of numbers, ``≤ 2`` for a lower one, else the names."""
    factor = plain.short(factor)
    if len(wanted) == len(levels):
        return f"every level of {factor}"
    with suppress(ValueError):
        numbers, wanted = sorted(levels, key=float), sorted(wanted, key=float)
        if len(wanted) > 1 and wanted == numbers[-len(wanted) :]:
            return f"{factor} ≥ {wanted[0]}"
        if len(wanted) > 1 and wanted == numbers[: len(wanted)]:
            return f"{factor} ≤ {wanted[-1]}"
    return f"{factor} {listed(list(map(plain.short, wanted)))}"


def listed(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
