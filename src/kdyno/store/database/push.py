# SPDX-License-Identifier: MIT
"""A run into the shared store: whole or not at all, and once however often it is pushed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from kdyno.errors import ToolError, UsageError
from kdyno.store.boot import plain_name
from kdyno.store.database.facts import (
    Facts,
    Kernel,
    Machine,
    Series,
    facts_of,
    identity_of,
    kernels_of,
    machines_of,
    rows,
    scores_in,
    series_in,
)
from kdyno.store.database.pack import Packed, pack
from kdyno.store.database.schema import KERNELS, MACHINES, PARTS, RUNS, SAMPLES, SCORES
from kdyno.store.run import MANIFEST, Damaged, Run
from kdyno.store.samples import Gathering, Score

Word = Literal["pushed", "replaced", "there"]
"""New; in place of an earlier state of the same run; nothing to do."""
_TRIES = 3


@dataclass(frozen=True)
class Copy:
    """A run as it is written into the store."""

    facts: Facts
    kernels: list[Kernel]
    machines: list[Machine]
    scores: list[Score]
    series: list[Series]
    packed: Packed


@dataclass(frozen=True)
class Pushed:
    name: str
    """In the store: the run's own, unless another run has it there."""
    word: Word
    boots: int
    size_bytes: int
    """As it was sent, compressed."""
    left_out: tuple[str, ...]


def copy_of(run: Run) -> Copy:
    """All of a run that nobody writes. UsageError or ToolError where it cannot be had whole."""
    if run.is_being_written():
        raise UsageError(f"{run.name} is still being measured; push it when that has ended")
    before = _stamp(run.path)
    manifest, verdict = run.manifest(), run.verdict()
    gathering, boots, damaged = Gathering(), 0, 0
    for boot in run.boots():
        gathering.add(boot)
        boots, damaged = boots + 1, damaged + isinstance(boot, Damaged)
    samples = gathering.samples()
    identity = identity_of(manifest, run.experiment_text())
    packed = pack(run.path)
    name = plain_name(run.name, 200)
    facts = replace(
        facts_of(manifest, verdict, identity=identity, name=name, digest=packed.digest),
        boots=boots - damaged,
        damaged=damaged,
        files=packed.files,
        size_bytes=packed.size_bytes,
    )
    found = Copy(
        facts=facts,
        kernels=kernels_of(run, manifest, verdict),
        machines=machines_of(run, manifest),
        scores=scores_in(verdict, manifest, samples) if verdict else [],
        series=series_in(samples),
        packed=packed,
    )
    if _stamp(run.path) != before or run.is_being_written():
        raise ToolError(f"{run.name} changed while it was read; nothing was pushed: try again")
    return found


def put(connection: Connection, copy: Copy, where: str) -> Pushed:
    """Within a transaction. Of two that put the same run at once, the second finds it there."""
    facts = copy.facts
    values = dict(rows([facts])[0])
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    number, word = None, "pushed"
    for _ in range(_TRIES):
        # Where another is putting the same run, this waits for the other's end.
        entered = dialect.insert(RUNS).values(values).on_conflict_do_nothing().returning(RUNS.c.id)
        number = connection.scalar(entered)
        if number is not None:
            break
        own = select(RUNS.c.id, RUNS.c.name, RUNS.c.digest, RUNS.c.boots)
        there = connection.execute(
            own.where(RUNS.c.identity == facts.identity).with_for_update()
        ).one_or_none()
        if there is None:  # another run of this name, from another machine perhaps
            values["name"] = f"{facts.name}-{facts.identity[:8]}"
            continue
        if there.digest == facts.digest:
            return _said(there.name, "there", copy)
        if there.boots > facts.boots:
            raise UsageError(
                f"{where} has more of {facts.name}: {there.boots} boots, here are {facts.boots}. "
                "It was gone on with elsewhere; nothing was pushed"
            )
        number, word, values["name"] = there.id, "replaced", there.name
        connection.execute(update(RUNS).where(RUNS.c.id == number).values(values))
        for table in (KERNELS, MACHINES, SCORES, SAMPLES, PARTS):
            connection.execute(delete(table).where(table.c.run == number))
        break
    if number is None:
        raise ToolError(f"{where}: {facts.name} could not be put there; try again")
    for table, found in ((KERNELS, copy.kernels), (MACHINES, copy.machines), (SCORES, copy.scores)):
        _all(connection, table, number, _placed(rows(found)))
    _all(connection, SAMPLES, number, rows(copy.series))
    for place, content in enumerate(copy.packed.parts):  # one by one: each is some megabytes
        connection.execute(insert(PARTS), {"run": number, "number": place, "content": content})
    return _said(str(values["name"]), word, copy)  # type: ignore[arg-type]


def _placed(found: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{**each, "place": place} for place, each in enumerate(found)]


def _all(connection: Connection, table: Any, number: int, found: list[Mapping[str, Any]]) -> None:
    if found:
        connection.execute(insert(table), [{**each, "run": number} for each in found])


def _said(name: str, word: Word, copy: Copy) -> Pushed:
    sent = 0 if word == "there" else sum(map(len, copy.packed.parts))
    return Pushed(name, word, copy.facts.boots, sent, copy.packed.left_out)


def _stamp(path: Path) -> tuple[int, ...]:
    """Changes whenever a run is gone on with: its manifest is replaced before each block."""
    seen = [(path / name).stat() for name in (MANIFEST, "boots") if (path / name).exists()]
    return tuple(part for it in seen for part in (it.st_ino, it.st_mtime_ns, it.st_size))
