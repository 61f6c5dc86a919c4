# SPDX-License-Identifier: MIT
"""Scores of whole suites: index per case, groups, and the suite's own, for each variant.

These are for people who compare with published tables; they carry no interval, so a verdict is
never made of them. Two scales stand side by side: against the reference machine of the suite, and
against the run's own baseline variant, which is 100 throughout. A score that lacks a member is
absent and says what it lacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kdyno.report import figures, plain
from kdyno.report.show import terminal
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.markdown import escaped
from kdyno.report.show.markdown import table as as_markdown
from kdyno.report.show.terminal import Part
from kdyno.store.verdict import Verdict
from kdyno.suites.catalogue import Case, Catalogue, Suite
from kdyno.suites.score import case_index, group_scores, members, suite_index

Values = Mapping[str, Mapping[tuple[str, str], float]]
"""Variant → (suite, case) → score in the case's unit."""

OWN = 100.0
"""What the baseline variant has on its own scale."""


@dataclass(frozen=True)
class Score:
    """``value`` is None when something is missing, or nothing was published to compare with."""

    value: float | None
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScoreRow:
    """A case, a group of cases, or the suite."""

    name: str
    kind: str
    """case, group or suite."""
    amount: str
    """The case's value with its unit; empty for the others."""
    reference: Score
    """Against the suite's reference machine."""
    own: Score
    """Against the run's baseline variant, which has 100."""


@dataclass(frozen=True)
class ScoreTable:
    """All scores of one variant in one suite."""

    suite: str
    variant: str
    baseline: str
    rows: tuple[ScoreRow, ...]


def values_of(verdict: Verdict) -> dict[str, dict[tuple[str, str], float]]:
    """The baseline's medians over boots, and those × the effect; the baseline comes first."""
    found: dict[str, dict[tuple[str, str], float]] = {verdict.baseline: {}}
    for effect in verdict.effects:
        key = (effect.suite, effect.case)
        if effect.baseline_value is not None:
            found[verdict.baseline][key] = effect.baseline_value
        value = effect.value if effect.paired_value is None else effect.paired_value
        if value is not None:
            found.setdefault(effect.variant, {})[key] = value
    for it in verdict.values:
        if it.value is not None:
            found[verdict.baseline][it.suite, it.case] = it.value
    return found


def tables(values: Values, catalogue: Catalogue, baseline: str) -> tuple[ScoreTable, ...]:
    """A table for each suite that has an index and each variant that measured something of it."""
    measured = {suite for of_variant in values.values() for suite, _ in of_variant}
    return tuple(
        _table(suite, variant, values, baseline)
        for suite in catalogue.values()
        if suite.index is not None and suite.name in measured
        for variant in values
    )


def _table(suite: Suite, variant: str, values: Values, baseline: str) -> ScoreTable:
    mine = _of_suite(values[variant], suite)
    base = _of_suite(values.get(baseline, {}), suite)
    indices = {
        case.name: index
        for case in suite.cases
        if case.name in mine and (index := case_index(suite, case, mine[case.name])) is not None
    }
    own = {
        case.name: _ratio(case, mine[case.name], base[case.name])
        for case in suite.cases
        if case.name in mine and case.name in base
    }
    rows = [
        ScoreRow(
            case.name,
            "case",
            figures.quantity(mine[case.name], case.unit),
            Score(indices.get(case.name)),
            Score(own.get(case.name)),
        )
        for case in suite.cases
        if case.name in mine
    ]
    against_reference = group_scores(suite.groups, indices)
    against_own = group_scores(suite.groups, own)
    rows += [
        ScoreRow(
            group.name,
            "group",
            "",
            Score(against_reference[group.name].value, against_reference[group.name].missing),
            Score(against_own[group.name].value, against_own[group.name].missing),
        )
        for group in suite.groups
        if any(name in mine for name in _cases_of(suite, group.name))
    ]
    whole = suite_index(suite, mine)
    if whole is not None:
        rows.append(
            ScoreRow(
                "index", "suite", "", Score(whole.value, whole.missing), _own_index(suite, own)
            )
        )
    return ScoreTable(suite.name, variant, baseline, tuple(rows))


def _of_suite(values: Mapping[tuple[str, str], float], suite: Suite) -> dict[str, float]:
    return {case: value for (name, case), value in values.items() if name == suite.name}


def _ratio(case: Case, value: float, base: float) -> float:
    return OWN * (value / base if case.better == "higher" else base / value)


def _own_index(suite: Suite, own: Mapping[str, float]) -> Score:
    """The index divided by the baseline's: the geometric mean of the ratios."""
    import statistics

    names = [case.name for case in members(suite)]
    missing = tuple(name for name in names if name not in own)
    return Score(None if missing else statistics.geometric_mean(own[it] for it in names), missing)


def _cases_of(suite: Suite, name: str) -> list[str]:
    for group in suite.groups:
        if group.name == name:
            return [case for member in group.members for case in _cases_of(suite, member)]
    return [name]


def text(found: Iterable[ScoreTable]) -> str:
    """For a terminal, 80 columns and narrower; empty when there is nothing to say."""
    return terminal.text(part for table in found for part in _parts(table)).strip("\n")


def _parts(table: ScoreTable) -> Iterator[Part]:
    yield f"{plain.short(table.variant)} · {table.suite}"
    yield grid(table)
    yield from ("", *lacks) if (lacks := lacking(table)) else ()
    yield ""


def markdown(found: Iterable[ScoreTable]) -> str:
    """The same for a document."""
    parts = []
    for table in found:
        parts += [
            f"**{escaped(plain.short(table.variant))}**, {table.suite}",
            as_markdown(grid(table)),
        ]
        parts += ["\n".join(lacks)] if (lacks := lacking(table)) else []
    return "\n\n".join(parts)


def grid(table: ScoreTable) -> Grid:
    """A row for each case, group and the suite, on both scales."""
    columns = [
        Column("", lambda it: it.name, "name"),
        Column("value", lambda it: it.amount, "number"),
        Column("score", lambda it: it.reference.value, "number", _number, absent="–"),
        Column(
            f"{plain.short(table.baseline)} = 100", lambda it: it.own.value, "number", _number,
            absent="–",
        ),
    ]  # fmt: skip
    return Grid(columns, table.rows)


def summary(found: Iterable[ScoreTable]) -> str:
    """A line for each suite whose own score is whole; empty where none is."""
    said: dict[str, list[str]] = {}
    for table in found:
        last = table.rows[-1] if table.rows else None
        if last is None or last.kind == "case" or last.name not in ("index", "total"):
            continue
        if last.reference.value is not None:
            amount = f"{last.reference.value:.1f}"
        elif last.own.value is not None and table.variant != table.baseline:
            amount = f"{last.own.value:.1f} of {plain.short(table.baseline)}'s 100"
        else:
            continue
        of_suite = said.setdefault(f"{table.suite} {last.name}", [])
        of_suite.append(f"{plain.short(table.variant)} {amount}")
    return "\n".join(f"{head}: {', '.join(parts)}" for head, parts in said.items())


def _number(value: float) -> str:
    return f"{value:.2f}"


def lacking(table: ScoreTable) -> list[str]:
    """A line for each score of a group or of the suite that is absent: what it lacks."""
    return [line for row in table.rows if (line := _lacks(row))]


def _lacks(row: ScoreRow) -> str:
    """Why a score is absent, in words; "" when it is not."""
    unmeasured = dict.fromkeys(row.own.missing)
    unpublished = [name for name in row.reference.missing if name not in unmeasured]
    reasons = []
    if unmeasured:
        reasons.append(f"not measured: {', '.join(unmeasured)}")
    if unpublished:
        reasons.append(f"no reference was published for {', '.join(unpublished)}")
    return f"{row.name} has no score; {'; '.join(reasons)}" if reasons else ""
