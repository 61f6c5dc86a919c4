# SPDX-License-Identifier: MIT
"""A vectorisation survey as tables: one set of them for the terminal, Markdown and the page."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field

from kdyno.report import plain
from kdyno.vectorize.hot import Hot, HotFunction
from kdyno.vectorize.loops import Loop
from kdyno.vectorize.published import PublishedLoops, beside
from kdyno.vectorize.reasons import REASONS
from kdyno.vectorize.survey import Side, Survey

Value = str | int | float | None


@dataclass(frozen=True)
class Grid:
    """One table. rows: values by column; None is shown as a dash. facets: one a row, if any."""

    key: str
    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    note: str = ""
    facets: tuple[str, ...] = field(default=())


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
    return Grid("totals", "Loops", heads, tuple(rows), note)


def files(survey: Survey) -> Grid:
    rows: tuple[tuple[Value, ...], ...] = tuple((file, *counts) for file, counts in survey.files())
    return Grid("files", "Vectorised places, by file", ("file", *_names(survey)), rows)


def reasons(survey: Survey) -> Grid:
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (REASONS.get(it, it), *counts) for it, counts in survey.reasons()
    )
    return Grid("reasons", "Missed places, by reason", ("reason", *_names(survey)), rows)


def hot_loops(survey: Survey, hot: Sequence[Hot]) -> Grid:
    """Missed loops in the functions where the time goes, the hottest first."""
    rows, facets = [], []
    for side, joined in zip(survey.sides, hot, strict=True):
        for rank, function in enumerate(joined.missed, start=1):
            for loop in sorted(function.missed, key=lambda it: it.place):
                rows.append(_hot_row(side, rank, function, loop))
                facets.append(side.flags.name)
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
    return Grid("hot", title, heads, tuple(rows), note, tuple(facets))


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
    return Grid("published", title, ("file", "published", *_names(survey)), tuple(rows), note)


def vectorised(survey: Survey) -> Grid:
    """Every vectorised loop of every side."""
    rows, facets = [], []
    for side in survey.sides:
        for loop in sorted(side.vectors, key=lambda it: (it.place, it.function)):
            rows.append(
                (
                    f"{loop.file}:{loop.line}", loop.function, loop.width_bytes,
                    loop.epilogue_bytes or None, loop.seen or None, side.flags.name,
                )
            )  # fmt: skip
            facets.append(side.flags.name)
    heads = ("loop", "function", "bytes", "rest", "machine code", "flags")
    return Grid("vectorised", "Every vectorised loop", heads, tuple(rows), "", tuple(facets))


def _names(survey: Survey) -> tuple[str, ...]:
    return tuple(plain.name(side.flags.name) for side in survey.sides)


def is_figure(grid: Grid, column: int) -> bool:
    """Whether a column holds figures; a dash is none."""
    values = [row[column] for row in grid.rows if row[column] is not None]
    return bool(values) and all(isinstance(it, int | float) for it in values)


def shown(value: Value) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.4g}"
    return plain.sentence(str(value))


def text(grid: Grid, most: int | None = None, width: int = 60) -> list[str]:
    """Lines for a terminal; long cells are cut, all but ``most`` rows left out and counted.

    Of a table with facets only the rows of the last one.
    """
    last = grid.facets[-1] if grid.facets else ""
    of = [row for at, row in enumerate(grid.rows) if not last or grid.facets[at] == last]
    rows = of[:most]
    cells = [list(grid.heads), *([_cut(shown(it), width) for it in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(grid.heads))]
    figures = [is_figure(grid, at) for at in range(len(grid.heads))]
    lines = [plain.sentence(f"{grid.title} ({last})" if last else grid.title)]
    for row in cells:
        parts = [
            cell.rjust(size) if figure else cell.ljust(size)
            for cell, size, figure in zip(row, widths, figures, strict=True)
        ]
        lines.append(("  " + "  ".join(parts)).rstrip())
    if len(rows) < len(of):
        lines.append(f"  … and {len(of) - len(rows)} more (-o FILE.html has all)")
    if grid.note:
        lines.append(f"  {grid.note}")
    return [*lines, ""]


def _cut(value: str, width: int) -> str:
    return value if len(value) <= width else value[: width - 1] + "…"


def head(survey: Survey) -> list[str]:
    damaged = [
        f"{side.flags.name}: {it}; what stands before is counted"
        for side in survey.sides
        for it in side.damaged()
    ]
    kernel = " ".join(filter(None, (survey.source, survey.version)))
    first = f"{kernel}, {survey.compiler}"
    return [plain.sentence(first), *(plain.sentence(f"damaged record: {it}") for it in damaged), ""]


def markdown(survey: Survey, tables: Sequence[Grid]) -> str:
    lines = ["# What the compiler vectorises", "", *head(survey)]
    for grid in tables:
        lines += [f"## {grid.title}", "", _markdown_row(grid.heads)]
        lines.append("|" + " --- |" * len(grid.heads))
        lines += [_markdown_row([shown(it) for it in row]) for row in grid.rows]
        lines += ["", grid.note, ""] if grid.note else [""]
    return "\n".join(lines)


def _markdown_row(cells: Sequence[str]) -> str:
    escaped = (it.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for it in cells)
    return "| " + " | ".join(escaped) + " |"


CSV_COLUMNS = (
    "flags", "file", "line", "column", "function", "outcome", "width_bytes", "epilogue_bytes",
    "machine_code", "reason", "words",
)  # fmt: skip


def csv_text(survey: Survey) -> str:
    """One line per loop and side. outcome: vectorised, general-registers, call or missed."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for side in survey.sides:
        for loop in side.loops:
            values: tuple[Value, ...] = (
                side.flags.name, loop.file, loop.line, loop.column, loop.function,
                outcome(loop), loop.width_bytes, loop.epilogue_bytes, loop.seen,
                loop.reason, loop.words,
            )  # fmt: skip
            writer.writerow(map(_field, values))
    return out.getvalue()


def outcome(loop: Loop) -> str:
    if loop.library:
        return "call"
    if loop.reason:
        return "missed"
    return "vectorised" if loop.is_vector else "general-registers"


def _field(value: Value) -> Value:
    """Spreadsheets run what begins like a formula; an apostrophe makes it text."""
    if not isinstance(value, str):
        return value
    clean = plain.sentence(value)
    return f"'{clean}" if clean[:1] in ("=", "+", "-", "@") else clean
