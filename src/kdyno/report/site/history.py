# SPDX-License-Identifier: MIT
"""history.html and a page for each experiment: the runs' figures as series over time.

A series is one case of one variant on one machine, over kernel versions and dates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

from kdyno.report import figures, plain
from kdyno.report.charts.panels import Strip
from kdyno.report.groups import MOST_SHOWN
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.html import Html, macros, table
from kdyno.report.site.pages import shell
from kdyno.report.site.summary import Kernel, Summary, page_name
from kdyno.stats import changepoints
from kdyno.stats.changepoints import Segment
from kdyno.store.samples import Score

TOO_LITTLE = 0.01
"""A change of level below this is shown, and called too little to matter."""
Measure = Literal["score", "effect"]


class Mark(NamedTuple):
    """One run's point. There are very many of them."""

    run: Summary
    kernel: Kernel
    value: float
    low: float | None
    high: float | None
    boots: int

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
    """Points in time order, with what they have in common."""

    experiment: str
    machine: str
    suite: str
    case: str
    variant: str
    unit: str
    better: str
    measure: Measure
    """score: the case's own figure; effect: variant ÷ baseline, which drift does not reach."""
    marks: tuple[Mark, ...]

    @cached_property
    def levels(self) -> tuple[Segment, ...]:
        return changepoints.segments([mark.value for mark in self.marks])

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        changes = []
        for before, after in zip(self.levels, self.levels[1:], strict=False):
            ratio = after.level / before.level
            word = "faster" if (ratio > 1.0) == (self.better == "higher") else "slower"
            if abs(ratio - 1.0) < TOO_LITTLE:
                word = "equivalent"
            marks = self.marks[after.start - 1], self.marks[after.start]
            changes.append(Change(*marks, ratio, word))
        return tuple(changes)

    @property
    def changed(self) -> str:
        return "changed" if self.changes else "no change"

    def quantity(self, value: float) -> str:
        if self.measure == "effect":
            return figures.effect(value)
        return figures.quantity(value, plain.short(self.unit))

    @cached_property
    def strip(self) -> Strip:
        """Showing all points and their intervals; an interval that is very wide is cut off."""
        values = [mark.value for mark in self.marks]
        low, high = min(values), max(values)
        room = max(high - low, 0.002 * abs(high)) * 1.5
        lows = [mark.low for mark in self.marks if mark.low is not None]
        highs = [mark.high for mark in self.marks if mark.high is not None]
        return Strip(
            len(self.marks),
            max(min([low, *lows]), low - room),
            min(max([high, *highs]), high + room),
        )

    @property
    def drawing(self) -> str:
        on = self.strip
        spans = (
            f"M{on.x(at)} {on.y(max(mark.low, on.low))}V{on.y(min(mark.high, on.high))}"
            for at, mark in enumerate(self.marks)
            if mark.low is not None and mark.high is not None
        )
        levels = (
            f"M{on.x(level.start - 0.5)} {on.y(level.level)}H{on.x(level.end - 0.5)}"
            for level in self.levels
        )
        changes = (f"M{on.x(level.start - 0.5)} 0V{on.height}" for level in self.levels[1:])
        digests = [mark.kernel.digest for mark in self.marks]
        new = [at for at in range(1, len(digests)) if digests[at] != digests[at - 1]]
        dots = on.dots((at, mark.value) for at, mark in enumerate(self.marks))
        return on.svg(
            self.text,
            [
                ("change", "".join(changes)),
                ("kernel", on.ticks(new, on.edge)),
                ("spans", "".join(spans)),
                ("level", "".join(levels)),
                ("dots variant", dots),
            ],
        )

    @property
    def text(self) -> str:
        """The chart in words."""
        first, last = self.marks[0], self.marks[-1]
        parts = [
            f"{plain.short(self.case)} of {plain.short(self.variant)}, {self.measure}, "
            f"{figures.count(len(self.marks), 'run')} from {first.date} to {last.date}, last "
            f"{self.quantity(last.value)}"
        ]
        parts += [
            f"change at {change.at.date}: {figures.effect(change.ratio)} {change.word}"
            for change in self.changes
        ]
        return "; ".join(parts) + ("" if self.changes else "; no change of level")


def series_of(summaries: Sequence[Summary]) -> tuple[Series, ...]:
    """Every series of these runs, in the order in which their cases come up.

    Runs of other work, another unit or another machine begin a series of their own.
    """
    together: dict[tuple[str, ...], list[tuple[Summary, Score]]] = {}
    for run in sorted(summaries, key=lambda run: (run.created, run.name)):
        for score in run.scores:
            key = (
                *(run.experiment, run.machine_key, score.suite, score.case, score.variant),
                *(score.unit, score.better, score.work),
            )
            together.setdefault(key, []).append((run, score))
    found = []
    for points in together.values():
        run, score = points[-1]
        measures: tuple[Measure, ...] = ("score", "effect")
        for measure in measures[: 1 if score.variant == run.baseline else 2]:
            marks = tuple(mark for each in points if (mark := _mark(*each, measure)) is not None)
            if marks:
                found.append(
                    Series(
                        experiment=run.experiment,
                        machine=run.machine,
                        suite=score.suite,
                        case=score.case,
                        variant=score.variant,
                        unit=score.unit,
                        better=score.better,
                        measure=measure,
                        marks=marks,
                    )
                )
    return tuple(found)


def _mark(run: Summary, score: Score, measure: Measure) -> Mark | None:
    kernel = (run.kernels or {}).get(score.variant, Kernel("", ""))
    if measure == "score":
        return Mark(run, kernel, score.value, score.low, score.high, score.boots)
    if score.ratio is None or score.ratio <= 0:
        return None
    return Mark(run, kernel, score.ratio, score.ratio_low, score.ratio_high, score.boots)


def experiment_page(experiment: str) -> str:
    """File name of an experiment's history, without suffix."""
    return page_name(experiment or "?")


def overview(series: Sequence[Series], live: bool = False) -> str:
    """The table of all series, each with a link to its chart."""
    experiments: dict[str, list[Series]] = {}
    for each in series:
        experiments.setdefault(each.experiment, []).append(each)
    # A series is numbered as on its experiment's page.
    rows = [row for of in experiments.values() for row in enumerate(_shown(of))]
    changes = figures.count(sum(len(each.changes) for each in series), "change")
    return shell(
        "history.html",
        "History",
        "history.html",
        count=len(series),
        changes=changes,
        shown=len(rows),
        table=table(Grid(_COLUMNS, rows, "Series", id="series-table", facets=_FACETS))
        if series
        else None,
        method=_METHOD,
        live=live,
    )


def history_page(series: Sequence[Series], live: bool = False) -> str:
    """The charts of one experiment's series."""
    shown = _shown(series)
    facets = {
        "variant": [plain.short(each.variant) for each in shown],
        "measure": [str(each.measure) for each in shown],
        "changed": [each.changed for each in shown],
    }
    choices = {
        name: values for name, of in facets.items() if len(values := list(dict.fromkeys(of))) > 1
    }
    return shell(
        "experiment.html",
        f"History of {plain.name(series[0].experiment)}",
        "history.html",
        series=shown,
        drawings=[Html(each.drawing) for each in shown],
        choices=choices,
        count=len(series),
        shown=len(shown),
        method=_METHOD,
        scripts=["history.js"],
        values=_data(shown),
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


def _cell(kind: str, *values: Any) -> Html:
    content: Html = getattr(macros("cells.html"), kind)(*values)
    return content


def _case(row: tuple[int, Series]) -> Cell:
    number, series = row
    place = f"history/{experiment_page(series.experiment)}.html#series-{number}"
    whole = f"{plain.name(series.suite)}/{plain.name(series.case)}"
    return Cell(value=whole, markup=_cell("case", series, place))


def _last_change(row: tuple[int, Series]) -> Cell:
    changes = row[1].changes
    if not changes:
        return Cell()
    when = f"{changes[-1].at.date} {changes[-1].kernels}".strip()
    markup = _cell("change", changes[-1], when)
    return Cell(value=abs(changes[-1].ratio - 1.0), markup=markup)


def _latest(row: tuple[int, Series]) -> Cell:
    value = row[1].marks[-1].value
    return Cell(row[1].quantity(value), value)


_COLUMNS = (
    Column("Case", _case),
    Column("Variant", lambda row: row[1].variant, "name"),
    Column("Experiment", lambda row: row[1].experiment, "name"),
    Column("Machine", lambda row: plain.short(row[1].machine)),
    Column("Measure", lambda row: row[1].measure),
    Column("Runs", lambda row: len(row[1].marks), "number"),
    Column("Latest", _latest, "number"),
    Column("Last change", _last_change, "number"),
)
_FACETS = {
    "experiment": lambda row: plain.short(row[1].experiment),
    "variant": lambda row: plain.short(row[1].variant),
    "measure": lambda row: row[1].measure,
    "machine": lambda row: plain.short(row[1].machine),
    "changed": lambda row: row[1].changed,
}


def _data(series: Sequence[Series]) -> dict[str, Any]:
    """Runs once; of each series its unit and points as [run, value, low, high, kernel]."""
    runs: dict[str, int] = {}
    listed = []
    versions: dict[str, int] = {}
    charts = []
    for each in series:
        points = []
        for mark in each.marks:
            if mark.run.page not in runs:
                runs[mark.run.page] = len(runs)
                when = mark.run.created[:16].replace("T", " ")
                listed.append([plain.name(mark.run.name), plain.name(when)])
            version = plain.short(mark.kernel.version) if mark.kernel.version else ""
            kernel = versions.setdefault(version, len(versions))
            points.append([runs[mark.run.page], mark.value, mark.low, mark.high, kernel])
        unit = plain.short(each.unit) if each.measure == "score" else ""
        ends = {"low": each.strip.low, "high": each.strip.high}
        charts.append({"unit": unit, **ends, "points": points})
    return {"runs": listed, "kernels": list(versions), "series": charts}


_METHOD = {
    "available": changepoints.available(),
    "least_points": changepoints.LEAST_POINTS,
    "least_run": changepoints.LEAST_RUN,
    "penalty": f"{changepoints.PENALTY:g}",
    "smallest_spread": f"{100 * changepoints.SMALLEST_SPREAD:g}",
    "sure": f"{changepoints.SURE:g}",
    "too_little": figures.share(TOO_LITTLE),
    "most_shown": MOST_SHOWN,
}
"""Parameters that the pages explain."""
