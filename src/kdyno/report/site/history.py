# SPDX-License-Identifier: MIT
"""history.html and a page for each experiment: cases over kernel versions and dates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kdyno.report import figures, plain
from kdyno.report.charts.boots import Strip
from kdyno.report.groups import MOST_SHOWN
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.html import FILTER_FROM_ROWS, badge, filters, table
from kdyno.report.show.markup import Content, Html, short, tag
from kdyno.report.site.series import TOO_LITTLE, Change, Mark, Series
from kdyno.report.site.shell import shell
from kdyno.report.site.summary import page_name
from kdyno.stats.changepoints import (
    LEAST_POINTS,
    LEAST_RUN,
    PENALTY,
    SMALLEST_SPREAD,
    SURE,
    available,
)


def experiment_page(experiment: str) -> str:
    """File name of an experiment's history, without suffix."""
    return page_name(experiment or "?")


def overview(found: Sequence[Series], live: bool = False) -> str:
    """The table of all series, each with the way to its chart."""
    content: list[Content] = [_explained()]
    if found:
        listed = [it for of in _by_experiment(found) for it in _shown(of)]
        content += [_cut_short(len(found), len(listed)), table(_grid(listed))]
    else:
        content.append(tag("p", "No run has scores yet."))
    changes = sum(len(it.changes) for it in found)
    said = f"{len(found)} series"
    intro = tag("p", f"{said}, {figures.count(changes, 'change')} of level", class_="facts")
    return shell("History", "history.html", content, intro=intro, live=live)


def history_page(found: Sequence[Series], live: bool = False) -> str:
    """The charts of one experiment's series."""
    experiment, all_ = plain.name(found[0].experiment), len(found)
    found = _shown(found)
    panels = [_panel(it, number) for number, it in enumerate(found)]
    choices: dict[str, list[str]] = {
        "variant": list(dict.fromkeys(plain.short(it.variant) for it in found)),
        "measure": list(dict.fromkeys(str(it.measure) for it in found)),
        "changed": list(dict.fromkeys(_changed(it) for it in found)),
    }
    choices = {key: values for key, values in choices.items() if len(values) > 1}
    controls = filters("panels", len(panels), choices) if len(panels) >= FILTER_FROM_ROWS else None
    legend = tag(
        "p",
        *(tag("span", class_="key variant"), "a run, its line the 95 % interval within the run. "),
        *(tag("span", class_="key level"), "level between changes. "),
        *(tag("span", class_="key change"), "change point. "),
        *(tag("span", class_="key kernel"), "another kernel than before."),
        class_="legend",
    )
    return shell(
        f"History of {experiment}",
        "history.html",
        [
            _explained(),
            _cut_short(all_, len(found)),
            legend,
            controls,
            tag("div", panels, id="panels", class_="panels wide"),
        ],
        intro=tag("p", tag("a", "All experiments", href="../history.html"), class_="facts"),
        scripts=["history.js"],
        values=_data(found),
        up="../",
        live=live,
    )


def _by_experiment(found: Sequence[Series]) -> list[list[Series]]:
    of: dict[str, list[Series]] = {}
    for it in found:
        of.setdefault(it.experiment, []).append(it)
    return list(of.values())


def _shown(found: Sequence[Series]) -> Sequence[Series]:
    """The series of one experiment that people are shown: where they are too many, first of all
    those that changed, in the order that they had."""
    if len(found) <= MOST_SHOWN:
        return found
    kept = sorted(range(len(found)), key=lambda at: not found[at].changes)[:MOST_SHOWN]
    return [found[at] for at in sorted(kept)]


def _cut_short(number: int, shown: int) -> Html | None:
    if shown == number:
        return None
    said = f"These are {shown} of {number} series: of an experiment the first {MOST_SHOWN}, "
    return tag("p", said, "those that changed before the others.", class_="facts")


def _explained() -> Html:
    """What a change point is and by which parameters it is found."""
    how = (
        f"Change points are found on the logarithms of the scores by PELT (the library ruptures: "
        f"kernel “linear”, min_size {LEAST_RUN}, jump 1), from {LEAST_POINTS} runs on. A further "
        f"level must lower the squared error by {PENALTY:g} × ln(runs) × the variance between "
        f"neighbouring runs (at least {100 * SMALLEST_SPREAD:g} % spread), last {LEAST_RUN} runs "
        f"at least, and have a median {SURE:g} standard errors off: one odd run is not a change, "
        f"and the newest change is seen {LEAST_RUN - 1} runs late. Of series without any change, "
        f"at most 5 % show one all the same with normal noise; with odd runs among them (one in "
        f"20) up to 15 % of the longest."
    )
    if not available():
        how = (
            "Change points are not marked: the Python package ruptures is not there (it may not "
            "be made for this Python yet)."
        )
    what = (
        "Runs are not interleaved with each other, so a change of a score may be the machine, "
        "its updates or its neighbours: look for one that comes with another kernel, and settle it "
        "by one run of both kernels. An effect (variant ÷ baseline) comes from blocks within one "
        f"run and does not see such drift. Below {figures.percent(TOO_LITTLE, signed=False)} a "
        "change is called equivalent."
    )
    return tag(
        "details", tag("summary", "How to read this"), tag("p", what), tag("p", how), class_="how"
    )


def _numbered(found: Sequence[Series]) -> list[tuple[int, Series]]:
    """Each series with its number on its experiment's page."""
    seen: dict[str, int] = {}
    numbered = []
    for it in found:
        seen[it.experiment] = seen.get(it.experiment, -1) + 1
        numbered.append((seen[it.experiment], it))
    return numbered


def _changed(it: Series) -> str:
    return "changed" if it.changes else "no change"


def _grid(found: Sequence[Series]) -> Grid:
    columns = [
        Column("Case", lambda of: _case(*of)),
        Column("Variant", lambda of: of[1].variant, "name"),
        Column("Experiment", lambda of: of[1].experiment, "name"),
        Column("Machine", lambda of: plain.short(of[1].machine)),
        Column("Measure", lambda of: of[1].measure),
        Column("Runs", lambda of: len(of[1].marks), "number"),
        Column("Latest", lambda of: _latest(of[1]), "number"),
        Column("Last change", lambda of: _last_change(of[1]), "number"),
    ]
    facets = {
        "experiment": lambda of: plain.short(of[1].experiment),
        "variant": lambda of: plain.short(of[1].variant),
        "measure": lambda of: of[1].measure,
        "machine": lambda of: plain.short(of[1].machine),
        "changed": lambda of: _changed(of[1]),
    }
    return Grid(columns, _numbered(found), "Series", id="series-table", facets=facets)


def _case(number: int, it: Series) -> Cell:
    place = f"history/{experiment_page(it.experiment)}.html#series-{number}"
    link = tag("a", short(it.case), href=place)
    whole = f"{plain.name(it.suite)}/{plain.name(it.case)}"
    return Cell(value=whole, markup=[link, tag("small", short(it.suite))])


def _latest(it: Series) -> Cell:
    return Cell(_value(it, it.marks[-1].value), it.marks[-1].value)


def _last_change(it: Series) -> Cell:
    if not it.changes:
        return Cell()
    last = it.changes[-1]
    when = f"{_date(last.at)} {_kernels(last)}".strip()
    return Cell(value=abs(last.ratio - 1.0), markup=[_told(last), tag("small", when)])


def _panel(it: Series, number: int) -> Html:
    digests = [mark.kernel.digest for mark in it.marks]
    new = [at for at in range(1, len(digests)) if digests[at] != digests[at - 1]]
    on = _strip(it.marks)
    drawing = on.svg(_read_aloud(it), _paths(on, it, new))
    last = it.changes[-1] if it.changes else None
    what = "÷ baseline" if it.measure == "effect" else ""
    title = [short(it.case), " · ", short(it.variant), f" {what}" if what else None]
    listed = [_change(change) for change in it.changes]
    return tag(
        "figure",
        tag(
            "figcaption",
            tag("b", title, tag("small", short(it.suite), " · ", plain.short(it.machine))),
            _told(last) if last is not None else None,
        ),
        tag("span", _value(it, on.high), class_="end high"),
        tag("div", Html(drawing), class_="plot"),
        tag("span", _value(it, on.low), class_="end low"),
        tag(
            "span",
            tag("span", _date(it.marks[0])),
            tag("span", _date(it.marks[-1])) if len(it.marks) > 1 else None,
            class_="end dates",
        ),
        tag("ul", listed, class_="changes") if listed else None,
        class_="panel",
        id=f"series-{number}",
        data_series=number,
        data_f_variant=plain.short(it.variant),
        data_f_measure=it.measure,
        data_f_changed=_changed(it),
    )


def _strip(marks: Sequence[Mark]) -> Strip:
    """Showing all points and their intervals; an interval that is very wide is cut off."""
    values = [it.value for it in marks]
    low, high = min(values), max(values)
    room = max(high - low, 0.002 * abs(high)) * 1.5
    lows = [it.low for it in marks if it.low is not None]
    highs = [it.high for it in marks if it.high is not None]
    return Strip(
        len(marks), max(min([low, *lows]), low - room), min(max([high, *highs]), high + room)
    )


def _paths(on: Strip, it: Series, new: Sequence[int]) -> list[tuple[str, str]]:
    """Class and path of the panel's parts. new: points with another kernel than the one before."""
    spans = (
        f"M{on.x(at)} {on.y(max(mark.low, on.low))}V{on.y(min(mark.high, on.high))}"
        for at, mark in enumerate(it.marks)
        if mark.low is not None and mark.high is not None
    )
    levels = (f"M{on.x(of.start - 0.5)} {on.y(of.level)}H{on.x(of.end - 0.5)}" for of in it.levels)
    return [
        ("change", "".join(f"M{on.x(of.start - 0.5)} 0V{on.height}" for of in it.levels[1:])),
        ("kernel", on.ticks(new, on.edge)),
        ("spans", "".join(spans)),
        ("level", "".join(levels)),
        ("dots variant", on.dots((at, mark.value) for at, mark in enumerate(it.marks))),
    ]


def _told(change: Change) -> Html:
    return badge(change.word, f" {figures.effect(change.ratio)}")


def _change(change: Change) -> Html:
    run = change.at.run
    return tag(
        "li",
        f"{_date(change.at)}: ",
        _told(change),
        f" {_kernels(change)} ",
        tag("a", "report", href=f"../runs/{run.page}.html", aria_label=f"report {run.name}"),
        " ",
        tag("a", "compare", href=f"../compare.html#a={change.before.run.page}&b={run.page}"),
    )


def _kernels(change: Change) -> str:
    """The kernels on both sides of a change, as far as they are known."""
    before, after = change.before.kernel, change.at.kernel
    if before.digest == after.digest and before.digest:
        return "same kernel"
    if before.version != after.version:
        return f"{plain.short(before.version) or '?'} → {plain.short(after.version) or '?'}"
    return f"another {plain.short(after.version)}" if after.version else ""


def _read_aloud(it: Series) -> str:
    first, last = it.marks[0], it.marks[-1]
    parts = [
        f"{plain.short(it.case)} of {plain.short(it.variant)}, {it.measure}, "
        f"{figures.count(len(it.marks), 'run')} from {_date(first)} to {_date(last)}, last "
        f"{_value(it, last.value)}"
    ]
    parts += [f"change at {_date(c.at)}: {figures.effect(c.ratio)} {c.word}" for c in it.changes]
    return "; ".join(parts) + ("" if it.changes else "; no change of level")


def _value(it: Series, value: float) -> str:
    if it.measure == "effect":
        return figures.effect(value)
    return figures.quantity(value, plain.short(it.unit))


def _date(mark: Mark) -> str:
    return plain.name(mark.run.created[:10])


def _data(found: Sequence[Series]) -> dict[str, Any]:
    """Runs once; of each series its unit and points as [run, value, low, high, kernel]."""
    runs: dict[str, int] = {}
    listed = []
    versions: dict[str, int] = {}
    series = []
    for it in found:
        points = []
        for mark in it.marks:
            if mark.run.page not in runs:
                runs[mark.run.page] = len(runs)
                when = mark.run.created[:16].replace("T", " ")
                listed.append([plain.name(mark.run.name), plain.name(when)])
            version = plain.short(mark.kernel.version) if mark.kernel.version else ""
            kernel = versions.setdefault(version, len(versions))
            points.append([runs[mark.run.page], mark.value, mark.low, mark.high, kernel])
        on = _strip(it.marks)
        series.append(
            {
                "unit": plain.short(it.unit) if it.measure == "score" else "",
                "low": on.low,
                "high": on.high,
                "points": points,
            }
        )
    return {"runs": listed, "kernels": list(versions), "series": series}
