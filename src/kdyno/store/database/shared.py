# SPDX-License-Identifier: MIT
"""The store that a team shares: runs go in by ``push`` and come out as folders."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from sqlalchemy import Engine

from kdyno import whole
from kdyno.errors import ToolError, UsageError
from kdyno.reading.mistakes import meant
from kdyno.store.boot import plain_name
from kdyno.store.database import query, schema
from kdyno.store.database.address import key, location, sqlite_file
from kdyno.store.database.connection import engine_of, reading, writing
from kdyno.store.database.facts import Facts, Kernel
from kdyno.store.database.push import Pushed, copy_of, put, unpack, weighed
from kdyno.store.database.query import Wanted
from kdyno.store.database.schema import HEAD
from kdyno.store.index import NoSuchRun
from kdyno.store.run import Run
from kdyno.store.samples import Score

_SHOWN = 10
_HINTED = 1000


@dataclass(frozen=True)
class Rows:
    """What a page of many runs needs of them, at one moment."""

    facts: Sequence[Facts]
    """Newest first."""
    kernels: Mapping[str, Sequence[Kernel]]
    """By identity."""
    scores: Mapping[str, Sequence[Score]]


class Shared:
    """``address`` as KDYNO_STORE has it, checked. Nothing is reached before the first question."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.where = f"the store {location(address)}"

    @cached_property
    def _engine(self) -> Engine:
        file = sqlite_file(self.address)
        if file is not None and not file.parent.is_dir():
            raise UsageError(f"{self.where}: there is no folder {file.parent}")
        return engine_of(self.address)

    def close(self) -> None:
        self._engine.dispose()

    def prepare(self, *, upgrade_it: bool = False) -> str | None:
        """Makes the tables where there are none. The version of those that were changed, or None.

        UsageError for tables of another kdyno, ToolError for a store that cannot be reached."""
        with writing(self._engine, self.address) as connection:
            version = schema.prepare(connection, self.where, upgrade=upgrade_it)
        return version if version != HEAD else None

    def push(self, run: Run) -> Pushed:
        """The run is in the store afterwards, whole; or an error, and the store is as it was."""
        copy = copy_of(run)
        with writing(self._engine, self.address) as connection:
            schema.prepare(connection, self.where)
            return put(connection, copy, self.where)

    def listed(self, wanted: Wanted) -> list[Facts]:
        """Newest first."""
        with reading(self._engine, self.address) as connection:
            schema.require(connection, self.where)
            return query.listed(connection, _bounded(wanted))

    def rows(self, wanted: Wanted) -> Rows:
        wanted = _bounded(wanted)
        with reading(self._engine, self.address) as connection:
            schema.require(connection, self.where)
            return Rows(
                query.listed(connection, wanted),
                query.kernels(connection, wanted),
                query.scores(connection, wanted),
            )

    def find(self, text: str) -> Facts:
        """A run's name, a part of it that only one has, or ``last``; NoSuchRun, or UsageError."""
        with reading(self._engine, self.address) as connection:
            schema.require(connection, self.where)
            facts = query.named(connection, text, _SHOWN + 1)
            hints = query.names(connection, _HINTED) if not facts else []
        if len(facts) == 1:
            return facts[0]
        if facts:
            names = [fact.name for fact in facts[:_SHOWN]] + ["…"] * (len(facts) > _SHOWN)
            listed = "\n  ".join(names)
            raise UsageError(f"{text}: several runs match; give more of the name:\n  {listed}")
        hint = meant(text, hints)
        raise NoSuchRun(f"{text}: no such run in {self.where}{hint}; `kdyno list runs` shows them")

    def fetch(self, facts: Facts, cache: Path) -> Run:
        """The run as a folder in the cache, to be read only: there is one copy."""
        name = facts.name
        if (
            plain_name(name, 255) != name
            or not facts.digest.isalnum()
            or not facts.identity.isalnum()
        ):
            raise ToolError(f"{self.where}: {name!r} is no name of a run")
        shelf = cache / "store" / key(self.address) / facts.identity[:32]
        place = shelf / facts.digest[:32] / name
        with whole.cache_errors(shelf, facts.size_bytes), whole.locked(shelf / ".lock"):
            if place.is_dir() and weighed(place) == (facts.files, facts.size_bytes):
                return Run(place)
            for old in shelf.iterdir():
                if old.is_dir():  # what the run was like before
                    shutil.rmtree(old, ignore_errors=True)
            with whole.folder(place) as into:
                with reading(self._engine, self.address) as connection:
                    schema.require(connection, self.where)
                    number, count = query.parts(connection, facts.identity)
                    for part in range(count):
                        unpack(query.part(connection, number, part), into)
                if weighed(into) != (facts.files, facts.size_bytes):
                    raise ToolError(f"{self.where}: {facts.name} changed meanwhile; try again")
        return Run(place)

    def forget(self, run: Run) -> None:
        """A fetched folder that was changed."""
        with suppress(OSError):
            shutil.rmtree(run.path.parent)


def _bounded(wanted: Wanted) -> Wanted:
    return replace(wanted, limit=min(wanted.limit or query.NEWEST, query.MOST))
