# SPDX-License-Identifier: MIT
"""All pages of a site, made anew only where what they show has changed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType

from kdyno.errors import KdynoError, UsageError
from kdyno.reading.checked import values_in
from kdyno.report.site.place import (
    joined,
    locked,
    prepare,
    run_stamp,
    save_state,
    state,
    tool_stamp,
    write,
)
from kdyno.report.site.summary import Summary, page_name, summarize, unreadable
from kdyno.store.folder import Folder
from kdyno.store.run import MANIFEST, Run, list_runs

Told = Callable[[int, int], None]
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
    made: int
    """Runs that were read and drawn anew."""
    kept: int
    removed: int
    pages: tuple[str, ...]
    """Names of the written pages other than the runs' own."""
    edition: str
    """Changes whenever a page does."""


def build_site(
    runs: Path,
    out: Path,
    *,
    full: bool = False,
    live: bool = False,
    told: Told = lambda _done, _all: None,
    sections: Sections = tuple,
) -> Built:
    """The site of all runs of a folder. ``full``: reports with every chart, a second or more each.

    UsageError for an unusable folder; a run that is damaged becomes a line that says so.
    """
    if not runs.is_dir():
        raise UsageError(f"{runs}: there is no such folder of runs; choose another with --runs")
    if out.resolve() == runs.resolve():
        raise UsageError(f"-o {out}: is the folder of the runs themselves; name another one")
    prepare(out)
    with locked(out):
        return _build(runs, out, full, live, told, sections)


def _build(runs: Path, out: Path, full: bool, live: bool, told: Told, sections: Sections) -> Built:
    options = joined(tool_stamp(), str(full), str(live))
    before = state(out)
    found = list_runs(runs)
    stamps = {run.name: joined(options, run_stamp(run)) for run in found}
    empty = _empty(runs)
    known = _known(out, found, stamps)
    todo = [run for run in found if run.name not in known]
    edition = joined(options, *(f"{k} {v}" for k, v in sorted(stamps.items())), *empty)
    if not todo and before.get("edition") == edition and (out / "history.html").is_file():
        return Built(len(found), 0, len(found), 0, (), edition)
    for name, summary in _made(todo, out, full, told, sections):
        known[name] = summary
        text = json.dumps({"stamp": stamps[name], "summary": summary.to_json()})
        write(out / ".data" / f"{page_name(name)}.json", text)
    summaries = [known[run.name] for run in found]
    removed = remove_others(out, {it.page for it in summaries})
    summaries += [unreadable(name, "empty", f"there is no {MANIFEST} in it") for name in empty]
    # The key of a run in progress is its state at the end, so that the next build looks again.
    texts = {it.page: it.to_json() for it in summaries}
    pages = write_pages(out, summaries, texts, live, joined(options), before)
    save_state(out, {"schema": 1, "edition": edition, "pages": pages.digests})
    kept = len(found) - len(todo)
    return Built(len(found), len(todo), kept, removed, pages.written, edition)


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


def _known(out: Path, found: Sequence[Run], stamps: dict[str, str]) -> dict[str, Summary]:
    """Summaries of the last build that still hold."""
    known = {}
    for run in found:
        page = page_name(run.name)
        try:
            data = values_in(out / ".data" / f"{page}.json")
            summary = Summary.from_json(data["summary"])
        except (OSError, ValueError, TypeError, KeyError):
            continue
        if data.get("stamp") != stamps[run.name]:
            continue
        if summary.has_report and not (out / "runs" / f"{page}.html").is_file():
            continue
        # Nothing in its folder tells that a run's writer has gone, or come back.
        if summary.state in ("running", "interrupted"):
            try:
                writing = run.is_being_written()
            except KdynoError:
                writing = False
            if writing != (summary.state == "running"):
                continue
        known[run.name] = summary
    return known


def _made(
    todo: Sequence[Run], out: Path, full: bool, told: Told, sections: Sections
) -> Iterator[tuple[str, Summary]]:
    work = [(str(run.path), str(out), full, sections) for run in todo]
    workers = min(os.cpu_count() or 1, 8)
    if len(work) < _POOL_FROM or workers == 1:
        for done, (run, item) in enumerate(zip(todo, work, strict=True), 1):
            yield run.name, make_report(item)
            told(done, len(work))
        return
    done = 0
    # Not by fork: a server that builds has threads.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        each = max(1, min(8, len(work) // (4 * workers)))
        try:
            for summary in pool.map(make_report, work, chunksize=each):
                yield todo[done].name, summary
                done += 1
                told(done, len(work))
        except BrokenProcessPool:
            pass  # one was killed, for its memory perhaps: the rest is made here, one by one
    for run, item in zip(todo[done:], work[done:], strict=True):
        yield run.name, make_report(item)
        done += 1
        told(done, len(work))


def make_report(item: tuple[str, str, bool, Sections]) -> Summary:
    """One run's report page, written; its summary."""
    path, out, full, sections = item
    run = Run(Path(path))
    target = Path(out) / "runs" / f"{page_name(run.name)}.html"
    try:
        from kdyno.report.page import page

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
        # One run that nobody foresaw must not take the other reports away.
        with suppress(OSError):
            target.unlink(missing_ok=True)
        reason = f"its report could not be made: {type(error).__name__}: {error}"
        return unreadable(run.name, "damaged", reason)


def remove_others(out: Path, pages: set[str]) -> int:
    """Reports and summaries of runs that are gone."""
    removed = 0
    for folder, suffix in (("runs", ".html"), (".data", ".json")):
        for path in (out / folder).glob(f"*{suffix}"):
            if path.stem not in pages:
                path.unlink(missing_ok=True)
                removed += folder == "runs"
    return removed


@dataclass(frozen=True)
class Pages:
    digests: dict[str, str]
    written: tuple[str, ...]


def write_pages(
    out: Path,
    summaries: Sequence[Summary],
    texts: Mapping[str, str],
    live: bool,
    options: str,
    before: dict[str, object],
) -> Pages:
    """The list, the comparison and the history; those whose inputs changed are written.

    texts: page of a run → what is another text whenever its summary is another.
    """
    from kdyno.report.site.history import experiment_page, history_page, overview, series_of
    from kdyno.report.site.pages import comparison, listing

    old = before.get("pages")
    digests: dict[str, str] = {}
    written = []

    def put(name: str, inputs: str, page: Callable[[], str]) -> None:
        digests[name] = joined(options, inputs)
        kept = isinstance(old, dict) and old.get(name) == digests[name] and (out / name).is_file()
        if not kept:
            write(out / name, page())
            written.append(name)

    everything = joined(*texts.values())
    put("index.html", everything, lambda: listing(summaries, live))
    measured = [it for it in summaries if it.scores]
    whole = joined(*(texts[it.page] for it in measured))
    put("compare.html", whole, lambda: comparison(measured, live))
    series = series_of(measured)
    put("history.html", whole, lambda: overview(series, live))
    for experiment in dict.fromkeys(it.experiment for it in measured):
        mine = [it for it in series if it.experiment == experiment]
        inputs = joined(*(texts[it.page] for it in measured if it.experiment == experiment))
        name = f"history/{experiment_page(experiment)}.html"
        put(name, inputs, lambda mine=mine: history_page(mine, live))  # type: ignore[misc]
    for path in (out / "history").glob("*.html"):
        if f"history/{path.name}" not in digests:
            path.unlink(missing_ok=True)
    return Pages(digests, tuple(written))
