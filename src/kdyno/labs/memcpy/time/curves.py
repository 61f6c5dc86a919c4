# SPDX-License-Identifier: MIT
"""Curves of memory routines: ns per call by size, both axes logarithmic, above the ceiling's line.

Only as many routines are drawn as colours can be told apart; the table beside has them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from kdyno.labs.memcpy.time import ratios
from kdyno.labs.memcpy.time.loads import Load
from kdyno.labs.memcpy.time.results import Bench, Entry
from kdyno.labs.memcpy.time.tables import answer, curves, span, title, told
from kdyno.report import plain
from kdyno.report.charts import vega
from kdyno.report.charts.vega import Spec, filled, fitted, heading, stack

HEIGHT_PX = 300
COLOURS = ("variant", "slower", "faster", "failed", "inconclusive")
_RIVALS = {"orig": ("ink", (6, 3)), "fsrm": ("baseline", (6, 3)), "rep-movsb": ("baseline", (6, 3))}
_OTHERS = {"glibc": ("muted", (2, 2)), "nothing": ("muted", (1, 3))}
_CEILING = "ceiling"
_FEWEST = 3
"""A curve of fewer sizes is not a curve."""


def drawn_entries(bench: Bench) -> tuple[Entry, ...]:
    """Rivals, the C library, the bound, and the routines that are fastest in L1."""
    near = [load for load in bench.loads if load.level == bench.loads[0].level]

    def total(it: Entry) -> float:
        return math.fsum(math.log(ratios.ns(bench, it.name, load)) for load in near)

    fastest = sorted((it for it in bench.timed if it.rank == "routine"), key=total)
    known = [it for it in bench.timed if it.name in (*_RIVALS, *_OTHERS)]
    return (*fastest[: len(COLOURS)], *known)


def drawable(bench: Bench) -> list[tuple[str, str, str]]:
    """Curves with enough sizes to draw."""
    return [key for key in curves(bench) if len(ratios.curve(bench, *key)) >= _FEWEST]


def chart(bench: Bench, key: tuple[str, str, str], width_px: int, title: str = "") -> Spec:
    """One curve's panel with its legend, about ``width_px`` wide."""
    loads = ratios.curve(bench, *key)
    entries = drawn_entries(bench)
    styles = _styles(entries)
    wide = width_px > 600
    rows = [
        {"name": _label(entry), "bytes": load.mean, "ns": ratios.ns(bench, entry.name, load)}
        for entry in entries
        for load in loads
    ]
    for load in loads:
        least_ns = ratios.ceiling_ns(bench, load)
        if least_ns is not None:
            # What lies far below one call's cost would only stretch the axis.
            rows.append({"name": _CEILING, "bytes": load.mean, "ns": max(least_ns, 0.3)})
    winners = _winners(bench, key, loads) if wide else []
    return filled(
        Path(__file__).with_name("curve.json"),
        title=title,
        width=width_px - (250 if wide else 70),
        height=HEIGHT_PX if wide else 240,
        domain=[loads[0].mean, loads[-1].mean],
        x_title="bytes" if loads[0].least == loads[0].most else "mean bytes of the draws",
        sizes=_ticks(loads, 9 if wide else 5),
        times=_decades(bench, loads),
        rows=rows,
        winners=winners,
        edges=winners[1:],
        names=list(styles),
        colours=[f"var(--{colour})" for colour, _ in styles.values()],
        dashes=[list(dash) for _, dash in styles.values()],
        legend={
            "title": None,
            "orient": "right" if wide else "bottom",
            "columns": 1 if wide else 3,
            "labelColor": "var(--ink)",
            "labelFontSize": 12,
            "symbolStrokeWidth": 2,
            "symbolType": "stroke",
            "symbolSize": 300,
            "labelLimit": 150,
        },
    )


def _winners(
    bench: Bench, key: tuple[str, str, str], loads: Sequence[Load]
) -> list[dict[str, str | float]]:
    """The fastest of each band: its name, the band's middle and its lower edge on the axis."""
    found: list[dict[str, str | float]] = []
    low, high = loads[0].mean, loads[-1].mean
    if loads[0].least != loads[0].most:
        return found  # drawn sizes overlap: there are no bands along the axis
    for it in ratios.bands(bench, *key):
        edge, end = max(low, it.least), min(high, it.most)
        # A band of one point at the axis' end has no room for a word.
        if end > 1.5 * edge:
            found.append(
                {
                    "name": fitted(plain.short(it.name), 90),
                    "middle": math.sqrt(edge * end),
                    "edge": edge,
                }
            )
    return found


def text(bench: Bench, key: tuple[str, str, str]) -> str:
    """The curve's finding in words."""
    loads = ratios.curve(bench, *key)
    where = f"{span(loads[0].least, loads[-1].most)} bytes"
    return (
        f"Time per call by size, {title(*key)}, {where}. Fastest: "
        f"{told(ratios.bands(bench, *key))}. The table has every figure."
    )


def picture(bench: Bench, width_px: int = 900) -> str:
    """All curves below each other as one SVG that stands alone."""
    keys = drawable(bench) or curves(bench)[:1]
    panels = [chart(bench, key, width_px, title(*key)) for key in keys]
    head = heading(
        "Memory routines" + (": the published comparison" * (bench.plan == "paper")),
        f"{plain.sentence(bench.cpu)}, {bench.core_ghz:.2f} GHz, {bench.blocks} blocks",
    )
    words = " ".join([answer(bench), *(text(bench, key) for key in keys)])
    return vega.alone(stack(panels, head, spacing_px=28), words) + "\n"


def _styles(entries: Sequence[Entry]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Name in the legend → colour and dashes."""
    free = iter(COLOURS)
    found: dict[str, tuple[str, tuple[int, ...]]] = {}
    for it in entries:
        known = {**_RIVALS, **_OTHERS}.get(it.name)
        found[_label(it)] = known if known is not None else (next(free), (1, 0))
    return {**found, _CEILING: ("accent", (8, 2, 1, 2))}


def _label(it: Entry) -> str:
    return plain.short(it.name)


def _ticks(loads: Sequence[Load], most: int) -> list[int]:
    low, high = loads[0].mean, loads[-1].mean
    powers = [
        1 << it for it in range(math.ceil(math.log2(low)), math.floor(math.log2(high) + 1e-9) + 1)
    ]
    step = max(1, math.ceil(len(powers) / most))
    return powers[::step]


def _decades(bench: Bench, loads: Sequence[Load]) -> list[float]:
    """1, 3, 10, 30 … over all times of the panel."""
    times = [ratios.ns(bench, it.name, load) for it in bench.timed for load in loads]
    low, high = min(*times, 0.3), max(times)
    found = [
        factor * 10.0**power
        for power in range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        for factor in (1, 2, 5)
    ]
    inside = [it for it in found if low <= it <= high]
    return inside if len(inside) <= 9 else [it for it in inside if f"{it:e}"[0] == "1"]
