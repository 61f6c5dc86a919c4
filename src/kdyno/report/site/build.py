# SPDX-License-Identifier: MIT
"""All pages of a site, made anew only where what they show has changed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

from pydantic import TypeAdapter

from kdyno.errors import KdynoError, UsageError
from kdyno.report.page import page
from kdyno.report.site.history import experiment_page, history_page, overview, series_of
from kdyno.report.site.pages import listing
from kdyno.report.site.place import (
    joined,
    locked,
    prepare,
    run_stamp,
    save_state,
    state,
    tool_stamp,
    unchanged,
    write,
)
from kdyno.report.site.summary import Summary, page_name, summarize, unreadable
from kdyno.store import watch as store
from kdyno.store.folder import Folder
from kdyno.store.run import MANIFEST, Run, list_runs
from kdyno.store.watch import Watch

Progress = Callable[[int, int], None]
"""(runs done, runs to do) while reports are made."""
Sections = Callable[[], Sequence[ModuleType]]
"""What reports show beyond the page's own sections; a module's function, for other processes."""

_POOL_FROM = 12
"""Fewer reports are made at once before other processes have started."""
_LOOKS_LIKE_A_RUN = re.compile(r"\d{4}-\d\d-\d\dT\d{4}-")


@dataclass(frozen=True)
class Built:
    """What a build did."""

    runs: int
    rendered: int
    """Runs that were read and rendered again."""
    kept: int
    removed: int
    pages: tuple[str, ...]
    """Names of the written pages other than the runs' own."""
    edition: str
    """Changes whenever a page does."""


@dataclass(frozen=True)
class Kept:
    """What is kept beside a report, in .data: of what it was made, and its summary."""

    stamp: str
    summary: Summary | None = None


_KEPT = TypeAdapter(Kept)
_SUMMARY = TypeAdapter(Summary)


def kept(out: Path, page: str) -> Kept:
    """What the last build kept; without a stamp where there is nothing that can be read."""
    try:
        return _KEPT.validate_json((out / ".data" / f"{page}.json").read_bytes())
    except (OSError, ValueError):
        return Kept("")


def keep(out: Path, page: str, value: Kept) -> None:
    write(out / ".data" / f"{page}.json", _KEPT.dump_json(value).decode())


def build_site(
    runs: Path,
    out: Path,
    *,
    full: bool = False,
    live: bool = False,
    progress: Progress = lambda _done, _all: None,
    sections: Sections = tuple,
) -> Built:
    """The site of all runs of a folder. ``full``: reports with every chart, a second or more each.

    UsageError for an unusable folder; a run that is damaged becomes a line that says so."""
    if not runs.is_dir():
        raise UsageError(f"{runs}: there is no such folder of runs; choose another with --runs")
    if out.resolve() == runs.resolve():
        raise UsageError(f"-o {out}: is the folder of the runs themselves; name another one")
    prepare(out)
    options = joined(tool_stamp(), str(full), str(live))
    with locked(out):
        there = list_runs(runs)
        stamps = {run.name: joined(options, run_stamp(run)) for run in there}
        empty = _empty(runs)
        of_run = _current(out, there, stamps)
        todo = [run for run in there if run.name not in of_run]
        watches = _watches(runs)
        of_stamps = (f"{k} {v}" for k, v in sorted(stamps.items()))
        edition = joined(options, *of_stamps, *empty, *map(repr, watches))
        if not todo and unchanged(out, edition):
            return Built(len(there), 0, len(there), 0, (), edition)
        for name, summary in _reports(todo, out, full, progress, sections):
            of_run[name] = summary
            keep(out, summary.page, Kept(stamps[name], summary))
        summaries = [of_run[run.name] for run in there]
        removed = remove_others(out, {summary.page for summary in summaries})
        summaries += [unreadable(name, "empty", f"there is no {MANIFEST} in it") for name in empty]
        # The state of a run in progress is in its text, so that the next build looks again.
        texts = {each.page: _SUMMARY.dump_json(each).decode() for each in summaries}
        written = write_pages(out, summaries, texts, live, options, edition, watches)
        fresh = len(todo)
        return Built(len(there), fresh, len(there) - fresh, removed, written, edition)


def _empty(runs: Path) -> list[str]:
    """Folders with a run's name and no manifest: a run that was copied in part, or emptied."""
    try:
        with Folder.open(runs) as parent:
            return [
                name
                for name in parent.folders()
                if _LOOKS_LIKE_A_RUN.match(name) and not (runs / name / MANIFEST).is_file()
            ]
    except KdynoError:
        return []


def _watches(runs: Path) -> list[Watch]:
    """Of the folder's watched branches; one that is damaged has no rows."""
    watches = []
    for folder in store.folders(runs):
        with suppress(KdynoError):
            watches.append(store.load(folder))
    return watches


def _current(out: Path, runs: Sequence[Run], stamps: Mapping[str, str]) -> dict[str, Summary]:
    """Summaries of the last build that still hold."""
    summaries = {}
    for run in runs:
        page = page_name(run.name)
        last = kept(out, page)
        if last.stamp != stamps[run.name] or last.summary is None:
            continue
        if last.summary.has_report and not (out / "runs" / f"{page}.html").is_file():
            continue
        # Nothing in its folder shows that a run's writer has gone, or come back.
        state = last.summary.state
        if state in ("running", "interrupted") and run.state("running") != state:
            continue
        summaries[run.name] = last.summary
    return summaries


def _reports(
    todo: Sequence[Run], out: Path, full: bool, progress: Progress, sections: Sections
) -> Iterator[tuple[str, Summary]]:
    """Makes the reports, of many in several processes; each run's name and summary."""
    work = [(str(run.path), str(out), full, sections) for run in todo]
    workers = min(os.cpu_count() or 1, 8)
    done = 0
    if len(work) >= _POOL_FROM and workers > 1:
        # Not by fork: a server that builds has threads.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            each = max(1, min(8, len(work) // (4 * workers)))
            # Where one is killed, for its memory perhaps, the rest is made here, one by one.
            with suppress(BrokenProcessPool):
                for summary in pool.map(make_report, work, chunksize=each):
                    yield todo[done].name, summary
                    done += 1
                    progress(done, len(work))
    for run, item in zip(todo[done:], work[done:], strict=True):
        yield run.name, make_report(item)
        done += 1
        progress(done, len(work))


def make_report(item: tuple[str, str, bool, Sections]) -> Summary:
    """One run's report page, written; its summary."""
    path, out, full, sections = item
    run = Run(Path(path))
    target = Path(out) / "runs" / f"{page_name(run.name)}.html"
    try:
        summary, evidence = summarize(run)
        if evidence is None:
            target.unlink(missing_ok=True)
            return summary
        evidence = replace(evidence, sections=sections())
        write(target, page(evidence, light=not full, home="../index.html"))
        return summary
    except KdynoError:
        raise
    except Exception as error:
        # One unforeseen run must not prevent the other reports.
        with suppress(OSError):
            target.unlink(missing_ok=True)
        reason = f"its report could not be made: {type(error).__name__}: {error}"
        return unreadable(run.name, "damaged", reason)


def remove_others(out: Path, pages: set[str]) -> int:
    """Removes reports and summaries of runs that are gone; how many reports."""
    removed = 0
    for folder, suffix in (("runs", ".html"), (".data", ".json")):
        for path in (out / folder).glob(f"*{suffix}"):
            if path.stem not in pages:
                path.unlink(missing_ok=True)
                removed += folder == "runs"
    return removed


def write_pages(
    out: Path,
    summaries: Sequence[Summary],
    texts: Mapping[str, str],
    live: bool,
    options: str,
    edition: str,
    watches: Sequence[Watch] = (),
) -> tuple[str, ...]:
    """Writes the list and the history where their inputs changed; their names.

    texts: page of a run → what is another text whenever its summary is another."""
    measured = [summary for summary in summaries if summary.scores]
    series = series_of(measured)
    of_measured = [texts[summary.page] for summary in measured]
    pages: dict[str, tuple[list[str], Callable[[], str]]] = {
        "index.html": (list(texts.values()), lambda: listing(summaries, live)),
        "history.html": (
            [*of_measured, *map(repr, watches)],
            lambda: overview(series, live, watches),
        ),
    }
    for experiment in dict.fromkeys(summary.experiment for summary in measured):
        own = [each for each in series if each.experiment == experiment]
        inputs = [texts[each.page] for each in measured if each.experiment == experiment]
        name = f"history/{experiment_page(experiment)}.html"
        pages[name] = (inputs, partial(history_page, own, live))
    before = state(out).get("pages")
    before = before if isinstance(before, dict) else {}
    digests = {name: joined(options, joined(*inputs)) for name, (inputs, _) in pages.items()}
    written = [
        name
        for name, digest in digests.items()
        if before.get(name) != digest or not (out / name).is_file()
    ]
    for name in written:
        write(out / name, pages[name][1]())
    for path in (out / "history").glob("*.html"):
        if f"history/{path.name}" not in pages:
            path.unlink(missing_ok=True)
    save_state(out, {"schema": 1, "edition": edition, "pages": digests})
    return tuple(written)
