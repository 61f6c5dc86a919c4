# SPDX-License-Identifier: MIT
"""Scores of whole suites: index per case, groups, and the suite's own, for each variant.

For comparing with published tables; they have no interval, so a verdict is never made of them. One
scale is that of the suite's reference machine, on the other the baseline variant has 100. A score
that lacks a member is absent and says what it lacks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kdyno.errors import UsageError
from kdyno.reading.mistakes import among
from kdyno.report import figures, plain
from kdyno.report.show import grid, terminal
from kdyno.report.show.grid import Column, Grid, escaped
from kdyno.store.boot import BootRecord, Sample
from kdyno.store.run import Run
from kdyno.store.verdict import Verdict, deciding
from kdyno.suites import score
from kdyno.suites.catalogue import Catalogue, Suite

EXPLAINED: Mapping[str, str] = {
    "kdyno": "the baseline's medians of its boots, and those × the effect",
    "unixbench": "UnixBench's own: of all repetitions of all boots the worst third is dropped, "
    "and the rest is the geometric mean",
}

Values = Mapping[str, Mapping[tuple[str, str], float]]
"""Variant → (suite, case) → score in the case's unit."""
_OWN = 100.0
"""What the baseline variant has on its own scale."""


@dataclass(frozen=True)
class ScoreRow:
    variant: str
    name: str
    kind: str
    """case, group or suite."""
    amount: str
    """The case's value with its unit; empty for the others."""
    reference: score.Index
    """Against the suite's reference machine."""
    own: score.Index
    """Against the run's baseline variant, which has 100."""

    @property
    def missing(self) -> list[str]:
        return list(dict.fromkeys((*self.own.missing, *self.reference.missing)))


@dataclass(frozen=True)
class ScoreTable:
    suite: str
    variant: str
    baseline: str
    rows: tuple[ScoreRow, ...]

    @property
    def lacking(self) -> list[str]:
        """A line for each score of a group or of the suite that is absent: what it lacks."""
        lines = []
        for row in self.rows:
            unmeasured = dict.fromkeys(row.own.missing)
            unpublished = [name for name in row.missing if name not in unmeasured]
            reasons = [f"not measured: {', '.join(unmeasured)}"] if unmeasured else []
            if unpublished:
                reasons.append(f"no reference was published for {', '.join(unpublished)}")
            if reasons:
                lines.append(f"{row.name} has no score; {'; '.join(reasons)}")
        return lines

    @property
    def grid(self) -> Grid:
        return Grid(columns(self.baseline), self.rows)


def columns(baseline: str) -> list[Column]:
    """Of ScoreRows: the value, and the score on both scales."""
    head, number = f"{plain.short(baseline)} = 100", "{:.2f}".format
    return [
        Column("", lambda row: row.name, "name"),
        Column("value", lambda row: row.amount, "number"),
        Column("score", lambda row: row.reference.value, "number", number, absent="–"),
        Column(head, lambda row: row.own.value, "number", number, absent="–"),
    ]


def _units(catalogue: Catalogue) -> dict[tuple[str, str], str]:
    """A figure in another unit than its case's, as a count of instructions, has no index."""
    return {
        (suite.name, case.name): case.unit for suite in catalogue.values() for case in suite.cases
    }


def values_of(verdict: Verdict, catalogue: Catalogue) -> dict[str, dict[tuple[str, str], float]]:
    """The baseline's medians over boots, and those × the effect; the baseline comes first."""
    values: dict[str, dict[tuple[str, str], float]] = {verdict.baseline: {}}
    units = _units(catalogue)
    for effect in map(deciding, verdict.effects):
        key = effect.key[:2]
        if effect.unit != units.get(key):
            continue
        if effect.baseline_value is not None:
            values[verdict.baseline][key] = effect.baseline_value
        value = effect.value if effect.paired_value is None else effect.paired_value
        if value is not None:
            values.setdefault(effect.variant, {})[key] = value
    for row in verdict.values:
        if row.value is not None and row.unit == units.get((row.suite, row.case)):
            values[verdict.baseline][row.suite, row.case] = row.value
    return values


def passes(sample: Sample, higher_is_better: bool) -> list[float]:
    """The score of every repetition of one boot, in the case's unit.

    Taken relative to the stored score, which is their median, so that scales and figures that a
    program printed itself need no second reading. Empty where there is no score."""
    if sample.score is None:
        return []
    speeds = [
        (operations / ns if higher_is_better else ns / operations)
        for operations, ns in sample.reps
        if operations > 0 and ns > 0
    ]
    if not speeds:
        return [sample.score]
    middle = statistics.median(speeds)
    return [sample.score * speed / middle for speed in speeds]


def tables_in(
    run: Run, verdict: Verdict, scoring: str, catalogue: Catalogue
) -> tuple[ScoreTable, ...]:
    """``of_verdict``, or by UnixBench's rule of all repetitions of the boots that did not fail."""
    if scoring == "kdyno":
        return of_verdict(verdict, catalogue)
    manifest, units = run.manifest(), _units(catalogue)
    own = {case.key: case for case in manifest.cases if case.unit == units.get(case.key)}
    better = {key: case.better == "higher" for key, case in own.items()}
    scores: dict[str, dict[tuple[str, str], list[float]]] = {manifest.baseline: {}}
    for boot in (each for each in run.boots() if isinstance(each, BootRecord) and each.ok):
        for sample in boot.samples:
            key = (sample.suite, sample.case)
            if sample.score is not None and key in better:
                of_variant = scores.setdefault(boot.variant, {})
                of_variant.setdefault(key, []).extend(passes(sample, better[key]))
    values = {
        variant: {key: score.unixbench_mean(each, better[key]) for key, each in of_variant.items()}
        for variant, of_variant in scores.items()
    }
    return tables(values, catalogue, manifest.baseline)


def check_word(scoring: str) -> None:
    """UsageError with the nearest right word for one that is none."""
    if scoring not in score.SCORINGS:
        raise UsageError(f"--scoring {scoring!r}{among(scoring, score.SCORINGS)}")


def check(scoring: str | None, metric: str, suites: Iterable[str], catalogue: Catalogue) -> None:
    """UsageError for a word that is none, or where no suite has an index or groups."""
    if scoring is None:
        return
    check_word(scoring)
    if metric != "time":
        raise UsageError(f"--scoring {scoring}: an index is of speeds, and this run's are {metric}")
    having = [suite.name for suite in catalogue.values() if suite.index is not None]
    if not set(having) & set(suites):
        raise UsageError(
            f"--scoring {scoring}: none of this run's suites has an index; {', '.join(having)} have"
        )


def of_verdict(verdict: Verdict, catalogue: Catalogue) -> tuple[ScoreTable, ...]:
    """As ``tables``."""
    return tables(values_of(verdict, catalogue), catalogue, verdict.baseline)


def tables(values: Values, catalogue: Catalogue, baseline: str) -> tuple[ScoreTable, ...]:
    """A table for each suite that has an index and each variant that measured something of it."""
    measured = {suite for of_variant in values.values() for suite, _ in of_variant}
    return tuple(
        ScoreTable(suite.name, variant, baseline, tuple(_rows(suite, variant, values, baseline)))
        for suite in catalogue.values()
        if suite.index is not None and suite.name in measured
        for variant in values
    )


def _rows(suite: Suite, variant: str, values: Values, baseline: str) -> Iterator[ScoreRow]:
    own, base = (
        {case: value for (name, case), value in values.get(of, {}).items() if name == suite.name}
        for of in (variant, baseline)
    )
    indices: dict[str, float] = {}
    relative: dict[str, float] = {}
    for case in suite.cases:
        if case.name not in own:
            continue
        if (index := score.case_index(suite, case, own[case.name])) is not None:
            indices[case.name] = index
        if case.name in base:
            ratio = own[case.name] / base[case.name]
            relative[case.name] = _OWN * (ratio if case.better == "higher" else 1.0 / ratio)
        amount = figures.quantity(own[case.name], case.unit)
        scores = (score.Index(of.get(case.name)) for of in (indices, relative))
        yield ScoreRow(variant, case.name, "case", amount, *scores)
    measured = set(own)
    scales = [score.group_scores(suite.groups, of) for of in (indices, relative)]
    for group, parts in suite.groups.items():  # parts that are groups stand before it
        if group in measured or not measured.isdisjoint(parts):
            measured.add(group)
            yield ScoreRow(variant, group, "group", "", *(scale[group] for scale in scales))
    if (whole := score.suite_index(suite, own)) is not None:
        names = [case.name for case in score.members(suite)]
        missing = tuple(name for name in names if name not in relative)
        # The index divided by the baseline's: the geometric mean of the ratios.
        mean = None if missing else statistics.geometric_mean(relative[name] for name in names)
        yield ScoreRow(variant, "index", "suite", "", whole, score.Index(mean, missing))


def text(tables: Iterable[ScoreTable]) -> str:
    """For a terminal, 80 columns and narrower; empty when there is nothing to say."""
    parts: list[terminal.Part] = []
    for table in tables:
        parts += [f"{plain.short(table.variant)} · {table.suite}", table.grid]
        parts += ["", *table.lacking, ""] if table.lacking else [""]
    return terminal.text(parts).strip("\n")


def markdown(tables: Iterable[ScoreTable]) -> str:
    parts = []
    for table in tables:
        parts.append(f"**{escaped(plain.short(table.variant))}**, {table.suite}")
        parts.append(grid.markdown(table.grid))
        parts += ["\n".join(table.lacking)] if table.lacking else []
    return "\n\n".join(parts)


def summary(tables: Iterable[ScoreTable]) -> str:
    """A line for each suite whose own score is whole; empty where none is."""
    lines: dict[str, list[str]] = {}
    for table in tables:
        last = table.rows[-1] if table.rows else None
        if last is None or last.kind == "case" or last.name not in ("index", "total"):
            continue
        if last.reference.value is not None:
            amount = f"{last.reference.value:.1f}"
        elif last.own.value is not None and table.variant != table.baseline:
            amount = f"{last.own.value:.1f} of {plain.short(table.baseline)}'s 100"
        else:
            continue
        of_suite = lines.setdefault(f"{table.suite} {last.name}", [])
        of_suite.append(f"{plain.short(table.variant)} {amount}")
    return "\n".join(f"{head}: {', '.join(parts)}" for head, parts in lines.items())


def as_json(tables: Iterable[ScoreTable], scoring: str) -> dict[str, Any]:
    """{"scoring", "tables": [{"suite", "variant", "baseline", "rows": […]}]}."""

    def row_of(row: ScoreRow) -> dict[str, Any]:
        scores = {"score": row.reference.value, "of_baseline": row.own.value}
        return {"name": row.name, "kind": row.kind, **scores, "missing": row.missing}

    listed: list[dict[str, Any]] = []
    for table in tables:
        about = {"suite": table.suite, "variant": table.variant, "baseline": table.baseline}
        listed.append({**about, "rows": list(map(row_of, table.rows))})
    return {"scoring": scoring, "tables": listed}
