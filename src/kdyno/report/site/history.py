# SPDX-License-Identifier: MIT
"""history.html and a page for each experiment: the runs' figures as series over time.

A series is one case of one variant on one machine, over kernel versions and dates."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from kdyno.report import figures, plain
from kdyno.report.charts.panels import Strip
from kdyno.report.groups import MOST_SHOWN
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.html import ENVIRONMENT, Html, table
from kdyno.report.site.pages import markup_cell, minute, shell
from kdyno.report.site.summary import Summary, experiment_page
from kdyno.stats import changepoints
from kdyno.store.database.tables import Kernel
from kdyno.store.samples import Score
from kdyno.store.watch import Alarm, Watch

TOO_LITTLE = 0.01
"""A change of level below this is shown, and called too little to matter."""
Measure = Literal["score", "effect"]
_UNKNOWN = Kernel("", "", "", "")
# Parameters that the pages explain.
ENVIRONMENT.globals |= {
    "changepoints": changepoints,
    "too_little": TOO_LITTLE,
    "most_series": MOST_SHOWN,
}


class Mark(NamedTuple):
    """One run's point. There are very many of them."""

    run: Summary
    kernel: Kernel
    value: float
    low: float | None
    high: float | None

    @property
    def date(self) -> str:
        return plain.name(self.run.created[:10])


@dataclass(frozen=True)
class Change:
    """From one level to the next, first seen in ``at``."""

    before: Mark
    at: Mark
    ratio: float
    word: str
    """faster, slower, or ``equivalent``: too little to matter."""

    @property
    def kernels(self) -> str:
        """On both sides, as far as they are known."""
        before, after = self.before.kernel, self.at.kernel
        if before.digest == after.digest and before.digest:
            return "same kernel"
        if before.version != after.version:
            return f"{plain.short(before.version) or '?'} → {plain.short(after.version) or '?'}"
        return f"another {plain.short(after.version)}" if after.version else ""


@dataclass(frozen=True)
class Series:
    experiment: str
    machine: str
    score: Score
    """The latest: what all have in common is the case, its unit and direction, the variant."""
    measure: Measure
    """score: the case's own figure; effect: variant ÷ baseline, which drift does not reach."""
    marks: tuple[Mark, ...]

    @cached_property
    def levels(self) -> tuple[changepoints.Segment, ...]:
        return changepoints.segments([mark.value for mark in self.marks])

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        changes = []
        for before, after in zip(self.levels, self.levels[1:], strict=False):
            ratio = after.level / before.level
            word = "faster" if (ratio > 1.0) == (self.score.better == "higher") else "slower"
            if abs(ratio - 1.0) < TOO_LITTLE:
                word = "equivalent"
            marks = self.marks[after.start - 1], self.marks[after.start]
            changes.append(Change(*marks, ratio, word))
        return tuple(changes)

    @property
    def changed(self) -> str:
        return "changed" if self.changes else "no change"

    def command(self, change: Change) -> str:
        """What judges a change: are its two runs further apart than their boots are?"""
        words = ["kdyno", "compare", change.before.run.name, change.at.run.name]
        if self.score.variant != change.at.run.baseline:
            words += ["--variant", self.score.variant]
        return shlex.join(words)

    def quantity(self, value: float) -> str:
        if self.measure == "effect":
            return figures.effect(value)
        return figures.quantity(value, plain.short(self.score.unit))

    @cached_property
    def strip(self) -> Strip:
        """Showing all points and their intervals; an interval that is very wide is cut off."""
        values = [mark.value for mark in self.marks]
        low, high = min(values), max(values)
        room = max(high - low, 0.002 * abs(high)) * 1.5
        lows = [mark.low for mark in self.marks if mark.low is not None]
        highs = [mark.high for mark in self.marks if mark.high is not None]
        low, high = max(min([low, *lows]), low - room), min(max([high, *highs]), high + room)
        return Strip(len(self.marks), low, high)

    @property
    def drawing(self) -> Html:
        strip = self.strip
        spans = "".join(
            f"M{strip.x(at)} {strip.y(max(mark.low, strip.low))}"
            f"V{strip.y(min(mark.high, strip.high))}"
            for at, mark in enumerate(self.marks)
            if mark.low is not None and mark.high is not None
        )
        levels = "".join(
            f"M{strip.x(level.start - 0.5)} {strip.y(level.level)}H{strip.x(level.end - 0.5)}"
            for level in self.levels
        )
        starts = [strip.x(level.start - 0.5) for level in self.levels[1:]]
        digests = [mark.kernel.digest for mark in self.marks]
        new = [at for at in range(1, len(digests)) if digests[at] != digests[at - 1]]
        paths = {
            "change": "".join(f"M{x} 0V{strip.height}" for x in starts),
            "kernel": strip.ticks(new, strip.edge),
            "spans": spans,
            "level": levels,
            "dots variant": strip.dots((at, mark.value) for at, mark in enumerate(self.marks)),
        }
        return Html(strip.svg(self.text, paths.items()))

    @property
    def text(self) -> str:
        first, last = self.marks[0], self.marks[-1]
        parts = [
            f"{plain.short(self.score.case)} of {plain.short(self.score.variant)}, {self.measure}, "
            f"{figures.count(len(self.marks), 'run')} from {first.date} to {last.date}, last "
            f"{self.quantity(last.value)}"
        ]
        parts += [
            f"change at {change.at.date}: {figures.effect(change.ratio)} {change.word}"
            for change in self.changes
        ]
        return "; ".join(parts if self.changes else [*parts, "no change of level"])


def series_of(summaries: Sequence[Summary]) -> tuple[Series, ...]:
    """Every series of these runs, in the order in which their cases come up.

    Runs of other work, another unit or another machine begin a series of their own, and so do
    effects against another baseline."""
    together: dict[tuple[str, ...], list[tuple[Summary, Score]]] = {}
    for run in sorted(summaries, key=lambda run: (run.created, run.name)):
        for score in run.scores:
            work = (score.suite, score.case, score.variant, score.unit, score.better, score.work)
            together.setdefault((run.experiment, run.machine_key, *work), []).append((run, score))
    series = []
    for points in together.values():
        run, score = points[-1]
        marks: dict[tuple[Measure, str], list[Mark]] = {("score", ""): []}
        for of, own in points:
            kernel = (of.kernels or {}).get(own.variant, _UNKNOWN)
            marks["score", ""].append(Mark(of, kernel, own.value, own.low, own.high))
            if own.ratio is not None and own.ratio > 0 and own.variant != of.baseline:
                mark = Mark(of, kernel, own.ratio, own.ratio_low, own.ratio_high)
                marks.setdefault(("effect", of.baseline), []).append(mark)
        series += [
            Series(run.experiment, run.machine, score, measure, tuple(of_measure))
            for (measure, _), of_measure in marks.items()
        ]
    return tuple(series)


def differences(watches: Sequence[Watch], id: str = "") -> Grid:
    """What `kdyno watch` knows of its branches, the newest first."""
    rows = [(watch, alarm) for watch in watches for alarm in reversed(watch.alarms)]

    def effect(row: tuple[Watch, Alarm]) -> Cell:
        alarm = row[1]
        return Cell(figures.effect(alarm.ratio), alarm.ratio, tone=alarm.word)

    columns = (
        Column("Id", lambda row: row[1].id, "name"),
        Column("Branch", lambda row: row[0].name, "name"),
        Column("Case", lambda row: row[1].name, "name"),
        Column("Effect", effect, "effect"),
        Column("State", lambda row: row[1].state),
        Column("Commit", lambda row: row[1].commit[:12]),
        Column("Title", lambda row: plain.short(row[1].title or row[1].note), worth=1),
    )
    return Grid(columns, rows, "Differences on watched branches", id=id)


def overview(series: Sequence[Series], live: bool = False, watches: Sequence[Watch] = ()) -> str:
    """The table of all series, each with a link to its chart; above it what watches have."""
    experiments: dict[str, list[Series]] = {}
    for each in series:
        experiments.setdefault(each.experiment, []).append(each)
    alarms = any(watch.alarms for watch in watches)
    # A series is numbered as on its experiment's page.
    rows = [row for of in experiments.values() for row in enumerate(_shown(of))]
    facets = ("experiment", "variant", "measure", "machine")
    grid = Grid(_COLUMNS, rows, "Series", id="series-table", facets=facets)
    return shell(
        "history.html",
        "History",
        "history.html",
        count=len(series),
        changes=figures.count(sum(len(each.changes) for each in series), "change"),
        shown=len(rows),
        table=table(grid),
        differences=table(differences(watches, "differences-table")) if alarms else None,
        live=live,
    )


def history_page(series: Sequence[Series], live: bool = False) -> str:
    plotted = _shown(series)
    choices: dict[str, list[str]] = {
        "variant": list(dict.fromkeys(plain.short(each.score.variant) for each in plotted)),
        "measure": list(dict.fromkeys(each.measure for each in plotted)),
        "changed": list(dict.fromkeys(each.changed for each in plotted)),
    }
    return shell(
        "experiment.html",
        f"History of {plain.name(series[0].experiment)}",
        "history.html",
        series=plotted,
        choices={name: values for name, values in choices.items() if len(values) > 1},
        count=len(series),
        shown=len(plotted),
        scripts=["history.js"],
        values=_data(plotted),
        up="../",
        live=live,
    )


def _shown(series: Sequence[Series]) -> Sequence[Series]:
    """The series of one experiment that people are shown: where they are too many, first of all
    those that changed, in the order that they had."""
    if len(series) <= MOST_SHOWN:
        return series
    kept = sorted(range(len(series)), key=lambda at: not series[at].changes)[:MOST_SHOWN]
    return [series[at] for at in sorted(kept)]


def _case(row: tuple[int, Series]) -> Cell:
    number, series = row
    place = f"{experiment_page(series.experiment)}#series-{number}"
    whole = f"{plain.name(series.score.suite)}/{plain.name(series.score.case)}"
    return markup_cell("case", series.score, place, value=whole)


def _last_change(row: tuple[int, Series]) -> Cell:
    last = row[1].changes[-1] if row[1].changes else None
    return Cell() if last is None else markup_cell("last_change", last, value=abs(last.ratio - 1))


def _latest(row: tuple[int, Series]) -> Cell:
    value = row[1].marks[-1].value
    return Cell(row[1].quantity(value), value)


_COLUMNS = (
    Column("Case", _case),
    Column("Variant", lambda row: row[1].score.variant, "name"),
    Column("Experiment", lambda row: row[1].experiment, "name"),
    Column("Machine", lambda row: plain.short(row[1].machine)),
    Column("Measure", lambda row: row[1].measure),
    Column("Runs", lambda row: len(row[1].marks), "number"),
    Column("Latest", _latest, "number"),
    Column("Last change", _last_change, "number"),
)


def _data(series: Sequence[Series]) -> dict[str, Any]:
    """Runs and kernels once; of each series its points as [run, value, low, high, kernel]."""
    runs: dict[str, tuple[int, list[str]]] = {}
    versions: dict[str, int] = {}
    charts = []
    for each in series:
        points = []
        for mark in each.marks:
            about = [plain.name(mark.run.name), minute(mark.run)]
            number, _ = runs.setdefault(mark.run.page, (len(runs), about))
            version = plain.short(mark.kernel.version) if mark.kernel.version else ""
            kernel = versions.setdefault(version, len(versions))
            points.append([number, mark.value, mark.low, mark.high, kernel])
        unit = plain.short(each.score.unit) if each.measure == "score" else ""
        ends = {"low": each.strip.low, "high": each.strip.high}
        charts.append({"unit": unit, **ends, "points": points})
    return {
        "runs": [about for _, about in runs.values()],
        "kernels": list(versions),
        "series": charts,
    }
