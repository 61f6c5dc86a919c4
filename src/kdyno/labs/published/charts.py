# SPDX-License-Identifier: MIT
"""Pictures beside claims: where people would rather look than read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kdyno.labs.memcpy.time import ratios
from kdyno.labs.published.article import Published, Table
from kdyno.labs.published.evidence import Evidence
from kdyno.report import figures, plain
from kdyno.report.charts.palette import resolved
from kdyno.report.charts.vega import (
    Spec,
    drawn,
    grid,
    label_width,
    layer,
    names_axis,
    panel,
    unchecked,
)
from kdyno.store.verdict import Verdict

WIDTH_PX = 860
_COLOURS = ("baseline", "variant", "inconclusive", "failed")
_ROW_PX = 22

Rows = list[dict[str, Any]]


def pictures(articles: Sequence[Published], evidence: Evidence) -> dict[str, tuple[str, str]]:
    """Chart → (SVG that stands alone, what it says in words), of those that there are data for."""
    found = {}
    with unchecked():
        for name, draw in CHARTS.items():
            chart = draw(articles, evidence)
            if chart is not None:
                spec, text = chart
                head, rest = drawn(spec, text).split(">", 1)
                ground = '<rect width="100%" height="100%" fill="var(--ground)"/>'
                found[name] = (resolved(f"{head}>{ground}{rest}") + "\n", text)
    return found


Drawn = tuple[Spec, str]


def jobs(articles: Sequence[Published], evidence: Evidence) -> Drawn | None:
    """How long a compile takes by the number of jobs: as published, and today."""
    crossed = [
        (article, table)
        for article in articles
        for table in article.tables
        if "jobs" in table.factors
    ]
    if not crossed:
        return None
    panels, said = [], []
    for article, table in crossed:
        rows = _published_times(table)
        system = plain.short(article.title.partition(":")[0])
        title = f"{plain.short(table.name).replace('_', ' ')}, {system}"
        panels.append(_lines(rows, title))
        said.append(f"{title}: {_furthest(rows)}")
    runs = [it for name in _CROSSED for it in evidence.runs.get(name, ())]
    for run in runs:
        for of, rows in _times_today(run.verdict).items():
            where = run.source.machine.partition(",")[0]
            title = f"today: {run.source.name}, {plain.short(of)}, {where}"
            panels.append(_lines(rows, title))
            said.append(f"{title}: {_furthest(rows)}")
    text = "Time of a compile by jobs, one CPU with one job is 1. " + "; ".join(said) + "."
    more = "one CPU with one job is 1; means of three as published, medians of today"
    heading = _heading("Time of a compile by the number of jobs", more)
    # Each panel has lines of its own, and so a legend of its own.
    apart = {"resolve": {"scale": {"color": "independent"}}}
    return {**grid(panels, 2, heading), **apart}, text


_CROSSED = ("smp-schedulers", "smp-preemption")
"""Experiments that compile with several numbers of jobs."""
_BUILDS = ("kernel-compile", "make")


def _furthest(rows: Rows) -> str:
    """The row that is furthest from 1, in words."""
    row = max(rows, key=lambda row: abs(math.log(row["at"])))
    way = "down" if row["at"] < 1.0 else "up"
    at = f"{row['line']} and {figures.count(int(row['jobs']), 'job')}"
    return f"{way} to {row['at']:.2f} with {at}"


def _published_times(table: Table) -> Rows:
    at = list(table.factors).index("jobs")
    base = table.cells[table.baseline]["real_s"]
    return [
        {
            "line": " ".join((*cell[:at], *cell[at + 1 :])),
            "jobs": int(cell[at]),
            "at": found["real_s"] / base,
        }
        for cell, found in table.cells.items()
        if "real_s" in found
    ]


def _times_today(verdict: Verdict | None) -> dict[str, Rows]:
    """suite/case → its times by jobs, of cases with a number of jobs; the baseline's with one job
    is 1."""
    if verdict is None:
        return {}
    times: dict[str, dict[tuple[str, int], float]] = {}
    for it in verdict.effects:
        case, _, jobs = it.case.rpartition("@")
        if it.suite in _BUILDS and jobs.isdigit() and it.baseline_value and it.ratio:
            of = times.setdefault(f"{it.suite}/{case}", {})
            of[verdict.baseline, int(jobs)] = it.baseline_value
            of[it.variant, int(jobs)] = it.baseline_value * it.ratio
    return {
        name: [
            {"line": plain.short(line), "jobs": jobs, "at": value / base}
            for (line, jobs), value in of.items()
        ]
        for name, of in times.items()
        if (base := of.get((verdict.baseline, 1)))
    }


def _lines(rows: Rows, title: str) -> Spec:
    import altair

    names = list(dict.fromkeys(row["line"] for row in rows))
    colour = altair.Color(
        "line:N",
        scale=altair.Scale(domain=names, range=[f"var(--{it})" for it in _COLOURS[: len(names)]]),
        legend=altair.Legend(
            title=None, orient="bottom", columns=2, labelColor="var(--ink)", labelFontSize=12
        ),
    )
    order = [str(it) for it in sorted({row["jobs"] for row in rows})]
    x = altair.X(
        "jobs:O",
        scale=altair.Scale(domain=order),
        axis=altair.Axis(title="jobs", labelAngle=0, grid=False),
    )
    y = altair.Y(
        "at:Q",
        scale=altair.Scale(zero=True),
        axis=altair.Axis(title="time", tickCount=6, format=".1f"),
    )
    chart = altair.Chart().encode(x=x, y=y, color=colour)
    mine = [{**row, "jobs": str(row["jobs"])} for row in rows]
    layers = [
        layer(chart.mark_line(strokeWidth=2), mine),
        # The first lines' points are larger, so that they are seen where others lie on them.
        *(
            layer(
                chart.mark_circle(size=130 - 30 * at, opacity=1),
                [row for row in mine if row["line"] == name],
            )
            for at, name in enumerate(names[: len(_COLOURS)])
        ),
    ]
    return panel(layers, WIDTH_PX // 2 - 90, 190, title)


def sizes(articles: Sequence[Published], evidence: Evidence) -> Drawn | None:
    """The published routine's time ÷ the kernel's own, by size."""
    import altair

    for found in evidence.benches:
        bench = found.value
        if not {"orig", "saito-oikawa"} <= set(bench.ns):
            continue
        rows: Rows = []
        for load in bench.loads:
            if (load.mode, load.level, load.alignment) != ("fixed", "L1", "aligned"):
                continue
            made = ratios.against(bench, "saito-oikawa", "orig", load)
            if made.ratio is None:
                continue
            row = {"bytes": load.most, "at": made.ratio}
            if made.lo is not None and made.hi is not None:
                row |= {"low": made.lo, "high": made.hi}
            rows.append(row)
        if len(rows) < 3:
            continue
        ticks = list(range(512, rows[-1]["bytes"] + 1, 512))
        x = altair.X(
            "bytes:Q",
            scale=altair.Scale(nice=False),
            axis=altair.Axis(title="bytes", values=ticks, grid=True),
        )
        y_axis = altair.Axis(title="time ÷ memcpy_orig's", tickCount=6, format=".1f")
        y = altair.Y("at:Q", scale=altair.Scale(zero=True), axis=y_axis)
        chart = altair.Chart()
        dashed = chart.mark_rule(color="var(--muted)", strokeDash=[5, 3])
        ink = "var(--variant)"
        layers = [
            layer(dashed.encode(y=y), [{"at": 1}]),
            layer(chart.mark_line(color=ink, strokeWidth=2).encode(x=x, y=y), rows),
            layer(
                chart.mark_rule(color=ink, strokeWidth=2).encode(
                    x=x, y=altair.Y("low:Q", axis=y_axis), y2=altair.Y2("high:Q")
                ),
                [row for row in rows if "low" in row],
            ),
            layer(chart.mark_circle(color=ink, size=40, opacity=1).encode(x=x, y=y), rows),
        ]
        heading = _heading(
            "The published SIMD memcpy against the kernel's loop",
            f"{plain.short(bench.cpu)}; below the dashed line the published routine is quicker",
        )
        spec = {**panel(layers, WIDTH_PX - 80, 230), "title": heading}
        first = next((row["bytes"] for row in rows if row["at"] < 1), None)
        ends = ", ".join(f"{row['at']:.2f} at {row['bytes']} bytes" for row in (rows[0], rows[-1]))
        crossing = f"; below 1 from {first} bytes" if first else ""
        return spec, f"Time of the published routine ÷ the kernel's own loop: {ends}{crossing}."
    return None


def groups(articles: Sequence[Published], evidence: Evidence) -> Drawn | None:
    """XBench's groups: what the articles' kernels did to them, and what today's did."""
    rows: Rows = []
    for article in articles:
        for table in article.tables:
            if table.today is not None and table.today.suite == "xbench" and table.name != "values":
                rows += _published_groups(article, table)
    runs = [run for run in evidence.runs.get("xbench", ()) if run.verdict and run.verdict.groups]
    if not rows or not runs:
        return None
    order = [it.group for it in runs[0].verdict.groups] if runs[0].verdict else []
    today: Rows = []
    for it in runs[0].verdict.groups if runs[0].verdict else ():
        row = {"group": it.group, "of": _TODAY, "at": _percent(it.ratio)}
        if it.ci is not None:
            row |= {"low": _percent(it.ci[0]), "high": _percent(it.ci[1])}
        today.append(row)
    then = [row for row in rows if row["group"] in order]
    # Two questions, so no common axis.
    panels = [
        _group_panel(then, order, "published: 64-bit ÷ 32-bit kernel, one run each"),
        _group_panel(today, order, "today, another question: kernel for size ÷ for speed"),
    ]
    spec = grid(panels, 1, _heading("XBench's groups", "each picture with an axis of its own"))
    spec = {**spec, "resolve": {"scale": {"color": "independent"}}}
    widest = max(today, key=lambda row: abs(row["at"]))
    most = max(then, key=lambda row: abs(row["at"]))
    return spec, (
        f"XBench's groups: published changes go as far as {_said(most)}, today's as far as "
        f"{_said(widest)}."
    )


def _group_panel(rows: Rows, order: Sequence[str], title: str) -> Spec:
    import altair

    rows = [{**row, "row": f"{order.index(row['group']):05d} {row['group']}"} for row in rows]
    names = list(dict.fromkeys(row["of"] for row in rows))
    shades = ["variant"] if names == [_TODAY] else ["baseline", "inconclusive", "failed"]
    colour = altair.Color(
        "of:N",
        scale=altair.Scale(domain=names, range=[f"var(--{it})" for it in shades[: len(names)]]),
        legend=altair.Legend(
            title=None, orient="bottom", columns=3, labelColor="var(--ink)", labelLimit=320
        ),
    )
    label_px = label_width(order, 160)
    y = altair.Y(
        "row:N",
        scale=altair.Scale(domain=[f"{at:05d} {it}" for at, it in enumerate(order)]),
        title=None,
        axis=names_axis(label_px),
    )
    axis = altair.Axis(
        title="effect",
        labelExpr="datum.value == 0 ? '0' : format(datum.value, '+~g') + ' %'",
        tickCount=7,
    )
    x = altair.X("at:Q", axis=axis)
    chart = altair.Chart()
    layers = [
        layer(chart.mark_rule(color="var(--muted)").encode(x=x), [{"at": 0}]),
        layer(
            chart.mark_rule(strokeWidth=3).encode(
                y=y, x=altair.X("low:Q", axis=axis), x2=altair.X2("high:Q"), color=colour
            ),
            [row for row in rows if "low" in row],
        ),
        layer(chart.mark_circle(size=70, opacity=1).encode(y=y, x=x, color=colour), rows),
    ]
    return panel(layers, WIDTH_PX - label_px - 60, {"step": _ROW_PX}, title)


_TODAY = "today"


def _said(row: dict[str, Any]) -> str:
    return f"{figures.percent(row['at'] / 100.0)} ({row['group']})"


def _published_groups(article: Published, table: Table) -> Rows:
    others = [cell for cell in table.cells if cell != table.baseline]
    return [
        {"group": figure, "of": plain.short(article.title.partition(":")[0]), "at": _percent(ratio)}
        for cell in others
        for figure in table.figures
        if (ratio := table.ratio(cell, figure)) is not None
    ]


def _percent(ratio: float | None) -> float:
    return 100.0 * ((ratio or 1.0) - 1.0)


def _heading(text: str, more: str) -> Spec:
    return {
        "text": text,
        "subtitle": more,
        "color": "var(--ink)",
        "subtitleColor": "var(--muted)",
        "fontSize": 15,
        "offset": 12,
    }


CHARTS: Mapping[str, Callable[[Sequence[Published], Evidence], Drawn | None]] = {
    "jobs": jobs,
    "sizes": sizes,
    "groups": groups,
}
"""Name, as a claim's ``chart`` says it → what draws it; None where there is nothing to draw."""
