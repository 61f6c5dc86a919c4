# SPDX-License-Identifier: MIT
"""All pages of a site, made anew only where what they show has changed.

The folder is ours alone, and each file is replaced in one step. Digests of what a page is made from
say which are to be made again. Of a shared store the lists are made of rows; a report needs every
boot, so its run is fetched, by a server when somebody opens it."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

from kdyno import __version__, whole
from kdyno.errors import KdynoError, ToolError, UsageError
from kdyno.reading.checked import adapter, values_in
from kdyno.report.page import page
from kdyno.report.site.history import history_page, overview, series_of
from kdyno.report.site.pages import listing
from kdyno.report.site.summary import (
    Summary,
    experiment_page,
    of_rows,
    page_name,
    summarize,
    unreadable,
)
from kdyno.store import watch as store
from kdyno.store.database.query import Wanted
from kdyno.store.database.shared import Shared
from kdyno.store.database.tables import Facts
from kdyno.store.folder import Folder
from kdyno.store.run import MANIFEST, Run, list_runs

Progress = Callable[[int, int], None]
"""(runs done, runs to do) while reports are made."""
Sections = Callable[[], Sequence[ModuleType]]
"""What reports show beyond the page's own sections; a module's function, for other processes."""

MARKER = ".kdyno-site"
_POOL_FROM = 12
"""Fewer reports are made at once before other processes have started."""
_LOOKS_LIKE_A_RUN = re.compile(r"\d{4}-\d\d-\d\dT\d{4}-")


@dataclass(frozen=True)
class Built:
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


def build_site(
    runs: Path,
    out: Path,
    *,
    live: bool = False,
    progress: Progress = lambda _done, _all: None,
    sections: Sections = tuple,
) -> Built:
    """The site of all runs of a folder.

    UsageError for an unusable folder; a run that is damaged becomes a line that says so."""
    if not runs.is_dir():
        raise UsageError(f"{runs}: there is no such folder of runs; choose another with --runs")
    if out.resolve() == runs.resolve():
        raise UsageError(f"-o {out}: is the folder of the runs themselves; name another one")
    prepare(out)
    options = joined(tool_stamp(), str(live))
    with whole.locked(out / ".lock"):
        there = list_runs(runs)
        # Nothing in its folder shows that a run's writer has gone, or come back.
        stamps = {run.name: joined(options, run_stamp(run), run.state("running")) for run in there}
        empty: list[str] = []  # folders of runs that were copied in part, or emptied
        with suppress(KdynoError), Folder.open(runs) as parent:
            likely = filter(_LOOKS_LIKE_A_RUN.match, parent.folders())
            empty = [name for name in likely if not (runs / name / MANIFEST).is_file()]
        of_run = _current(out, there, stamps)
        todo = [run for run in there if run.name not in of_run]
        watches: list[store.Watch] = []
        for folder in store.folders(runs):
            with suppress(KdynoError):  # one that is damaged has no rows
                watches.append(store.load(folder))
        of_stamps = (f"{name} {stamp}" for name, stamp in sorted(stamps.items()))
        edition = joined(options, *of_stamps, *empty, *map(repr, watches))
        if not todo and _unchanged(out, edition):
            return Built(len(there), 0, len(there), 0, (), edition)
        for name, summary in _reports(todo, out, progress, sections):
            of_run[name] = summary
            _keep(out, summary.page, Kept(stamps[name], summary))
        summaries = [of_run[run.name] for run in there]
        removed = _remove_others(out, {summary.page for summary in summaries})
        summaries += [unreadable(name, "empty", f"there is no {MANIFEST} in it") for name in empty]
        # The state of a run in progress is in its text, so that the next build looks again.
        texts = {each.page: adapter(Summary).dump_json(each).decode() for each in summaries}
        written = _write_pages(out, summaries, texts, live, options, edition, watches)
        fresh = len(todo)
        return Built(len(there), fresh, len(there) - fresh, removed, written, edition)


@dataclass(eq=False)
class SharedSite:
    """Of a shared store. ``out``: folder of its pages; ``cache``: where fetched runs lie."""

    shared: Shared
    out: Path
    cache: Path
    live: bool = field(default=False, kw_only=True)
    sections: Sections = field(default=tuple, kw_only=True)

    def __post_init__(self) -> None:
        self._options = joined(tool_stamp(), str(self.live), "shared")
        self._runs: dict[str, Facts] = {}
        self._making = threading.Lock()

    def build(self) -> Built:
        """The list and the history; reports of runs that changed are gone."""
        prepare(self.out)
        with whole.locked(self.out / ".lock"):
            facts = self.shared.listed(Wanted())
            self._runs = {page_name(run.name): run for run in facts}
            gone = _remove_others(self.out, set(self._runs))
            for page, run in self._runs.items():
                if _kept(self.out, page).stamp != joined(self._options, run.digest):
                    _report(self.out, page).unlink(missing_ok=True)
            edition = joined(self._options, *(f"{run.identity} {run.digest}" for run in facts))
            built = Built(len(facts), 0, len(facts), gone, (), edition)
            if _unchanged(self.out, edition):
                return built
            # A run that comes in between is seen by the next look: the edition is without it.
            rows = self.shared.rows(Wanted())
            summaries = [
                of_rows(run, rows.kernels.get(run.identity, ()), rows.scores.get(run.identity, ()))
                for run in reversed(rows.facts)
            ]
            texts = {page_name(run.name): f"{run.identity} {run.digest}" for run in rows.facts}
            written = _write_pages(self.out, summaries, texts, self.live, self._options, edition)
            return replace(built, pages=written)

    def make(self, page: str) -> None:
        """The report with this page's name, if a run of the last build has it. One at a time.
        ToolError, with the reason, for one that cannot be made."""
        run = self._runs.get(page)
        if run is None or not run.judged:
            return
        with self._making:
            if not _report(self.out, page).is_file():
                folder = str(self.shared.fetch(run, self.cache).path)
                summary = _make_report((folder, str(self.out), self.sections))
                if not summary.has_report:
                    raise ToolError(summary.reason)
                _keep(self.out, page, Kept(joined(self._options, run.digest)))

    def build_all(self, progress: Progress) -> Built:
        """With every report that can be made; then ToolError for the first that cannot."""
        built = self.build()
        todo = [
            (name, run)
            for name, run in self._runs.items()
            if run.judged and not _report(self.out, name).is_file()
        ]
        problem: ToolError | None = None
        for done, (name, run) in enumerate(todo, 1):
            try:
                self.make(name)
                # A site of a thousand runs needs each of them once.
                self.shared.forget(self.shared.fetch(run, self.cache))
            except ToolError as error:
                if error.__cause__ is not None:  # the disk's or the store's: all runs would have it
                    raise
                problem = problem or ToolError(f"{run.name}: {error}")
            progress(done, len(todo))
        if problem is not None:
            raise problem
        return replace(built, rendered=len(todo), kept=built.runs - len(todo))


def _current(out: Path, runs: Sequence[Run], stamps: Mapping[str, str]) -> dict[str, Summary]:
    """Summaries of the last build that still hold."""
    summaries = {}
    for run in runs:
        page = page_name(run.name)
        last = _kept(out, page)
        same = last.stamp == stamps[run.name]
        if same and last.summary and (not last.summary.has_report or _report(out, page).is_file()):
            summaries[run.name] = last.summary
    return summaries


def _reports(
    todo: Sequence[Run], out: Path, progress: Progress, sections: Sections
) -> Iterator[tuple[str, Summary]]:
    """Makes the reports, of many in several processes; each run's name and summary."""
    work = [(str(run.path), str(out), sections) for run in todo]
    workers = min(os.cpu_count() or 1, 8)
    done = 0
    if len(work) >= _POOL_FROM and workers > 1:
        # Not by fork: a server that builds has threads.
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            each = max(1, min(8, len(work) // (4 * workers)))
            # Where one is killed, for its memory perhaps, the rest is made here, one by one.
            with suppress(BrokenProcessPool):
                for summary in pool.map(_make_report, work, chunksize=each):
                    yield todo[done].name, summary
                    done += 1
                    progress(done, len(work))
    for run, item in zip(todo[done:], work[done:], strict=True):
        yield run.name, _make_report(item)
        done += 1
        progress(done, len(work))


def _make_report(item: tuple[str, str, Sections]) -> Summary:
    """One run's report page, written; its summary."""
    path, out, sections = item
    run = Run(Path(path))
    target = _report(Path(out), page_name(run.name))
    try:
        summary, evidence = summarize(run)
        if evidence is None:
            target.unlink(missing_ok=True)
        else:
            evidence = replace(evidence, sections=sections())
            write(target, page(evidence, home="../index.html"))
        return summary
    except KdynoError:
        raise
    except Exception as error:
        # One unforeseen run must not prevent the other reports.
        with suppress(OSError):
            target.unlink(missing_ok=True)
        reason = f"its report could not be made: {type(error).__name__}: {error}"
        return unreadable(run.name, "damaged", reason)


def _report(out: Path, page: str) -> Path:
    return out / "runs" / f"{page}.html"


def _kept(out: Path, page: str) -> Kept:
    """What the last build kept; without a stamp where there is nothing that can be read."""
    try:
        kept: Kept = adapter(Kept).validate_json((out / ".data" / f"{page}.json").read_bytes())
        return kept
    except (OSError, ValueError):
        return Kept("")


def _keep(out: Path, page: str, value: Kept) -> None:
    write(out / ".data" / f"{page}.json", adapter(Kept).dump_json(value).decode())


def _remove_others(out: Path, pages: set[str]) -> int:
    """Removes reports and summaries of runs that are gone; how many reports."""
    removed = 0
    for folder, suffix in (("runs", ".html"), (".data", ".json")):
        for path in (out / folder).glob(f"*{suffix}"):
            if path.stem not in pages:
                path.unlink(missing_ok=True)
                removed += folder == "runs"
    return removed


def _write_pages(
    out: Path,
    summaries: Sequence[Summary],
    texts: Mapping[str, str],
    live: bool,
    options: str,
    edition: str,
    watches: Sequence[store.Watch] = (),
) -> tuple[str, ...]:
    """Writes the list and the history where their inputs changed; their names.

    texts: page of a run → what is another text whenever its summary is another."""
    measured = [summary for summary in summaries if summary.scores]
    series = series_of(measured)
    of_history = [*(texts[each.page] for each in measured), *map(repr, watches)]
    pages: dict[str, tuple[Iterable[str], Callable[[], str]]] = {
        "index.html": (texts.values(), lambda: listing(summaries, live)),
        "history.html": (of_history, lambda: overview(series, live, watches)),
    }
    for experiment in dict.fromkeys(summary.experiment for summary in measured):
        inputs = [texts[each.page] for each in measured if each.experiment == experiment]
        own = [each for each in series if each.experiment == experiment]
        pages[experiment_page(experiment)] = (inputs, partial(history_page, own, live))
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
    write(out / MARKER, json.dumps({"schema": 1, "edition": edition, "pages": digests}))
    return tuple(written)


def prepare(folder: Path) -> None:
    """Makes the folder. UsageError when it is not a folder of ours or cannot be written."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"-o {folder}: is a file; --all writes a folder, such as -o site/")
        if folder.is_dir() and not (folder / MARKER).exists() and any(folder.iterdir()):
            raise UsageError(
                f"-o {folder}: holds other things than a site of kdyno; name a new or empty folder"
            )
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / MARKER).exists():  # ours from now on, however this build ends
            whole.write(folder / MARKER, b"{}")
        for inside in (folder, *(folder / name for name in ("runs", "history", ".data"))):
            if link := next((path for path in inside.glob("*") if path.is_symlink()), None):
                raise UsageError(
                    f"-o {folder}: {link} is a link, and a site of kdyno has none: what is written "
                    "would go where it leads. Remove it, or name another folder"
                )
            inside.mkdir(exist_ok=True)
        whole.check(folder / ".new")  # nothing has this name: the folder has to take it
    except OSError as error:
        where = error.filename or folder
        raise UsageError(
            f"-o {folder}: {where}: {error.strerror}; name a folder that can be written"
        ) from error


def write(path: Path, text: str) -> None:
    """Replaces the file in one step, so that a browser never sees half of it."""
    try:
        whole.write(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror}") from error


def state(folder: Path) -> dict[str, Any]:
    """What the last build left in the marker; {} when there is none or it is not JSON."""
    try:
        value = values_in(folder / MARKER)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _unchanged(folder: Path, edition: str) -> bool:
    """The last build was of this edition, and its last page is there."""
    return state(folder).get("edition") == edition and (folder / "history.html").is_file()


def run_stamp(run: Run) -> str:
    """Changes when a file or folder right inside the run is written, added or removed.

    A boot is a folder that comes whole, so a new one changes its parent's time."""
    parts = []
    try:
        with os.scandir(run.path) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                parts.append(f"{entry.name}/{status.st_ino}/{status.st_mtime_ns}/{status.st_size}")
    except OSError as error:
        parts = [f"unreadable {error.errno}"]
    return joined(*sorted(parts))


@cache
def tool_stamp() -> str:
    """Of kdyno itself: another version draws other pages."""
    package = Path(__file__).resolve().parents[2]
    digest = sha256(__version__.encode())
    for room in ("judge", "labs", "report", "stats", "store"):
        for path in sorted((package / room).rglob("*")):
            if path.suffix in (".py", ".js", ".css", ".html", ".json"):
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def joined(*parts: str) -> str:
    return sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
