# SPDX-License-Identifier: MIT
"""A vectorisation survey as tables: one set of them for the terminal, Markdown and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

from kdyno import __version__
from kdyno.labs.vectorize.hot import Hot, HotFunction
from kdyno.labs.vectorize.loops import Loop
from kdyno.labs.vectorize.published import PublishedLoops, beside
from kdyno.labs.vectorize.reasons import REASONS
from kdyno.labs.vectorize.survey import Side, Survey
from kdyno.report import plain
from kdyno.report.html.page import alone
from kdyno.report.show import spreadsheet
from kdyno.report.show.grid import Grid, Value, of_rows
from kdyno.report.show.html import table
from kdyno.report.show.markdown import table as as_markdown
from kdyno.report.show.markup import Content, tag
from kdyno.report.show.terminal import Layout, Part

_BY_FLAGS = {"flags": itemgetter(-1)}
"""Of tables whose last column has the flags."""


def grids(
    survey: Survey, hot: Sequence[Hot] = (), published: PublishedLoops | None = None
) -> list[Grid]:
    """All tables of a survey. hot: for each side, where a profile was given."""
    found = [totals(survey), files(survey), reasons(survey)]
    if hot:
        found.append(hot_loops(survey, hot))
    if published is not None:
        found.append(published_loops(survey, published))
    return found


def totals(survey: Survey) -> Grid:
    rows: list[tuple[Value, ...]] = []
    for side in survey.sides:
        widths, seen = side.widths(), side.seen()
        rows.append(
            (
                side.flags.name, len(side.places), len(side.vectors), *widths.values(),
                seen["loop"], seen["function"], seen["no"], len(side.narrow),
                len({loop.place for loop in side.library}), sum(side.reasons().values()),
                side.flags.cflags,
            )
        )  # fmt: skip
    heads = (
        "flags", "places", "loops", "16 bytes", "32 bytes", "64 bytes", "in a loop",
        "unrolled", "not there", "8 bytes or less", "became calls", "missed", "compiler flags",
    )  # fmt: skip
    note = (
        "places: loops in the source that were vectorised; loops: the same, counted in every "
        "function that they were inlined into, by the width of their vectors. The machine code of "
        "these functions has registers of that width in a loop, only outside of one (unrolled), or "
        'not there at all. Vectors of "8 bytes or less" are integer arithmetic and not counted. '
        "became calls: of memset, memcpy and the like."
    )
    return of_rows(heads, rows, title="Loops", note=note, id="totals")


def files(survey: Survey) -> Grid:
    rows: list[tuple[Value, ...]] = [(file, *counts) for file, counts in survey.files()]
    return of_rows(("file", *_names(survey)), rows, title="Vectorised places, by file", id="files")


def reasons(survey: Survey) -> Grid:
    rows: list[tuple[Value, ...]] = [
        (REASONS.get(it, it), *counts) for it, counts in survey.reasons()
    ]
    heads = ("reason", *_names(survey))
    return of_rows(heads, rows, title="Missed places, by reason", id="reasons")


def hot_loops(survey: Survey, hot: Sequence[Hot]) -> Grid:
    """Missed loops in the functions where the time goes, the hottest first."""
    rows = [
        _hot_row(side, rank, function, loop)
        for side, joined in zip(survey.sides, hot, strict=True)
        for rank, function in enumerate(joined.missed, start=1)
        for loop in sorted(function.missed, key=lambda it: it.place)
    ]
    one = hot[0]
    parts = "; ".join(
        f"{side.flags.name}: {100 * it.share('missed'):.1f} % in functions with a missed loop, "
        f"{100 * it.share('vectorized'):.1f} % in functions with vectorised loops only, "
        f"{100 * it.share('none'):.1f} % in functions without either"
        for side, it in zip(survey.sides, hot, strict=True)
    )
    note = (
        f"Of the kernel's {one.total_s:.2f} s a boot ({one.method}, variant {one.variant}), "
        f"{parts}. The seconds are the function's, not the loop's."
    )
    heads = ("rank", "function", "seconds", "share", "loop", "reason", "compiler's words", "flags")
    title = "Missed loops in hot functions"
    return replace(of_rows(heads, rows, title=title, note=note, id="hot"), facets=_BY_FLAGS)


def _hot_row(side: Side, rank: int, function: HotFunction, loop: Loop) -> tuple[Value, ...]:
    return (
        rank, function.function, round(function.seconds, 4), round(function.share, 5),
        f"{loop.file}:{loop.line}", REASONS.get(loop.reason, loop.reason), loop.words,
        side.flags.name,
    )  # fmt: skip


def hot_json(survey: Survey, hot: Sequence[Hot]) -> list[dict[str, object]]:
    """Per side: where the kernel's seconds are, and the functions with missed loops, ranked."""
    return [
        {
            "flags": side.flags.name,
            "variant": it.variant,
            "method": it.method,
            "total_s": it.total_s,
            "share": {kind: it.share(kind) for kind in ("missed", "vectorized", "none")},
            "missed": [
                {
                    "function": each.function,
                    "seconds": each.seconds,
                    "share": each.share,
                    "loops": [
                        {
                            "file": loop.file,
                            "line": loop.line,
                            "reason": loop.reason,
                            "words": loop.words,
                        }
                        for loop in each.missed
                    ],
                }
                for each in it.missed
            ],
        }
        for side, it in zip(survey.sides, hot, strict=True)
    ]


def published_loops(survey: Survey, published: PublishedLoops) -> Grid:
    found = beside(published, survey)
    rows: list[tuple[Value, ...]] = [(file, then, *now) for file, then, now in found]
    here = {file for file, _, _ in found}
    rest = [
        sum(count for file, count in side.files().items() if file not in here)
        for side in survey.sides
    ]
    rows.append(("files that the article does not name", 0, *rest))
    rows.append(("all", published.total, *(len(side.places) for side in survey.sides)))
    note = f"{published.system}. A dash: today's kernel or configuration does not have the file."
    title = "Beside the published table"
    heads = ("file", "published", *_names(survey))
    return of_rows(heads, rows, absent="–", title=title, note=note, id="published")


def vectorised(survey: Survey) -> Grid:
    """Every vectorised loop of every side."""
    rows: list[tuple[Value, ...]] = [
        (
            f"{loop.file}:{loop.line}", loop.function, loop.width_bytes,
            loop.epilogue_bytes or None, loop.seen or None, side.flags.name,
        )
        for side in survey.sides
        for loop in sorted(side.vectors, key=lambda it: (it.place, it.function))
    ]  # fmt: skip
    heads = ("loop", "function", "bytes", "rest", "machine code", "flags")
    found = of_rows(heads, rows, absent="–", title="Every vectorised loop", id="vectorised")
    return replace(found, facets=_BY_FLAGS)


def _names(survey: Survey) -> tuple[str, ...]:
    return tuple(plain.name(side.flags.name) for side in survey.sides)


def parts(grid: Grid, most: int | None = None, width: int = 60) -> Iterator[Part]:
    """Lines for a terminal; long cells are cut, all but ``most`` rows left out and counted.

    Of a table with facets only the rows of the last one.
    """
    items, title = grid.items, grid.title
    if grid.facets and items:
        last = items[-1][-1]
        items, title = [row for row in items if row[-1] == last], f"{title} ({last})"
    shown = replace(grid, items=items[:most])
    yield title
    yield Layout(shown, cut=width)
    if len(shown.items) < len(items):
        yield f"  … and {len(items) - len(shown.items)} more (-o FILE.html has all)"
    if grid.note:
        yield f"  {grid.note}"
    yield ""


def head(survey: Survey) -> list[str]:
    damaged = [
        f"{side.flags.name}: {it}; what comes before it is counted"
        for side in survey.sides
        for it in side.damaged()
    ]
    kernel = " ".join(filter(None, (survey.source, survey.version)))
    first = f"{kernel}, {survey.compiler}"
    return [plain.sentence(first), *(plain.sentence(f"damaged record: {it}") for it in damaged), ""]


def markdown(survey: Survey, tables: Sequence[Grid]) -> str:
    parts = ["# What the compiler vectorises", *(line for line in head(survey) if line)]
    for grid in tables:
        parts += [f"## {grid.title}", as_markdown(grid), *([grid.note] if grid.note else [])]
    return "\n\n".join(parts) + "\n"


def csv_text(survey: Survey) -> str:
    """One line per loop and side. outcome: vectorised, general-registers, call or missed."""
    heads = (
        "flags", "file", "line", "column", "function", "outcome", "width_bytes", "epilogue_bytes",
        "machine_code", "reason", "words",
    )  # fmt: skip
    rows: list[tuple[Value, ...]] = [
        (
            side.flags.name, loop.file, loop.line, loop.column, loop.function, outcome(loop),
            loop.width_bytes, loop.epilogue_bytes, loop.seen, loop.reason, loop.words,
        )
        for side in survey.sides
        for loop in side.loops
    ]  # fmt: skip
    return spreadsheet.text(of_rows(heads, rows))


def outcome(loop: Loop) -> str:
    if loop.library:
        return "call"
    if loop.reason:
        return "missed"
    return "vectorised" if loop.is_vector else "general-registers"


def page(survey: Survey, grids: Sequence[Grid]) -> str:
    """The whole file; tables sort by their headings and filter by what is typed above them."""
    return alone(
        tool="kdyno vectorize",
        title=f"vectorised loops · {plain.short(survey.source)} · kdyno",
        heading="What the compiler vectorises",
        intro=[tag("p", line) for line in head(survey) if line],
        sections={grid.id: (grid.title, _content(grid)) for grid in grids if grid.items},
        foot=f"Made by kdyno {__version__}.",
        skip=("main", "To the tables"),
    )


def _content(grid: Grid) -> Content:
    note = tag("p", grid.note, class_="tip") if grid.note else None
    return [note, table(replace(grid, id=f"{grid.id}-table"))]
