# SPDX-License-Identifier: MIT
"""A bench of memory routines as one HTML file of its own, with the frame of every page."""

from __future__ import annotations

from kdyno import __version__
from kdyno.memcpy import judging
from kdyno.memcpy.results import Bench
from kdyno.report import benchtable, figures, plain
from kdyno.report.charts import curves
from kdyno.report.charts.vega import drawn
from kdyno.report.html.markup import Html, join, name, short, tag
from kdyno.report.html.page import document
from kdyno.report.html.table import Cell, Row, table

WIDTHS_PX = {"wide": 1000, "narrow": 356}
_HEADS = [
    "Routine",
    "Bytes",
    "Copied",
    "ns per call",
    "Bytes per cycle",
    "Of the ceiling",
    "Time ÷ rival’s",
    "95 % interval",
]
_BEST_HEADS = ["Bytes", "Copied", "Fastest", "Time ÷ rival’s", "Not told apart from it"]


def page(bench: Bench) -> str:
    """The whole file. Nothing in it asks for anything from anywhere."""
    parts = {
        "curves": ("Curves", drawings(bench)),
        "best": ("Fastest by size", _best(bench)),
        "figures": ("Every figure", _table(bench, benchtable.curves(bench), "figures-table")),
        "how": ("How it was timed", _how(bench)),
    }
    sections = [
        tag(
            "section",
            tag("h2", heading, id=f"{id_}-title"),
            content,
            id=id_,
            aria_labelledby=f"{id_}-title",
        )
        for id_, (heading, content) in parts.items()
    ]
    links = [tag("a", heading, href=f"#{id_}") for id_, (heading, _) in parts.items()]
    body = join([_head(bench, links), tag("main", sections), _foot(bench)])
    return document(title="Memory routines · kdyno", body=body, skip=("curves", "To the curves"))


def drawings(bench: Bench) -> Html:
    """Every curve for wide and for narrow windows, with the figures of each below it."""
    shown = []
    for key in curves.drawable(bench):
        said = curves.text(bench, key)
        sizes = [
            tag("div", Html(drawn(curves.chart(bench, key, px), said)), class_=f"drawing {kind}")
            for kind, px in WIDTHS_PX.items()
        ]
        heading = benchtable.title(*key)
        shown.append(tag("figure", tag("h3", heading[:1].upper() + heading[1:]), sizes))
    few = len([it for it in bench.timed if it.rank == "routine"]) - len(curves.COLOURS)
    note = f"The {len(curves.COLOURS)} fastest routines are drawn; the table has all."
    return join([tag("p", note, class_="legend") if few > 0 else None, shown])


def _best(bench: Bench) -> Html:
    rows = []
    for key in benchtable.curves(bench):
        for it in judging.bands(bench, *key):
            rows.append(
                Row(
                    [
                        Cell(benchtable.span(it.least, it.most), float(it.least), True),
                        Cell(benchtable.label(*key)),
                        Cell(short(it.name), plain.name(it.name)),
                        Cell(
                            benchtable.ratio(it.ratio),
                            it.ratio.ratio if it.ratio is not None else None,
                            True,
                        ),
                        Cell(benchtable.few(it.others)),
                    ],
                    {"level": key[0], "mode": key[1]},
                )
            )
    tip = (
        "The rival is the faster of the kernel’s own loop and rep movsb at each size; below 1 is "
        "faster. In brackets the 95 % interval over blocks."
    )
    shown = table("best-table", "Fastest by size", _BEST_HEADS, rows, ("level", "mode"))
    return join([tag("p", tip, class_="tip"), shown])


def _table(bench: Bench, keys: list[tuple[str, str, str]], id_: str) -> Html:
    wanted = {load.id for key in keys for load in benchtable.shown(judging.curve(bench, *key))}
    rows = []
    for it in judging.rows(bench, [load for load in bench.loads if load.id in wanted]):
        load, effect = it.load, it.ratio
        ends = ""
        if effect is not None and effect.lo is not None and effect.hi is not None:
            ends = f"{effect.lo:.3f} … {effect.hi:.3f}"
        ratio = effect.ratio if effect is not None else None
        rows.append(
            Row(
                [
                    Cell(short(it.name), plain.name(it.name)),
                    Cell(benchtable.span(load.least, load.most), load.mean, True),
                    Cell(benchtable.label(load.level, load.mode, load.alignment)),
                    Cell(figures.amount(it.ns), it.ns, True),
                    Cell(figures.amount(it.bytes_per_cycle), it.bytes_per_cycle, True),
                    Cell(
                        figures.percent(it.share, signed=False, decimals=0)
                        if it.share is not None
                        else "",
                        it.share,
                        True,
                    ),
                    Cell(f"×{ratio:.3f}" if ratio is not None else "", ratio, True),
                    Cell(ends, effect.lo if effect is not None else None, True),
                ],
                {"routine": plain.short(it.name), "level": load.level, "mode": load.mode},
            )
        )
    shown = table(id_, "Every figure", _HEADS, rows, ("routine", "level", "mode"))
    note = "Of many fixed sizes the powers of two; kdyno memcpy bench --csv writes all."
    return join([tag("p", note, class_="tip"), shown])


def _head(bench: Bench, links: list[Html]) -> Html:
    switch = tag("button", "Dark", type="button", id="theme", aria_pressed="false")
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
    return tag(
        "header",
        tag("div", tag("p", "kdyno memcpy bench", class_="experiment"), switch, class_="top"),
        tag("h1", "Which memory routine is the fastest?"),
        tag("p", benchtable.answer(bench), class_="answer"),
        tag("p", " · ".join(said), class_="facts"),
        tag("ul", remarks, class_="remarks") if remarks else None,
        tag("nav", links, aria_label="Sections"),
    )


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


def _foot(bench: Bench) -> Html:
    text = f"kdyno memcpy bench, plan {plain.name(bench.plan)}; this page by kdyno {__version__}."
    return tag("footer", tag("p", text))
