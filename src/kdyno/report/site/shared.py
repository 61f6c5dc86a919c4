# SPDX-License-Identifier: MIT
"""The site of the runs in a shared store: its lists are made of rows, its reports of whole runs.

A report needs every boot of its run, so that run is fetched. A server makes a report when
somebody opens it; a folder of pages gets all of them.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from pathlib import Path

from kdyno.reading.checked import values_in
from kdyno.report.site.build import (
    Built,
    Sections,
    Told,
    make_report,
    remove_others,
    write_pages,
)
from kdyno.report.site.place import joined, locked, prepare, save_state, state, tool_stamp, write
from kdyno.report.site.summary import of_rows, page_name
from kdyno.store.database.facts import Facts
from kdyno.store.database.query import Wanted
from kdyno.store.database.shared import Shared


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
        self._runs: dict[str, Facts] = {}
        self._making = threading.Lock()

    def build(self) -> Built:
        """The list, the comparison and the history; reports of runs that changed are gone."""
        prepare(self._out)
        with locked(self._out):
            facts = self._shared.listed(self._wanted)
            options = joined(tool_stamp(), str(self._full), str(self._live), "shared")
            self._runs = {page_name(it.name): it for it in facts}
            gone = self._drop_stale(options)
            edition = joined(options, *(f"{it.identity} {it.digest}" for it in facts))
            before, count = state(self._out), len(facts)
            if before.get("edition") == edition and (self._out / "history.html").is_file():
                return Built(count, 0, count, gone, (), edition)
            # A run that comes in between is seen by the next look: the edition is without it.
            rows = self._shared.rows(self._wanted)
            summaries = [
                of_rows(it, rows.kernels.get(it.identity, ()), rows.scores.get(it.identity, ()))
                for it in reversed(rows.facts)
            ]
            texts = {page_name(it.name): f"{it.identity} {it.digest}" for it in rows.facts}
            pages = write_pages(self._out, summaries, texts, self._live, options, before)
            save_state(self._out, {"schema": 1, "edition": edition, "pages": pages.digests})
            return Built(count, 0, count, gone, pages.written, edition)

    def make(self, page: str) -> None:
        """The report with this page's name, if a run of the last build has it. One at a time."""
        facts = self._runs.get(page)
        if facts is None or not facts.judged:
            return
        with self._making:
            if (self._out / "runs" / f"{page}.html").is_file():
                return
            run = self._shared.fetch(facts, self._cache)
            make_report((str(run.path), str(self._out), self._full, self._sections))
            write(self._out / ".data" / f"{page}.json", json.dumps({"stamp": self._stamp(facts)}))

    def make_all(self, told: Told) -> int:
        """Every report that is not there; how many were made."""
        todo = [
            (page, it)
            for page, it in self._runs.items()
            if it.judged and not (self._out / "runs" / f"{page}.html").is_file()
        ]
        for done, (page, facts) in enumerate(todo, 1):
            self.make(page)
            # A site of a thousand runs needs each of them once.
            self._shared.forget(self._shared.fetch(facts, self._cache))
            told(done, len(todo))
        return len(todo)

    def _stamp(self, facts: Facts) -> str:
        options = joined(tool_stamp(), str(self._full), str(self._live), "shared")
        return joined(options, facts.digest)

    def _drop_stale(self, options: str) -> int:
        """Reports of runs that are gone, or not what they were."""
        gone = remove_others(self._out, set(self._runs))
        for page, facts in self._runs.items():
            kept = ""
            with suppress(OSError, ValueError, KeyError, TypeError):
                path = self._out / ".data" / f"{page}.json"
                kept = values_in(path)["stamp"]
            if kept != joined(options, facts.digest):
                (self._out / "runs" / f"{page}.html").unlink(missing_ok=True)
        return gone


def build_shared(
    shared: Shared,
    out: Path,
    cache: Path,
    *,
    full: bool,
    told: Told,
    wanted: Wanted | None = None,
    sections: Sections = tuple,
) -> Built:
    """The whole site in a folder, every report in it."""
    asked = wanted or Wanted()
    site = SharedSite(shared, out, cache, asked, full=full, live=False, sections=sections)
    built = site.build()
    made = site.make_all(told)
    return Built(built.runs, made, built.runs - made, built.removed, built.pages, built.edition)
