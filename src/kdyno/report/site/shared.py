# SPDX-License-Identifier: MIT
"""The site of the runs in a shared store: its lists are made of rows, its reports of whole runs.

A report needs every boot of its run, so that run is fetched. A server makes a report when
somebody opens it; a folder of pages gets all of them."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from kdyno.report.site.build import (
    Built,
    Kept,
    Progress,
    Sections,
    keep,
    kept,
    make_report,
    remove_others,
    write_pages,
)
from kdyno.report.site.place import joined, locked, prepare, tool_stamp, unchanged
from kdyno.report.site.summary import of_rows, page_name
from kdyno.store.database.query import Wanted
from kdyno.store.database.shared import Shared
from kdyno.store.database.tables import Facts


class SharedSite:
    """``out`` is the folder of its pages, ``cache`` where fetched runs lie meanwhile."""

    def __init__(
        self,
        shared: Shared,
        out: Path,
        cache: Path,
        wanted: Wanted,
        *,
        full: bool,
        live: bool,
        sections: Sections = tuple,
    ) -> None:
        self._shared, self._out, self._cache, self._wanted = shared, out, cache, wanted
        self._full, self._live, self._sections = full, live, sections
        self._options = joined(tool_stamp(), str(full), str(live), "shared")
        self._runs: dict[str, Facts] = {}
        self._making = threading.Lock()

    def build(self) -> Built:
        """The list and the history; reports of runs that changed are gone."""
        prepare(self._out)
        with locked(self._out):
            facts = self._shared.listed(self._wanted)
            self._runs = {page_name(run.name): run for run in facts}
            gone = remove_others(self._out, set(self._runs))
            for page, run in self._runs.items():
                if kept(self._out, page).stamp != joined(self._options, run.digest):
                    self._report(page).unlink(missing_ok=True)
            edition = joined(self._options, *(f"{run.identity} {run.digest}" for run in facts))
            built = Built(len(facts), 0, len(facts), gone, (), edition)
            if unchanged(self._out, edition):
                return built
            # A run that comes in between is seen by the next look: the edition is without it.
            rows = self._shared.rows(self._wanted)
            summaries = [
                of_rows(run, rows.kernels.get(run.identity, ()), rows.scores.get(run.identity, ()))
                for run in reversed(rows.facts)
            ]
            texts = {page_name(run.name): f"{run.identity} {run.digest}" for run in rows.facts}
            written = write_pages(self._out, summaries, texts, self._live, self._options, edition)
            return replace(built, pages=written)

    def make(self, page: str) -> None:
        """The report with this page's name, if a run of the last build has it. One at a time."""
        run = self._runs.get(page)
        if run is None or not run.judged:
            return
        with self._making:
            if not self._report(page).is_file():
                folder = str(self._shared.fetch(run, self._cache).path)
                make_report((folder, str(self._out), self._full, self._sections))
                keep(self._out, page, Kept(joined(self._options, run.digest)))

    def make_all(self, progress: Progress) -> int:
        """Every report that is not there; how many were made."""
        todo = [
            (page, run)
            for page, run in self._runs.items()
            if run.judged and not self._report(page).is_file()
        ]
        for done, (page, run) in enumerate(todo, 1):
            self.make(page)
            # A site of a thousand runs needs each of them once.
            self._shared.forget(self._shared.fetch(run, self._cache))
            progress(done, len(todo))
        return len(todo)

    def _report(self, page: str) -> Path:
        return self._out / "runs" / f"{page}.html"


def build_shared(
    shared: Shared,
    out: Path,
    cache: Path,
    *,
    full: bool,
    progress: Progress,
    wanted: Wanted | None = None,
    sections: Sections = tuple,
) -> Built:
    """The whole site in a folder, every report in it."""
    site = SharedSite(
        shared, out, cache, wanted or Wanted(), full=full, live=False, sections=sections
    )
    built = site.build()
    count = site.make_all(progress)
    return replace(built, rendered=count, kept=built.runs - count)
