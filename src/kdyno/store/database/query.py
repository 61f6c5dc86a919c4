# SPDX-License-Identifier: MIT
"""What is asked of a store: which runs, and their rows. No question reads a boot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, or_, select

from kdyno.errors import ToolError
from kdyno.store.database.facts import Facts, Kernel, facts_in, kernel_in, score_in
from kdyno.store.database.schema import KERNELS, MACHINES, PARTS, RUNS, SCORES
from kdyno.store.samples import Score

NEWEST = 1000
MOST = 100_000
"""Runs of a store that a list or a page shows unless another number is asked, and at all."""
_ESCAPE = "\\"


@dataclass(frozen=True)
class Wanted:
    """Which runs. Patterns: * is any text, ? any character; capitals do not matter."""

    experiment: str | None = None
    case: str | None = None
    """CASE or SUITE/CASE."""
    kernel: str | None = None
    """A version, with or without v; or a word of the source, such as a git tag."""
    cpu: str | None = None
    """The CPU's model, of any of its machines."""
    limit: int | None = None
    """The newest so many."""

    @property
    def filters(self) -> bool:
        return any((self.experiment, self.case, self.kernel, self.cpu))


def chosen(wanted: Wanted) -> Select[Any]:
    """The numbers of the runs, newest first."""
    query = select(RUNS.c.id).order_by(RUNS.c.created.desc(), RUNS.c.name.desc())
    if wanted.experiment:
        query = query.where(_like(RUNS.c.experiment, wanted.experiment))
    if wanted.cpu:
        one = exists().where(MACHINES.c.run == RUNS.c.id, _like(MACHINES.c.cpu_model, wanted.cpu))
        query = query.where(or_(_like(RUNS.c.cpu_model, wanted.cpu), one))
    if wanted.kernel:
        version = wanted.kernel.removeprefix("v")
        kernel = or_(
            _like(KERNELS.c.version, version),
            _like(KERNELS.c.version, wanted.kernel),
            _like(KERNELS.c.source, f"*{wanted.kernel}*"),
        )
        query = query.where(exists().where(KERNELS.c.run == RUNS.c.id, kernel))
    if wanted.case:
        suite, slash, case = wanted.case.rpartition("/")
        named = _like(SCORES.c.case, case)
        if slash:
            named = and_(named, _like(SCORES.c.suite, suite))
        query = query.where(exists().where(SCORES.c.run == RUNS.c.id, named))
    return query.limit(wanted.limit)


def listed(connection: Connection, wanted: Wanted) -> list[Facts]:
    """Newest first."""
    of = chosen(wanted).subquery()
    query = select(*_columns(Facts, RUNS)).join(of, of.c.id == RUNS.c.id)
    ordered = query.order_by(RUNS.c.created.desc(), RUNS.c.name.desc())
    return _facts(connection.execute(ordered))


def kernels(connection: Connection, wanted: Wanted) -> Mapping[str, Sequence[Kernel]]:
    """Identity of a run → its kernels, the baseline's first."""
    return _of_runs(connection, wanted, KERNELS, Kernel, kernel_in)


def scores(connection: Connection, wanted: Wanted) -> Mapping[str, Sequence[Score]]:
    """Identity of a run → its scores, in the run's order."""
    return _of_runs(connection, wanted, SCORES, Score, score_in)


def named(connection: Connection, text: str, most: int) -> list[Facts]:
    """Runs that a word means: of that name; else that begin or end so; else that have it in their
    name. ``last`` is the newest."""
    query = select(*_columns(Facts, RUNS)).order_by(RUNS.c.created.desc(), RUNS.c.name.desc())
    if text == "last":
        return _facts(connection.execute(query.limit(1)))
    part = _escaped(text)
    ways = (
        RUNS.c.name == text,
        or_(
            RUNS.c.name.like(f"{part}%", escape=_ESCAPE),
            RUNS.c.name.like(f"%{part}", escape=_ESCAPE),
        ),
        RUNS.c.name.like(f"%{part}%", escape=_ESCAPE),
    )
    for way in ways:
        if found := _facts(connection.execute(query.where(way).limit(most))):
            return found
    return []


def names(connection: Connection, most: int) -> list[str]:
    """The newest runs'."""
    query = select(RUNS.c.name).order_by(RUNS.c.created.desc()).limit(most)
    return [it for it in connection.scalars(query) if isinstance(it, str)]


def parts(connection: Connection, identity: str) -> tuple[int, int]:
    """(the run's number, how many parts its files are in); the run is there."""
    query = (
        select(RUNS.c.id, func.count(PARTS.c.number))
        .outerjoin(PARTS, PARTS.c.run == RUNS.c.id)
        .where(RUNS.c.identity == identity)
        .group_by(RUNS.c.id)
    )
    number, count = connection.execute(query).one()
    return number, count


def part(connection: Connection, number: int, place: int) -> bytes:
    query = select(PARTS.c.content).where(PARTS.c.run == number, PARTS.c.number == place)
    found = connection.execute(query).scalar_one()
    if not isinstance(found, bytes):
        raise ToolError("an archive of a run is none")
    return found


def _facts(found: Iterable[Any]) -> list[Facts]:
    return [it for each in found if (it := facts_in(each)) is not None]


def _of_runs(
    connection: Connection, wanted: Wanted, table: Any, kind: Any, made: Callable[[Any], Any]
) -> dict[str, list[Any]]:
    of = chosen(wanted).subquery()
    query = (
        select(RUNS.c.identity, *_columns(kind, table))
        .join(RUNS, RUNS.c.id == table.c.run)
        .join(of, of.c.id == RUNS.c.id)
        .order_by(table.c.run, table.c.place)
    )
    found: dict[str, list[Any]] = {}
    for identity, *values in connection.execute(query).all():
        if (it := made(values)) is not None:
            found.setdefault(identity, []).append(it)
    return found


def _columns(kind: Any, table: Any) -> list[Any]:
    return [table.c[it.name] for it in fields(kind)]


def _like(column: Any, pattern: str) -> ColumnElement[bool]:
    text = _escaped(pattern.lower()).replace("*", "%").replace("?", "_")
    return func.lower(column).like(text, escape=_ESCAPE)


def _escaped(text: str) -> str:
    for letter in (_ESCAPE, "%", "_"):
        text = text.replace(letter, _ESCAPE + letter)
    return text.replace("\0", "").encode("utf-8", "replace").decode()
