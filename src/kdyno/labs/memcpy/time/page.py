# SPDX-License-Identifier: MIT
"""A bench of memory routines as one HTML file of its own, with the frame of every page."""

from __future__ import annotations

from functools import partial

from kdyno import __version__
from kdyno.labs.memcpy.time import curves, ratios, tables
from kdyno.labs.memcpy.time.results import Bench
from kdyno.report import figures, plain
from kdyno.report.page import alone
from kdyno.report.page import drawings as sized
from kdyno.report.show.grid import Cell, Column, Grid
from kdyno.report.show.html import table
from kdyno.report.show.markup import Html, join, name, tag

TOOL = "kdyno memcpy bench"
WIDTHS_PX = {"wide": 1000, "narrow": 356}


def page(bench: Bench) -> str:
    """The whole file. Nothing in it asks for anything from anywhere."""
    return alone(
        tool=TOOL,
        title="Memory routines · kdyno",
        heading="Which memory routine is the fastest?",
        intro=_intro(bench),
        sections={
            "curves": ("Curves", drawings(bench)),
            "best": ("Fastest by size", _best(bench)),
            "figures": ("Every figure", _table(bench)),
            "how": ("How it was timed", _how(bench)),
        },
        foot=f"{TOOL}, plan {plain.name(bench.plan)}; this page by kdyno {__version__}.",
        skip=("curves", "To the curves"),
    )


def drawings(bench: Bench) -> Html:
    """Every curve for wide and for narrow windows, with the figures of each below it."""
    shown = []
    for key in curves.drawable(bench):
        said = curves.text(bench, key)
        sizes = sized(WIDTHS_PX, partial(curves.chart, bench, key), said)
        heading = tables.title(*key)
        shown.append(tag("figure", tag("h3", heading[:1].upper() + heading[1:]), sizes))
    few = len([it for it in bench.timed if it.rank == "routine"]) - len(curves.COLOURS)
    note = f"The {len(curves.COLOURS)} fastest routines are drawn; the table has all."
    return join([tag("p", note, class_="legend") if few > 0 else None, shown])


def _best(bench: Bench) -> Html:
    items = [(key, it) for key in tables.curves(bench) for it in ratios.bands(bench, *key)]
    columns = [
        Column(
            "Bytes",
            lambda it: Cell(tables.span(it[1].least, it[1].most), it[1].least),
            "number",
        ),
        Column("Copied", lambda it: tables.label(*it[0])),
        Column("Fastest", lambda it: it[1].name, "name"),
        Column("Time ÷ rival’s", lambda it: tables.ratio_cell(it[1].ratio), "number"),
        Column("Not distinguishable from it", lambda it: tables.few(it[1].others)),
    ]
    facets = {"level": lambda it: it[0][0], "mode": lambda it: it[0][1]}
    tip = (
        "The rival is the faster of the kernel’s own loop and rep movsb at each size; below 1 is "
        "faster. In brackets the 95 % interval over blocks."
    )
    grid = Grid(columns, items, "Fastest by size", id="best-table", facets=facets)
    return join([tag("p", tip, class_="tip"), table(grid)])


def _table(bench: Bench) -> Html:
    wanted = {
        load.id for key in tables.curves(bench) for load in tables.shown(ratios.curve(bench, *key))
    }
    columns = [
        Column("Routine", lambda it: it.name, "name"),
        Column(
            "Bytes",
            lambda it: Cell(tables.span(it.load.least, it.load.most), it.load.mean),
            "number",
        ),
        Column("Copied", lambda it: tables.label(it.load.level, it.load.mode, it.load.alignment)),
        Column("ns per call", lambda it: it.ns, "number", figures.amount),
        Column("Bytes per cycle", lambda it: it.bytes_per_cycle, "number", figures.amount),
        Column("Of the ceiling", lambda it: it.share, "number", tables.whole_percent),
        Column(
            "Time ÷ rival’s", lambda it: it.ratio and it.ratio.ratio, "number", "×{:.3f}".format
        ),
        Column("95 % interval", lambda it: tables.ends(it.ratio), "number"),
    ]
    facets = {
        "routine": lambda it: plain.short(it.name),
        "level": lambda it: it.load.level,
        "mode": lambda it: it.load.mode,
    }
    items = ratios.rows(bench, [load for load in bench.loads if load.id in wanted])
    grid = Grid(columns, items, "Every figure", id="figures-table", facets=facets)
    note = "Of many fixed sizes the powers of two; kdyno memcpy bench --csv writes all."
    return join([tag("p", note, class_="tip"), table(grid)])


def _intro(bench: Bench) -> list[Html | None]:
    said = [
        f"{plain.sentence(bench.cpu)} at {bench.core_ghz:.2f} GHz",
        figures.count(bench.blocks, "block"),
        f"timed {bench.created[:16].replace('T', ' ')} UTC in {bench.seconds:.0f} s",
        f"seed {bench.seed}",
    ]
    remarks = [
        tag("li", tag("b", word), " ", name(who), ": ", plain.sentence(why))
        for word, of in (("failed", bench.failed), ("left out", bench.left_out))
        for who, why in of.items()
    ]
    remarks += [tag("li", plain.sentence(it)) for it in bench.remarks]
    return [
        tag("p", tables.answer(bench), class_="answer"),
        tag("p", " · ".join(said), class_="facts"),
        tag("ul", remarks, class_="remarks") if remarks else None,
    ]


def _how(bench: Bench) -> Html:
    ceilings = [
        tag("li", f"{level}: {it.rate:.1f} bytes per ns: {plain.sentence(it.how)}")
        for level, it in bench.ceilings.items()
    ]
    said = (
        "Each block is a process of its own with every routine at a random place in memory; "
        "routines follow each other in random order at every size. Intervals are signed-rank "
        "intervals over blocks. Cycles are counted by a chain of additions that take one each: "
        f"{bench.core_ghz:.3f} GHz; the time-stamp counter ticks at {bench.tsc_ghz:.3f} GHz."
    )
    return join([tag("p", said), tag("h3", "Ceilings"), tag("ul", ceilings)])
