# SPDX-License-Identifier: MIT
"""kdyno lab vectorize: the verb, and a survey as tables, the same on terminal and page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kdyno import __version__, sandbox
from kdyno.errors import UsageError
from kdyno.experiment import loader
from kdyno.experiment.model import Variant
from kdyno.kernels.source import KINDS, fetch, parse
from kdyno.labs.profile.record import Profile, read_profile, stored_profiles
from kdyno.labs.published.article import Article, load as load_article
from kdyno.labs.vectorize import survey as surveys
from kdyno.labs.vectorize.loops import REASONS
from kdyno.labs.vectorize.survey import Hot, Survey
from kdyno.measure.vocabulary import vocabulary
from kdyno.paths import cache_root
from kdyno.report import plain
from kdyno.report.page import document
from kdyno.report.show import terminal
from kdyno.report.show.grid import Grid, Value, of_rows
from kdyno.report.show.html import Html, element, table
from kdyno.report.show.terminal import Layout, Part
from kdyno.verbs import options
from kdyno.verbs.options import Jobs, Json, NoSandbox, Output, Refresh, Runs, argument, option
from kdyno.verbs.output import check_writable, write_export, write_json
from kdyno.verbs.subject import load, stored_run
from kdyno.verbs.watching import Building

_ROWS = 20
"""Of each table on the terminal."""


def vectorize(
    what: str = argument(
        "WHAT",
        "A kernel source, an experiment file, the object tree of your own build, "
        "or a survey written by --json.",
        "debian:linux-source-7.3",
    ),
    flags: list[str] | None = option(
        "--flags SET",
        'o3, sse2, avx2, avx512, or NAME="FLAGS"; avx2 if none. May be repeated.',
        None,
    ),
    profile: str | None = option(
        "--profile RUN|FILE",
        "Rank missed loops by the seconds of their functions in this profile.",
        None,
    ),
    output: Output = None,
    jobs: Jobs = None,
    refresh: Refresh = False,
    no_sandbox: NoSandbox = False,
    runs: Runs = None,
    json: Json = None,
) -> int:
    """Survey a kernel's vectorised loops, and why others are not.

    Examples:
      kdyno lab vectorize
      kdyno lab vectorize --flags sse2 --flags avx2 --flags avx512 -o survey.html
      kdyno lab vectorize mine.toml --flags avx2 --profile last
      kdyno lab vectorize survey.json -o survey.html
    """
    check_writable(json, output)
    suffix = Path(output).suffix if output not in (None, "-") else ".txt"
    if suffix not in (".txt", ".html"):
        raise UsageError(f"-o {output}: its name must end in .html or .txt")
    times = profile_of(profile, runs) if profile is not None else None
    survey = _survey(what, flags or (), jobs, refresh)
    hot = [] if times is None else [surveys.join(side.loops, times) for side in survey.sides]
    grids = tables_of(survey, hot, load_article(ARTICLE))
    write_json(survey.to_json(), json)
    if json == "-" and not output:
        return 0
    if suffix == ".html":
        content = page(survey, [*grids, vectorised(survey)])
    else:
        parts = (part for grid in grids for part in parts_of(grid, _ROWS))
        content = terminal.text([*head(survey), *parts])
    write_export(content, suffix.removeprefix("."), output)
    return 0


def _survey(what: str, flags: Sequence[str], jobs: int | None, refresh: bool) -> Survey:
    path = Path(what).expanduser()
    if path.suffix != ".json":
        sandbox.require()
    if path.is_dir() or path.suffix == ".json":
        if flags:
            raise UsageError(f"{what}: is built already; --flags goes with a source")
        return surveys.survey_of_folder(path) if path.is_dir() else surveys.survey_of_file(path)
    sets, base, cache = surveys.flag_sets(flags), _variant(what, path), cache_root()
    with Building() as watch:
        tree = fetch(parse(base.source), cache, watch.fetching, refresh=refresh)
        recipes = surveys.check(base, sets, tree)
        return surveys.survey(base, sets, recipes, cache, jobs=jobs, report=watch.building)


def _variant(what: str, path: Path) -> Variant:
    """What the flags are added to: an experiment's baseline, or a stock variant of a source."""
    if path.suffix == ".toml" or path.is_file():
        experiment, _ = load(path)
        return next(each for each in experiment.variants if each.name == experiment.baseline)
    if what.partition(":")[0] not in KINDS:
        raise UsageError(
            f"{what!r}: neither a file or folder that exists, nor a kernel source. "
            f"Sources: {'; '.join(KINDS.values())}"
        )
    keys = {"source": what, "config": ["bench"]}
    return loader.variant("stock", keys, "vectorize", Path.cwd(), vocabulary({}))


def profile_of(text: str, runs: Path | None) -> Profile:
    """A profile file, or a run's: of its baseline, else the first. UsageError without one."""
    path = Path(text).expanduser()
    if path.is_file():
        return read_profile(path)
    run = stored_run(text, runs)
    for profile in stored_profiles(run).values():
        return profile
    again = f"kdyno profile {run.name}{options.where(run.path.parent)}"
    raise UsageError(f"--profile {text}: {run.name} has no profile; `{again}` makes one")


ARTICLE = "simd-in-the-kernel"
"""Whose loops, file by file, stand beside a survey."""
_BY_FLAGS = ("flags",)
"""Of tables whose last column has the flags."""


def tables_of(survey: Survey, hot: Sequence[Hot], article: Article) -> list[Grid]:
    """All tables of a survey. hot: for each side, where a profile was given."""
    names = tuple(plain.name(side.flags) for side in survey.sides)
    files: list[tuple[Value, ...]] = [(file, *counts) for file, counts in survey.files()]
    reasons: list[tuple[Value, ...]] = [
        (REASONS.get(reason, reason), *counts) for reason, counts in survey.reasons()
    ]
    return [
        totals(survey),
        of_rows(("file", *names), files, title="Vectorised places, by file", id="files"),
        of_rows(("reason", *names), reasons, title="Missed places, by reason", id="reasons"),
        *([hot_loops(survey, hot)] if hot else []),
        published_loops(survey, article),
    ]


def totals(survey: Survey) -> Grid:
    heads = (
        "flags", "places", "loops", "16 bytes", "32 bytes", "64 bytes", "in a loop",
        "unrolled", "not there", "8 bytes or less", "became calls", "missed", "compiler flags",
    )  # fmt: skip
    rows: list[tuple[Value, ...]] = [
        (
            side.flags, len(side.places), len(side.vectors), *side.widths().values(),
            *side.in_machine_code().values(), len(side.narrow), side.calls, side.reasons().total(),
            side.cflags,
        )
        for side in survey.sides
    ]  # fmt: skip
    note = (
        "places: loops in the source that were vectorised; loops: the same, counted in every "
        "function that they were inlined into, by the width of their vectors. The machine code of "
        "these functions has registers of that width in a loop, only outside of one (unrolled), or "
        'not there at all. Vectors of "8 bytes or less" are integer arithmetic and not counted. '
        "became calls: of memset, memcpy and the like."
    )
    return of_rows(heads, rows, title="Loops", note=note, id="totals")


def hot_loops(survey: Survey, hot: Sequence[Hot]) -> Grid:
    """Missed loops in the functions where the time goes, the hottest first."""
    rows: list[tuple[Value, ...]] = [
        (
            rank, each.function, round(each.seconds, 4), round(each.share, 5),
            f"{loop.file}:{loop.line}", REASONS.get(loop.reason, loop.reason), loop.words,
            side.flags,
        )
        for side, joined in zip(survey.sides, hot, strict=True)
        for rank, each in enumerate(joined.missed, start=1)
        for loop in sorted(each.missed, key=lambda loop: loop.place)
    ]  # fmt: skip
    parts = "; ".join(
        f"{side.flags}: {100 * own.shares['missed']:.1f} % in functions with a missed loop, "
        f"{100 * own.shares['vectorized']:.1f} % in functions with vectorised loops only, "
        f"{100 * own.shares['none']:.1f} % in functions without either"
        for side, own in zip(survey.sides, hot, strict=True)
    )
    one = hot[0]
    note = (
        f"Of the kernel's {one.total_s:.2f} s a boot ({one.method}, variant {one.variant}), "
        f"{parts}. The seconds are the function's, not the loop's."
    )
    heads = ("rank", "function", "seconds", "share", "loop", "reason", "compiler's words", "flags")
    title = "Missed loops in hot functions"
    return replace(of_rows(heads, rows, title=title, note=note, id="hot"), facets=_BY_FLAGS)


def published_loops(survey: Survey, article: Article) -> Grid:
    """The article's table of vectorised loops, file by file, beside this survey."""
    counts = [side.files() for side in survey.sides]
    # A file without a single loop leaves no trace in its record, but its object does.
    compiled = [
        {f"{each.object.rpartition('.')[0]}.c" for each in side.records.objects}
        | {loop.file for loop in side.loops}
        for side in survey.sides
    ]
    sides = list(zip(counts, compiled, strict=True))
    rows: list[tuple[Value, ...]] = [
        (file, loops, *(count[file] if file in files else None for count, files in sides))
        for file, loops in sorted(article.loops.items(), key=lambda row: (-row[1], row[0]))
    ]
    others = (sum(n for file, n in count.items() if file not in article.loops) for count in counts)
    rows.append(("files that the article does not name", 0, *others))
    totals = (len(side.places) for side in survey.sides)
    rows.append(("all", sum(article.loops.values()), *totals))
    note = f"{article.system}. A dash: today's kernel or configuration does not have the file."
    heads = ("file", "published", *(plain.name(side.flags) for side in survey.sides))
    title = "Beside the published table"
    return of_rows(heads, rows, absent="–", title=title, note=note, id="published")


def vectorised(survey: Survey) -> Grid:
    rows: list[tuple[Value, ...]] = [
        (
            f"{loop.file}:{loop.line}", loop.function, loop.width_bytes,
            loop.epilogue_bytes or None, loop.in_code or None, side.flags,
        )
        for side in survey.sides
        for loop in sorted(side.vectors, key=lambda loop: (loop.place, loop.function))
    ]  # fmt: skip
    heads = ("loop", "function", "bytes", "rest", "machine code", "flags")
    grid = of_rows(heads, rows, absent="–", title="Every vectorised loop", id="vectorised")
    return replace(grid, facets=_BY_FLAGS)


def parts_of(grid: Grid, most: int | None = None, width: int = 60) -> Iterator[Part]:
    """Lines for a terminal; long cells are cut, all but ``most`` rows left out and counted.

    Of a table with facets only the rows of the last one."""
    items, title = grid.items, grid.title
    if grid.facets and items:
        last = items[-1][-1]
        items, title = [row for row in items if row[-1] == last], f"{title} ({last})"
    first = replace(grid, items=items[:most])
    yield title
    yield Layout(first, cut=width)
    if len(first.items) < len(items):
        yield f"  … and {len(items) - len(first.items)} more (-o FILE.html has all)"
    if grid.note:
        yield f"  {grid.note}"
    yield ""


def head(survey: Survey) -> list[str]:
    kernel = " ".join(filter(None, (survey.source, survey.version)))
    lines = [f"{kernel}, {survey.compiler}"]
    lines += [
        f"damaged record: {side.flags}: {damage}; what comes before it is counted"
        for side in survey.sides
        for damage in side.damaged()
    ]
    return [*map(plain.sentence, lines), ""]


def page(survey: Survey, grids: Sequence[Grid]) -> str:
    """The whole file; tables sort by their headings and filter by what is typed above them."""
    sections = {}
    for grid in (grid for grid in grids if grid.items):
        note = element('<p class="tip">{}</p>', grid.note) if grid.note else Html()
        part = note + table(replace(grid, id=f"{grid.id}-table"))
        sections[grid.id] = (grid.title, part)
    return document(
        "alone.html",
        tool="kdyno lab vectorize",
        title=f"vectorised loops · {plain.short(survey.source)} · kdyno",
        heading="What the compiler vectorises",
        intro=Html().join(element("<p>{}</p>", line) for line in head(survey) if line),
        sections=sections,
        foot=f"Made by kdyno {__version__}.",
        skip=("main", "To the tables"),
    )


VERBS = {"vectorize": vectorize}
