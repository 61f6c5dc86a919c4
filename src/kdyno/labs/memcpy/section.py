# SPDX-License-Identifier: MIT
"""A bench of memory routines as curves: a picture, and a section of a run's report.

Curves are ns per call by size, both axes logarithmic, above the ceiling's line. Only as many
routines are plotted as there are distinguishable colours; the bench's own tables have them all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kdyno.errors import KdynoError
from kdyno.labs.memcpy import results, tables
from kdyno.labs.memcpy.loads import Load
from kdyno.labs.memcpy.results import Bench, Curve
from kdyno.report import page as pages
from kdyno.report import plain
from kdyno.report.charts import vega
from kdyno.report.evidence import Evidence
from kdyno.report.show.grid import Column, Grid
from kdyno.report.show.html import Html, headed_table, join, tag

ORDER = 70
ID = "routines"
TITLE = "Memory routines"
SLOW = True
TIP = "Time per call by size, both axes logarithmic; the ceiling is what the machine can store."

COLOURS = ("variant", "slower", "faster", "failed", "inconclusive")
_KNOWN = {
    "orig": ("ink", (6, 3)),
    "fsrm": ("baseline", (6, 3)),
    "rep-movsb": ("baseline", (6, 3)),
    "glibc": ("muted", (2, 2)),
    "nothing": ("muted", (1, 3)),
}
"""Rivals, the C library and the bound: colour and dashes."""
_CEILING = "ceiling"
_FEWEST = 3
"""A curve of fewer sizes is not a curve."""
_WIDTHS_PX = {"wide": 1000, "narrow": 356}


def section(evidence: Evidence) -> Html | None:
    """None without a bench in the run's folder; of a damaged one what is wrong with it."""
    try:
        bench = results.stored_bench(evidence.run) if evidence.run is not None else None
    except KdynoError as problem:
        return tag("p", plain.sentence(str(problem)))
    if bench is None:
        return None
    return join([tag("p", tables.answer(bench)), drawings(bench), _best(bench)])


def drawable(bench: Bench) -> list[Curve]:
    """Curves with enough sizes to draw."""
    every = results.curves(bench)
    return [key for key in every if len(results.curve(bench, *key)) >= _FEWEST]


def chart(bench: Bench, key: Curve, width_px: int, title: str = "") -> vega.Spec:
    """One curve's panel with its legend, about ``width_px`` wide."""
    loads = results.curve(bench, *key)
    near = [load for load in bench.loads if load.level == bench.loads[0].level]
    fastest = results.speed(bench, bench.ranked("routine"), near)
    fastest = [each for each in fastest if each not in _KNOWN][: len(COLOURS)]
    styles: dict[str, tuple[str, tuple[int, ...]]] = {
        plain.short(each): (colour, (1, 0)) for each, colour in zip(fastest, COLOURS, strict=False)
    }
    named = [each.name for each in bench.timed if each.name in _KNOWN]
    styles |= {plain.short(each): _KNOWN[each] for each in named}
    styles[_CEILING] = ("accent", (8, 2, 1, 2))
    wide = width_px > 600
    rows = [
        {"name": plain.short(each), "bytes": load.mean_bytes, "ns": results.ns(bench, each, load)}
        for each in (*fastest, *named)
        for load in loads
    ]
    for load in loads:
        least_ns = results.ceiling_ns(bench, load)
        if least_ns is not None:
            # What lies far below one call's cost would only stretch the axis.
            ceiling = max(least_ns, 0.3)
            rows.append({"name": _CEILING, "bytes": load.mean_bytes, "ns": ceiling})
    low, high = loads[0].mean_bytes, loads[-1].mean_bytes
    one_size = loads[0].least == loads[0].most
    # The fastest of each band, the band's middle and its lower edge; random sizes overlap: there
    # are no bands along the axis.
    winners: list[dict[str, Any]] = []
    for best in results.bands(bench, *key) if wide and one_size else ():
        edge, end = max(low, best.least), min(high, best.most)
        # A band of one point at the axis' end has no room for a word.
        if end > 1.5 * edge:
            text = vega.fitted(plain.short(best.name), 90)
            winners.append({"name": text, "middle": math.sqrt(edge * end), "edge": edge})
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high) + 1e-9)
    powers = [1 << power for power in range(first, last + 1)]
    return vega.filled(
        Path(__file__).with_name("curve.json"),
        title=title,
        width=width_px - (250 if wide else 70),
        height=300 if wide else 240,
        domain=[low, high],
        x_title="bytes" if one_size else "mean bytes of the draws",
        sizes=powers[:: max(1, math.ceil(len(powers) / (9 if wide else 5)))],
        times=_decades(bench, loads),
        rows=rows,
        winners=winners,
        edges=winners[1:],
        names=list(styles),
        colours=[f"var(--{colour})" for colour, _ in styles.values()],
        dashes=[list(dash) for _, dash in styles.values()],
        orient="right" if wide else "bottom",
        columns=1 if wide else 3,
    )


def _decades(bench: Bench, loads: Sequence[Load]) -> list[float]:
    """1, 2, 5, 10 … over all times of the panel; of many only 1, 10 …"""
    times = [results.ns(bench, each.name, load) for each in bench.timed for load in loads]
    low, high = min(*times, 0.3), max(times)
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    marks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    inside = [mark for mark in marks if low <= mark <= high]
    return inside if len(inside) <= 9 else [mark for mark in inside if f"{mark:e}"[0] == "1"]


def text(bench: Bench, key: Curve) -> str:
    """The curve's result in words, for those who cannot see it."""
    loads = results.curve(bench, *key)
    winners = "; ".join(
        f"{tables.span(best.least, best.most)} bytes: {plain.name(best.name)}"
        + (f", {tables.ratio(best.ratio)}" if best.ratio is not None else "")
        for best in results.bands(bench, *key)
    )
    return (
        f"Time per call by size, {tables.title(*key)}, "
        f"{tables.span(loads[0].least, loads[-1].most)} bytes. Fastest: {winners}. "
        "The CSV file has every figure."
    )


def picture(bench: Bench, width_px: int = 900) -> str:
    """All curves below each other as one SVG that stands alone."""
    keys = drawable(bench) or results.curves(bench)[:1]
    panels = [chart(bench, key, width_px, tables.title(*key)) for key in keys]
    head = vega.heading(
        "Memory routines" + (": the published comparison" * (bench.plan == "paper")),
        f"{plain.sentence(bench.cpu)}, {bench.clock.core_ghz:.2f} GHz, {bench.blocks} blocks",
    )
    words = " ".join([tables.answer(bench), *(text(bench, key) for key in keys)])
    return vega.alone(vega.stack(panels, head, spacing_px=28), words) + "\n"


def drawings(bench: Bench) -> Html:
    """Every curve for wide and for narrow windows, with the figures of each below it."""
    note = f"The {len(COLOURS)} fastest routines are plotted."
    few = len(bench.ranked("routine")) > len(COLOURS)
    parts: list[Html | None] = [tag("p", note, class_="legend") if few else None]
    for key in drawable(bench):
        sizes = pages.drawings(_WIDTHS_PX, partial(chart, bench, key), text(bench, key))
        heading = tables.title(*key)
        parts.append(tag("figure", tag("h3", heading[:1].upper() + heading[1:]), sizes))
    return join(parts)


def _best(bench: Bench) -> Html:
    items = [best for key in results.curves(bench) for best in results.bands(bench, *key)]
    columns = list(tables.BEST)
    columns.insert(1, Column("copied", lambda best: tables.label(*best.curve)))
    facets = {"level": lambda best: best.curve[0], "mode": lambda best: best.curve[1]}
    tip = (
        "The rival is the faster of the kernel’s own loop and rep movsb at each size; below 1 is "
        "faster. In brackets the 95 % interval over blocks."
    )
    grid = Grid(columns, items, "Fastest by size", id="best-table", facets=facets)
    return join([tag("p", tip, class_="tip"), headed_table(grid)])
